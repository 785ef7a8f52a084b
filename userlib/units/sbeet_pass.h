/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Algorithm 1 of sBEET: one pass over the ready queue.  The simulator and the run time (units.h) both use it.
 */
#ifndef GPURT_CORE_SBEET_PASS_H
#define GPURT_CORE_SBEET_PASS_H

#include "sbeet.h"

/* What a pass needs besides tables and state. */
struct gpurt_sbeet_pass {
	u32 order;		/* enum gpurt_sbeet_order */
	const u64 *finish;	/* by task: when its dispatched job finishes; U64_MAX: no such job */
	u32 *room;		/* one number for each task */
	void *host;
	/* Dispatches the task's oldest pending job: when this returns, the job holds units and is no longer ready. */
	void (*start)(void *host, u32 task, struct gpurt_sbeet_decision decision);
};

void gpurt_sbeet_pass(const struct gpurt_sbeet_tables *t, struct gpurt_sbeet_state *s,
		      const struct gpurt_sbeet_pass *p, u64 now);

#endif
