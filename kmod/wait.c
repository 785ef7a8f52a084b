// SPDX-License-Identifier: GPL-2.0
/* Calls that wait for a grant, for work, or for an agent's next order; and what wakes them. */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "chardev.h"
#include "client.h"
#include "gpu.h"
#include "wait.h"
#include "workers.h"

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

static int check_work(struct gpurt_client *client, struct gpurt_wait *w)
{
	struct gpurt_gpu *gpu = client->gpu;

	return gpu->ops.work->work_done(gpu->driver, client->ctx, w->tsg, w->work, &w->completed_ns);
}

static int check_idle(struct gpurt_client *client, struct gpurt_wait *w)
{
	struct gpurt_gpu *gpu = client->gpu;

	return gpu->ops.work->idle(gpu->driver, client->ctx, &w->completed_ns);
}

/* Sleeps until woken, or until @until; NULL: for ever.  0, -EINTR or -ETIMEDOUT. */
int gpurt_doze(ktime_t *until)
{
	if (signal_pending(current))
		return -EINTR;
	return schedule_hrtimeout(until, HRTIMER_MODE_ABS) ? 0 : -ETIMEDOUT;
}

/*
 * Waits on @queue until @fn is satisfied, for w->timeout_ns at most.  A wake-up wakes the most urgent waiter only.
 * What has come true may concern another waiter, or this one and others; so each waiter passes a wake-up on.
 */
static int wait_on(struct gpurt_waiters *queue, struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	ktime_t until = ns_to_ktime(KTIME_MAX), *limit = NULL;
	struct gpurt_waiter waiter;
	int ret, err = 0;

	if (w->timeout_ns < KTIME_MAX) {
		until = ktime_add_safe(ktime_get(), ns_to_ktime(w->timeout_ns));
		limit = &until;
	}
	gpurt_waiters_add(queue, &waiter);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		ret = check(client, w, fn);
		if (ret || err)
			break;
		gpurt_waiters_pass_on(queue, &waiter);
		err = gpurt_doze(limit);
	}
	__set_current_state(TASK_RUNNING);
	gpurt_waiters_remove(queue, &waiter);
	return ret < 0 ? ret : ret ? 0 : err;
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

/* GPURT_IOC_WAIT, and what of it other calls need. */
int gpurt_wait_for(struct gpurt_client *client, struct gpurt_wait *w)
{
	const struct gpurt_driver_ops *ops = &client->gpu->ops;

	switch (w->what) {
	case GPURT_WAIT_WORK:
		return ops->work ? wait_counted(client, w, check_work) : -EOPNOTSUPP;
	case GPURT_WAIT_IDLE:
		return ops->work ? wait_counted(client, w, check_idle) : -EOPNOTSUPP;
	default:
		return wait_counted(client, w, check_grant);
	}
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

/* Waits for an order newer than o->answered, for o->timeout_ns at most.  The driver has agents. */
int gpurt_wait_for_order(struct gpurt_client *client, struct gpurt_order *o)
{
	struct order_wait wait = { .w = { .timeout_ns = o->timeout_ns }, .order = o };

	return wait_on(&client->orders, client, &wait.w, check_order);
}

/*
 * poll() waits in a queue whose lock sleeps under PREEMPT_RT, where an ordinary interrupt's work is a thread's of
 * FIFO priority 1.  There the GPU's thread wakes the callers of a real-time client, elsewhere an interrupt does.  An
 * ordinary worker wakes those of a best-effort client: its user chooses how many they are, and how often it happens.
 * It also wakes those of a real-time client beyond the first few: gpurt_file_wake_poll().
 */
static void wake_poll(struct gpurt_client *client)
{
	if (!READ_ONCE(client->core.level)) {
		queue_work(gpurt_workers, &client->file->slow_poll_wake);
		return;
	}
	if (!IS_ENABLED(CONFIG_PREEMPT_RT)) {
		irq_work_queue(&client->file->poll_wake);
		return;
	}
	rcu_read_lock();	/* gpurt_gpu_stop() waits for it before it stops the thread */
	if (READ_ONCE(client->gpu->dying)) {
		queue_work(gpurt_workers, &client->file->slow_poll_wake);
	} else {
		kref_get(&client->ref);
		/* Work that waits already has a reference.  This is not the last one: the caller's client is alive. */
		if (!kthread_queue_work(client->gpu->worker, &client->poll_wake))
			gpurt_client_put(client);
	}
	rcu_read_unlock();
}

/* Called by the GPU's thread. */
void gpurt_wait_wake_poll(struct kthread_work *work)
{
	struct gpurt_client *client = container_of(work, struct gpurt_client, poll_wake);

	gpurt_file_wake_poll(client->file);
	gpurt_client_put(client);
}

/* Wakes one of the client's calls that wait, which wakes the next, and poll().  Any context. */
void gpurt_wait_wake(struct gpurt_client *client)
{
	gpurt_waiters_wake(&client->waiters);
	/* waitqueue_active() needs a barrier: the one in gpurt_waiters_wake(). */
	if (waitqueue_active(&client->file->poll))
		wake_poll(client);
}

/* Called by the driver, in any context: there may be an order for the client, an agent. */
void gpurt_client_ordered(struct gpurt_client *client)
{
	gpurt_waiters_wake(&client->orders);
}
EXPORT_SYMBOL_GPL(gpurt_client_ordered);

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
