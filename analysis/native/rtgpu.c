// SPDX-License-Identifier: GPL-2.0
/* Bounds of tasks that own units of the GPU, and the search for an allocation (analysis/rtgpu). */
#include <stdlib.h>

#include "rtgpu_state.h"

/* A task's response on so many units; the tasks above it have theirs.  @all: the least of the forms. */
static int64_t respond(struct run *r, u32 index, int all)
{
	struct state *s = &r->state[index];

	if (r->method->forms)
		return rtgpu_suspended(r, index, all);
	if (r->method->published && s->bus_waits < NEVER)
		s->spun = s->on[0].total + s->kernels + s->bus_waits;
	return rtgpu_busy(r, index);
}

/* The task's bound is known: what it can execute from now on. */
static void known(struct run *r, u32 index, int64_t wcrt)
{
	r->state[index].wcrt = wcrt;
	rtgpu_is_over(r, index, r->method->tight ? wcrt : r->b->deadline[r->begin + index]);
}

static u32 smallest(const struct gpurt_rtgpu_units *u)
{
	u32 least = u->least ? u->least : 1;

	return (least + u->step - 1) / u->step * u->step;
}

/* Bounds of all tasks on the units that they have; returns how many have one before the first without. */
static u32 bounds(struct run *r)
{
	u32 i;

	for (i = 0; i < r->real_time; i++) {
		int64_t wcrt;

		rtgpu_settle(r, i);
		wcrt = respond(r, i, 1);
		if (wcrt > r->b->deadline[r->begin + i])
			break;
		known(r, i, wcrt);
	}
	return i;
}

static int whole(struct run *r);

/* Gives units to task @index and those after it; @left of them are there. */
static int give(struct run *r, u32 index, u32 left)
{
	u32 i, units, reserve = 0, step = smallest(r->units);
	int64_t limit;
	int user;

	if (index == r->real_time)
		return r->method->merges ? whole(r) : GPURT_RTGPU_YES;
	limit = r->b->deadline[r->begin + index];
	user = r->b->user[r->begin + index];
	for (i = index + 1; i < r->real_time; i++)
		reserve += r->b->user[r->begin + i] ? step : 0;
	for (units = user ? step : 0; units + (user ? reserve : 0) <= left; units += r->units->step) {
		int64_t wcrt;
		int answer;

		if (++r->tried > GPURT_RTGPU_MOST)
			return GPURT_RTGPU_MANY;
		rtgpu_prepare(r, index, units);
		if (units <= step || r->method->merges)
			rtgpu_settle(r, index);
		else
			rtgpu_gather(r, index);
		wcrt = respond(r, index, r->method->tight);
		if (wcrt <= limit) {
			known(r, index, wcrt);
			answer = give(r, index + 1, left - units);
			if (answer || !r->method->search)
				return answer;
		}
		if (!user)
			break;
	}
	if (r->method->merges && user)		/* as others count on it that stand above */
		rtgpu_prepare(r, index, r->units->total);
	return GPURT_RTGPU_NO;
}

/* Where bounds depend on the units of tasks below, too, those of a whole allocation decide. */
static int whole(struct run *r)
{
	u32 i;

	for (i = 0; i < r->real_time; i++)
		rtgpu_prepare(r, i, r->state[i].units);
	return bounds(r) == r->real_time ? GPURT_RTGPU_YES : GPURT_RTGPU_NO;
}

static void prepare_all(struct run *r, const u32 *given, u32 rest)
{
	u32 i;

	for (i = 0; i < r->tasks; i++)
		rtgpu_prepare(r, i, i < r->real_time && given ? given[i] : r->b->user[r->begin + i] ? rest : 0);
}

int gpurt_rtgpu_find(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		     const struct gpurt_rtgpu_units *units, u32 *given, int64_t *wcrt)
{
	struct run r = { .b = b, .method = method, .units = units };
	u32 i, needed = 0;
	int answer = rtgpu_begin(&r, set);

	if (answer)
		return answer;
	for (i = 0; i < r.real_time; i++)
		needed += b->user[r.begin + i] ? smallest(units) : 0;
	if (needed <= units->total) {
		prepare_all(&r, NULL, units->total ? units->total : 1);
		answer = give(&r, 0, units->total);
	}
	if (answer == GPURT_RTGPU_YES) {
		whole(&r);
		for (i = 0; i < r.real_time; i++) {
			given[i] = r.state[i].units;
			wcrt[i] = r.state[i].wcrt;
		}
	}
	free(r.state);
	return answer;
}

int gpurt_rtgpu_bounds(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		       const u32 *given, int64_t *wcrt)
{
	struct run r = { .b = b, .method = method };
	u32 i, solved;
	int status = rtgpu_begin(&r, set);

	if (status)
		return status;
	prepare_all(&r, given, 1);
	solved = bounds(&r);
	for (i = 0; i < solved; i++)
		wcrt[i] = r.state[i].wcrt;
	free(r.state);
	return (int)solved;
}
