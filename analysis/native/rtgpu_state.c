// SPDX-License-Identifier: GPL-2.0
/* Needs of tasks that own units of the GPU: of a CPU, of the bus, and of their units. */
#include <stdlib.h>

#include "rtgpu_state.h"

static int by_length(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

int rtgpu_begin(struct run *r, u32 set)
{
	const struct gpurt_rtgpu_batch *b = r->b;
	u32 i, steps;
	int64_t *times;

	r->begin = b->first[set];
	r->tasks = b->first[set + 1] - r->begin;
	steps = b->steps[r->begin + r->tasks] - b->steps[r->begin];
	r->state = calloc(1, r->tasks * (sizeof(*r->state) + 2 * sizeof(*r->loads[0])) + 8 * steps * sizeof(*times) + 1);
	if (!r->state)
		return -GPURT_RTGPU_ENOMEM;
	r->loads[0] = (const struct load **)(r->state + r->tasks);
	r->loads[1] = r->loads[0] + r->tasks;
	times = (int64_t *)(r->loads[1] + r->tasks);
	r->tried = 0;
	r->real_time = 0;
	for (i = 0; i < r->tasks; i++) {
		u32 at = r->begin + i, room = b->steps[at + 1] - b->steps[at], need;

		r->state[i].cpu = b->cpu[at];
		r->real_time += !b->best_effort[at];
		for (need = 0; need < 2; need++) {
			struct load *load = &r->state[i].on[need];

			load->length = times;
			load->off = times + room;
			load->pre = times + 2 * room;
			r->state[i].sorted[need] = times + 3 * room;
			times += 4 * room;
		}
	}
	return 0;
}

static void step_times(const struct gpurt_rtgpu_batch *b, u32 step, u32 units, int64_t *best, int64_t *worst)
{
	size_t at;

	if (b->need[step] != GPURT_RTGPU_UNITS) {
		*best = b->best[step];
		*worst = b->worst[step];
		return;
	}
	at = (size_t)b->row[step] * b->columns + units - 1;
	*best = b->table_best[at];
	*worst = b->table_worst[at];
}

/* The views of a task on a resource while its steps are read. */
struct reading {
	int64_t before[2], gap[2];	/* lower bounds before the first segment, and since the last one */
	int64_t run_best, run_worst;	/* of copies and kernels, where they are merged */
	int64_t copying;
};

static void add_segment(struct state *s, struct reading *seen, u32 need, int64_t best, int64_t worst)
{
	u32 view;

	for (view = 0; view < 2; view++) {
		struct load *load = &s->on[view];

		if (view != need || !worst) {
			seen->gap[view] += best;
			continue;
		}
		if (load->count)
			load->off[load->count] = load->off[load->count - 1] + load->length[load->count - 1] + seen->gap[view];
		else {
			load->off[0] = 0;
			seen->before[view] = seen->gap[view];
		}
		seen->gap[view] = 0;
		load->pre[load->count] = load->total;
		s->sorted[view][load->count] = worst;
		load->length[load->count++] = worst;
		load->total += worst;
	}
	if (need == GPURT_RTGPU_BUS && worst > s->longest)
		s->longest = worst;
}

static void flush(struct state *s, struct reading *seen)
{
	if (seen->run_worst)
		add_segment(s, seen, GPURT_RTGPU_BUS, seen->run_best, seen->run_worst);
	seen->run_best = seen->run_worst = 0;
}

void rtgpu_prepare(struct run *r, u32 index, u32 units)
{
	const struct gpurt_rtgpu_batch *b = r->b;
	struct state *s = &r->state[index];
	u32 at = r->begin + index, step, view;
	struct reading seen = { 0 };

	s->units = units;
	s->kernels = s->longest = s->once = s->spun = 0;
	s->fresh = s->single = true;
	s->on[0].count = s->on[1].count = 0;
	s->on[0].total = s->on[1].total = 0;
	for (step = b->steps[at]; step < b->steps[at + 1]; step++) {
		int64_t best, worst;
		u32 need = b->need[step];

		step_times(b, step, units, &best, &worst);
		s->spun += worst;
		s->fresh = s->fresh && (need == GPURT_RTGPU_CPU || !worst);
		s->single = s->single && (need == GPURT_RTGPU_BUS || (r->method->merges && need != GPURT_RTGPU_CPU) || !worst);
		if (need == GPURT_RTGPU_CPU && best)
			seen.copying = 0;
		else if (need == GPURT_RTGPU_BUS)
			seen.copying += worst;
		if (seen.copying > s->once)
			s->once = seen.copying;
		if (r->method->merges && need != GPURT_RTGPU_CPU) {
			seen.run_best += best;
			seen.run_worst += worst;
			continue;
		}
		flush(s, &seen);
		add_segment(s, &seen, need, best, worst);
		if (need == GPURT_RTGPU_UNITS)
			s->kernels += worst;
	}
	flush(s, &seen);
	s->fresh = s->fresh && s->on[0].count == 1;
	for (view = 0; view < 2; view++) {
		struct load *load = &s->on[view];
		int64_t length, later;

		if (!load->count)
			continue;
		qsort(s->sorted[view], load->count, sizeof(int64_t), by_length);
		length = load->off[load->count - 1] + load->length[load->count - 1];
		later = b->period[at] - length;
		load->cycle = length + (later > 0 ? later : 0);
		/* A job counts as lasting until its deadline until rtgpu_is_over() is told its end. */
		load->second = b->period[at] + seen.before[view] + seen.gap[view];
	}
	s->single = s->single && s->on[1].count == 1;
	s->alone = s->on[1];
	s->alone.second = s->alone.cycle;
}

void rtgpu_is_over(struct run *r, u32 index, int64_t end)
{
	struct state *s = &r->state[index];
	u32 view;

	for (view = 0; view < 2; view++) {
		struct load *load = &s->on[view];
		int64_t length, gap, later;

		if (!load->count)
			continue;
		if (s->fresh && r->method->refined) {
			load->second = load->cycle;
			continue;
		}
		length = load->off[load->count - 1] + load->length[load->count - 1];
		later = load->cycle - length;
		gap = load->second - end;
		if (gap > later)
			gap = later;
		load->second = length + (gap > 0 ? gap : 0);
	}
}
