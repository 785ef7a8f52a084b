/* SPDX-License-Identifier: GPL-2.0 */
/* A taskset as flat arrays, which the compiled tests read.  Times are ns. */
#ifndef GPURT_COLUMNS_H
#define GPURT_COLUMNS_H

#include "../../kmod/core/env.h"

/* For each task sums and maxima over the segments of a job, and the segments. */
struct gpurt_columns {
	u32 count;			/* tasks */
	u32 *cpu;
	u32 *priority;			/* 0: best effort */
	u32 *gpu_priority;
	u32 *eta;			/* GPU segments a job; 0: does not use the GPU */
	u32 *busy;			/* it waits busily, where each task has its own mode */
	u32 *ends;			/* a job may end with a GPU segment */
	u32 *gaps;			/* before, between and after GPU segments; the one after is none if a job ends with one */
	u32 *thread;			/* of real-time tasks, the number of a thread that serves several; 0: it serves the task alone */
	u32 *rank, *order;		/* its place in that order, and the order: enum gpurt_rta_order, + GPURT_RTA_TIMER if it is one */
	int64_t *period, *deadline;
	int64_t *cpu_time;		/* C */
	int64_t *misc, *pure;		/* G^m, G^e */
	int64_t *longest;		/* max of G^m + G^e over segments, */
	int64_t *longest_misc;		/* of G^m */
	int64_t *last, *last_misc;	/* G and G^m of the GPU segment that a job ends with; 0 if with a CPU segment */
	int64_t alpha, theta;
	int64_t longest_switch;		/* theta, or epsilon where theta is unknown */
	/*
	 * Task i executes cpu, misc and pure of piece[i], then those of the next piece, up to the piece before
	 * piece[i + 1].  A task's last piece has a CPU part only.
	 */
	u32 *piece;			/* [tasks + 1] */
	int64_t *piece_cpu, *piece_misc, *piece_pure;
};

#endif
