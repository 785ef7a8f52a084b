// SPDX-License-Identifier: GPL-2.0
/* Calls that wait for a grant, for work, or for an agent's next order.  state/wake.c wakes them. */
#include <linux/sched.h>

#include "clients/clients.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/file.h"
#include "state/wake.h"

/*
 * The condition that a call waits for.  Called with the GPU held alive; must not sleep.  1: it is true; 0: not yet;
 * -errno: it never will be.
 */
typedef int (*check_fn)(struct gpurt_client *client, struct gpurt_wait *w);

static int check(struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	int ret, token;

	if (!gpurt_gpu_hold(client->gpu, &token))
		return -ENODEV;
	ret = READ_ONCE(client->file->gone) ? -ESTALE : fn(client, w);
	gpurt_gpu_release(client->gpu, token);
	return ret;
}

static int check_grant(struct gpurt_client *client, struct gpurt_wait *w)
{
	struct gpurt_runlist *r = &client->gpu->runlist;

	if (!READ_ONCE(client->core.depth))
		return gpurt_client_without_segment(client);
	if (!gpurt_client_granted(client))
		return 0;
	w->completed_ns = max(READ_ONCE(client->granted_at), READ_ONCE(r->runner) ? 0 : READ_ONCE(r->everyone_since));
	return 1;
}

/*
 * Waits on @queue until @fn is satisfied, for at most w->timeout_ns.  If gpurt_doze() breaks off the wait,
 * w->timeout_ns becomes the time at which the wait is over.  A wake-up wakes only the most urgent waiter.  The
 * condition that came true may concern another waiter, or several, so each waiter passes a wake-up on.
 */
static int wait_on(struct gpurt_waiters *queue, struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	struct gpurt_patience patience;
	struct gpurt_waiter waiter;
	int ret, err = 0;

	gpurt_patience_start(&patience, w->timeout_ns);
	gpurt_waiters_add(queue, &waiter);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		ret = check(client, w, fn);
		if (ret || err)
			break;
		gpurt_waiters_pass_on(queue, &waiter);
		err = gpurt_doze(&patience);
	}
	__set_current_state(TASK_RUNNING);
	gpurt_waiters_remove(queue, &waiter);
	if (ret)
		return min(ret, 0);
	if (err == -ERESTARTNOHAND)
		w->timeout_ns = gpurt_patience_left(&patience);
	return err;
}

/* Waits for a grant or a completion. */
static int wait_counted(struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	int err;

	atomic_inc(&client->gpu->waiting);	/* pairs with resume_later() */
	err = wait_on(&client->waiters, client, w, fn);
	atomic_dec(&client->gpu->waiting);
	return err;
}

/* GPURT_IOC_WAIT; other calls use parts of it. */
int gpurt_wait_for(struct gpurt_client *client, struct gpurt_wait *w)
{
	if (w->what != GPURT_WAIT_WORK && w->what != GPURT_WAIT_IDLE)
		return wait_counted(client, w, check_grant);
	return client->gpu->ops.work ? wait_counted(client, w, gpurt_wait_work) : -EOPNOTSUPP;
}

struct order_wait {
	struct gpurt_wait w;
	struct gpurt_order *order;
};

static int check_order(struct gpurt_client *client, struct gpurt_wait *w)
{
	struct gpurt_order *o = container_of(w, struct order_wait, w)->order;

	return client->gpu->ops.agents->order(client->gpu->driver, client->ctx, o);
}

/* Waits for an order newer than o->answered, for at most o->timeout_ns.  The driver has agents. */
int gpurt_wait_for_order(struct gpurt_client *client, struct gpurt_order *o)
{
	struct order_wait wait = { .w = { .timeout_ns = o->timeout_ns }, .order = o };

	int err = wait_on(&client->orders, client, &wait.w, check_order);

	o->timeout_ns = wait.w.timeout_ns;
	return err;
}

/* The client's process called poll().  From now on it counts as waiting, until the client is freed. */
void gpurt_wait_polled(struct gpurt_client *client)
{
	if (READ_ONCE(client->polled))
		return;
	mutex_lock(&client->file->lock);
	if (!client->polled)
		atomic_inc(&client->gpu->waiting);
	client->polled = true;
	mutex_unlock(&client->file->lock);
}
