/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * When a runlist update that failed is tried again: GPURT_RETRY_FIRST_NS after the first failure, twice as long after
 * each further one, GPURT_RETRY_LAST_NS at most.  A host may hurry when it hears that nothing stands in the way any
 * more.  An agent decides when the host hears that, so the next hurry must wait for the time that was planned when the
 * host hurried last.  Then an agent cannot do away with the rest between updates.
 */
#ifndef GPURT_CORE_RETRY_H
#define GPURT_CORE_RETRY_H

#include "env.h"

#define GPURT_RETRY_FIRST_NS	1000000ULL
#define GPURT_RETRY_LAST_NS	128000000ULL

struct gpurt_retry {
	u64 at;			/* U64_MAX: the last update went well */
	u64 delay;		/* after the next failure */
	u64 patient_until;	/* no hurry before */
	u32 cause;		/* enum gpurt_cause of the update that failed */
};

void gpurt_retry_init(struct gpurt_retry *r);
void gpurt_retry_failed(struct gpurt_retry *r, u32 cause, u64 now);
void gpurt_retry_hurry(struct gpurt_retry *r, u64 now);

#endif
