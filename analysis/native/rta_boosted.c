// SPDX-License-Identifier: GPL-2.0
/* Policy `boosted`: analysis/rta/boosted.py, term by term. */
#include "rta_internal.h"

/* How tasks wait for the GPU. */
enum waiting {
	SUSPENDED,
	BUSY,
	FENCED,		/* all spin, and no task is raised while it spins for its own G^e */
	MIXED,		/* each in its own mode */
};

static inline bool spins(enum waiting waiting, const struct rta_task *t)
{
	return t->eta && (waiting == BUSY || waiting == FENCED || (waiting == MIXED && t->busy));
}

/* Whether a task is also raised during its G^e. */
static inline bool holds(enum waiting waiting, const struct rta_task *t)
{
	return waiting != FENCED && spins(waiting, t);
}

/* Values that all charges of a task share. */
struct charges {
	enum waiting waiting;
	u32 level;		/* the lowest GPU priority for which the task waits; UINT32_MAX: it never waits */
	u32 spinning;		/* tasks above that spin */
	int64_t gaps;		/* gaps in which a lower task can execute raised */
	int64_t update;		/* its CPU time: with the switch back if a lower task spins for that */
	int64_t in_flight;	/* the update for which a begin of a spinning task waits */
	bool switching;		/* a lower task spins, raised, while the GPU switches back to it */
	bool before;		/* tasks above that never sleep can be pending since before the job's release */
	const int64_t *own;	/* time that owners take inside the task's segments; NULL: unknown */
	/* Total sleep, and number of segments, of the tasks above that are charged for sleep instead of jitter. */
	int64_t asleep, segments;
};

/* Whether a sibling's job may end with a GPU segment. */
static bool ends_chain(const struct rta *s, const struct rta_task *t)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	const struct rta_task *h;

	for (h = s->tasks + cpu->begin; h < s->tasks + cpu->end; h++)
		if (rta_sibling(h, t) && s->columns->ends[h->index])
			return true;
	return false;
}

/* The longest G^m of a segment that ends a sibling's job. */
static int64_t last_misc_chain(const struct rta *s, const struct rta_task *t)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	const struct rta_task *h;
	int64_t longest = 0;

	for (h = s->tasks + cpu->begin; h < s->tasks + cpu->end; h++)
		if (rta_sibling(h, t))
			longest = rta_max(longest, s->columns->last_misc[h->index]);
	return longest;
}

static inline struct charges survey(const struct rta *s, const struct rta_task *t, enum waiting waiting)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	struct charges c = {
		.waiting = waiting, .level = t->eta ? t->gpu_priority : UINT32_MAX,
		.gaps = spins(waiting, t) ? 1 : t->chained ? t->eta + 1 : s->columns->gaps[t->index],
	};
	bool ends = t->chained ? ends_chain(s, t) : s->columns->ends[t->index] != 0;
	const struct rta_task *h;
	u32 u;

	if (s->user_count > cpu->end_user - cpu->first_user)
		c.in_flight = s->alpha;
	if (ends || waiting != SUSPENDED) {
		rta_for_each_hpp(s, t, h) {
			bool spinning = spins(waiting, h);

			c.spinning += spinning;
			if (spinning && h->gpu_priority < c.level)
				c.level = h->gpu_priority;
			c.before |= ends && h->priority > t->priority && (!h->sleeps || spinning);
		}
	}
	for (u = cpu->end_user; u > cpu->first_user && waiting != SUSPENDED && waiting != FENCED; u--) {
		h = &s->tasks[s->users[u - 1]];
		if (h->priority >= t->priority)
			break;
		c.switching |= holds(waiting, h);
	}
	c.update = c.switching ? s->epsilon : s->alpha;
	return c;
}

/* The time that owners take inside the segments of a job of a spinning task above; NULL: unknown. */
static inline const int64_t *inside(struct rta *s, const struct rta_task *p)
{
	return s->user_count > RTA_WINDOWED ? NULL : rta_inside(s, p, p->gpu_priority, true);
}

/* Finds windows; anew if responses or levels have changed since they were found. */
static inline void find_windows(struct rta *s, const struct rta_task *t, struct charges *c)
{
	if (t->eta)
		c->own = rta_inside(s, t, t->gpu_priority, false);
}

/*
 * Pushes the demand of owner @o: @amount of each job, or the sum of the demands inside and outside windows if that is
 * less.  With @either, each job demands @apart outside windows, and all jobs together at most @most.
 */
static inline void push_owner(struct rta *s, const struct rta_task *t, const struct rta_task *o, const struct charges *c,
			      int64_t amount, int64_t jitter, int64_t apart, int64_t apart_jitter, int64_t most, bool either)
{
	const struct rta_task *p;
	const int64_t *own = NULL;
	u32 r;

	if (!amount)
		return;
	if (t->eta && o->gpu_priority >= t->gpu_priority) {
		own = c->own;
		if (!own)
			goto whole;
	}
	if (c->spinning)
		rta_for_each_hpp(s, t, p)
			if (spins(c->waiting, p) && o->gpu_priority >= p->gpu_priority && !inside(s, p))
				goto whole;
	r = rta_push_either(s, amount, o, jitter, own ? own[o->user] : 0);
	if (either)
		rta_add_part(s, r, apart, o, apart_jitter, most);
	if (c->spinning)
		rta_for_each_hpp(s, t, p)
			if (spins(c->waiting, p) && o->gpu_priority >= p->gpu_priority)
				rta_add_part(s, r, inside(s, p)[o->user], p, p->priority == t->priority ? p->response : 0,
					     INT64_MAX);
	return;
whole:
	rta_push(s, amount, o, jitter);
}

/* The CPU time of a job of a task above outside of windows; all of its time if it spins. */
static inline int64_t outside(const struct rta_task *h, enum waiting waiting, int64_t update, int64_t in_flight)
{
	if (spins(waiting, h))
		return h->cpu_time + h->gpu_busy + in_flight * h->eta;
	return h->cpu_time + h->misc + 2 * update * h->eta;
}

/* The longest time from an owner's release to the begin of the last @amount of its demand. */
static inline int64_t owner_jitter(const struct rta *s, const struct rta_task *o, int64_t amount)
{
	return rta_max(o->end + s->theta - amount, 0);
}

/* The most time that a task below takes outside of windows: one raised segment in each gap. */
static inline int64_t lower_cap(const struct rta *s, const struct rta_task *j, const struct charges *c)
{
	const int64_t *longest = holds(c->waiting, j) ? s->columns->longest : s->columns->longest_misc;
	int64_t update = spins(c->waiting, j) ? s->epsilon : c->update;

	return (c->gaps + c->segments) * (longest[j->index] + 2 * update);
}

/* Pushes the demand of a task below: one segment in each gap, and its time as an owner. */
static inline int64_t from_lower(struct rta *s, const struct rta_task *t, const struct rta_task *j,
				 const struct charges *c)
{
	bool held = holds(c->waiting, j);
	int64_t update = spins(c->waiting, j) ? s->epsilon : c->update;
	int64_t amount = j->misc + (held ? j->pure : 0) + 2 * update * j->eta;
	int64_t cap = lower_cap(s, j, c);

	if (!t->eta || j->gpu_priority < t->gpu_priority)
		return rta_push_capped(s, amount, cap, j, rta_jitter(j, amount) + c->asleep);
	push_owner(s, t, j, c, j->gpu_busy, owner_jitter(s, j, j->gpu_busy) + c->asleep, amount,
		   rta_jitter(j, amount) + c->asleep, cap, true);
	return 0;
}

/* Whether @j counts together with other tasks of its thread, which serves several (recurrence.py, OneAtATime). */
static inline bool grouped(const struct rta_task *t, const struct rta_task *j)
{
	return j->thread && (!t->eta || j->gpu_priority < t->gpu_priority);
}

/* Whether the user at place @u - 1 is the least urgent of its thread's users on the CPU. */
static bool first_of_thread(const struct rta *s, const struct rta_cpu *cpu, u32 u)
{
	u32 v;

	for (v = cpu->end_user; v > u; v--)
		if (rta_sibling(&s->tasks[s->users[v - 1]], &s->tasks[s->users[u - 1]]))
			return false;
	return true;
}

#define ONCE (1LL << 60)	/* a period so long that a row counts once */

/*
 * from_lower() for all tasks of the thread of @first: each up to its own cap, and together up to the largest, since the
 * thread is inside at most one segment when a gap begins.  Only where all tasks suspend themselves.
 */
static void from_lower_thread(struct rta *s, const struct rta_task *t, const struct rta_task *first, const struct charges *c)
{
	struct rta_task once = { .period = ONCE };
	uint64_t *needs = s->needs;
	int64_t most = 0;
	u32 pass, u, r = 0;

	for (pass = 0; pass < 2; pass++) {
		if (pass && !most)
			return;
		s->needs = NULL;
		if (pass)
			r = rta_push_either(s, most, &once, 0, 0);
		s->needs = needs;
		for (u = s->cpu[t->cpu].first_user; u < s->cpu[t->cpu].end_user; u++) {
			const struct rta_task *j = &s->tasks[s->users[u]];
			int64_t amount = j->misc + 2 * c->update * j->eta;
			int64_t cap = c->gaps * (s->columns->longest_misc[j->index] + 2 * c->update);

			if (!rta_sibling(j, first) || !amount)
				continue;
			if (!pass)
				most = rta_max(most, cap);
			else
				rta_add_part(s, r, amount, j, rta_jitter(j, amount), cap);
			rta_need(s, j, true);
		}
	}
}

/* The most CPU time for which @count segments of a task are raised, where all tasks suspend themselves. */
static inline int64_t raised(const struct rta *s, const struct rta_task *t, int64_t count)
{
	return t->eta ? count * (s->columns->longest_misc[t->index] + 2 * s->alpha) : 0;
}

/*
 * Pushes the demand of a task above, or of an equal; returns the constant part.  A task above that never sleeps has no
 * jitter.  @late: the time that tasks of at most @h's priority sleep, if charged as sleep; @above: segments of tasks
 * above @h whose sleep is charged as sleep.  @waiting: CPU-only tasks are above @h.
 */
static inline int64_t from_higher(struct rta *s, const struct rta_task *t, const struct rta_task *h,
				  const struct charges *c, int64_t late, int64_t above, bool waiting)
{
	bool sleeping = h->sleeps && !spins(c->waiting, h), brief = c->segments && h->short_sleep, owner;
	int64_t apart = outside(h, c->waiting, c->update, c->in_flight), whole = h->cpu_time + h->gpu_busy;
	int64_t jitter = brief ? late : rta_jitter(h, apart) + c->asleep, carried = 0;

	if (!sleeping && h->priority > t->priority) {
		rta_push(s, apart, h, late);
		return 0;
	}
	if (brief && above)
		carried = raised(s, h, above + 1);
	else if (brief && waiting && s->columns->ends[h->index])
		carried = s->columns->last_misc[h->index] + 2 * s->alpha;
	owner = sleeping && h->eta && h->gpu_priority >= c->level;
	if (owner)
		push_owner(s, t, h, c, whole,
			   brief ? jitter : rta_jitter(h, whole - s->theta) + c->asleep, apart, jitter, INT64_MAX,
			   true);
	else
		rta_push(s, apart, h, jitter);
	return brief && owner ? carried + s->theta : carried;
}

/* Pushes the demands of all these tasks. */
static inline int64_t from_all_higher(struct rta *s, const struct rta_task *t, const struct charges *c)
{
	int64_t constant = 0, late = c->asleep, above = 0;
	const struct rta_task *h;
	bool waiting = false;

	rta_for_each_hpp(s, t, h) {
		bool brief = c->segments && h->short_sleep;

		constant += from_higher(s, t, h, c, late, above, waiting);
		late -= brief ? rta_inside_length(s, h, true) : 0;
		above += brief ? h->eta : 0;
		waiting |= !h->eta;
	}
	return constant;
}

/*
 * Pushes the demands of the owners at places @from to @to - 1 of `users`.  These owners are on other CPUs.  After each
 * owner, tasks that spin also wait for the switch back, @back.
 */
static inline void remote(struct rta *s, const struct rta_task *t, const struct charges *c, int64_t back, u32 from, u32 to)
{
	if (!back && !c->spinning && c->own) {
		for (; from < to; from++) {
			const struct rta_task *w = &s->tasks[s->users[from]];

			if (w->gpu_priority >= t->gpu_priority && w->gpu_busy)
				rta_push_either(s, w->gpu_busy, w, owner_jitter(s, w, w->gpu_busy), c->own[from]);
		}
		return;
	}
	for (; from < to; from++) {
		const struct rta_task *w = &s->tasks[s->users[from]];
		int64_t amount = w->eta * back, jitter = owner_jitter(s, w, amount);

		if (w->gpu_priority < c->level)
			rta_push(s, amount, w, jitter);
		else
			push_owner(s, t, w, c, w->gpu_busy, owner_jitter(s, w, w->gpu_busy), amount, jitter, INT64_MAX,
				   amount != 0);
	}
}

/* The time that the task's previous job takes after the release. */
static inline int64_t carried(const struct rta *s, const struct rta_task *t, const struct charges *c)
{
	int64_t length = (holds(c->waiting, t) ? s->columns->last : s->columns->last_misc)[t->index];

	if (t->chained)
		length = last_misc_chain(s, t);
	if (c->segments)
		return raised(s, t, c->segments + 1);
	return c->before ? length + 2 * (spins(c->waiting, t) ? s->epsilon : c->update) : 0;
}

/* Compiled for each way to wait, so that decisions that do not depend on the task are made once. */
static inline __attribute__((always_inline)) int64_t boosted(struct rta *s, const struct rta_task *t, struct charges c,
							     enum waiting waiting)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	int64_t constant = t->cpu_time + t->misc + t->pure + carried(s, t, &c), back = 0;
	const struct rta_task *h;
	u32 u;

	if (t->eta)
		constant += (rta_update(s, t) - s->alpha + c.update) * t->eta;
	for (u = cpu->end_user; u > cpu->first_user; u--) {
		h = &s->tasks[s->users[u - 1]];
		if (h->priority >= t->priority)
			break;
		if (!grouped(t, h))
			constant += from_lower(s, t, h, &c);
		else if (first_of_thread(s, cpu, u))
			from_lower_thread(s, t, h, &c);
	}
	s->lower = s->capped;
	constant += from_all_higher(s, t, &c);
	if (c.switching || (c.before && holds(waiting, t)))
		back = s->longest_switch;
	if (c.level != UINT32_MAX || back) {
		remote(s, t, &c, back, 0, cpu->first_user);
		remote(s, t, &c, back, cpu->end_user, s->user_count);
	}
	s->constant = constant;
	return constant;
}

/*
 * Turns the rows of a job into those of a job up to the end of its last segment.  Lower tasks have one gap less, if the
 * job sleeps and does not end with a segment.
 */
static inline int64_t ended(struct rta *s, const struct rta_task *t, enum waiting waiting)
{
	int64_t gaps = s->columns->gaps[t->index], *cap;
	u32 r;

	for (r = s->room - s->lower; r < s->room && gaps > t->eta && !spins(waiting, t); r++) {
		cap = s->parts[r] ? &s->part_of[s->part[r]].most : &s->base[r];
		*cap = *cap / gaps * t->eta;
	}
	return s->constant - s->columns->piece_cpu[s->columns->piece[t->index + 1] - 1];
}

__extension__ typedef __int128 wide;

#define SCALE 20	/* bits by which rates are scaled */

/*
 * Chooses the tasks above whose sleep costs less than jitter, compared by the lower bounds that ceil(y) >= y gives, and
 * adds up that sleep (short.py).  False if there are no such tasks.
 */
static bool choose_short(struct rta *s, const struct rta_task *t, struct charges *c)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	const struct rta_task *h, *end = s->tasks + cpu->end;
	wide rate = 0, own;

	rta_for_each_hpp(s, t, h) {
		int64_t apart = outside(h, SUSPENDED, s->alpha, 0), length;
		bool alone = (h == s->tasks + cpu->begin || h[-1].priority != h->priority) &&
			     (h + 1 == end || h[1].priority != h->priority);

		own = ((wide)apart << SCALE) / h->period;
		rate += own;
		s->tasks[h - s->tasks].short_sleep = false;
		if (!h->eta || !own || !alone || (h->misc + h->pure) * rate >= own * rta_jitter(h, apart))
			continue;
		length = rta_inside_length(s, h, true);
		if (length * rate >= own * rta_jitter(h, apart))
			continue;
		s->tasks[h - s->tasks].short_sleep = true;
		c->asleep += length;
		c->segments += h->eta;
	}
	return c->segments;
}

static int64_t suspend_short(struct rta *s, const struct rta_task *t)
{
	struct charges c;

	if (s->threads || s->user_count > RTA_WINDOWED)
		return -1;
	c = survey(s, t, SUSPENDED);
	if (t->eta)
		c.own = rta_inside(s, t, t->gpu_priority, true);
	return choose_short(s, t, &c) ? boosted(s, t, c, SUSPENDED) : -1;
}

static inline __attribute__((always_inline)) int64_t whole(struct rta *s, const struct rta_task *t, enum waiting waiting)
{
	struct charges c = survey(s, t, waiting);

	find_windows(s, t, &c);
	return boosted(s, t, c, waiting);
}

#define FORMULA(name, waiting, other) \
	int64_t rta_boosted_##name(struct rta *s, const struct rta_task *t) \
	{ \
		return whole(s, t, waiting); \
	} \
	static int64_t name##_end(struct rta *s, const struct rta_task *t) \
	{ \
		return ended(s, t, waiting); \
	} \
	const struct rta_segmented rta_boosted_##name##_segments = { .end = name##_end, .instead = other };

FORMULA(suspend, SUSPENDED, suspend_short)
FORMULA(busy, BUSY, NULL)
FORMULA(fence, FENCED, NULL)
FORMULA(mixed, MIXED, NULL)
