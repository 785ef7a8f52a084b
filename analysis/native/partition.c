// SPDX-License-Identifier: GPL-2.0
/* Times, utilizations and least sizes of partitions, and the entry points. */
#include <stdlib.h>

#include "partition_internal.h"

typedef unsigned __int128 u128;

static int64_t time_of(const struct gpurt_partition_set *set, u32 index, u32 units, bool conflict)
{
	const struct gpurt_partition_task *t = &set->tasks[index];
	u64 top, bottom;

	if (t->table)
		return set->tables[((u64)(t->table - 1) * 2 + conflict) * set->units + units - 1];
	top = (u64)t->numerator[conflict] * (u64)(t->parallel + (int64_t)units * t->serial);
	bottom = (u64)t->denominator[conflict] * units;
	return t->fixed + (int64_t)((top + bottom - 1) / bottom);
}

static u64 place(const struct space *s, u32 index, u32 units, bool conflict)
{
	return ((u64)index * 2 + conflict) * s->cached + units - 1;
}

int64_t partition_time(struct space *s, u32 index, u32 units, bool conflict)
{
	if (units > s->cached)
		return time_of(s->set, index, units, conflict);

	int64_t *cached = &s->times[place(s, index, units, conflict)];

	if (!*cached)
		*cached = time_of(s->set, index, units, conflict);
	return *cached;
}

/* floor(2^SHIFT C / T) */
static u64 share_of(const struct space *s, u32 index, int64_t time)
{
	u64 period = s->set->tasks[index].period;

	return time >> 33 ? (u64)(((u128)time << SHIFT) / period) : ((u64)time << SHIFT) / period;
}

static u64 share(struct space *s, u32 index, u32 units, bool conflict)
{
	if (units > s->cached)
		return share_of(s, index, partition_time(s, index, units, conflict));

	u64 *cached = &s->shares[place(s, index, units, conflict)];

	if (!*cached)
		*cached = share_of(s, index, partition_time(s, index, units, conflict)) + 1;
	return *cached - 1;
}

/* @memory, @compute: how many of each type the whole partition has, of which @tasks may be a part. */
u64 partition_utilization(struct space *s, const u32 *tasks, u32 count, u32 memory, u32 compute, u32 units)
{
	u64 sum = 0;

	for (u32 i = 0; i < count; i++)
		sum += share(s, tasks[i], units, (s->set->tasks[tasks[i]].memory ? memory : compute) >= 2);
	return sum;
}

u64 partition_load(struct space *s, const u32 *tasks, u32 count, u32 memory)
{
	u64 sum = 0;

	for (u32 i = 0; i < count; i++) {
		const struct gpurt_partition_task *t = &s->set->tasks[tasks[i]];
		bool conflict = (t->memory ? memory : count - memory) >= 2;

		sum += (u64)(((u128)t->smallest * partition_time(s, tasks[i], t->smallest, conflict) << SHIFT) / t->period);
	}
	return sum;
}

static bool passes(struct space *s, const u32 *tasks, u32 count, u32 memory, u32 units)
{
	enum verdict found;

	for (u32 i = 0; i < count; i++) {
		const struct gpurt_partition_task *t = &s->set->tasks[tasks[i]];
		bool conflict = (t->memory ? memory : count - memory) >= 2;
		int64_t deadline = t->deadline < t->period ? t->deadline : t->period;
		int64_t cost = partition_time(s, tasks[i], units, conflict);

		if (cost > deadline)	/* and no utilization below has too many bits */
			return false;
		s->jobs[i] = (struct job){ cost, deadline, t->period, t->priority };
	}
	if (partition_utilization(s, tasks, count, memory, count - memory, units) > (u64)1 << SHIFT)
		return false;
	found = partition_test(s->set->test, s->jobs, count);
	s->refused |= found == UNKNOWN;
	return found == PASSES;
}

/* The first allowed size of at least @low; size_count if there is none. */
static u32 allowed_from(const struct gpurt_partition_set *set, u32 low)
{
	u32 first = 0, last = set->size_count;

	while (first < last) {
		u32 middle = (first + last) / 2;

		if (set->sizes[middle] < low)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

u32 partition_least(struct space *s, const u32 *tasks, u32 count, u32 memory, u32 smallest, u32 low, u32 high)
{
	const u32 *sizes = s->set->sizes;
	u32 first = allowed_from(s->set, low > smallest ? low : smallest), last = allowed_from(s->set, high + 1);

	if (first >= last-- || !passes(s, tasks, count, memory, sizes[last]))
		return 0;
	while (first < last) {
		u32 middle = (first + last) / 2;

		if (passes(s, tasks, count, memory, sizes[middle]))
			last = middle;
		else
			first = middle + 1;
	}
	return sizes[last];
}

/* Writes the partitions, in the order of their first tasks, which is that of @parts. */
void partition_conclude(struct space *s, struct part **parts, u32 count, struct gpurt_partition_result *result,
			u32 *part, u32 *size)
{
	result->parts = count;
	for (u32 p = 0; p < count; p++) {
		result->units += parts[p]->size;
		result->load += partition_load(s, parts[p]->tasks, parts[p]->count, parts[p]->memory);
		if (!part)
			continue;
		size[p] = parts[p]->size;
		for (u32 i = 0; i < parts[p]->count; i++)
			part[parts[p]->tasks[i]] = p;
	}
	result->status = result->units <= s->set->units && (!s->set->most || count <= s->set->most) ?
			 GPURT_PARTITION_FITS : GPURT_PARTITION_STUCK;
}

/* Work of a task, floor(2^SHIFT m C(m) / T), on the size of at least @least where it has least work. */
static u64 least_work(struct space *s, u32 task, u32 least)
{
	const struct gpurt_partition_set *set = s->set;
	u128 work = (u128)-1;

	for (u32 at = allowed_from(set, least); at < set->size_count; at++) {
		u128 here = (u128)set->sizes[at] * partition_time(s, task, set->sizes[at], false);

		work = here < work ? here : work;
	}
	return (work << SHIFT) / set->tasks[task].period;
}

/* Lemmas 2 and 1; returns whether neither excludes the taskset. */
static bool feasible(struct space *s, struct gpurt_partition_result *result)
{
	const struct gpurt_partition_set *set = s->set;
	u64 work = 0, units = 0;

	for (u32 i = 0; i < set->count; i++) {
		const struct gpurt_partition_task *t = &set->tasks[i];

		s->single[i] = partition_least(s, &i, 1, t->memory, t->smallest, 1, set->units);
		if (!s->single[i]) {
			result->status = GPURT_PARTITION_LEMMA2;
			result->task = i;
			return false;
		}
		units += s->single[i];
	}
	if (units <= set->units)	/* no work is more than the size that it is done on */
		return true;
	for (u32 i = 0; i < set->count; i++)
		work += least_work(s, i, s->single[i]);
	if (work > (u64)set->units << SHIFT)
		result->status = GPURT_PARTITION_LEMMA1;
	return work <= (u64)set->units << SHIFT;
}

/* Whether every time and every product of it with units fits 62 bits. */
static bool representable(const struct gpurt_partition_set *set)
{
	if (set->count > MAX_TASKS || set->units > 4096)
		return false;
	for (u32 i = 0; i < set->count; i++) {
		const struct gpurt_partition_task *t = &set->tasks[i];

		if (t->period > MAX_TIME || t->deadline > MAX_TIME)
			return false;
		if (t->table)
			continue;
		for (int c = 0; c < 2; c++) {
			u128 raw = (u128)t->parallel + (u128)set->units * t->serial;

			if (raw * t->numerator[c] >> 61 || ((u128)t->denominator[c] * set->units) >> 61 || t->fixed >> 60)
				return false;
		}
	}
	return true;
}

static void run_one(struct space *s, const struct gpurt_partition_variant *how, bool possible,
		    struct gpurt_partition_result *result, u32 *part, u32 *size)
{
	if (!possible)
		return;
	if (how->rule == GPURT_PARTITION_EXACT)
		partition_exact(s, result, part, size);
	else
		partition_heuristic(s, how, result, part, size);
	if (s->refused)
		result->status = GPURT_PARTITION_REFUSED;
}

void gpurt_partition_run(const struct gpurt_partition_set *set, const struct gpurt_partition_variant *variants,
			 u32 count, struct gpurt_partition_result *results, u32 *part, u32 *size)
{
	u64 n = set->count ? set->count : 1;
	struct gpurt_partition_result lemma = { 0 };
	struct space s = { .set = set };
	bool possible = false;

	s.jobs = malloc(n * sizeof(*s.jobs));
	s.scratch = malloc(n * sizeof(*s.scratch));
	s.single = malloc(n * sizeof(*s.single));
	s.cached = MAX_CACHED / (2 * n) < set->units ? MAX_CACHED / (2 * n) : set->units;
	s.times = calloc(2 * n * s.cached + 1, sizeof(*s.times));
	s.shares = calloc(2 * n * s.cached + 1, sizeof(*s.shares));
	if (!s.times || !s.shares || !s.jobs || !s.scratch || !s.single)
		lemma.status = GPURT_PARTITION_ENOMEM;
	else if (!representable(set))
		lemma.status = GPURT_PARTITION_REFUSED;
	else
		possible = feasible(&s, &lemma);
	if (s.refused)
		lemma.status = GPURT_PARTITION_REFUSED;
	for (u32 v = 0; v < count; v++) {
		results[v] = lemma;
		s.refused = false;
		run_one(&s, &variants[v], possible && lemma.status != GPURT_PARTITION_REFUSED, &results[v],
			part ? part + (u64)v * set->count : NULL, part ? size + (u64)v * set->count : NULL);
	}
	free(s.jobs);
	free(s.scratch);
	free(s.single);
	free(s.times);
	free(s.shares);
}

void gpurt_partition_sweep(const struct gpurt_partition_set *first, u32 sets,
			   const struct gpurt_partition_variant *variants, u32 count,
			   struct gpurt_partition_result *results)
{
	struct gpurt_partition_set set = *first;

	for (u32 i = 0; i < sets; i++, set.tasks += set.count)
		gpurt_partition_run(&set, variants, count, results + (u64)i * count, NULL, NULL);
}
