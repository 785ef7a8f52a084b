// SPDX-License-Identifier: GPL-2.0
/* Tasks whose jobs one thread serves, one at a time: analysis/rta/threads.py, theorem by theorem. */
#include <string.h>

#include "rta_internal.h"

/* The tasks of a thread by rank: places @begin to @end - 1 of `served`; @at: the analysed one. */
struct served {
	u32 begin, end, at;
};

/* The tasks of a thread that can be in a chain. */
struct company {
	struct served all;
	u32 once, until;	/* places: one job of each from @once to @until - 1 */
	bool recurring;		/* also tasks before @at, as often as they can be released */
	bool twice;		/* those tasks at most twice, unless they are timers; if @timers, timers, too */
	bool timers;
};

static bool before(const struct rta_task *a, const struct rta_task *b)
{
	if (a->thread != b->thread)
		return a->thread < b->thread;
	return a->rank != b->rank ? a->rank < b->rank : a->index < b->index;
}

void rta_find_threads(struct rta *s)
{
	u32 i, j, n = 0, from, k;
	bool sleeps;

	for (i = 0; i < s->real_time; i++) {
		struct rta_task *t = &s->tasks[i];

		t->rank = s->columns->rank[t->index];
		t->order = s->columns->order[t->index];
		t->claim = RTA_UNKNOWN;
		if (!t->thread)
			continue;
		for (j = n++; j && before(t, &s->tasks[s->served[j - 1]]); j--)
			s->served[j] = s->served[j - 1];
		s->served[j] = i;
	}
	s->serving = n;
	for (from = 0; from < n; from = i) {
		sleeps = false;
		for (i = from; i < n && rta_sibling(&s->tasks[s->served[i]], &s->tasks[s->served[from]]); i++)
			sleeps |= s->tasks[s->served[i]].eta > 0;
		for (k = from; k < i; k++)
			s->tasks[s->served[k]].sleeps = sleeps;
	}
}

static struct served find(const struct rta *s, const struct rta_task *t)
{
	struct served all = { 0 };

	while (&s->tasks[s->served[all.at]] != t)
		all.at++;
	for (all.begin = all.at; all.begin && rta_sibling(&s->tasks[s->served[all.begin - 1]], t);)
		all.begin--;
	for (all.end = all.at; all.end < s->serving && rta_sibling(&s->tasks[s->served[all.end]], t);)
		all.end++;
	return all;
}

static struct rta_task *task_at(const struct rta *s, u32 place)
{
	return &s->tasks[s->served[place]];
}

/* C; at least 1 ns: a job of no time also waits for jobs released at the instant at which it would be over. */
static int64_t cpu_time(const struct rta_task *t)
{
	return t->cpu_time + t->misc + t->pure ? t->cpu_time : 1;
}

static void chain(struct rta *s, const struct rta_task *t, int64_t count)
{
	if (count)
		s->chain[s->chained++] = (struct rta_jobs){ t, count };
}

/* Turns a task into a task whose job is the chain, with its thread's GPU priority.  Siblings do not change. */
static void become(struct rta *s, struct rta_task *t, const struct served *all, int64_t limit)
{
	struct rta_task sum = *t;
	u32 i;

	sum.cpu_time = sum.misc = sum.pure = 0;
	sum.eta = 0;
	for (i = 0; i < s->chained; i++) {
		const struct rta_jobs *jobs = &s->chain[i];

		sum.cpu_time += jobs->count * cpu_time(jobs->task);
		sum.misc += jobs->count * jobs->task->misc;
		sum.pure += jobs->count * jobs->task->pure;
		sum.eta += (u32)jobs->count * jobs->task->eta;
	}
	for (i = all->begin; i < all->end; i++)
		if (task_at(s, i)->eta)
			sum.gpu_priority = task_at(s, i)->gpu_priority;
	sum.period = sum.deadline = limit;
	sum.chained = true;
	*t = sum;
}

/* e: the time that one more job of a task adds to a chain that no other task delays. */
static int64_t own(struct rta *s, const struct rta_formula *formula, const struct rta_task *t)
{
	int64_t update = formula->segmented ? rta_update(s, t) : 3 * s->epsilon;

	return cpu_time(t) + t->misc + t->pure + update * t->eta;
}

static int64_t claim(struct rta *s, const struct rta_formula *formula, struct rta_task *t);

/* The number of jobs of a recurring task that have any part in a window of that length (readings: L3). */
static int64_t count(struct rta *s, const struct rta_formula *formula, struct rta_task *j, const struct company *c, int64_t window)
{
	int64_t most = c->twice && (c->timers || !(j->order & GPURT_RTA_TIMER)) ? 2 : INT64_MAX, jobs;
	int64_t response = claim(s, formula, j);

	if (response < 0)
		return most;
	jobs = (window + rta_max(response - own(s, formula, j), 0) + j->period - 1) / j->period;
	return jobs < most ? jobs : most;
}

static void merge(struct rta *s, uint64_t *into, const uint64_t *from)
{
	u32 w;

	for (w = 0; into && w < s->words; w++)
		into[w] |= from[w];
}

static uint64_t *needs_of(const struct rta *s, u32 row)
{
	return s->needs_of ? s->needs_of + (size_t)s->words * row : NULL;
}

/* The chain of the thread's jobs in a window.  Returns the number of recurring jobs, which only grows with windows. */
static int64_t collect(struct rta *s, const struct rta_formula *formula, const struct company *c, int64_t window)
{
	int64_t jobs, sum = 0;
	u32 i;

	s->chained = 0;
	for (i = c->all.begin; c->recurring && i < c->all.at; i++) {
		jobs = count(s, formula, task_at(s, i), c, window);
		chain(s, task_at(s, i), jobs);
		sum += jobs;
	}
	for (i = c->once; i < c->until; i++)
		if (i != c->all.at)
			chain(s, task_at(s, i), 1);
	return sum;
}

/*
 * The least solution up to @limit; -1: none.  The numbers of jobs and the window that they fill grow in turns.  Adds
 * the tasks that the solution rests on to @needs.
 */
static int64_t least(struct rta *s, const struct rta_formula *formula, struct rta_task *t, const struct company *c, int64_t limit,
		     uint64_t *needs)
{
	uint64_t *scratch = needs_of(s, s->count + 1), *kept = s->needs;
	struct rta_task self = *t;
	int64_t jobs, more = collect(s, formula, c, 1), bound;
	u32 i;

	do {
		jobs = more;
		chain(s, &self, 1);
		become(s, t, &c->all, limit);
		s->needs = scratch;
		if (scratch)
			memset(scratch, 0, s->words * sizeof(*scratch));
		bound = rta_solve(s, formula, t);
		s->needs = kept;
		*t = self;
		if (bound < 0)
			return -1;
		more = collect(s, formula, c, bound);
	} while (more != jobs);
	merge(s, needs, scratch);
	for (i = c->all.begin; needs && c->recurring && i < c->all.at; i++)
		if (claim(s, formula, task_at(s, i)) >= 0)
			merge(s, needs, needs_of(s, task_at(s, i)->index));
	return bound;
}

/* Theorem 1: one job of each task, provided that no second job of any is released meanwhile. */
static int64_t collapsed(struct rta *s, const struct rta_formula *formula, struct rta_task *t, const struct served *all,
			 uint64_t *needs)
{
	struct company c = { .all = *all, .once = all->begin, .until = all->end };
	int64_t shortest = t->period;
	u32 i;

	for (i = all->begin; i < all->end; i++)
		if (task_at(s, i)->period < shortest)
			shortest = task_at(s, i)->period;
	return least(s, formula, t, &c, shortest, needs);
}

/* Whether a task may be counted as often as it can be released, but has no claim that would limit this number. */
static bool countless(struct rta *s, const struct rta_formula *formula, const struct company *c)
{
	u32 i;

	for (i = c->all.begin; i < c->all.at; i++)
		if (count(s, formula, task_at(s, i), c, 1) == INT64_MAX)
			return true;
	return false;
}

/* Theorems 2 to 4: the jobs that the thread's order picks earlier. */
static int64_t picked(struct rta *s, const struct rta_formula *formula, struct rta_task *t, const struct served *all,
		      uint64_t *needs)
{
	u32 order = t->order & ~(u32)GPURT_RTA_TIMER, first;
	bool ros2 = order == GPURT_RTA_ROS2, timer = t->order & GPURT_RTA_TIMER;
	struct company c = { .all = *all, .once = all->at + 1, .until = all->end, .recurring = true };
	int64_t worst = -1, found;

	if (order == GPURT_RTA_FIFO)
		return -1;
	c.twice = ros2 || (order == GPURT_RTA_LIVE_TIMERS && !timer);
	c.timers = ros2;
	if (countless(s, formula, &c))
		return -1;
	if (c.twice || c.once == c.until)
		return least(s, formula, t, &c, t->period, needs);
	for (first = all->at + 1; first < all->end; first++) {	/* the job that the thread has begun */
		c.once = first;
		c.until = first + 1;
		found = least(s, formula, t, &c, t->period, needs);
		if (found < 0)
			return -1;
		worst = rta_max(worst, found);
	}
	return worst;
}

/* The least claim that applies to a task; -1 if none does. */
static int64_t claim(struct rta *s, const struct rta_formula *formula, struct rta_task *t)
{
	uint64_t *needs = needs_of(s, t->index), *other = needs_of(s, s->count);
	struct served all;
	int64_t one, two;

	if (t->claim != RTA_UNKNOWN)
		return t->claim;
	all = find(s, t);
	for (u32 i = all.begin; i < all.at; i++)
		claim(s, formula, task_at(s, i));	/* first, because they use the same memory */
	if (needs)
		memset(needs, 0, s->words * sizeof(*needs));
	if (other)
		memset(other, 0, s->words * sizeof(*other));
	one = collapsed(s, formula, t, &all, needs);
	two = picked(s, formula, t, &all, other);
	if (needs && two >= 0 && (one < 0 || two < one))
		memcpy(needs, other, s->words * sizeof(*needs));
	t->claim = one < 0 || (two >= 0 && two < one) ? two : one;
	return t->claim;
}

int64_t rta_serve(struct rta *s, const struct rta_formula *formula, struct rta_task *t)
{
	int64_t bound = claim(s, formula, t);

	t->found = t->found_end = bound <= t->deadline ? bound : -1;
	return t->found;
}
