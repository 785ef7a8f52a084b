/* SPDX-License-Identifier: GPL-2.0 */
/* The draft of one taskset before its segments are cut: utilizations, periods, CPUs, GPU users, best effort. */
#ifndef GPURT_DRAFT_H
#define GPURT_DRAFT_H

#include "generate.h"

#define DRAFT_EXTRA 3	/* tasks that `overlap` adds */

/* One task. */
struct draft {
	double utilization;
	int64_t period;
	u32 cpu, eta;
	bool user, best_effort;
	double ratio, misc;	/* G / C, G^m / G */
};

/* The taskset at hand, and room for the largest. */
struct maker {
	const struct gpurt_parameters *p;
	u64 random;		/* state of the random numbers */
	u32 count;
	struct draft *drafts;
	u32 *order;		/* indices of drafts, in the order that the step at hand needs */
	double *loads;		/* by CPU */
};

/* The state of the random numbers for taskset @index of a seed. */
u64 draft_seed(u64 seed, u64 index);
/*
 * Draws a taskset. The utilizations of its tasks, in the order of the CPUs, are @given, or NULL for UUniFast. The array
 * @counts is room for the number of tasks of each CPU.
 */
void draft_taskset(struct maker *m, const double *given, u32 *counts);
/* Worst fit decreasing: each task, the largest first, to the CPU with the least load so far. */
void draft_reallocate(struct maker *m);

#endif
