// SPDX-License-Identifier: GPL-2.0
/* Policy `boosted`: the time that owners of the GPU take inside the segments of a task (analysis/rta/windows.py). */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

enum known { NOTHING, TOO_LONG, INSIDE };

/* Tasks that can own the GPU while the task that is looked at is inside. */
struct rta_owners {
	u32 count;
	u32 *user;		/* places in `users` */
	int64_t *amount, *period, *jitter, *last;	/* of each; as of rows of a recurrence */
	int64_t *taken;		/* of each, in the window that is looked at */
	double *inverse;
	double *rate, *carried;	/* sums of e / T and of J e / T, up to and with each */
	u32 listed, next;	/* by list_urgent(): how many are there, and the place in `order` after them */
	/* Answers of rta_inside(): a row for each user, or one for all if there are more than RTA_WINDOWED. */
	int64_t *inside;
	int64_t *length;	/* of each row: of all windows of a job */
	u8 *known;		/* of each row: enum known */
};

struct rta_owners *rta_owners_new(u32 tasks)
{
	struct rta_owners *o = calloc(1, sizeof(*o));
	size_t room = tasks + 1, few = room < RTA_WINDOWED ? room : RTA_WINDOWED;

	if (!o)
		return NULL;
	o->user = calloc(room, sizeof(*o->user));
	o->amount = calloc(5 * room, sizeof(*o->amount));
	o->inverse = calloc(3 * room, sizeof(*o->inverse));
	o->inside = malloc((room + few * few) * sizeof(*o->inside));
	o->length = calloc(room, sizeof(*o->length));
	o->known = calloc(room, sizeof(*o->known));
	if (o->length && o->user && o->amount && o->inverse && o->inside && o->known) {
		o->period = o->amount + room;
		o->jitter = o->period + room;
		o->last = o->jitter + room;
		o->taken = o->last + room;
		o->rate = o->inverse + room;
		o->carried = o->rate + room;
		return o;
	}
	rta_owners_free(o);
	return NULL;
}

void rta_owners_free(struct rta_owners *o)
{
	if (!o)
		return;
	free(o->user);
	free(o->amount);
	free(o->inverse);
	free(o->inside);
	free(o->length);
	free(o->known);
	free(o);
}

void rta_forget_windows(struct rta *s)
{
	memset(s->owners->known, NOTHING, s->user_count);
	s->owners->listed = s->owners->next = 0;
}

/* Writes @h to place @n.  The context switch after an owner's last end comes after what is known of that end. */
static inline void write_owner(const struct rta *s, struct rta_owners *o, u32 n, const struct rta_task *h, int64_t end)
{
	int64_t jitter = rta_max(end + s->theta - h->gpu_busy, 0);

	o->user[n] = h->user;
	o->amount[n] = h->gpu_busy;
	o->period[n] = h->period;
	o->jitter[n] = jitter;
	o->inverse[n] = h->inverse;
	o->rate[n] = (n ? o->rate[n - 1] : 0) + h->gpu_rate;
	o->carried[n] = (n ? o->carried[n - 1] : 0) + h->gpu_rate * (double)jitter;
}

/* Lists the users that are more urgent than @t.  What was listed for a task before still holds, and most often grows. */
static void list_urgent(const struct rta *s, const struct rta_task *t, struct rta_owners *o)
{
	const struct rta_task *h;
	u32 n;

	for (n = o->listed; n; n--) {
		if (o->user[n - 1] == t->user) {
			o->count = n - 1;
			return;
		}
	}
	while ((h = &s->tasks[s->order[o->next]]) != t) {
		if (h->eta)
			write_owner(s, o, o->listed++, h, h->end);
		o->next++;
	}
	o->count = o->listed;
}

/* Lists the owners of at least GPU priority @level.  Only ends of tasks that are more urgent than @t count as known. */
static void list_owners(const struct rta *s, const struct rta_task *t, u32 level, struct rta_owners *o)
{
	u32 u, n = 0;

	if (s->plain && !s->ties && !s->threads && level == t->gpu_priority) {
		list_urgent(s, t, o);
		return;
	}
	o->listed = o->next = 0;
	for (u = 0; u < s->user_count; u++) {
		const struct rta_task *h = &s->tasks[s->users[u]];

		if (h->gpu_priority >= level && h != t && !rta_sibling(h, t))
			write_owner(s, o, n++, h, h->priority > t->priority || s->soonest ? h->end : h->deadline);
	}
	o->count = n;
}

/* Whether a user on another CPU has a lower GPU priority.  The least urgent of each CPU most often says so. */
static bool lower_elsewhere(const struct rta *s, const struct rta_task *t)
{
	u32 c, u;

	for (c = 0; c < s->cpus; c++)
		if (c != t->cpu && s->cpu[c].end_user > s->cpu[c].first_user &&
		    s->tasks[s->users[s->cpu[c].end_user - 1]].gpu_priority < t->gpu_priority)
			return true;
	for (u = 0; u < s->user_count && !s->plain; u++)
		if (s->tasks[s->users[u]].gpu_priority < t->gpu_priority && s->tasks[s->users[u]].cpu != t->cpu)
			return true;
	return false;
}

int64_t rta_update(const struct rta *s, const struct rta_task *t)
{
	return 2 * s->alpha + s->theta + (lower_elsewhere(s, t) ? s->alpha : 0);
}

static int64_t owners_at(struct rta_owners *o, int64_t window)
{
	int64_t total = 0, k;
	u32 n;

	for (n = 0; n < o->count; n++) {
		k = rta_ceil(window + o->jitter[n], o->period[n], o->inverse[n]);
		o->last[n] = k * o->period[n] - o->jitter[n];
		o->taken[n] = k * o->amount[n];
		total += o->taken[n];
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
		o->taken[n] += k * o->amount[n];
		more += k * o->amount[n];
	}
	return more;
}

/* A lower bound of the window of a segment of length @own, from ceil(y) >= y; -1: it is longer than @limit. */
static int64_t below_window(const struct rta *s, const struct rta_owners *o, int64_t own, int64_t limit)
{
	if (s->integers || !o->count)
		return own <= limit ? own : -1;
	return rta_below(own, o->carried[o->count - 1], o->rate[o->count - 1], limit);
}

/*
 * Finds the least window of a segment of length @own, closed if it may take no time; false: it is longer than @limit.  The
 * search goes on from window @w, in which owners take @taken; these are what they were for the segment before.
 */
static bool find_window(struct rta_owners *o, int64_t own, int64_t limit, int64_t *w, int64_t *taken)
{
	int64_t closed = own ? 0 : 1;
	u32 step;

	for (step = 0; step < RTA_STEPS; step++) {
		if (own + *taken == *w)
			return *w <= limit;
		*w = own + *taken;
		if (*w > limit)
			return false;
		*taken += owners_grow(o, *w + closed);
	}
	return false;
}

u32 rta_segment_lengths(const struct gpurt_batch *b, const struct rta_task *t, int64_t *lengths)
{
	u32 piece, i, n = 0, first = b->piece[t->at];

	for (piece = first; piece < first + t->eta && t->eta <= RTA_SORTED; piece++, n++) {
		int64_t length = b->piece_misc[piece] + b->piece_pure[piece];

		for (i = n; i && lengths[i - 1] > length; i--)
			lengths[i] = lengths[i - 1];
		lengths[i] = length;
	}
	return n;
}

/*
 * Adds what each owner takes inside each segment of these jobs of @t or of its chain, and how long that is; false: a segment is
 * longer than the deadline.
 */
static bool find_inside(const struct rta *s, const struct rta_task *t, const struct rta_jobs *of, struct rta_owners *o,
			int64_t *inside, int64_t *length)
{
	const struct gpurt_batch *b = s->batch;
	int64_t w = -1, taken = 0, own, update = rta_update(s, t), sorted[RTA_SORTED];
	u32 i, n, few = rta_segment_lengths(b, of->task, sorted), first = b->piece[of->task->at];

	for (i = 0; i < of->task->eta; i++) {
		own = update + (few ? sorted[i] : b->piece_misc[first + i] + b->piece_pure[first + i]);
		if (w < 0 || own + taken < w) {		/* not the window before and what is more of this segment */
			w = below_window(s, o, own, t->deadline);
			taken = w < 0 ? 0 : owners_at(o, w + !own);
		}
		if (w < 0 || !find_window(o, own, t->deadline, &w, &taken))
			return false;
		for (n = 0; n < o->count; n++)
			inside[o->user[n]] += of->count * o->taken[n];
		*length += of->count * (w + !own);
	}
	return true;
}

const int64_t *rta_inside(struct rta *s, const struct rta_task *p, u32 level, bool keep)
{
	struct rta_owners *o = s->owners;
	u32 row = s->user_count > RTA_WINDOWED ? 0 : p->chained ? s->user_count : p->user;
	const struct rta_jobs self = { p, 1 }, *of = p->chained ? s->chain : &self;
	const struct rta_jobs *end = of + (p->chained ? s->chained : 1);
	int64_t *inside = o->inside + (size_t)row * s->user_count;
	u8 *known = &o->known[row];

	if (!keep || !*known) {
		memset(inside, 0, s->user_count * sizeof(*inside));
		list_owners(s, p, level, o);
		o->length[row] = 0;
		*known = INSIDE;
		for (; of < end && *known == INSIDE; of++)
			if (!find_inside(s, p, of, o, inside, &o->length[row]))
				*known = TOO_LONG;
	}
	return *known == INSIDE ? inside : NULL;
}

int64_t rta_inside_length(struct rta *s, const struct rta_task *p, bool keep)
{
	if (!rta_inside(s, p, p->gpu_priority, keep) || s->owners->length[p->user] > p->deadline)
		return p->deadline;
	return s->owners->length[p->user];
}
