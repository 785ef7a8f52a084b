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
		c->granted = false;	/* the next gain is the first one that it is told of */
	return !missed;
}
