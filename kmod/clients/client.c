// SPDX-License-Identifier: GPL-2.0
/* Clients: they come and go. */
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/deps.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "drv/drv.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/team.h"
#include "state/process.h"
#include "state/wake.h"

static void take_off(struct kthread_work *work);
static GPURT_DEP(client_take_off);

static struct gpurt_client *client_create(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return NULL;
	if (gpurt_boost_init(client)) {
		kfree(client);
		return NULL;
	}
	client->process = gpurt_process_make(file->tgid);
	if (!client->process) {
		gpurt_boost_destroy(client);
		kfree(client);
		return NULL;
	}
	kref_init(&client->ref);
	gpurt_sched_client_init(&client->core);
	gpurt_bus_node_init(&client->copier.node);
	client->gpu = gpu;
	client->file = gpurt_file_get(file);
	client->tgid = get_pid(file->tgid);
	client->uid = file->uid;
	memcpy(client->comm, file->comm, sizeof(client->comm));
	INIT_LIST_HEAD(&client->node);
	INIT_LIST_HEAD(&client->leaving);
	INIT_LIST_HEAD(&client->urgent.node);
	INIT_LIST_HEAD(&client->in_seat);
	gpurt_looked_init(&client->looked);
	gpurt_news_init(client);
	gpurt_waiters_init(&client->waiters);
	gpurt_waiters_init(&client->orders);
	kthread_init_work(&client->poll_wake, gpurt_wait_wake_poll);
	kthread_init_work(&client->take_off, take_off);
	return client;
}

/* Sleeps: the client may be the last of a descriptor that is closed, and of a GPU that is gone. */
void gpurt_client_destroy(struct gpurt_client *client)
{
	gpurt_gpu_put(client->gpu);
	gpurt_file_put(client->file);
	put_pid(client->tgid);
	gpurt_allowance_put(client->allowance);
	gpurt_process_put(client->process);
	gpurt_boost_destroy(client);
	kfree(client);
}

/* Called with the GPU held alive.  Tells the driver of the client and makes it visible. */
static int client_join(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err;

	err = gpu->ops.client_open(gpu->driver, client->tgid, client, &client->ctx);
	if (err)
		return err;
	kref_get(&client->ref);		/* the list's, until client_leave() */
	rt_mutex_lock(&gpu->clients_lock);
	gpurt_clients_add(client);
	rt_mutex_unlock(&gpu->clients_lock);
	gpurt_job_join(client);
	/*
	 * Pairs with each_gpu() in netlink_set.c.  Either that walk meets the client, or the calls below, which first
	 * look without a lock, see the new budget or rule.  Unlocking the mutex orders no later read.
	 */
	smp_mb();
	gpurt_allowance_apply(client);
	gpurt_exempt_apply(client);
	gpurt_boost_bar(client);
	return 0;
}

/* The client's process no longer needs the driver's module. */
static void unpin(struct gpurt_client *client)
{
	if (xchg(&client->pins, false))
		module_put(client->gpu->ops.owner);
}

/* Called with the GPU held alive.  The driver's module stays loaded until the client or the GPU is gone. */
static int client_join_pinned(struct gpurt_client *client)
{
	int err;

	if (!try_module_get(client->gpu->ops.owner))
		return -ENODEV;
	client->pins = true;
	err = client_join(client);
	if (err)
		unpin(client);
	return err;
}

/* Makes the descriptor a client of the GPU.  Takes over the caller's reference of the GPU; an error releases it. */
struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_client *client;
	int err = -ENODEV, token;

	client = client_create(gpu, file);
	if (!client) {
		gpurt_gpu_put(gpu);
		return ERR_PTR(-ENOMEM);
	}
	if (gpurt_gpu_hold(gpu, &token)) {
		err = client_join_pinned(client);
		gpurt_gpu_release(gpu, token);
	}
	if (!err)
		return client;
	gpurt_client_destroy(client);
	return ERR_PTR(err);
}

/*
 * Called when no other operation for the client is under way or will start, by a caller with a reference.  The driver
 * forgets the client.
 */
static void client_leave(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	if (!gpurt_clients_remove(client))
		return;
	if (client->waits)
		atomic_dec(&gpu->runlist.leaving);
	gpurt_job_leave(client);
	gpurt_bus_leave(client);
	gpurt_boost_stop(client);	/* which asks the driver about its work */
	gpu->ops.client_close(gpu->driver, client->ctx);
	client->ctx = NULL;
	gpurt_group_parted(client);
	gpurt_news_stop(client);
	unpin(client);
	gpurt_client_put(client);
}

/* A gone client that the driver may forget, with a reference for the caller; NULL: there is no such client. */
static struct gpurt_client *find_left(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client, *found = NULL;

	rt_mutex_lock(&gpu->clients_lock);
	list_for_each_entry(client, &gpu->leaving, leaving) {
		if (gpurt_runlist_is_off(client)) {
			kref_get(&client->ref);
			found = client;
			break;
		}
	}
	rt_mutex_unlock(&gpu->clients_lock);
	return found;
}

/* Called with the GPU held alive, after an update succeeded: clients that left while updates failed are closed. */
void gpurt_client_reap(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client;

	while ((client = find_left(gpu))) {
		client_leave(client);
		gpurt_client_put(client);
		cond_resched();
	}
}

/* Called with the GPU held alive.  The client is gone: the driver forgets it now, or after the next good update. */
static void leave_soon(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	if (!gpurt_runlist_is_off(client)) {
		client->waits = true;
		atomic_inc(&gpu->runlist.leaving);
		rt_mutex_lock(&gpu->clients_lock);
		list_add_tail(&client->leaving, &gpu->leaving);
		rt_mutex_unlock(&gpu->clients_lock);
		smp_mb();	/* pairs with fault_over(), which follows an update without the client */
	}
	if (gpurt_runlist_is_off(client))
		client_leave(client);
}

static int decide_gone(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	if (u->client->gone)
		return 0;
	WRITE_ONCE(u->client->gone, true);
	u->client->leaves = gpurt_stuck_leaves(&u->client->core, gpurt_team_elsewhere(u->client));
	gpurt_gone(&gpu->sched, &u->client->core, now);
	gpurt_group_left(u->client, now);
	return 0;
}

/* Called by the GPU's thread. */
static void take_off(struct kthread_work *work)
{
	struct gpurt_client *client = container_of(work, struct gpurt_client, take_off);
	struct gpurt_update u = { .decide = decide_gone, .client = client, .level = gpurt_level_now(client) };

	gpurt_dep_begin(&client_take_off);
	gpurt_update(client->gpu, &u);
	gpurt_dep_end(&client_take_off);
	gpurt_client_put(client);
}

/*
 * The client's process ends soon or has ended: the GPU's thread hands the GPU on now.  Threads of the process may still
 * be in calls for the client.  A best-effort client keeps the GPU from others only if it holds the GPU as a lock.
 */
void gpurt_client_take_off(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	int token;

	smp_mb();	/* pairs with gpurt_client_begin() */
	gpurt_bus_take_off(client);
	gpurt_boost_look(client);
	/* The level may change in the middle of a decision. */
	if (!gpurt_level_now(client) && !READ_ONCE(client->urgent.lasting) && !gpurt_client_owns(client))
		return;
	if (!gpurt_gpu_hold(gpu, &token))
		return;
	/* Not left to the GPU's thread, which may be in a commit that waits for this very process. */
	if (gpu->ops.client_ends)
		gpu->ops.client_ends(gpu->driver, client->ctx, true);
	kref_get(&client->ref);
	if (!kthread_queue_work(gpu->worker, &client->take_off))
		gpurt_client_put(client);
	gpurt_gpu_release(gpu, token);
}

/*
 * The client's process ended (@process), or closed the descriptor.  No call of the client is under way.
 *
 * The decision takes the client off the runlist, and the driver forgets it afterwards.  If the update failed, the
 * client may still be on the runlist: it stays, without its process, until gpurt_client_reap().
 */
void gpurt_client_gone(struct gpurt_client *client, bool process)
{
	struct gpurt_gpu *gpu = client->gpu;
	struct gpurt_update u = { .decide = decide_gone, .client = client };
	bool gone = false;
	int token;

	if (client->ended)
		return;
	client->ended = true;
	gpurt_bus_leave(client);
	gpurt_exits_let_go(client);
	u.level = gpurt_client_caller_level(client);
	if (gpurt_gpu_hold(gpu, &token)) {
		if (gpu->ops.client_ends)
			gpu->ops.client_ends(gpu->driver, client->ctx, process);
		gpurt_dep_wait(&client_take_off);
		kthread_flush_work(&client->take_off);
		/* Otherwise an ending process would wait behind all clients that are more urgent than its threads. */
		if (!client->gone)
			gpurt_gate_update(gpu, &u);
		gone = client->gone;
		if (gone)
			gpurt_stuck_died(client);
		if (gone)
			leave_soon(client);
		/* While updates fail the driver does not forget the client; its module may be unloaded all the same. */
		unpin(client);
		gpurt_gpu_release(gpu, token);
	}
	gpurt_boost_stop(client);
	/* The driver goes away first: gpurt_client_drain() removes all clients. */
	if (!gone)
		wait_for_completion(&gpu->drained);
	gpurt_wait_wake(client);
	gpurt_client_ordered(client);
}

/*
 * Called while the driver goes away, and its thread still executes.  Groups may own other GPUs, so decisions remove
 * their members from this GPU.
 */
void gpurt_client_disband(struct gpurt_gpu *gpu)
{
	int reading = gpurt_clients_read();
	struct gpurt_client *client;

	gpurt_for_each_client(client, gpu) {
		struct gpurt_update u = {
			.decide = decide_gone, .client = client, .level = GPURT_GATE_URGENT, .flags = GPURT_UPDATE_LAST,
		};

		if (client->seat && !client->gone)
			gpurt_gate_update(gpu, &u);
		cond_resched();
	}
	gpurt_clients_done(reading);
}

/* Called while the driver goes away, when no decision is under way and the runlist is everyone's. */
void gpurt_client_drain(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client;

	for (;;) {
		rt_mutex_lock(&gpu->clients_lock);
		client = list_first_entry_or_null(&gpu->clients, struct gpurt_client, node);
		if (client)
			kref_get(&client->ref);
		rt_mutex_unlock(&gpu->clients_lock);
		if (!client)
			return;
		client_leave(client);
		gpurt_wait_wake(client);
		gpurt_client_ordered(client);
		gpurt_client_put(client);
	}
}
