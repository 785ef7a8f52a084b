// SPDX-License-Identifier: GPL-2.0
/* What follows an update, and would take too long with the gate held: decide/runlist.c queues this work. */
#include <linux/atomic.h>
#include <linux/printk.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "clients/clients.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/wake.h"

static int decide_settle(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	if (!gpu->runlist.fault && gpurt_on_runlist(&gpu->sched, &u->client->core))
		gpurt_grants_settle(gpu, u->client, now);
	return 0;
}

/* Called with the GPU held alive, after an update succeeded: settles all clients, one decision each. */
static void settle_all(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client;
	int reading = gpurt_clients_read();

	gpurt_for_each_client(client, gpu) {
		struct gpurt_update u = { .decide = decide_settle, .client = client, .level = GPURT_GATE_CONTROL };

		if (READ_ONCE(client->core.owed))
			gpurt_gate_update(gpu, &u);
		cond_resched();
	}
	gpurt_clients_done(reading);
}

static void wake_all(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client;

	rt_mutex_lock(&gpu->clients_lock);
	list_for_each_entry(client, &gpu->clients, node) {
		gpurt_wait_wake(client);
		cond_resched();
	}
	rt_mutex_unlock(&gpu->clients_lock);
}

/* Logs why the last failed commit failed, even if a later commit has been carried out meanwhile. */
static void report(struct gpurt_gpu *gpu)
{
	int err = xchg(&gpu->runlist.err, 0);

	if (!err)
		return;
	if (err == -ENOTRECOVERABLE)
		pr_err_ratelimited("gpurt: GPU %u: the runlist cannot be updated before the driver resets the GPU\n",
				   gpu->index);
	else if (err == -ETIMEDOUT)
		pr_err_ratelimited("gpurt: GPU %u: no update in time: isolation may be lost; trying again\n",
				   gpu->index);
	else
		pr_err_ratelimited("gpurt: GPU %u: the runlist could not be updated; trying again\n", gpu->index);
}

/*
 * The work after an update that would take too long with the gate held.  Every call that may return
 * is woken, and every client is told.  The driver forgets clients that left while updates failed,
 * and the kernel's log learns of failures.
 */
static void aftermath(struct work_struct *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, runlist.aftermath);
	int token;

	report(gpu);
	wake_all(gpu);
	if (!gpurt_gpu_hold(gpu, &token))
		return;
	settle_all(gpu);
	gpurt_client_reap(gpu);
	gpurt_gpu_release(gpu, token);
}

/* Before there are decisions. */
void gpurt_aftermath_init(struct gpurt_gpu *gpu)
{
	INIT_WORK(&gpu->runlist.aftermath, aftermath);
}
