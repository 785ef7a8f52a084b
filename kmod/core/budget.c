// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "budget.h"

/* A new segment begins. */
void gpurt_budget_start(struct gpurt_budget *b)
{
	b->used = 0;
	b->overrun = false;
}

/* Charges @ns of ownership; true if that uses the budget up, once a segment. */
bool gpurt_budget_charge(struct gpurt_budget *b, u64 ns)
{
	b->used = b->used + ns < ns ? U64_MAX : b->used + ns;
	if (!b->limit || b->overrun || b->used < b->limit)
		return false;
	b->overrun = true;
	return true;
}

/* Time until an overrun would be noticed; U64_MAX if there is nothing left to notice. */
u64 gpurt_budget_left(const struct gpurt_budget *b)
{
	if (!b->limit || b->overrun)
		return U64_MAX;
	return b->used < b->limit ? b->limit - b->used : 0;
}
