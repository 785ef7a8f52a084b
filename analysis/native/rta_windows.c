// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `boosted` where all tasks suspend themselves: analysis/rta/boosted_suspend.py, term by term.  Owners delay a
 * task inside its segments only, so that each segment has a window of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

#define STEPS 1000000	/* after which the search gives up, as the readable one does */

/* The tasks that can own the GPU while a task is inside: at least its GPU priority, on any CPU. */
struct rta_owners {
	u32 count;
	u32 *entry;
	int64_t *amount, *period, *jitter, *last;	/* of each; as of rows of a recurrence */
	double *inverse;
	int64_t *inside;	/* by entry: what it takes inside the task's segments; 0: it is no owner */
	bool bounded;		/* no segment is longer than the deadline */
	double rate, carried;	/* sums of e / T and of J e / T, */
	double remote, remote_carried;	/* of those on other CPUs */
};

struct rta_owners *rta_owners_new(u32 tasks)
{
	struct rta_owners *o = calloc(1, sizeof(*o));
	size_t room = tasks + 1;

	if (!o)
		return NULL;
	o->entry = calloc(room, sizeof(*o->entry));
	o->amount = calloc(5 * room, sizeof(*o->amount));
	o->inverse = calloc(room, sizeof(*o->inverse));
	if (o->entry && o->amount && o->inverse) {
		o->period = o->amount + room;
		o->jitter = o->period + room;
		o->last = o->jitter + room;
		o->inside = o->last + room;
		return o;
	}
	rta_owners_free(o);
	return NULL;
}

void rta_owners_free(struct rta_owners *o)
{
	if (!o)
		return;
	free(o->entry);
	free(o->amount);
	free(o->inverse);
	free(o);
}

/* Lists the owners.  The context switch after an owner's last end comes after what is known of that end. */
static void list_owners(const struct rta *s, const struct rta_task *t, struct rta_owners *o)
{
	u32 u, n = 0;

	o->rate = o->carried = o->remote = o->remote_carried = 0;
	for (u = 0; u < s->user_count && t->eta; u++) {
		const struct rta_task *h = &s->tasks[s->users[u]];
		double rate = (double)h->gpu_busy * h->inverse;

		o->entry[n] = s->users[u];
		o->amount[n] = h->gpu_busy;
		o->period[n] = h->period;
		o->jitter[n] = rta_max(h->end + s->theta - h->gpu_busy, 0);
		o->inverse[n] = h->inverse;
		o->inside[s->users[u]] = 0;
		if (h == t || h->gpu_priority < t->gpu_priority)
			continue;
		o->rate += rate;
		o->carried += rate * (double)o->jitter[n];
		if (h->cpu != t->cpu) {
			o->remote += rate;
			o->remote_carried += rate * (double)o->jitter[n];
		}
		n++;
	}
	o->count = n;
}

static int64_t owners_at(struct rta_owners *o, int64_t window)
{
	int64_t total = 0, k;
	u32 n;

	for (n = 0; n < o->count; n++) {
		k = rta_ceil(window + o->jitter[n], o->period[n], o->inverse[n]);
		o->last[n] = k * o->period[n] - o->jitter[n];
		total += k * o->amount[n];
	}
	return total;
}

/* By how much the owners' sum grows from the window before to this one. */
static int64_t owners_grow(struct rta_owners *o, int64_t window)
{
	int64_t more = 0, k;
	u32 n;

	for (n = 0; n < o->count; n++) {
		if (window <= o->last[n])
			continue;
		k = 1;
		if (window - o->last[n] > o->period[n])
			k = rta_ceil(window - o->last[n], o->period[n], o->inverse[n]);
		o->last[n] += k * o->period[n];
		more += k * o->amount[n];
	}
	return more;
}

/* The least window of a segment of length @own, closed if it may take no time; -1: it is longer than @limit. */
static int64_t window_of(const struct rta *s, struct rta_owners *o, int64_t own, int64_t limit)
{
	int64_t closed = own ? 0 : 1, w = own, total;
	u32 step;

	if (!s->integers) {
		double rate = o->rate * (1.0 - 0x1p-36), least;

		if (rate >= 1)
			return -1;
		least = ((double)own + o->carried) * (1.0 - 0x1p-36) / (1 - rate) * (1.0 - 0x1p-36);
		if (least >= (double)limit * (1 + 0x1p-36) + 2)
			return -1;
		w = rta_max(own, (int64_t)least < limit ? (int64_t)least : limit);
	}
	total = own + owners_at(o, w + closed);
	for (step = 0; step < STEPS; step++) {
		if (total == w)
			return w <= limit ? w + closed : -1;
		w = total;
		if (w > limit)
			return -1;
		total += owners_grow(o, w + closed);
	}
	return -1;
}

/* Adds what each owner takes in a window that owners_at() has last been brought to. */
static void add_inside(struct rta_owners *o)
{
	u32 n;

	for (n = 0; n < o->count; n++)
		o->inside[o->entry[n]] += (o->last[n] + o->jitter[n]) / o->period[n] * o->amount[n];
}

/* What each owner takes inside the segments of a task at most. */
static void find_inside(const struct rta *s, const struct rta_task *t, int64_t own_update, struct rta_owners *o)
{
	const struct gpurt_batch *b = s->batch;
	u32 piece;

	o->bounded = true;
	for (piece = b->piece[t->at]; o->count && piece + 1 < b->piece[t->at + 1]; piece++) {
		int64_t own = b->piece_misc[piece] + b->piece_pure[piece] + own_update;

		if (window_of(s, o, own, t->deadline) < 0) {
			o->bounded = false;
			return;
		}
		add_inside(o);
	}
}

/* What a begin waits for an update of a task of lower GPU priority on another CPU. */
static int64_t in_flight(const struct rta *s, const struct rta_task *t)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	u32 u;

	for (u = 0; u < s->user_count; u++)
		if ((u < cpu->first_user || u >= cpu->end_user) &&
		    s->tasks[s->users[u]].gpu_priority < t->gpu_priority)
			return s->alpha;
	return 0;
}

static inline bool is_owner(const struct rta_task *t, const struct rta_task *h)
{
	return t->eta && h->eta && h->gpu_priority >= t->gpu_priority;
}

/* What a task below takes: raised, one segment in each gap; and what it owns. */
static int64_t from_lower(struct rta *s, const struct rta_task *t, const struct rta_task *j, int64_t gaps)
{
	int64_t amount = j->misc + 2 * s->alpha * j->eta;
	int64_t cap = gaps * (s->batch->longest_misc[j->at] + 2 * s->alpha), jitter, inside;

	if (!is_owner(t, j))
		return rta_push_capped(s, amount, cap, j, rta_jitter(j, amount));
	jitter = rta_max(j->end + s->theta - j->gpu_busy, 0);
	inside = s->owners->inside[j - s->tasks];
	if (!j->gpu_busy || !s->owners->bounded)
		rta_push(s, j->gpu_busy, j, jitter);
	else
		rta_push_either(s, j->gpu_busy, j, jitter, inside, amount, rta_jitter(j, amount), cap);
	return 0;
}

/* What a task above takes, or an equal.  A CPU-only one that is above has no jitter. */
static void from_higher(struct rta *s, const struct rta_task *t, const struct rta_task *h)
{
	int64_t outside = h->cpu_time + h->misc + 2 * s->alpha * h->eta, whole = h->cpu_time + h->gpu_busy, jitter;

	if (!is_owner(t, h)) {
		rta_push(s, outside, h, h->eta || h->priority == t->priority ? rta_jitter(h, outside) : 0);
		return;
	}
	jitter = rta_jitter(h, whole - s->theta);
	if (!whole || !s->owners->bounded)
		rta_push(s, whole, h, jitter);
	else
		rta_push_either(s, whole, h, jitter, s->owners->inside[h - s->tasks], outside, rta_jitter(h, outside),
				INT64_MAX);
}

/* What the owners on other CPUs take: all of it, or what they take inside the task's segments. */
static void remote(struct rta *s, const struct rta_task *t)
{
	const struct rta_owners *o = s->owners;
	u32 n;

	for (n = 0; n < o->count; n++) {
		const struct rta_task *h = &s->tasks[o->entry[n]];

		if (h->cpu == t->cpu)
			continue;
		if (o->bounded)
			rta_push_capped(s, o->amount[n], o->inside[o->entry[n]], h, o->jitter[n]);
		else
			rta_push(s, o->amount[n], h, o->jitter[n]);
	}
}

/* The demands of a job that executes @cpu_time on its CPU and has @gaps outside of its segments. */
static int64_t demands(struct rta *s, const struct rta_task *t, int64_t cpu_time, int64_t gaps)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	int64_t update = t->eta ? 2 * s->alpha + s->theta + in_flight(s, t) : 0, constant;
	const struct rta_task *h;
	bool before = false;	/* CPU-only tasks above can be pending since before the job's release */
	u32 u;

	constant = cpu_time + t->misc + t->pure + update * t->eta;
	for (u = cpu->end_user; u > cpu->first_user; u--) {
		h = &s->tasks[s->users[u - 1]];
		if (h->priority >= t->priority)
			break;
		constant += from_lower(s, t, h, gaps);
	}
	rta_for_each_hpp(s, t, h) {
		from_higher(s, t, h);
		before |= h->priority > t->priority && !h->eta;
	}
	if (before && s->batch->ends[t->at])
		constant += 2 * s->alpha + s->batch->last_misc[t->at];
	if (t->eta)
		remote(s, t);
	return constant;
}

int64_t rta_boosted_suspend(struct rta *s, const struct rta_task *t)
{
	int64_t update = t->eta ? 2 * s->alpha + s->theta + in_flight(s, t) : 0;

	list_owners(s, t, s->owners);
	find_inside(s, t, update, s->owners);
	return demands(s, t, t->cpu_time, s->batch->gaps[t->at]);
}

/* Windows and owners are those that rta_boosted_suspend() has just found. */
static int64_t rta_boosted_suspend_end(struct rta *s, const struct rta_task *t)
{
	return demands(s, t, t->cpu_time - s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1], t->eta);
}

/*
 * What ceil(y) >= y alone says of a response, rounded down by far more than the errors; false: it is beyond the deadline.
 * With U the owners' sum of e / T, their windows add up to @sum = sum of (own + carried) / (1 - U) at least, and owners take
 * U min(x, @sum) + carried.
 */
static bool least(struct rta *s, struct rta_task *t)
{
	struct rta_owners *o = s->owners;
	int64_t update = t->eta ? 2 * s->alpha + s->theta + in_flight(s, t) : 0;
	double own, rate = 0, carried = 0, sum, x, last;
	const struct rta_task *h;

	list_owners(s, t, o);
	rta_for_each_hpp(s, t, h) {
		int64_t outside = h->cpu_time + h->misc + 2 * s->alpha * h->eta;

		rate += (double)outside * h->inverse;
		if (h->eta && !is_owner(t, h))
			carried += (double)outside * h->inverse * (double)rta_jitter(h, outside);
	}
	if (o->rate >= 1 || rate >= 1)
		return true;
	own = (double)(t->cpu_time + t->misc + t->pure + update * t->eta) + carried + o->remote_carried;
	sum = ((double)(t->misc + t->pure + update * t->eta) + o->carried * t->eta) / (1 - o->rate);
	x = (own + o->remote * sum) / (1 - rate);
	last = (double)s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1] / (1 - rate);
	if (x - last < sum && rate + o->remote < 1) {
		x = own / (1 - rate - o->remote);
		last = (double)s->batch->piece_cpu[s->batch->piece[t->at + 1] - 1] / (1 - rate - o->remote);
	} else if (x - last < sum) {
		return true;
	}
	t->response = rta_max(t->response, (int64_t)(x * (1 - 0x1p-30)));
	t->end = rta_max(t->end, (int64_t)((x - last) * (1 - 0x1p-30)));
	return x * (1 - 0x1p-30) <= (double)(t->deadline < t->period ? t->deadline : t->period) + 1;
}

const struct rta_segmented rta_suspend_segments = { .end = rta_boosted_suspend_end, .least = least };
