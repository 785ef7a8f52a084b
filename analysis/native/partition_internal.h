/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_PARTITION_INTERNAL_H
#define GPURT_PARTITION_INTERNAL_H

#include <stdbool.h>

#include "partition.h"

#define SHIFT 30
#define MAX_STEPS 1000000
#define MAX_TIME ((int64_t)1 << 44)	/* periods and deadlines; sums of 2^16 of them stay below 2^63 */
#define MAX_TASKS 16384
#define MAX_CACHED (1u << 20)		/* entries of the cache of times */

/* A task of a partition as its test sees it. */
struct job {
	int64_t cost, deadline, period;
	u32 priority;
};

enum verdict { FAILS, PASSES, UNKNOWN };

enum verdict partition_test(u32 test, const struct job *jobs, u32 count);

/* A partition; its tasks are sorted by decreasing priority, then by index. */
struct part {
	u32 *tasks;
	u32 count, memory, first, size, smallest;
	u64 utilization;
	u32 position;			/* in the list, of this turn */
	u32 exhausted;			/* pairs with keys below are forbidden */
	bool alive;
};

/* Space that the variants of one taskset share. */
struct space {
	const struct gpurt_partition_set *set;
	struct job *jobs;		/* scratch, for all tasks */
	u32 *scratch;			/* the same, for indexes */
	u32 cached;			/* times on up to so many units are remembered: */
	int64_t *times;			/* by task, conflict and units; 0: unknown */
	u64 *shares;			/* the same, C_i / T_i */
	u32 *single;			/* sizes by lemma 2 */
	bool refused;			/* some test needs more than 63 bits */
};

int64_t partition_time(struct space *s, u32 task, u32 units, bool conflict);
u64 partition_utilization(struct space *s, const u32 *tasks, u32 count, u32 memory, u32 compute, u32 units);
/* The least allowed size from @low to @high; 0: none. */
u32 partition_least(struct space *s, const u32 *tasks, u32 count, u32 memory, u32 smallest, u32 low, u32 high);
/* Scheduled load of a set. */
u64 partition_load(struct space *s, const u32 *tasks, u32 count, u32 memory);

/* Each fills in the result and, if they are not NULL, the partitions. */
void partition_heuristic(struct space *s, const struct gpurt_partition_variant *how,
			 struct gpurt_partition_result *result, u32 *part, u32 *size);
void partition_exact(struct space *s, struct gpurt_partition_result *result, u32 *part, u32 *size);
void partition_conclude(struct space *s, struct part **parts, u32 count, struct gpurt_partition_result *result,
			u32 *part, u32 *size);

#endif
