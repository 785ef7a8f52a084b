// SPDX-License-Identifier: GPL-2.0
/* Policy `boosted`: the time that owners of the GPU take inside the segments of a task (analysis/rta/windows.py). */
#include <stdlib.h>
#include <string.h>

#include "rta_internal.h"

enum known { NOTHING, TOO_LONG, INSIDE };

/* Tasks that can own the GPU while the analysed task is inside. */
struct rta_owners {
	u32 count;
	u32 *user;		/* places in `users` */
	int64_t *amount, *period, *jitter;	/* of each; with the meanings of a recurrence's rows */
	int64_t *taken;		/* of each, in the window under analysis */
	double rate, carried;	/* sums of e / T and of J e / T */
	/* Results of rta_inside(): a row for each user, or one for all if there are more than RTA_WINDOWED. */
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
	o->amount = calloc(4 * room, sizeof(*o->amount));
	o->inside = malloc((room + few * few) * sizeof(*o->inside));
	o->length = calloc(room, sizeof(*o->length));
	o->known = calloc(room, sizeof(*o->known));
	if (o->length && o->user && o->amount && o->inside && o->known) {
		o->period = o->amount + room;
		o->jitter = o->period + room;
		o->taken = o->jitter + room;
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
	free(o->inside);
	free(o->length);
	free(o->known);
	free(o);
}

void rta_forget_windows(struct rta *s)
{
	memset(s->owners->known, NOTHING, s->user_count);
}

/* Writes @h to place @n.  The context switch after an owner's last end comes after the known time of that end. */
static inline void write_owner(const struct rta *s, struct rta_owners *o, u32 n, const struct rta_task *h, int64_t end)
{
	int64_t jitter = rta_max(end + s->theta - h->gpu_busy, 0);

	o->user[n] = h->user;
	o->amount[n] = h->gpu_busy;
	o->period[n] = h->period;
	o->jitter[n] = jitter;
	o->rate += (double)h->gpu_busy / (double)h->period;
	o->carried += (double)h->gpu_busy / (double)h->period * (double)jitter;
}

/* Lists the owners of at least GPU priority @level.  Only ends of tasks that are more urgent than @t count as known. */
static void list_owners(const struct rta *s, const struct rta_task *t, u32 level, struct rta_owners *o)
{
	u32 u, n = 0;

	o->rate = o->carried = 0;
	for (u = 0; u < s->user_count; u++) {
		const struct rta_task *h = &s->tasks[s->users[u]];

		if (h->gpu_priority >= level && h != t && !rta_sibling(h, t))
			write_owner(s, o, n++, h, h->priority > t->priority ? h->end : h->deadline);
	}
	o->count = n;
}

/* Whether a user on another CPU has a lower GPU priority. */
static bool lower_elsewhere(const struct rta *s, const struct rta_task *t)
{
	u32 u;

	for (u = 0; u < s->user_count; u++)
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
	int64_t total = 0;
	u32 n;

	for (n = 0; n < o->count; n++) {
		o->taken[n] = rta_jobs_in(window + o->jitter[n], o->period[n]) * o->amount[n];
		total += o->taken[n];
	}
	return total;
}

/* The least window of a segment of length @own, closed because it may take no time; -1: it is longer than @limit. */
static int64_t window_of(struct rta_owners *o, int64_t own, int64_t limit)
{
	int64_t w = rta_below(own, o->carried, o->rate, limit), total;
	u32 step;

	for (step = 0; step < RTA_STEPS && w >= 0 && w <= limit; step++) {
		total = own + owners_at(o, w + !own);
		if (total == w)
			return w;
		w = total;
	}
	return -1;
}

/*
 * Adds the time of each owner inside each segment of these jobs of @t or of its chain, and the length of these windows.
 * False: a segment is longer than the deadline.
 */
static bool find_inside(const struct rta *s, const struct rta_task *t, const struct rta_jobs *of, struct rta_owners *o,
			int64_t *inside, int64_t *length)
{
	const struct gpurt_columns *b = s->columns;
	int64_t w, own, update = rta_update(s, t);
	u32 i, n, first = b->piece[of->task->index];

	for (i = 0; i < of->task->eta; i++) {
		own = update + b->piece_misc[first + i] + b->piece_pure[first + i];
		w = window_of(o, own, t->deadline);
		if (w < 0)
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
