/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Work that is slowed down at times.
 *
 * A pace says how many ns pass for 10^6 ns of work: GPURT_PACE is full pace, and no pace is faster.  While the pace
 * stays the same nothing is rounded, however often time passes.  Work is over at the first whole ns at which all of it
 * is done.  Each change of pace forgets less than 10^-6 ns of the work done.  So work is never over early.
 */
#ifndef GPURT_CORE_PACE_H
#define GPURT_CORE_PACE_H

#include "env.h"

#define GPURT_PACE 1000000ULL		/* full */
#define GPURT_FACTOR_ONE 1000		/* factors are in thousandths */
#define GPURT_FACTOR_MAX 64000		/* so that the product of two paces fits into 64 bits */
#define GPURT_PACE_NEVER (U64_MAX / 4)	/* so long that it does not matter */

struct gpurt_pace {
	u64 left;			/* whole ns of work, at full pace */
	u64 slow;			/* the pace at which time passed last */
	u64 done;			/* fraction of the first of those ns that is done: done / slow */
};

void gpurt_pace_init(struct gpurt_pace *p, u64 work);
u64 gpurt_pace_of(u32 one, u32 other);
u64 gpurt_pace_time(const struct gpurt_pace *p, u64 slow);
void gpurt_pace_pass(struct gpurt_pace *p, u64 slow, u64 ns);

#endif
