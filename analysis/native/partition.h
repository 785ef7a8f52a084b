/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contention-aware partitioning for sweeps: the same partitions as analysis/partition/, which explains the algorithms.
 *
 * Tasksets with times so long that sums could exceed 63 bits are refused, and the readable implementation decides.
 */
#ifndef GPURT_PARTITION_H
#define GPURT_PARTITION_H

#include "../../kmod/core/env.h"

enum gpurt_partition_test {
	GPURT_PARTITION_FP,
	GPURT_PARTITION_EDF,
	GPURT_PARTITION_NP_FP,
	GPURT_PARTITION_NP_EDF,
	GPURT_PARTITION_DENSITY,
};

enum gpurt_partition_rule {
	GPURT_PARTITION_ONE,		/* 1g */
	GPURT_PARTITION_SMS,
	GPURT_PARTITION_BF,
	GPURT_PARTITION_FIT,
	GPURT_PARTITION_SAV,
	GPURT_PARTITION_EXACT,
};

/* Tasks: 3^20 / 2 steps are seconds. */
enum { GPURT_PARTITION_MOST_EXACT = 20 };

enum gpurt_partition_status {
	GPURT_PARTITION_FITS,
	GPURT_PARTITION_STUCK,
	GPURT_PARTITION_NONE,		/* the variant finds nothing, 1g or exact */
	GPURT_PARTITION_LEMMA1,
	GPURT_PARTITION_LEMMA2,		/* the result's task fits nowhere */
	GPURT_PARTITION_REFUSED,
	GPURT_PARTITION_ENOMEM,
};

/* A task.  Times are ns; a time on m units is fixed + ceil(numerator (parallel + m serial) / (denominator m)). */
struct gpurt_partition_task {
	int64_t period, deadline;
	int64_t parallel, serial, fixed;
	u32 numerator[2], denominator[2];	/* without and with a conflict */
	u32 memory;
	u32 smallest;				/* units on which times are known */
	u32 priority;
	u32 table;				/* 0, or 1 + the row of its times in the set's tables */
};

struct gpurt_partition_set {
	const struct gpurt_partition_task *tasks;
	u32 count;
	u32 units;
	u32 test;			/* enum gpurt_partition_test */
	u32 most;			/* partitions; 0: any number */
	const u32 *sizes;		/* that a partition may have, ascending, none above units */
	u32 size_count;
	const int64_t *tables;		/* rows of 2 units times: on 1, 2, ... units, without and then with a conflict */
};

struct gpurt_partition_variant {
	u32 rule;			/* enum gpurt_partition_rule */
	u32 exhaustive;			/* ACT */
	u32 increasing;			/* order of the list */
};

struct gpurt_partition_result {
	u32 status;			/* enum gpurt_partition_status */
	u32 task;			/* that fits nowhere */
	u32 units, parts;
	u64 load;			/* scheduled load, in units of 2^-30 */
};

/*
 * Runs @count variants on one taskset.  For each variant, the partition of each task is written to @part, unless that
 * is NULL.  The sizes of its partitions go to @size (room for one a task), unless that is NULL.  Partitions are in the
 * order of their first task.
 */
void gpurt_partition_run(const struct gpurt_partition_set *set, const struct gpurt_partition_variant *variants,
			 u32 count, struct gpurt_partition_result *results, u32 *part, u32 *size);

/* The same for @sets tasksets of equal shape, whose tasks follow each other; results only. */
void gpurt_partition_sweep(const struct gpurt_partition_set *first, u32 sets,
			   const struct gpurt_partition_variant *variants, u32 count,
			   struct gpurt_partition_result *results);

#endif
