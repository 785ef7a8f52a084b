/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled bounds and allocation of tasks that own units of the GPU.  They compute the same integers as the readable
 * ones in analysis/rtgpu, which say what each term means.  Several threads may call every function at once.
 */
#ifndef GPURT_RTGPU_H
#define GPURT_RTGPU_H

#include "../../kmod/core/env.h"

/* The resource that a step executes on. */
enum gpurt_rtgpu_need {
	GPURT_RTGPU_CPU,
	GPURT_RTGPU_BUS,
	GPURT_RTGPU_UNITS,
};

/* Tasksets as flat arrays.  The tasks of a set stand most urgent first; no two have the same priority.  Times are ns. */
struct gpurt_rtgpu_batch {
	u32 count;			/* tasksets */
	u32 columns;			/* of the tables: the most units that a task can have */
	u32 *first;			/* [count + 1]; tasks of taskset i: first[i] to first[i + 1] - 1 */
	u32 *cpu;
	u32 *user;			/* whether it has kernels */
	u32 *best_effort;		/* these stand last */
	int64_t *period, *deadline;
	u32 *steps;			/* [tasks + 1]; steps of task i: steps[i] to steps[i + 1] - 1 */
	u32 *need;			/* enum gpurt_rtgpu_need, of each step */
	int64_t *best, *worst;		/* of a step that needs a CPU or the bus */
	u32 *row;			/* of a step that needs units: its row in the tables */
	int64_t *table_best, *table_worst;	/* [rows][columns]: by units, from one on */
	int64_t chunk;			/* the longest copy that is not interrupted; 0: copies never are */
};

struct gpurt_rtgpu_method {
	u32 forms;			/* 2: R1, R2; 4: R1 to R4; 0: tasks wait busily */
	u32 tight;			/* bounds of higher tasks replace their deadlines */
	u32 merges;			/* copies and kernels between CPU segments are one request */
	u32 refined;			/* tasks that never suspend carry nothing in; a copy waits before it begins only */
	u32 published;			/* forms 0: as RTGPU probably has evaluated STGM */
	u32 search;			/* depth first, because least allocation is not exact */
};

/* How units may be given: @total of them, each task a multiple of @step and at least @least. */
struct gpurt_rtgpu_units {
	u32 total, step, least;
};

enum gpurt_rtgpu_answer {
	GPURT_RTGPU_NO,
	GPURT_RTGPU_YES,
	GPURT_RTGPU_MANY,		/* the search tried GPURT_RTGPU_MOST allocations */
};

#define GPURT_RTGPU_MOST 10000000	/* tasks on an allocation, in one search */
#define GPURT_RTGPU_ENOMEM 1		/* returned negated */

/*
 * Finds the first allocation under which every task of taskset @set has a bound.  Writes it to @given and the bounds to
 * @wcrt, for each real-time task.  Returns enum gpurt_rtgpu_answer or a negated error.
 */
int gpurt_rtgpu_find(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		     const struct gpurt_rtgpu_units *units, u32 *given, int64_t *wcrt);

/*
 * Bounds of the tasks of a set on the allocation @given.  Returns the number of real-time tasks, most urgent first, that
 * have a bound before the first one without; or a negated error.
 */
int gpurt_rtgpu_bounds(const struct gpurt_rtgpu_batch *b, const struct gpurt_rtgpu_method *method, u32 set,
		       const u32 *given, int64_t *wcrt);

#endif
