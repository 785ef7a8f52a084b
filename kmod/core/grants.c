// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "grants.h"

static void owe(struct gpurt_grants *g, u32 *owed, u32 event)
{
	g->owing += !!event - !!*owed;
	*owed = event;
}

u32 gpurt_grants_take(struct gpurt_grants *g, struct gpurt_sched_client *c)
{
	u32 *owed = c ? &c->owed : &g->everyone, event = *owed;

	owe(g, owed, 0);
	return event;
}

bool gpurt_grants_tell(struct gpurt_grants *g, struct gpurt_sched_client *c, u32 event, bool fault)
{
	u32 missed;

	if (event != GPURT_EVENT_PREEMPT && fault) {
		owe(g, c ? &c->owed : &g->everyone, event);
		return false;
	}
	missed = gpurt_grants_take(g, c);
	if (event != GPURT_EVENT_PREEMPT)
		return true;
	if (c && missed == GPURT_EVENT_GRANT)
		c->granted = false;	/* the next gain is the first that it is told */
	return !missed;
}

/* Nothing to retry: called at the start, and whenever an update has succeeded. */
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

/* A failed update would succeed now: tries it again at @now, unless that is too soon. */
void gpurt_retry_hurry(struct gpurt_retry *r, u64 now)
{
	if (r->at == U64_MAX || now < r->patient_until)
		return;
	r->patient_until = r->at;
	r->at = now;
}
