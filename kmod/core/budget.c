// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "budget.h"

static u64 sum(u64 a, u64 b)
{
	return a + b < a ? U64_MAX : a + b;
}

/* Why an administrator may not set such a budget; NULL: it is allowed.  A @limit of 0, no budget, needs no period. */
const char *gpurt_budget_refusal(u64 limit, u64 period, u32 action)
{
	if (action >= GPURT_OVERRUN_COUNT)
		return "no such action on overrun";
	if (!limit)
		return NULL;
	if (period < GPURT_MIN_BUDGET_PERIOD_NS || period > GPURT_MAX_BUDGET_PERIOD_NS)
		return "a budget needs a period of at least 1 ms and at most 10^18 ns";
	return limit > period ? "a budget must not be longer than its period" : NULL;
}

/* Sets the budget's parameters and starts it unused. */
void gpurt_budget_start(struct gpurt_budget *b, u64 limit, u64 period, u32 action)
{
	b->limit = limit;
	b->period = period;
	b->action = action;
	b->used = 0;
	b->ends = 0;
	b->overrun = false;
}

/*
 * Charges ownership from @from to @to; charges nothing twice, and time does not run backwards.  Returns true if that
 * uses up the budget, at most once a period.
 */
bool gpurt_budget_charge(struct gpurt_budget *b, u64 from, u64 to)
{
	bool over = false;
	u64 until;

	if (!b->limit)
		return false;
	do {
		if (from >= b->ends) {
			b->used = 0;
			b->overrun = false;
			b->ends = sum(from, b->period);
		}
		until = to < b->ends ? to : b->ends;
		b->used = sum(b->used, until - from);
		if (!b->overrun && b->used >= b->limit) {
			b->overrun = true;
			over = true;
		}
		from = until;
	} while (from < to);
	return over;
}

/*
 * Charges @ns that are not ownership.  The present period lasts at least until @until.  The next charge of ownership,
 * or the next begin, notices an overrun.
 */
void gpurt_budget_pay(struct gpurt_budget *b, u64 until, u64 ns)
{
	if (!b->limit)
		return;
	if (b->ends < until)
		b->ends = until;
	b->used = sum(b->used, ns);
}

/* When the next overrun comes if a client under the budget owns the GPU from @now on; U64_MAX: never. */
u64 gpurt_budget_end(const struct gpurt_budget *b, u64 now)
{
	bool renewed = now >= b->ends;
	u64 ends = renewed ? sum(now, b->period) : b->ends;
	u64 used = renewed ? 0 : b->used;

	if (!b->limit)
		return U64_MAX;
	if (renewed || !b->overrun) {
		u64 left = used < b->limit ? b->limit - used : 0;

		if (left <= ends - now)
			return now + left;
	}
	return sum(ends, b->limit);
}

/* Whether clients under the budget become best effort when it is used up. */
bool gpurt_budget_demotes(const struct gpurt_budget *b)
{
	return b->limit && b->action == GPURT_OVERRUN_DEMOTE;
}

/* Whether clients under the budget are best effort in the present period. */
bool gpurt_budget_spent(const struct gpurt_budget *b)
{
	return b->overrun && b->action == GPURT_OVERRUN_DEMOTE;
}
