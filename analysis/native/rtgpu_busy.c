// SPDX-License-Identifier: GPL-2.0
/* Tasks that wait busily while they copy and while kernels execute: STGM. */
#include "rtgpu_state.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* The product, or NEVER if it is larger: nothing is known yet of tasks below the one in question. */
static int64_t capped(int64_t a, int64_t b)
{
	__int128 product = (__int128)a * b;

	return product > NEVER ? NEVER : (int64_t)product;
}

static int64_t sum(int64_t a, int64_t b)
{
	return a + b > NEVER ? NEVER : a + b;
}

/* The copies of a task of another CPU in a window; its first job can be late. */
static int64_t remote(const struct run *r, u32 index, int64_t window)
{
	int64_t copying = r->state[index].on[1].total, late = r->b->deadline[r->begin + index] - copying;

	return capped(ceil_div(window + (late > 0 ? late : 0), r->b->period[r->begin + index]), copying);
}

/* The time that copies of lower tasks take from a task that waits busily, and from those above it on its CPU. */
static int64_t from_lower(const struct run *r, u32 index, int64_t window, int64_t longest)
{
	u32 cpu = r->state[index].cpu, i;
	int64_t requests = r->state[index].on[1].count, most = 0;
	int late = 0;

	for (i = 0; i < index; i++)
		if (r->state[i].cpu == cpu)
			requests += ceil_div(window, r->b->period[r->begin + i]) * r->state[i].on[1].count;
	for (i = index + 1; i < r->tasks; i++) {
		if (!r->state[i].on[1].count)
			continue;
		if (r->state[i].cpu == cpu)
			most = sum(most, r->state[i].once);
		else if (r->b->best_effort[r->begin + i])
			late = 1;
		else
			most = sum(most, remote(r, i, window));
	}
	requests = capped(requests, longest);
	return late || requests < most ? requests : most;
}

int64_t rtgpu_busy(struct run *r, u32 index)
{
	const struct state *s = &r->state[index];
	int64_t limit = r->b->deadline[r->begin + index], window, longest = rtgpu_blocking(r, index);
	int published = r->method->published, closed = !s->spun;
	unsigned __int128 one = (unsigned __int128)1 << 64, rate = 0, least;
	u32 i;

	if (published && s->bus_waits >= NEVER)
		return NEVER;
	for (i = 0; i < index; i++) {
		if (r->state[i].cpu == s->cpu)
			rate += ((unsigned __int128)r->state[i].spun << 64) / (u64)r->b->period[r->begin + i];
		else if (!published)
			rate += ((unsigned __int128)r->state[i].on[1].total << 64) / (u64)r->b->period[r->begin + i];
	}
	if (rate >= one)
		return NEVER;
	least = ((unsigned __int128)s->spun << 64) / (one - rate);	/* no solution is below, from ceil(x) >= x */
	for (window = least > (unsigned __int128)limit ? limit + 1 : (int64_t)least; window <= limit;) {
		int64_t total = s->spun, length = window + closed;

		for (i = 0; i < index; i++) {
			if (r->state[i].cpu == s->cpu)
				total += ceil_div(length, r->b->period[r->begin + i]) * r->state[i].spun;
			else if (!published && r->state[i].on[1].count)
				total += remote(r, i, length);
		}
		if (!published)
			total += from_lower(r, index, length, longest);
		if (total == window)
			return window;
		if (total >= NEVER)
			return NEVER;
		window = total;
	}
	return window;
}
