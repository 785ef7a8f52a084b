/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled response-time tests.  They compute the same integers as the readable ones in analysis/rta, which say what
 * each term means.  Several threads may call every function at once.
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

/* Tasks that wait busily for the GPU. */
enum gpurt_rta_busy {
	GPURT_RTA_NONE,
	GPURT_RTA_ALL,
	GPURT_RTA_SOME,			/* each in its own mode */
};

/* Which pending job a thread that serves several tasks serves next (analysis/model/callbacks.py). */
enum gpurt_rta_order {
	GPURT_RTA_FIFO,
	GPURT_RTA_PRIORITY,
	GPURT_RTA_ROS2,
	GPURT_RTA_LIVE_TIMERS,
	GPURT_RTA_TIMER = 4,		/* a flag */
};

/* A test: the place of its formula in the table, and the facts that the registry states (analysis/rta/test.py). */
struct gpurt_rta_test {
	u32 formula;
	u32 busy;			/* enum gpurt_rta_busy */
	u32 ordered;			/* GPU priorities must not contradict CPU priorities */
	u32 any_order;			/* they may, but a task must be real-time on both or on neither */
	u32 equals;			/* enum gpurt_rta_equals */
	int64_t poll;			/* of policy `job`, ns */
};

enum gpurt_rta_verdict {
	GPURT_RTA_NO,
	GPURT_RTA_YES,
	GPURT_RTA_REFUSED,		/* sums could exceed 63 bits, or no formula knows such threads: ask the readable implementation */
	GPURT_RTA_TOO_MANY,		/* more GPU-using tasks than GPU priorities */
};

/* How to find verdicts. */
enum gpurt_rta_flags {
	GPURT_RTA_ASSIGN = 1,		/* if not schedulable, assign GPU priorities (Audsley) and try again */
};

/* The answer for a task. */
enum gpurt_rta_state {
	GPURT_RTA_BEST_EFFORT,
	GPURT_RTA_BOUND,
	GPURT_RTA_MISSED,
	GPURT_RTA_DEPENDS,		/* on a task without a bound */
};

/* Errors of the functions, which return them negated. */
enum gpurt_rta_error {
	GPURT_RTA_EINVAL = 1,
	GPURT_RTA_ENOMEM,
};

/* The name of the formula at place @formula of the table (rta_formulas.h); NULL beyond the last. */
const char *gpurt_rta_formula(u32 formula);

/*
 * Writes into @verdicts, by index, whether each of the tasksets @from to @to - 1 is schedulable: an
 * enum gpurt_rta_verdict.  @flags: enum gpurt_rta_flags.
 */
int gpurt_rta_verdicts(const struct gpurt_batch *batch, const struct gpurt_rta_test *test, u32 flags, u32 from, u32 to,
		       u8 *verdicts);

/*
 * Finds the bounds of all tasks of taskset @index.  With @assume every jitter uses the deadline instead of the response
 * time.  If a task depends on several tasks without a bound, the one of lowest @rank is its culprit.  Writes for each
 * task, by its index in the taskset, its @state (enum gpurt_rta_state), and its least solution to @wcrt.  The solution
 * is there also if the bound was withdrawn, or -1.  Writes to @end the same of a job up to the end of its last GPU
 * segment, where the test looks at that, else @wcrt.  Writes to @culprit the index of that task, if the state is
 * GPURT_RTA_DEPENDS.  Returns 0, 1 for GPURT_RTA_REFUSED, or an error.
 */
int gpurt_rta_bounds(const struct gpurt_batch *batch, const struct gpurt_rta_test *test, u32 assume, u32 index,
		     const u32 *rank, u8 *state, int64_t *wcrt, int64_t *end, u32 *culprit);

/*
 * Audsley's method on taskset @index.  Writes to @levels, for each task by its index in the taskset, its level: 1 for
 * the lowest; 0 if it uses no GPU or has none.  Writes to @given how many levels were given until no task could take
 * the next.  @given is -1 if a task fails on which no level has an influence.  Returns 0, 1 for GPURT_RTA_REFUSED or
 * more users than levels, or an error.
 */
int gpurt_rta_levels(const struct gpurt_batch *batch, const struct gpurt_rta_test *test, u32 index, u32 *levels, int *given);

#endif
