// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "pace.h"

void gpurt_pace_init(struct gpurt_pace *p, u64 work)
{
	*p = (struct gpurt_pace){ .left = work, .slow = GPURT_PACE };
}

/* The pace of work that two factors slow down, each from GPURT_FACTOR_ONE to GPURT_FACTOR_MAX. */
u64 gpurt_pace_of(u32 one, u32 other)
{
	return (u64)one * other;
}

/* p->done converted to another pace, rounded down. */
static u64 done_at(const struct gpurt_pace *p, u64 slow)
{
	return slow == p->slow ? p->done : p->done * slow / p->slow;
}

/* How long the work takes if it goes on at that pace: the least ns with ns * 10^6 + done >= left * slow. */
u64 gpurt_pace_time(const struct gpurt_pace *p, u64 slow)
{
	u64 whole, rest, done;

	if (slow == GPURT_PACE && slow == p->slow && p->left < GPURT_PACE_NEVER)
		return p->left;	/* as computed below, because less than a ns of what is left is done */
	whole = p->left / GPURT_PACE;
	rest = p->left % GPURT_PACE * slow;
	done = done_at(p, slow);
	/* All is done: the surplus, below 1 ns at the previous pace, may be many ns at this pace. */
	if (!p->left)
		return 0;
	if (whole >= GPURT_PACE_NEVER / slow)
		return GPURT_PACE_NEVER;
	if (rest < done)	/* rest is 0: otherwise it is at least @slow */
		return whole * slow - done / GPURT_PACE;
	return whole * slow + (rest - done + GPURT_PACE - 1) / GPURT_PACE;
}

/* Lets @ns pass at the pace @slow.  The work must last at least that long. */
void gpurt_pace_pass(struct gpurt_pace *p, u64 slow, u64 ns)
{
	u64 part;

	if (slow == GPURT_PACE && slow == p->slow) {
		p->left -= ns;
		return;
	}
	part = ns % slow * GPURT_PACE + done_at(p, slow);
	p->left -= ns / slow * GPURT_PACE + part / slow;
	p->done = part % slow;
	p->slow = slow;
}
