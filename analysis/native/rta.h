/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled response-time tests: the same integers as the readable ones in analysis/rta, which say what each
 * term means.  Every function may be called from several threads at once.
 */
#ifndef GPURT_RTA_H
#define GPURT_RTA_H

#include "batch.h"

/* Whether GPU-using tasks of one CPU that have the same priority have a bound (analysis/rta/order.py). */
enum gpurt_rta_equals {
	GPURT_RTA_BOUNDED,		/* always */
	GPURT_RTA_CONTENDED,		/* only if no task of another CPU uses the GPU */
	GPURT_RTA_UNBOUNDED,		/* never */
};

/* A test: the place of its formula in the table, and the facts that the registry states (analysis/rta/test.py). */
struct gpurt_rta_test {
	u32 formula;
	u32 busy;			/* tasks wait busily for the GPU */
	u32 ordered;			/* GPU priorities must not contradict CPU priorities */
	u32 equals;			/* enum gpurt_rta_equals */
	int64_t poll;			/* of policy `job`, ns */
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

/* The name of the formula at place @formula of the table (rta_formulas.h); NULL beyond the last. */
const char *gpurt_rta_formula(u32 formula);

/*
 * Whether tasksets @from to @to - 1 are schedulable: one enum gpurt_rta_verdict each in @verdicts, by its index.
 * @flags: enum gpurt_rta_flags; assignment is by Audsley's method.
 */
int gpurt_rta_verdicts(const struct gpurt_batch *batch, const struct gpurt_rta_test *test, u32 flags, u32 from, u32 to,
		       u8 *verdicts);

/*
 * The bounds of all tasks of taskset @index.  @assume: D stands in every jitter.  @rank: order in which culprits
 * are named.  A task: @state; @wcrt, its least solution, also where the bound was withdrawn; @culprit, for
 * GPURT_RTA_DEPENDS.  Indices count from the first of the taskset.  Returns 0, 1 for GPURT_RTA_REFUSED, or an error.
 */
int gpurt_rta_bounds(const struct gpurt_batch *batch, const struct gpurt_rta_test *test, u32 assume, u32 index,
		     const u32 *rank, u8 *state, int64_t *wcrt, u32 *culprit);

#endif
