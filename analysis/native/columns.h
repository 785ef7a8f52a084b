/* SPDX-License-Identifier: GPL-2.0 */
/* A taskset as flat arrays, which the compiled tests read.  Times are ns. */
#ifndef GPURT_COLUMNS_H
#define GPURT_COLUMNS_H

#include "../../kmod/core/env.h"

/* For each task: sums and maxima over the segments of a job, and the segments. */
struct gpurt_columns {
	u32 count;			/* tasks */
	u32 *cpu;
	u32 *priority;			/* 0: best effort */
	u32 *gpu_priority;
	u32 *eta;			/* GPU segments a job; 0: does not use the GPU */
	u32 *busy;			/* the task waits busily, if each task has its own mode */
	u32 *ends;			/* a job may end with a GPU segment */
	u32 *gaps;			/* before, between and after GPU segments; none after the last if a job ends with it */
	u32 *thread;			/* number of a real-time task's thread, if it serves several tasks; else 0 */
	u32 *rank, *order;		/* place in the thread's order; enum gpurt_rta_order, + GPURT_RTA_TIMER for a timer */
	int64_t *period, *deadline;
	int64_t *cpu_time;		/* C */
	int64_t *misc, *pure;		/* G^m, G^e */
	int64_t *longest;		/* the largest G^m + G^e of a segment */
	int64_t *longest_misc;		/* the largest G^m of a segment */
	int64_t *last, *last_misc;	/* G and G^m of the GPU segment that ends a job; 0 if a CPU segment ends it */
	int64_t alpha, theta;
	int64_t longest_switch;		/* theta, or epsilon where theta is unknown */
	/*
 * Task i executes cpu, misc and pure of piece[i], then of the next piece, and so on, up to the piece before
 * piece[i + 1].  A task's last piece has only a CPU part.
	 */
	u32 *piece;			/* [tasks + 1] */
	int64_t *piece_cpu, *piece_misc, *piece_pure;
};

#endif
