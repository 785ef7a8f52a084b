// SPDX-License-Identifier: GPL-2.0
/* Test boosted-suspend on plain tasksets: windows and recurrence of one task (analysis/rta/windows.py and boosted.py). */
#include "rta_quick.h"

#define QUICK_NEVER (1LL << 60)	/* a cap above what any task takes */

/* The time that owners take in a window; no branch depends on it. */
static inline int64_t owners_at(struct quick_owner *o, const struct quick_owner *end, int64_t window)
{
	int64_t total = 0;

	for (; o < end; o++) {
		o->taken = rta_ceil(window + o->jitter, o->period, o->inverse) * o->amount;
		total += o->taken;
	}
	return total;
}

/*
 * Finds the time that more urgent owners take inside all segments of a job, and the length of these.  False if a segment is
 * longer than the deadline.
 */
static bool find_inside(const struct rta *s, const struct rta_task *t)
{
	struct quick_owner *o = s->quick->owners, *end = o + t->user, *one;
	int64_t w = 0, taken = 0, length = 0, sorted[RTA_SORTED];
	u32 i, step, few = rta_segment_lengths(s->batch, t, sorted), first = s->batch->piece[t->at];

	end->length = t->deadline;
	for (i = 0; i < t->eta; i++) {
		int64_t own = t->update +
			      (few ? sorted[i] : s->batch->piece_misc[first + i] + s->batch->piece_pure[first + i]);

		if (!i || own + taken < w) {	/* not the window before and what is more of this segment */
			w = rta_below(own, end[-1].carried, end[-1].rate, t->deadline);
			if (w < 0)
				return false;
			taken = owners_at(o, end, w + !own);
		}
		for (step = 0; own + taken != w; step++) {
			w = own + taken;
			if (w > t->deadline || step == RTA_STEPS)
				return false;
			taken = owners_at(o, end, w + !own);
		}
		if (w > t->deadline)
			return false;
		for (one = o; one < end; one++)
			one->inside = (i ? one->inside : 0) + one->taken;
		length += w + !own;
	}
	end->length = length < t->deadline ? length : t->deadline;
	return true;
}

/* C, G^m and its updates: the time that a job takes of its CPU outside of windows. */
static inline int64_t outside(const struct rta *s, const struct rta_task *t)
{
	return t->cpu_time + t->misc + 2 * s->alpha * t->eta;
}

/* How often a task that is below can execute raised, times its longest G^m with two updates. */
static inline int64_t lower_cap(const struct rta *s, const struct rta_task *t, const struct rta_task *j)
{
	return s->batch->gaps[t->at] * (s->batch->longest_misc[j->at] + 2 * s->alpha);
}

static void push_lower(const struct rta *s, const struct rta_task *t, enum quick_known known)
{
	struct rta_quick *q = s->quick;
	u32 i;

	for (i = q->below[t - s->tasks]; i != QUICK_NONE; i = q->below[i]) {
		const struct rta_task *j = &s->tasks[i];
		int64_t amount = outside(s, j) - j->cpu_time, response = known == QUICK_LEAST ? j->least : j->deadline;

		q->rows[q->count++] = (struct quick_row){
			amount, rta_max(response - amount, 0), lower_cap(s, t, j), j->period, j->inverse
		};
	}
	q->lower = q->count;
}

/*
 * Pushes what tasks above take: of those that use the GPU a pair, if windows are known.  Only the jitter of these is not 0, and
 * it counts only where responses are found: before, nobody knows whether sleep counts as jitter.  Returns whether a task never
 * sleeps.
 */
static bool push_higher(const struct rta *s, const struct rta_task *t, enum quick_known known, bool windows)
{
	struct rta_quick *q = s->quick;
	bool awake = false, pair;
	u32 i;

	for (i = q->above[t - s->tasks]; i != QUICK_NONE; i = q->above[i]) {
		const struct rta_task *h = &s->tasks[i];
		int64_t response = known == QUICK_FOUND ? h->response : 0, apart = outside(s, h);
		int64_t whole = h->cpu_time + h->gpu_busy, later = rta_max(response - apart, 0);
		int64_t jitter = response ? rta_max(response + s->theta - whole, 0) : 0;

		pair = h->eta && windows;
		q->pairs[q->pair_count] = (struct quick_pair){
			whole, jitter, q->owners[h->user].inside, apart, later, h->period, h->inverse
		};
		q->rows[q->count] = (struct quick_row){ apart, later, QUICK_NEVER, h->period, h->inverse };
		if (t->eta && !windows)
			q->rows[q->count] = (struct quick_row){ whole, jitter, QUICK_NEVER, h->period, h->inverse };
		q->pair_count += pair;
		q->count += !pair;
		awake |= !h->eta;
	}
	return awake;
}

/* Pushes what owners on other CPUs take.  Returns what they take inside if that is less in the shortest window that counts. */
static int64_t push_remote(const struct rta *s, const struct rta_task *t, bool windows)
{
	const struct quick_owner *o = s->quick->owners, *end = o + t->user;
	struct rta_quick *q = s->quick;
	int64_t constant = 0, cap;
	bool remote, less;

	for (; o < end; o++) {
		cap = windows ? o->inside : QUICK_NEVER;
		remote = o->cpu != t->cpu;
		less = rta_ceil(t->least_end + o->jitter, o->period, o->inverse) * o->amount >= cap;
		q->rows[q->count] = (struct quick_row){ o->amount, o->jitter, cap, o->period, o->inverse };
		q->count += remote && !less;
		constant += remote && less ? cap : 0;
	}
	return constant;
}

/* The time that all tasks take in a window; no branch depends on it. */
static inline int64_t taken_at(const struct rta_quick *q, int64_t window)
{
	const struct quick_row *r, *rows = q->rows + q->count;
	const struct quick_pair *p, *pairs = q->pairs + q->pair_count;
	int64_t total = 0, whole, most;

	for (r = q->rows; r < rows; r++) {
		whole = rta_ceil(window + r->jitter, r->period, r->inverse) * r->amount;
		total += whole < r->cap ? whole : r->cap;
	}
	for (p = q->pairs; p < pairs; p++) {
		whole = rta_ceil(window + p->jitter, p->period, p->inverse) * p->amount;
		most = rta_ceil(window + p->later, p->period, p->inverse) * p->apart + p->inside;
		total += whole < most ? whole : most;
	}
	return total;
}

static int64_t search(const struct rta_quick *q, int64_t constant, int64_t least, int64_t limit)
{
	int64_t closed = constant ? 0 : 1, x = rta_max(constant, least), total;
	u32 step;

	for (step = 0; step < RTA_STEPS && x <= limit; step++) {
		total = constant + taken_at(q, x + closed);
		if (total == x)
			return x;
		x = total;
	}
	return -1;
}

int64_t quick_solve(const struct rta *s, const struct rta_task *t, enum quick_known known)
{
	struct rta_quick *q = s->quick;
	int64_t constant = t->cpu_time + t->misc + t->pure + t->update * t->eta;
	bool windows = t->eta && find_inside(s, t);

	q->count = q->pair_count = 0;
	push_lower(s, t, known);
	if (push_higher(s, t, known, windows) && s->batch->ends[t->at])
		constant += s->batch->last_misc[t->at] + 2 * s->alpha;
	if (t->eta)
		constant += push_remote(s, t, windows);
	q->constant = constant;
	return search(q, constant, t->least, rta_limit(t));
}

int64_t quick_solve_end(const struct rta *s, const struct rta_task *t, int64_t response)
{
	int64_t gaps = s->batch->gaps[t->at], last = s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1];
	struct rta_quick *q = s->quick;
	u32 r;

	if (!last && (gaps == t->eta || !q->lower))
		return response;
	for (r = 0; r < q->lower && gaps > t->eta; r++)
		q->rows[r].cap = q->rows[r].cap / gaps * t->eta;
	return search(q, q->constant - last, t->least_end, rta_limit(t));
}

bool quick_easy(const struct rta *s, const struct rta_task *t)
{
	double rate = 0, most = (double)t->cpu_time;
	u32 i, place = (u32)(t - s->tasks);

	for (i = s->quick->below[place]; i != QUICK_NONE; i = s->quick->below[i])
		most += (double)lower_cap(s, t, &s->tasks[i]);
	for (i = s->quick->above[place]; i != QUICK_NONE; i = s->quick->above[i]) {
		const struct rta_task *h = &s->tasks[i];
		int64_t amount = outside(s, h);
		double one = (double)amount * h->inverse;

		rate += one;
		most += (double)amount + one * (double)rta_jitter(h, amount);
	}
	return t->cpu_time && most < (double)rta_limit(t) * (1 - rate / RTA_SLACK) * RTA_SLACK;
}

bool quick_shorten(const struct rta *s, const struct rta_task *t)
{
	bool any = false;
	double rate = 0;
	u32 i;

	for (i = s->quick->above[t - s->tasks]; i != QUICK_NONE; i = s->quick->above[i])
		rate += (double)outside(s, &s->tasks[i]) * s->tasks[i].inverse;
	for (i = s->quick->above[t - s->tasks]; i != QUICK_NONE; i = s->quick->above[i]) {
		struct rta_task *h = &s->tasks[i];
		int64_t amount = outside(s, h);
		double own = (double)amount * h->inverse, jitter = own * (double)rta_jitter(h, amount);

		/* short.py rounds each rate to 2^-20, of up to QUICK_LEVELS */
		if (h->eta && (double)s->quick->owners[h->user].length * (rate - 0x1p-11) < jitter) {
			h->response = 0;
			any = true;
		}
		rate -= own;
	}
	return any;
}
