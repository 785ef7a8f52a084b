// SPDX-License-Identifier: GPL-2.0
/* The fewest units: dynamic programming over subsets.  analysis/partition/exact.py has it in readable form. */
#include <stdlib.h>

#include "partition_internal.h"

#define NONE UINT32_MAX
#define MERGE_UNITS 8				/* a cost is units << MERGE_UNITS | partitions */

/* The tasks of a subset, by decreasing priority; returns how many. */
static u32 members(const struct space *s, const u32 *ranked, u32 subset, u32 *tasks, u32 *memory, u32 *smallest)
{
	u32 count = 0;

	*memory = 0;
	*smallest = 1;
	for (u32 i = 0; i < s->set->count; i++) {
		const struct gpurt_partition_task *t = &s->set->tasks[ranked[i]];

		if (!(subset >> ranked[i] & 1))
			continue;
		tasks[count++] = ranked[i];
		*memory += t->memory;
		*smallest = t->smallest > *smallest ? t->smallest : *smallest;
	}
	return count;
}

/* m*(G) of every set; no set is smaller than a set within it.  0: none. */
static void least_sizes(struct space *s, const u32 *ranked, u32 *least)
{
	for (u32 subset = 1; subset < (u32)1 << s->set->count; subset++) {
		u32 memory, smallest, low = 1, count = members(s, ranked, subset, s->scratch, &memory, &smallest);

		for (u32 i = 0; i < count && count > 1; i++) {
			u32 within = least[subset & ~(1u << s->scratch[i])];

			if (!within)
				low = UINT32_MAX;
			else if (within > low)
				low = within;
		}
		least[subset] = low > s->set->units ? 0 :
				partition_least(s, s->scratch, count, memory, smallest, low, s->set->units);
	}
}

/* The cheapest way to cover @subset with a group that has its lowest task, and the rest by @before. */
static u32 split(u32 subset, const u32 *least, const u32 *before, u32 *group)
{
	u32 lowest = subset & -subset, rest = subset ^ lowest, others = rest, cost = NONE;

	for (;; others = (others - 1) & rest) {
		u32 size = least[lowest | others], left = before[rest ^ others];

		if (size && left != NONE && left + (size << MERGE_UNITS) + 1 < cost) {
			cost = left + (size << MERGE_UNITS) + 1;
			*group = lowest | others;
		}
		if (!others)
			return cost;
	}
}

/*
 * Fills rows of costs and groups by the number of partitions, if that is limited; else one row that refers to itself.
 * Returns the row of the cheapest cover of all tasks, or 0 if there is none.
 */
static u32 cover(u32 count, u32 rows, const u32 *least, u32 *cost, u32 *group)
{
	u32 width = (u32)1 << count, chosen = 0;

	for (u32 k = 0; k <= rows; k++)
		for (u32 subset = 0; subset < width; subset++)
			cost[(u64)k * width + subset] = subset ? NONE : 0;
	if (!rows) {
		for (u32 subset = 1; subset < width; subset++)
			cost[subset] = split(subset, least, cost, &group[subset]);
		return 0;
	}
	for (u32 k = 1; k <= rows; k++) {
		u32 *row = cost + (u64)k * width;

		for (u32 subset = 1; subset < width; subset++)
			row[subset] = split(subset, least, row - width, &group[(u64)k * width + subset]);
		if (row[width - 1] < cost[(u64)chosen * width + width - 1])
			chosen = k;
	}
	return chosen;
}

static int by_rank(const struct space *s, u32 a, u32 b)
{
	u32 one = s->set->tasks[a].priority, other = s->set->tasks[b].priority;

	return one != other ? (one > other ? -1 : 1) : (a < b ? -1 : 1);
}

void partition_exact(struct space *s, struct gpurt_partition_result *result, u32 *part, u32 *size)
{
	u32 count = s->set->count, rows = s->set->most && s->set->most < count ? s->set->most : 0;
	u32 width = (u32)1 << (count & 31), row, found = 0, ranked[GPURT_PARTITION_MOST_EXACT], *least, *cost, *group;
	struct part parts[GPURT_PARTITION_MOST_EXACT], *listed[GPURT_PARTITION_MOST_EXACT];

	if (count > GPURT_PARTITION_MOST_EXACT) {
		result->status = GPURT_PARTITION_REFUSED;
		return;
	}
	for (u32 i = 0; i < count; i++) {
		u32 at = i;

		for (; at && by_rank(s, i, ranked[at - 1]) < 0; at--)
			ranked[at] = ranked[at - 1];
		ranked[at] = i;
	}
	least = calloc(width, sizeof(*least));
	cost = malloc((u64)(rows + 1) * width * sizeof(*cost));
	group = malloc((u64)(rows + 1) * width * sizeof(*group));
	if (!least || !cost || !group) {
		result->status = GPURT_PARTITION_ENOMEM;
		goto out;
	}
	least_sizes(s, ranked, least);
	row = cover(count, rows, least, cost, group);
	if (cost[(u64)row * width + width - 1] == NONE) {
		result->status = GPURT_PARTITION_NONE;
		goto out;
	}
	/* Each group has the lowest task of what is left, so that the partitions are in the order of their first tasks. */
	for (u32 left = width - 1; left; row = row ? row - 1 : 0) {
		u32 subset = group[(u64)row * width + left], smallest;
		struct part *p = &parts[found];

		p->tasks = s->scratch + (count - __builtin_popcount(left));
		p->count = members(s, ranked, subset, p->tasks, &p->memory, &smallest);
		p->size = least[subset];
		listed[found++] = p;
		left &= ~subset;
	}
	partition_conclude(s, listed, found, result, part, size);
out:
	free(least);
	free(cost);
	free(group);
}
