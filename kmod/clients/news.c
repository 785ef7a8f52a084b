// SPDX-License-Identifier: GPL-2.0
/* Drivers' news of clients reach the scheduler: decide/driver.c queues the work of this file. */
#include <linux/sched.h>

#include "base/deps.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "state/client.h"

static int decide_news(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_client *client = u->client;
	int count = atomic_read(&client->tsgs);

	if (client->gone)
		return 0;
	if (READ_ONCE(client->kill)) {
		WRITE_ONCE(client->kill, false);
		WRITE_ONCE(client->killed, client->killed || client->core.depth);
		gpurt_killed(&gpu->sched, &client->core, now);
	}
	gpurt_set_tsgs(&gpu->sched, &client->core, max(count, 0), now);
	return 0;
}

/* Called with the GPU held alive.  The scheduler learns the driver's news of the client, if there is any. */
void gpurt_client_hear(struct gpurt_client *client)
{
	struct gpurt_update u = {
		.decide = decide_news, .client = client, .level = gpurt_client_caller_level(client),
	};
	u32 before = READ_ONCE(client->core.tsgs);

	if ((u32)atomic_read(&client->tsgs) == before && !READ_ONCE(client->kill))
		return;
	gpurt_gate_update(client->gpu, &u);
	if (READ_ONCE(client->core.tsgs) > before)
		gpurt_job_tsg_opened(client->gpu);
}

static void hear(struct gpurt_client *client)
{
	int token;

	if (!gpurt_gpu_hold(client->gpu, &token))
		return;
	gpurt_client_hear(client);
	/* Needed only if its segment has ended while its group owns the GPU.  Any thread can cause news at any rate. */
	if (!READ_ONCE(client->core.depth) && READ_ONCE(client->boost.raised.task))
		gpurt_boost_look(client);
	gpurt_gpu_release(client->gpu, token);
}

static GPURT_DEP(thread_news);

static void thread_hears(struct kthread_work *work)
{
	gpurt_dep_begin(&thread_news);
	hear(container_of(work, struct gpurt_client, news));
	gpurt_dep_end(&thread_news);
}

static void worker_hears(struct work_struct *work)
{
	hear(container_of(work, struct gpurt_client, slow_news));
}

void gpurt_news_init(struct gpurt_client *client)
{
	kthread_init_work(&client->news, thread_hears);
	INIT_WORK(&client->slow_news, worker_hears);
}

/* Called when the driver no longer knows the client, with the GPU held alive or after its thread has ended. */
void gpurt_news_stop(struct gpurt_client *client)
{
	cancel_work_sync(&client->slow_news);
	/* A thread that has ended left no work behind. */
	if (client->gpu->worker) {
		gpurt_dep_wait(&thread_news);
		kthread_cancel_work_sync(&client->news);
	}
}
