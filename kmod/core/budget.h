/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Execution budget of one segment (under policy `job`: of one job): how long the client may own the GPU
 * before it is reported and, by choice, demoted.  Time counts only while the client owns the GPU alone.
 */
#ifndef GPURT_CORE_BUDGET_H
#define GPURT_CORE_BUDGET_H

#include "env.h"

struct gpurt_budget {
	u64 limit;		/* ns; 0: none */
	u64 used;		/* ns */
	u32 action;		/* enum gpurt_overrun */
	bool overrun;		/* this segment's overrun has been reported */
};

void gpurt_budget_start(struct gpurt_budget *b);
bool gpurt_budget_charge(struct gpurt_budget *b, u64 ns);
u64 gpurt_budget_left(const struct gpurt_budget *b);

#endif
