// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "retry.h"

/* There is nothing to try again: at the start, and whenever an update went well. */
void gpurt_retry_init(struct gpurt_retry *r)
{
	r->at = U64_MAX;
	r->delay = GPURT_RETRY_FIRST_NS;
	r->patient_until = 0;
}

/* An update failed at @now. */
void gpurt_retry_failed(struct gpurt_retry *r, u32 cause, u64 now)
{
	r->cause = cause;
	r->at = now + r->delay;
	r->delay = 2 * r->delay < GPURT_RETRY_LAST_NS ? 2 * r->delay : GPURT_RETRY_LAST_NS;
}

/* Nothing stands in the way of an update that failed: try it again at @now, if that is not too soon. */
void gpurt_retry_hurry(struct gpurt_retry *r, u64 now)
{
	if (r->at == U64_MAX || now < r->patient_until)
		return;
	r->patient_until = r->at;
	r->at = now;
}
