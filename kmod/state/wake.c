// SPDX-License-Identifier: GPL-2.0
/* Wakes calls that wait for a grant, for work, or for an agent's next order; and poll(). */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "base/workers.h"
#include "drv/drv.h"
#include "state/clients.h"
#include "state/file.h"
#include "state/wake.h"

/* @timeout_ns: as for GPURT_IOC_WAIT; a time beyond the clock's range means for ever. */
void gpurt_patience_start(struct gpurt_patience *p, u64 timeout_ns)
{
	if (timeout_ns & GPURT_TIMEOUT_AT)
		p->until = ns_to_ktime(timeout_ns & ~GPURT_TIMEOUT_AT);
	else
		p->until = ktime_add_safe(ktime_get(), ns_to_ktime(timeout_ns));
	p->endless = p->until == KTIME_MAX;
}

/* The timeout for the same call made again: the time at which its wait is over, even if the process is stopped. */
u64 gpurt_patience_left(const struct gpurt_patience *p)
{
	return GPURT_TIMEOUT_AT | ktime_to_ns(p->until);
}

/*
 * Sleeps until woken, or for as long as the call has patience.  Returns 0 or -ETIMEDOUT.  Returns -ERESTARTNOHAND if a
 * signal must be handled, or the process is stopped, frozen or traced.  If a handler of the program then executes, the
 * call returns EINTR.  Otherwise the kernel makes the call again, which goes on waiting.  Kernels offer modules no
 * other way.  A restart block has the address of a function of the module, which may be gone when the process
 * continues.
 */
int gpurt_doze(const struct gpurt_patience *p)
{
	ktime_t until = p->until;

	if (signal_pending(current))
		return -ERESTARTNOHAND;
	return schedule_hrtimeout(p->endless ? NULL : &until, HRTIMER_MODE_ABS) ? 0 : -ETIMEDOUT;
}

/*
 * Called with the GPU held alive.  Whether that work of the client has completed, or with GPURT_WAIT_IDLE all of it; an
 * error if there is no such work.
 */
int gpurt_wait_work(struct gpurt_client *client, struct gpurt_wait *w)
{
	struct gpurt_gpu *gpu = client->gpu;

	if (w->what == GPURT_WAIT_IDLE)
		return gpu->ops.work->idle(gpu->driver, client->ctx, &w->completed_ns);
	return gpu->ops.work->work_done(gpu->driver, client->ctx, w->tsg, w->work, &w->completed_ns);
}

/*
 * poll() waits in a queue whose lock sleeps under PREEMPT_RT, where a thread of FIFO priority 1 does the work of
 * ordinary interrupts.  There the GPU's thread wakes the callers of a real-time client, elsewhere an interrupt does.
 * An ordinary worker wakes callers of a best-effort client, because its user chooses how many they are and how often
 * they are woken.  It also wakes callers of a real-time client beyond the first few: gpurt_file_wake_poll().
 */
static void wake_poll(struct gpurt_client *client)
{
	if (!gpurt_level_now(client)) {
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
		/* Queued work already has a reference.  This is not the last one: the caller's client is alive. */
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

/* Wakes one of the client's waiting calls, which wakes the next, and poll().  Any context. */
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
