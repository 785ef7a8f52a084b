/* SPDX-License-Identifier: GPL-2.0 */
/* Random tasksets by the tables of the GCAPS paper and the thesis.  analysis/papers/experiments/generate.py says how they are drawn. */
#ifndef GPURT_GENERATE_H
#define GPURT_GENERATE_H

#include "batch.h"

struct gpurt_parameters {
	u32 cpus;
	u32 tasks;			/* in all, dealt to the CPUs in turn; 0: tasks_min to tasks_max on each */
	u32 tasks_min, tasks_max;
	u32 segments_min, segments_max;
	u32 reallocate;			/* to CPUs by worst fit decreasing */
	u32 overlap;			/* adds the three tasks of the thesis's figure 4.13 */
	double users_min, users_max;	/* share of tasks that use the GPU */
	double load_min, load_max;	/* utilization of a CPU */
	double ratio_min, ratio_max;	/* G / C */
	double misc_min, misc_max;	/* G^m / G */
	double best_effort;		/* share of tasks */
	int64_t period_min, period_max;
};

/* The largest number of tasks that a taskset can have. */
u32 gpurt_generate_room(const struct gpurt_parameters *p);

/* Draws what comes first for taskset @index: @counts tasks on each CPU, and its @loads. */
void gpurt_generate_shape(const struct gpurt_parameters *p, u64 seed, u64 index, u32 *counts, double *loads);

/*
 * Writes tasksets @from to @from + @count - 1 of a seed.  A taskset depends on the seed and its index alone.
 * The utilizations of all tasks of all these tasksets, CPU by CPU, are @given, or NULL for UUniFast.  Returns 0, or -1
 * if there is no memory.
 */
int gpurt_generate(const struct gpurt_parameters *p, u64 seed, u64 from, u32 count, const double *given,
		   struct gpurt_batch *batch, struct gpurt_pieces *pieces);

#endif
