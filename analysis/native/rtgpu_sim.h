/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulator of the systems that analysis/rtgpu bounds.  CPUs are given by fixed priority, and one bus by priority,
 * which is not taken from a copy.  Each task has units of its own.  The core decides who copies (kmod/core/bus.c).
 * This file knows nothing of the bounds.
 */
#ifndef GPURT_RTGPU_SIM_H
#define GPURT_RTGPU_SIM_H

#include "rtgpu.h"

enum gpurt_rtgpu_execution {
	GPURT_RTGPU_WORST,
	GPURT_RTGPU_BEST,
	GPURT_RTGPU_EXTREME,		/* each step at random the best or the worst case */
	GPURT_RTGPU_RANDOM,
};

/* Instead of what a stretch needs: */
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

/* A task's jobs as they were seen.  Times are ns. */
struct gpurt_rtgpu_seen {
	u64 jobs, finished, misses;	/* a job that never begins, since too many before it have not ended, is a miss */
	int64_t worst, worst_release, total;
};

struct gpurt_rtgpu_sim {
	u32 spins;			/* tasks keep their CPUs while they copy and while kernels execute */
	u32 stream;			/* and a chain of copies and kernels goes on without its CPU */
	u32 merges;			/* copies and kernels between CPU segments are one request to the bus */
	u32 execution;			/* enum gpurt_rtgpu_execution */
	u32 sporadic;			/* releases come up to a tenth of the period late, at random */
	u32 early;			/* at one instant the bus is given back first, and the least urgent ask first */
	u64 seed;			/* of lengths and releases */
	int64_t horizon;		/* jobs are released before it */
	const u32 *given;		/* units of each task */
	const int64_t *offset;		/* first releases */
	struct gpurt_rtgpu_seen *seen;	/* of each task, added to; or NULL */
	u32 marks;			/* stretches include marks */
};

/*
 * Simulates taskset @set.  Writes the longest response of each task to @longest, and up to @room stretches to @spans.
 * Returns the number of stretches, also of those without room, or a negated error.
 */
int64_t gpurt_rtgpu_simulate(const struct gpurt_rtgpu_batch *b, u32 set, const struct gpurt_rtgpu_sim *sim,
			     int64_t *longest, struct gpurt_rtgpu_span *spans, u32 room);

#endif
