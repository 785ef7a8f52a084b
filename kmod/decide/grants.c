// SPDX-License-Identifier: GPL-2.0
/*
 * Which clients have been told that they have the GPU.  While updates of the runlist fail, the scheduler's answers do
 * not hold yet: a client that gains the GPU by such a decision is told, and woken, when an update succeeds.
 */
#include <linux/sched.h>

#include "base/workers.h"
#include "decide/grants.h"
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
	if (atomic_read(&gpu->waiting) || gpu->runlist.owing)
		queue_work(gpurt_updates, &gpu->runlist.aftermath);
}

/* Called with the gate held.  Reports the event. */
void gpurt_tell(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	if (gpu->events_wanted)
		gpurt_event(gpu, client, event, now, 0, 0);
}

/* Called with the gate held.  The event that the client (NULL: everyone) is still to be told; 0: none. */
static void owe(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event)
{
	u32 *owed = client ? &client->owed : &gpu->runlist.owed;

	gpu->runlist.owing += !!event - !!*owed;
	WRITE_ONCE(*owed, event);
}

static u32 owed(const struct gpurt_gpu *gpu, const struct gpurt_client *client)
{
	return client ? client->owed : gpu->runlist.owed;
}

/*
 * Called with the gate held.  The client (NULL: everyone) may use the GPU from now on.  Where the update has failed it
 * is told later, when one succeeds.
 */
static void gained(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	if (gpu->runlist.fault) {
		owe(gpu, client, event);
		return;
	}
	gpurt_tell(gpu, client, event, now);
	if (client) {
		client->granted_at = now;
		gpurt_wait_wake(client);
	} else {
		resume_later(gpu);
	}
}

/* Called with the gate held.  One that was never told that it has the GPU need not be told that it lost it. */
static void lost(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	u32 missed = owed(gpu, client);

	if (!missed)
		gpurt_tell(gpu, client, event, now);
	owe(gpu, client, 0);
	if (client && missed == GPURT_EVENT_GRANT)
		client->core.granted = false;	/* the next gain is the first one that it is told of */
}

/* Called with the gate held.  The client (NULL: everyone) gained or lost the GPU: GRANT, RESUME or PREEMPT. */
void gpurt_grants_change(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	if (event == GPURT_EVENT_PREEMPT)
		lost(gpu, client, event, now);
	else
		gained(gpu, client, event, now);
}

/* Called with the gate held.  The client (NULL: everyone) has the GPU and is told so, unless it was told before. */
void gpurt_grants_settle(struct gpurt_gpu *gpu, struct gpurt_client *client, u64 now)
{
	u32 event = owed(gpu, client);

	owe(gpu, client, 0);
	if (event)
		gained(gpu, client, event, now);
}

/* Called with the gate held.  The client's segment is over: it need not be told any more. */
void gpurt_grants_forget(struct gpurt_gpu *gpu, struct gpurt_client *client)
{
	owe(gpu, client, 0);
}
