/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Clients are told that they have the GPU only once they have it.  While updates of the runlist
 * fail, the scheduler's answers do not hold yet.  A client that gains the GPU by such a decision is
 * owed the event, and is told when an update succeeds.  A client that was not told of its grant need not be told of the
 * loss.
 */
#ifndef GPURT_CORE_GRANTS_H
#define GPURT_CORE_GRANTS_H

#include "sched.h"

/* One GPU's; all zero at the start.  A client's part is gpurt_sched_client.owed. */
struct gpurt_grants {
	u32 everyone;			/* what everyone is owed: GPURT_EVENT_RESUME; 0: nothing */
	u32 owing;			/* how many are owed something */
};

/*
 * The scheduler says that @c (NULL: everyone) gained or lost the GPU: GRANT, RESUME or PREEMPT.  @fault: the runlist is
 * not what it should be.  Whether @c is to be told now.
 */
bool gpurt_grants_tell(struct gpurt_grants *g, struct gpurt_sched_client *c, u32 event, bool fault);

/*
 * @c (NULL: everyone) has the GPU by an update that succeeded, or its segment is over.  Returns the event that the
 * client was owed, which the caller reports after an update; 0: none.
 */
u32 gpurt_grants_take(struct gpurt_grants *g, struct gpurt_sched_client *c);

#endif
