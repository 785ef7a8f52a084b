/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled response-time tests: the same integers as the readable ones in analysis/rta, which say what each
 * term means.  Every function may be called from several threads at once.
 */
#ifndef GPURT_RTA_H
#define GPURT_RTA_H

#include "batch.h"

enum gpurt_rta_test {
	GPURT_RTA_FIXED_PRIORITY,	/* C + G on the CPU, no GPU: the classic recurrence */
	GPURT_RTA_GCAPS_SUSPEND,
	GPURT_RTA_GCAPS_BUSY,
	GPURT_RTA_GCAPS_SUSPEND_PRINTED,
	GPURT_RTA_GCAPS_BUSY_PRINTED,
	GPURT_RTA_TSG_RR_SUSPEND,
	GPURT_RTA_TSG_RR_BUSY,
	GPURT_RTA_TSG_RR_SUSPEND_PRINTED,
	GPURT_RTA_TSG_RR_BUSY_PRINTED,
	GPURT_RTA_MPCP_SUSPEND,
	GPURT_RTA_MPCP_BUSY,
	GPURT_RTA_MPCP_SUSPEND_PUBLISHED,
	GPURT_RTA_MPCP_BUSY_PUBLISHED,
	GPURT_RTA_FMLP_SUSPEND,
	GPURT_RTA_FMLP_BUSY,
	GPURT_RTA_FMLP_SUSPEND_PUBLISHED,
	GPURT_RTA_FMLP_BUSY_PUBLISHED,
	GPURT_RTA_KTHREAD_BUSY,		/* the thread looks every ms */
	GPURT_RTA_KTHREAD_NOTIFY_BUSY,
	GPURT_RTA_KTHREAD_BUSY_PRINTED,
	GPURT_RTA_IOCTL_SUSPEND_PRINTED,
	GPURT_RTA_IOCTL_BUSY_PRINTED,
	GPURT_RTA_TESTS,
};

enum gpurt_rta_verdict {
	GPURT_RTA_NO,
	GPURT_RTA_YES,
	GPURT_RTA_REFUSED,		/* sums could exceed 63 bits: ask the readable implementation */
	GPURT_RTA_TOO_MANY,		/* more GPU-using tasks than GPU priorities */
};

/* How to find verdicts. */
enum gpurt_rta_flags {
	GPURT_RTA_ASSIGN = 1,		/* where a taskset is not schedulable, assign GPU priorities and try again */
	GPURT_RTA_INTEGERS = 2,		/* take no shortcut, not even a rounded one: to compare with */
};

/* What became of a task. */
enum gpurt_rta_state {
	GPURT_RTA_BEST_EFFORT,
	GPURT_RTA_BOUND,
	GPURT_RTA_MISSED,
	GPURT_RTA_DEPENDS,		/* on a task without a bound */
};

/* What the functions return, negated. */
enum gpurt_rta_error {
	GPURT_RTA_EINVAL = 1,
	GPURT_RTA_ENOMEM,
};

/*
 * Whether tasksets @from to @to - 1 are schedulable: one enum gpurt_rta_verdict each in @verdicts, by its index.
 * @flags: enum gpurt_rta_flags; assignment is by Audsley's method.
 */
int gpurt_rta_verdicts(const struct gpurt_batch *batch, u32 test, u32 flags, u32 from, u32 to, u8 *verdicts);

/*
 * The bounds of all tasks of taskset @index.  @assume: D stands in every jitter.  @rank: order in which culprits
 * are named.  A task: @state; @wcrt, its least solution, also where the bound was withdrawn; @culprit, for
 * GPURT_RTA_DEPENDS.  Indices count from the first of the taskset.  Returns 0, 1 for GPURT_RTA_REFUSED, or an error.
 */
int gpurt_rta_bounds(const struct gpurt_batch *batch, u32 test, u32 assume, u32 index, const u32 *rank,
		     u8 *state, int64_t *wcrt, u32 *culprit);

#endif
