/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A budget: an amount of ownership of the GPU in each period, for all clients under it together.
 *
 * Periods do not overlap.  After a period is over, the next one begins when a client under the budget owns the GPU or
 * asks for it.  So in any time x the clients own the GPU for at most the limit times ceil((x + period - limit) /
 * period).  The time by which the host notices overruns late comes on top.  One sporadic task of that execution time
 * and period, whose deadline is its period, would own it for as long.
 */
#ifndef GPURT_CORE_BUDGET_H
#define GPURT_CORE_BUDGET_H

#include "env.h"
#include "../uapi/gpurt.h"

struct gpurt_budget {
	u64 limit;		/* ns; 0: none */
	u64 period;		/* ns */
	u64 used;		/* ns in this period */
	u64 ends;		/* when this period ends */
	u32 action;		/* enum gpurt_overrun */
	u32 queued;		/* clients that are in a queue of the scheduler */
	bool overrun;		/* this period's overrun has been reported */
};

const char *gpurt_budget_refusal(u64 limit, u64 period, u32 action);
void gpurt_budget_start(struct gpurt_budget *b, u64 limit, u64 period, u32 action);
bool gpurt_budget_charge(struct gpurt_budget *b, u64 from, u64 to);
void gpurt_budget_pay(struct gpurt_budget *b, u64 until, u64 ns);
u64 gpurt_budget_end(const struct gpurt_budget *b, u64 now);
bool gpurt_budget_demotes(const struct gpurt_budget *b);
bool gpurt_budget_spent(const struct gpurt_budget *b);

#endif
