// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "marks.h"

/*
 * A client's share is whole again at the time @whole, at first 0.  Returns that time after a mark of kind @what (enum
 * gpurt_mark_what) at @now, or 0 if the share is used up.  Then readers do not get the mark.
 *
 * Begins of jobs may use only half of the share, so that readers also get the ends of these jobs.
 */
u64 gpurt_mark_take(u64 whole, u32 what, u64 now)
{
	u64 most = what == GPURT_MARK_BEGIN ? GPURT_MARKS / 2 : GPURT_MARKS;
	u64 used = whole > now ? whole - now : 0;

	if (used + GPURT_MARK_NS > most * GPURT_MARK_NS)
		return 0;
	return now + used + GPURT_MARK_NS;
}
