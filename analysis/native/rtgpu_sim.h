/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulator of the systems that analysis/rtgpu bounds.  Tasks get CPUs by fixed priority, and one bus by priority; no
 * copy loses the bus.  Each task has units of its own.  The core decides which task copies (kmod/core/bus.c).
 * This file does not depend on the bounds.
 */
#ifndef GPURT_RTGPU_SIM_H
#define GPURT_RTGPU_SIM_H

#include "../../kmod/core/env.h"

#define GPURT_RTGPU_ENOMEM 1		/* returned negated */

/* The resource that a step executes on. */
enum gpurt_rtgpu_need {
	GPURT_RTGPU_CPU,
	GPURT_RTGPU_BUS,
	GPURT_RTGPU_UNITS,
};

enum gpurt_rtgpu_execution {
	GPURT_RTGPU_WORST,
	GPURT_RTGPU_BEST,
	GPURT_RTGPU_EXTREME,		/* each step takes the best or the worst case, at random */
	GPURT_RTGPU_RANDOM,
};

/* Marks, which take the place of the resource of a stretch: */
enum gpurt_rtgpu_mark {
	GPURT_RTGPU_RELEASE = 3,	/* a job is released */
	GPURT_RTGPU_COMPLETE,		/* a job, from its release to its end */
};

/* An event: a stretch of a step, or a mark.  A copy came to the bus at @asked. */
struct gpurt_rtgpu_span {
	int64_t begin, end, asked;
	u32 task, need;
	u64 job;
};

/* A task's observed jobs.  Times are ns. */
struct gpurt_rtgpu_seen {
	u64 jobs, finished, misses;	/* a job that never begins, since too many are pending, is a miss */
	int64_t worst, worst_release, total;
};

/* The tasks of one system, most urgent first and best effort last, and how to simulate them.  Times are ns. */
struct gpurt_rtgpu_sim {
	u32 tasks;
	const u32 *cpu;
	const int64_t *period, *deadline;
	const u32 *steps;		/* [tasks + 1]; steps of task i: steps[i] to steps[i + 1] - 1 */
	const u32 *need;		/* enum gpurt_rtgpu_need, of each step */
	const int64_t *best, *worst;	/* of each step; of a kernel on its task's units */
	int64_t chunk;			/* the longest part of a copy that nothing interrupts; 0: whole copies */
	u32 spins;			/* tasks keep their CPUs while they copy and while kernels execute */
	u32 stream;			/* with `spins`: a chain of copies and kernels goes on without its CPU */
	u32 merges;			/* copies and kernels between CPU segments are one request to the bus */
	u32 execution;			/* enum gpurt_rtgpu_execution */
	u32 sporadic;			/* releases come up to a tenth of the period late, at random */
	u32 early;			/* at one instant the bus is given back first, and the least urgent request first */
	u64 seed;			/* of lengths and releases */
	int64_t horizon;		/* jobs are released before it */
	const int64_t *offset;		/* first releases */
	struct gpurt_rtgpu_seen *seen;	/* of each task; the simulation adds to them; or NULL */
	u32 marks;			/* the stretches include marks */
};

/*
 * Writes the longest response of each task to @longest, and up to @room stretches to @spans.  Returns the number of
 * stretches, including those without room, or a negated error.  Several threads may call it at the same time.
 */
int64_t gpurt_rtgpu_simulate(const struct gpurt_rtgpu_sim *sim, int64_t *longest, struct gpurt_rtgpu_span *spans,
			     u32 room);

#endif
