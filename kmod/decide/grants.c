// SPDX-License-Identifier: GPL-2.0
/* Tells clients that they gained or lost the GPU, and wakes those that gained it, as core/grants.c decides. */
#include <linux/sched.h>

#include "base/workers.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/events.h"
#include "state/wake.h"

/*
 * Called with the gate held.  The runlist became everyone's, or became what it should be.  Any number of clients may
 * wait for that, so they are woken later, without the gate.
 */
static void resume_later(struct gpurt_gpu *gpu)
{
	/* Pairs with the increment in wait_counted(): a waiter that is not seen here sees the new runner. */
	smp_mb();
	if (atomic_read(&gpu->waiting) || gpu->runlist.grants.owing)
		queue_work(gpurt_updates, &gpu->runlist.aftermath);
}

/* Called with the gate held.  Reports the event. */
void gpurt_tell(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	if (gpu->events_wanted)
		gpurt_event(gpu, client, event, now, 0, 0);
}

/* Called with the gate held.  The client (NULL: everyone) may use the GPU from now on, and is told so. */
static void gained(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	gpurt_tell(gpu, client, event, now);
	if (client) {
		client->granted_at = now;
		gpurt_wait_wake(client);
	} else {
		resume_later(gpu);
	}
}

/* Called with the gate held.  The client (NULL: everyone) gained or lost the GPU: GRANT, RESUME or PREEMPT. */
void gpurt_grants_change(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	/* Where nothing is owed, and nothing comes to be, each is told: every decision would pay for the call. */
	if (unlikely(r->fault || r->grants.owing) &&
	    !gpurt_grants_tell(&r->grants, client ? &client->core : NULL, event, r->fault))
		return;
	if (event == GPURT_EVENT_PREEMPT)
		gpurt_tell(gpu, client, event, now);
	else
		gained(gpu, client, event, now);
}

/* Called with the gate held, after an update succeeded.  The client (NULL: everyone) has the GPU. */
void gpurt_grants_settle(struct gpurt_gpu *gpu, struct gpurt_client *client, u64 now)
{
	u32 event = gpurt_grants_take(&gpu->runlist.grants, client ? &client->core : NULL);

	if (event)
		gained(gpu, client, event, now);
}
