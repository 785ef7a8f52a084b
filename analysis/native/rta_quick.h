/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Test boosted-suspend on plain tasksets, verdicts only: what rta_boosted.c and rta_windows.c find, in less time.  A taskset
 * is plain if all tasks are real-time and have distinct priorities, the same for CPU and GPU, and no thread serves several.
 */
#ifndef GPURT_RTA_QUICK_H
#define GPURT_RTA_QUICK_H

#include "rta_internal.h"

#define QUICK_LEVELS 256	/* priorities are below */
#define QUICK_NONE UINT32_MAX

/* A task's demand in a window x: ceil((x + jitter) / T) amount, at most @cap. */
struct quick_row {
	int64_t amount, jitter, cap, period;
	double inverse;
};

/* The same at most inside + ceil((x + later) / T) apart. */
struct quick_pair {
	int64_t amount, jitter, inside, apart, later, period;
	double inverse;
};

/* A task that uses the GPU, as an owner. */
struct quick_owner {
	struct rta_task *task;
	u32 cpu;
	struct rta_sums above;	/* of the tasks above on its CPU, outside of their segments */
	int64_t amount, period, jitter;
	double inverse;
	double rate, carried;	/* sums of e / T and of J e / T, up to and with this owner */
	int64_t taken;		/* in the window that is looked at */
	int64_t inside;		/* in all windows of a job */
	int64_t length;		/* of all windows of its own jobs */
};

/* Tasks are in s->tasks, most urgent first; `user` is a task's place in `owners`. */
struct rta_quick {
	u32 *above, *below;	/* of each task: the next more urgent task of its CPU, and the next less urgent that uses the GPU */
	u32 *others;		/* tasks that do not use the GPU */
	struct quick_owner *owners;	/* and one before the first, whose sums are 0 */
	struct quick_row *rows;
	struct quick_pair *pairs;
	u32 count, lower, pair_count;	/* rows, those of lower tasks, which come first, and pairs */
	int64_t constant;		/* the part of the recurrence that is no row */
};

/* Responses and ends of other tasks: those that were found, or lower bounds, from which a no is certain. */
enum quick_known { QUICK_FOUND, QUICK_LEAST };

/* Writes what @t takes as an owner.  Its end is known. */
static inline void quick_own(const struct rta *s, const struct rta_task *t)
{
	struct quick_owner *o = s->quick->owners + t->user;

	o->amount = t->gpu_busy;
	o->period = t->period;
	o->inverse = t->inverse;
	o->jitter = rta_max(t->end + s->theta - t->gpu_busy, 0);
	o->rate = o[-1].rate + t->gpu_rate;
	o->carried = o[-1].carried + t->gpu_rate * (double)o->jitter;
}

/* The least solution of a task's recurrence within its deadline and period, or -1. */
int64_t quick_solve(const struct rta *s, const struct rta_task *t, enum quick_known known);
/* The same of a job up to the end of its last GPU segment.  quick_solve() has just found @response. */
int64_t quick_solve_end(const struct rta *s, const struct rta_task *t, int64_t response);
/* Whether a task that does not use the GPU has a solution for certain. */
bool quick_easy(const struct rta *s, const struct rta_task *t);
/* Forgets the responses of tasks above whose sleep may count as such, not as jitter (short.py); false: there are none. */
bool quick_shorten(const struct rta *s, const struct rta_task *t);

#endif
