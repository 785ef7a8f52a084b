// SPDX-License-Identifier: GPL-2.0
/* Bounds of tasks that own units of the GPU, and the search for an allocation (analysis/rtgpu). */
#include <stdlib.h>
#include <string.h>

#include "rtgpu_load.h"

/* Longer than every deadline, and several of it can be added. */
#define NEVER (INT64_MAX / 8)

/* A real-time or best-effort task on the units that it was given last. */
struct state {
	u32 units;
	u32 cpu;
	struct load on[2];		/* by enum gpurt_rtgpu_need: the CPU, the bus */
	int64_t *sorted[2];		/* the same lengths, shortest first */
	int64_t kernels;		/* GR_hi of a job */
	int64_t longest;		/* copy */
	int64_t once;			/* the most copying without a CPU segment in between */
	int64_t spun;			/* what a job keeps its CPU for while it waits busily */
	int64_t bus_waits, cpu_waits;	/* the sums of MR and of CR */
	int64_t wcrt;
};

struct run {
	const struct gpurt_rtgpu_batch *b;
	const struct gpurt_rtgpu_method *method;
	const struct gpurt_rtgpu_units *units;
	u32 begin, tasks, real_time;
	u32 tried;
	struct state *state;
	const struct load **loads[2];	/* of the tasks above the one in question */
	u32 above[2];
	int64_t *times;
};

static int by_length(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

/* Prepares a taskset in @r.  One block of memory holds everything. */
static int begin(struct run *r, u32 set)
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

/* Reads the steps of a task on @units units. */
static void prepare(struct run *r, u32 index, u32 units)
{
	const struct gpurt_rtgpu_batch *b = r->b;
	struct state *s = &r->state[index];
	u32 at = r->begin + index, step, view;
	struct reading seen = { 0 };

	s->units = units;
	s->kernels = s->longest = s->once = s->spun = 0;
	s->on[0].count = s->on[1].count = 0;
	s->on[0].total = s->on[1].total = 0;
	for (step = b->steps[at]; step < b->steps[at + 1]; step++) {
		int64_t best, worst;
		u32 need = b->need[step];

		step_times(b, step, units, &best, &worst);
		s->spun += worst;
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
	for (view = 0; view < 2; view++) {
		struct load *load = &s->on[view];
		int64_t length, later;

		if (!load->count)
			continue;
		qsort(s->sorted[view], load->count, sizeof(int64_t), by_length);
		length = load->off[load->count - 1] + load->length[load->count - 1];
		later = b->period[at] - length;
		load->cycle = length + (later > 0 ? later : 0);
		/* Until is_over() says more, a job lasts until its deadline. */
		load->second = b->period[at] + seen.before[view] + seen.gap[view];
	}
}

/* Says by when a job is over; @second is then the start of the window's second job. */
static void is_over(struct run *r, u32 index, int64_t end)
{
	struct state *s = &r->state[index];
	u32 view;

	for (view = 0; view < 2; view++) {
		struct load *load = &s->on[view];
		int64_t length, gap, later;

		if (!load->count)
			continue;
		length = load->off[load->count - 1] + load->length[load->count - 1];
		later = load->cycle - length;
		gap = load->second - end;
		if (gap > later)
			gap = later;
		load->second = length + (gap > 0 ? gap : 0);
	}
}

/* The most that one lower copy, or merged request, keeps a task waiting for. */
static int64_t blocking(const struct run *r, u32 index)
{
	int64_t most = 0;
	u32 i;

	for (i = index + 1; i < r->tasks; i++)
		if (r->state[i].longest > most)
			most = r->state[i].longest;
	return r->b->chunk && !r->method->merges && most > r->b->chunk ? r->b->chunk : most;
}

static void gather(struct run *r, u32 index)
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
static int64_t waits(struct run *r, u32 index, u32 view, int64_t extra)
{
	const struct state *s = &r->state[index];
	int64_t limit = r->b->deadline[r->begin + index], sum = 0, response = 0, last = 0;
	u32 i;

	for (i = 0; i < s->on[view].count; i++) {
		int64_t length = s->sorted[view][i];

		if (!i || length != last)
			response = rtgpu_window(r->loads[view], r->above[view], length + extra,
						i ? response + length - last : 0, limit);
		if (response > limit)
			return NEVER;
		last = length;
		sum += response;
	}
	return sum;
}

/* What the responses of a task need that does not depend on its own units. */
static void settle(struct run *r, u32 index)
{
	struct state *s = &r->state[index];

	gather(r, index);
	s->bus_waits = waits(r, index, GPURT_RTGPU_BUS, blocking(r, index));
	s->cpu_waits = r->method->forms ? waits(r, index, GPURT_RTGPU_CPU, 0) : 0;
}

/* R1 to R4 of a task on the units that it has; beyond the deadline if none holds.  @all: their least, else any. */
static int64_t suspended(struct run *r, u32 index, int all)
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
	bus = s->kernels + s->on[1].total + s->on[1].count * blocking(r, index);
	if (s->cpu_waits < NEVER) {
		found = rtgpu_window(r->loads[1], r->above[1], bus + s->cpu_waits, 0, limit);
		least = found < least ? found : least;
	}
	memcpy(both, r->loads[0], r->above[0] * sizeof(*both));
	memcpy(both + r->above[0], r->loads[1], r->above[1] * sizeof(*both));
	found = rtgpu_window(both, r->above[0] + r->above[1], bus + s->on[0].total, 0, limit);
	return found < least ? found : least;
}

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

/* What copies of lower tasks take from a task that waits busily, and from those above it on its CPU. */
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

/* The response of a task that waits busily (analysis/rtgpu/stgm.py). */
static int64_t busy(struct run *r, u32 index)
{
	const struct state *s = &r->state[index];
	int64_t limit = r->b->deadline[r->begin + index], window, longest = blocking(r, index);
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

/* A task's response on so many units; the tasks above it have theirs.  @all: the least of the forms. */
static int64_t respond(struct run *r, u32 index, int all)
{
	struct state *s = &r->state[index];

	if (r->method->forms)
		return suspended(r, index, all);
	if (r->method->published && s->bus_waits < NEVER)
		s->spun = s->on[0].total + s->kernels + s->bus_waits;
	return busy(r, index);
}

/* The task's bound is known: what it can execute from now on. */
static void known(struct run *r, u32 index, int64_t wcrt)
{
	r->state[index].wcrt = wcrt;
	is_over(r, index, r->method->tight ? wcrt : r->b->deadline[r->begin + index]);
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

		settle(r, i);
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
		prepare(r, index, units);
		if (units <= step || r->method->merges)
			settle(r, index);
		else
			gather(r, index);
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
		prepare(r, index, r->units->total);
	return GPURT_RTGPU_NO;
}

/* Where bounds depend on the units of tasks below, too, those of a whole allocation decide. */
static int whole(struct run *r)
{
	u32 i;

	for (i = 0; i < r->real_time; i++)
		prepare(r, i, r->state[i].units);
	return bounds(r) == r->real_time ? GPURT_RTGPU_YES : GPURT_RTGPU_NO;
}

static void prepare_all(struct run *r, const u32 *given, u32 rest)
{
	u32 i;

	for (i = 0; i < r->tasks; i++)
		prepare(r, i, i < r->real_time && given ? given[i] : r->b->user[r->begin + i] ? rest : 0);
}

static int find(struct run *r, u32 set, u32 *given, int64_t *wcrt)
{
	u32 i, needed = 0;
	int answer = begin(r, set);

	if (answer)
		return answer;
	for (i = 0; i < r->real_time; i++)
		needed += r->b->user[r->begin + i] ? smallest(r->units) : 0;
	if (needed <= r->units->total) {
		prepare_all(r, NULL, r->units->total ? r->units->total : 1);
		answer = give(r, 0, r->units->total);
	}
	if (answer == GPURT_RTGPU_YES && given) {
		whole(r);
		for (i = 0; i < r->real_time; i++) {
			given[i] = r->state[i].units;
			wcrt[i] = r->state[i].wcrt;
		}
	}
	free(r->state);
	return answer;
}

int gpurt_rtgpu_find(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		     const struct gpurt_rtgpu_units *units, u32 *given, int64_t *wcrt)
{
	struct run r = { .b = b, .method = method, .units = units };

	return find(&r, set, given, wcrt);
}

int gpurt_rtgpu_bounds(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		       const u32 *given, int64_t *wcrt)
{
	struct run r = { .b = b, .method = method };
	u32 i, solved;
	int status = begin(&r, set);

	if (status)
		return status;
	prepare_all(&r, given, 1);
	solved = bounds(&r);
	for (i = 0; i < solved; i++)
		wcrt[i] = r.state[i].wcrt;
	free(r.state);
	return (int)solved;
}

int gpurt_rtgpu_verdicts(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 from, u32 to,
			 const struct gpurt_rtgpu_units *units, u8 *out)
{
	struct run r = { .b = b, .method = method, .units = units };
	u32 set;

	for (set = from; set < to; set++) {
		int answer = find(&r, set, NULL, NULL);

		if (answer < 0)
			return answer;
		out[set] = (u8)answer;
	}
	return 0;
}
