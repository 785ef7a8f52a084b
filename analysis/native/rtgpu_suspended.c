// SPDX-License-Identifier: GPL-2.0
/* Tasks that suspend while they copy and while kernels execute: R1 to R4 (analysis/rtgpu/bounds.py). */
#include <string.h>

#include "rtgpu_state.h"

int64_t rtgpu_blocking(const struct run *r, u32 index)
{
	int64_t most = 0;
	u32 i;

	for (i = index + 1; i < r->tasks; i++)
		if (r->state[i].longest > most)
			most = r->state[i].longest;
	return r->b->chunk && !r->method->merges && most > r->b->chunk ? r->b->chunk : most;
}

void rtgpu_gather(struct run *r, u32 index)
{
	u32 i;

	r->above[0] = r->above[1] = 0;
	for (i = 0; i < index; i++) {
		struct state *h = &r->state[i];

		if (h->cpu == r->state[index].cpu && h->on[0].count)
			r->loads[0][r->above[0]++] = &h->on[0];
		if (h->on[1].count)
			r->loads[1][r->above[1]++] = &h->on[1];
	}
}

/* The sum of the responses of a job's segments on a resource: NEVER if one exceeds the deadline. */
static int64_t waits(const struct run *r, u32 index, u32 view, const struct load *const *loads, int64_t extra)
{
	const struct state *s = &r->state[index];
	int64_t limit = r->b->deadline[r->begin + index], sum = 0, response = 0, last = 0;
	u32 i;

	for (i = 0; i < s->on[view].count; i++) {
		int64_t length = s->sorted[view][i];

		if (!i || length != last)
			response = rtgpu_window(loads, r->above[view], length + extra, i ? response + length - last : 0, limit);
		if (response > limit)
			return NEVER;
		last = length;
		sum += response;
	}
	return sum;
}

/* The same of copies that nothing interrupts once they have begun. */
static int64_t begins(const struct run *r, u32 index, const struct load *const *loads, int64_t blocking)
{
	const struct load *own = &r->state[index].on[GPURT_RTGPU_BUS];
	int64_t limit = r->b->deadline[r->begin + index], sum = 0, window;
	u32 i;

	if (!own->count)
		return 0;
	window = rtgpu_window(loads, r->above[GPURT_RTGPU_BUS], blocking + 1, 0, limit);
	if (window > limit)
		return NEVER;
	for (i = 0; i < own->count; i++) {
		if (window - 1 + own->length[i] > limit)
			return NEVER;
		sum += window - 1 + own->length[i];
	}
	return sum;
}

static int64_t copies(const struct run *r, u32 index, const struct load *const *loads, int64_t blocking)
{
	bool whole = r->method->refined && (r->method->merges || !r->b->chunk);

	return whole ? begins(r, index, loads, blocking) : waits(r, index, GPURT_RTGPU_BUS, loads, blocking);
}

/* The same if each window on the bus may begin before the request (analysis/rtgpu/method.py, _alone_on_bus). */
static int64_t copies_alone(const struct run *r, u32 index, int64_t blocking)
{
	const struct load *loads[r->tasks + 1];
	int64_t own = r->state[index].longest;
	u32 i, n = 0;

	if (r->b->chunk && !r->method->merges && own > r->b->chunk)
		own = r->b->chunk;
	for (i = 0; i < index; i++)
		if (r->state[i].on[1].count)
			loads[n++] = r->state[i].single ? &r->state[i].alone : &r->state[i].on[1];
	return copies(r, index, loads, own > blocking ? own : blocking);
}

void rtgpu_settle(struct run *r, u32 index)
{
	struct state *s = &r->state[index];
	int64_t blocking = rtgpu_blocking(r, index), alone;

	rtgpu_gather(r, index);
	s->bus_waits = copies(r, index, r->loads[GPURT_RTGPU_BUS], blocking);
	if (r->method->refined) {
		alone = copies_alone(r, index, blocking);
		s->bus_waits = alone < s->bus_waits ? alone : s->bus_waits;
	}
	s->cpu_waits = r->method->forms ? waits(r, index, GPURT_RTGPU_CPU, r->loads[GPURT_RTGPU_CPU], 0) : 0;
}

int64_t rtgpu_suspended(struct run *r, u32 index, int all)
{
	const struct state *s = &r->state[index];
	const struct load *both[r->tasks * 2 + 1];
	int64_t limit = r->b->deadline[r->begin + index], least, found, bus;

	least = s->kernels + s->bus_waits + s->cpu_waits;
	if (least <= limit && !all)
		return least;
	if (s->bus_waits < NEVER) {
		found = rtgpu_window(r->loads[0], r->above[0], s->kernels + s->bus_waits + s->on[0].total, 0, limit);
		least = found < least ? found : least;
	}
	if (r->method->forms < 4 || (least <= limit && !all))
		return least;
	bus = s->kernels + s->on[1].total + s->on[1].count * rtgpu_blocking(r, index);
	if (s->cpu_waits < NEVER) {
		found = rtgpu_window(r->loads[1], r->above[1], bus + s->cpu_waits, 0, limit);
		least = found < least ? found : least;
	}
	memcpy(both, r->loads[0], r->above[0] * sizeof(*both));
	memcpy(both + r->above[0], r->loads[1], r->above[1] * sizeof(*both));
	found = rtgpu_window(both, r->above[0] + r->above[1], bus + s->on[0].total, 0, limit);
	return found < least ? found : least;
}
