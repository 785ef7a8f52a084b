/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Clients are told that they have the GPU only once they have it.  While updates of the runlist fail, the scheduler's
 * answers do not hold yet.  A client that gains the GPU by such a decision is owed the event, and is told when an
 * update succeeds.  A client that was not told of its grant need not be told of the loss.
 */
#ifndef GPURT_CORE_GRANTS_H
#define GPURT_CORE_GRANTS_H

#include "sched.h"

/* The state of one GPU; all zero at the start.  A client's part is gpurt_sched_client.owed. */
struct gpurt_grants {
	u32 everyone;			/* what everyone is owed: GPURT_EVENT_RESUME; 0: nothing */
	u32 owing;			/* how many clients are owed something */
};

/*
 * The scheduler says that @c (NULL: everyone) gained or lost the GPU: GRANT, RESUME or PREEMPT.  @fault: the runlist is
 * not what it should be.  Returns whether @c must be told now.
 */
bool gpurt_grants_tell(struct gpurt_grants *g, struct gpurt_sched_client *c, u32 event, bool fault);

/*
 * @c (NULL: everyone) has the GPU by an update that succeeded, or its segment is over.  Returns the event that the
 * client was owed, which the caller reports after an update; 0: none.
 */
u32 gpurt_grants_take(struct gpurt_grants *g, struct gpurt_sched_client *c);

/*
 * When a failed runlist update is tried again: GPURT_RETRY_FIRST_NS after the first failure, twice as long after each
 * further one, at most GPURT_RETRY_LAST_NS.  A host may hurry when it hears that the update would succeed now.  An
 * agent determines when the host hears that.  So the next hurry must not come before the time that was planned when the
 * host hurried last.  Then an agent cannot remove the rest between updates.
 */
#define GPURT_RETRY_FIRST_NS	1000000ULL
#define GPURT_RETRY_LAST_NS	128000000ULL

struct gpurt_retry {
	u64 at;			/* U64_MAX: the last update succeeded */
	u64 delay;		/* after the next failure */
	u64 patient_until;	/* no hurry before this time */
	u32 cause;		/* enum gpurt_cause of the update that failed */
};

void gpurt_retry_init(struct gpurt_retry *r);
void gpurt_retry_failed(struct gpurt_retry *r, u32 cause, u64 now);
void gpurt_retry_hurry(struct gpurt_retry *r, u64 now);

#endif
