/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled response-time tests.  They compute the same integers as the readable ones in analysis/rta, which explain
 * each term and the priorities that they refuse.  Several threads may call every function at the same time.
 */
#ifndef GPURT_RTA_H
#define GPURT_RTA_H

#include "columns.h"

/* The pending job that a thread of several tasks serves next (analysis/model/callbacks.py). */
enum gpurt_rta_order {
	GPURT_RTA_FIFO,
	GPURT_RTA_PRIORITY,
	GPURT_RTA_ROS2,
	GPURT_RTA_LIVE_TIMERS,
	GPURT_RTA_TIMER = 4,		/* a flag */
};

/* The return values of functions; errors are negative. */
enum gpurt_rta_answer {
	GPURT_RTA_YES,
	GPURT_RTA_REFUSED,		/* sums could exceed 63 bits, or no formula knows such threads: use the readable one */
	GPURT_RTA_NO,
	GPURT_RTA_EINVAL = -1,
	GPURT_RTA_ENOMEM = -2,
};

/* The result for a task. */
enum gpurt_rta_state {
	GPURT_RTA_BEST_EFFORT,
	GPURT_RTA_BOUND,
	GPURT_RTA_MISSED,
	GPURT_RTA_DEPENDS,		/* on a task without a bound */
};

/* The name of the formula at index @place of the table (rta_formulas.c); NULL beyond the last. */
const char *gpurt_rta_formula(u32 place);

/* Whether all tasks have a bound by the formula at @place: an enum gpurt_rta_answer. */
int gpurt_rta_verdict(const struct gpurt_columns *columns, u32 place);

/*
 * Finds the bounds of all tasks.  Writes for each task, by its index, its @state (enum gpurt_rta_state), and to @wcrt
 * its least solution, even if the bound was withdrawn; -1: none.  Writes to @end the solution for a job up to the end
 * of its last GPU segment, where the formula uses it, else @wcrt.  If the state is GPURT_RTA_DEPENDS, writes to
 * @culprit the index of the task without a bound; of several, the one of lowest @rank.  Returns 0, GPURT_RTA_REFUSED,
 * or an error.
 */
int gpurt_rta_bounds(const struct gpurt_columns *columns, u32 place, const u32 *rank, u8 *state, int64_t *wcrt, int64_t *end,
		     u32 *culprit);

#endif
