/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Algorithm 1 of sBEET: one pass over the ready queue.  The simulator and the run time (units.h) both make it.
 */
#ifndef GPURT_CORE_SBEET_PASS_H
#define GPURT_CORE_SBEET_PASS_H

#include "sbeet.h"

/* A pass's needs besides tables and state. */
struct gpurt_sbeet_pass {
	u32 order;		/* enum gpurt_sbeet_order */
	const u64 *finish;	/* by task: U64_MAX unless a job of it has been dispatched and has not finished */
	u32 *room;		/* for a number of each task */
	void *host;
	/* Dispatches the task's oldest pending job, which holds units and is not ready any more before this returns. */
	void (*start)(void *host, u32 task, struct gpurt_sbeet_decision decision);
};

void gpurt_sbeet_pass(const struct gpurt_sbeet_tables *t, struct gpurt_sbeet_state *s,
		      const struct gpurt_sbeet_pass *p, u64 now);

#endif
