// SPDX-License-Identifier: GPL-2.0
/*
 * Drivers' calls into the module: questions and reports.  drv/drv.h describes these functions.
 */
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "base/workers.h"
#include "compat.h"
#include "decide/decide.h"
#include "drv/drv.h"
#include "state/boost.h"
#include "state/clients.h"
#include "state/events.h"
#include "state/netlink_family.h"
#include "state/team.h"
#include "state/process.h"
#include "state/wake.h"

struct gpurt_client *gpurt_client_find(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	struct gpurt_client *client = NULL;
	int reading = gpurt_clients_read();
	struct gpurt_process *process = gpurt_process_find(gpu, tgid);

	if (process)
		client = list_first_or_null_rcu(&process->clients, struct gpurt_client, by_process);
	gpurt_clients_done(reading);
	return client;
}
EXPORT_SYMBOL_GPL(gpurt_client_find);

bool gpurt_may_run(struct gpurt_gpu *gpu, const struct gpurt_client *client)
{
	/* Pairs with the release in apply(). */
	const struct gpurt_sched_client *only = smp_load_acquire(&gpu->runlist.only);

	return !only || (client && (READ_ONCE(client->core.entry) == only || READ_ONCE(client->core.exempt)));
}
EXPORT_SYMBOL_GPL(gpurt_may_run);

/* Whether any client of the process is exempt.  Called between gpurt_clients_read() and gpurt_clients_done(). */
static bool is_exempt(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	struct gpurt_process *process = gpurt_process_find(gpu, tgid);

	return process && atomic_read(&process->exempt);
}

/* Likewise.  Whether the process has the owner, or a member of the group that is the owner. */
static bool is_owners(struct gpurt_gpu *gpu, struct gpurt_sched_client *only, const struct pid *tgid)
{
	struct gpurt_seat *seat = gpurt_seat_of(only);
	struct gpurt_client *client;

	if (!seat)
		return gpurt_client_of(only)->tgid == tgid;
	/* Walks the members, not the process's clients: users choose how many clients there are. */
	list_for_each_entry_rcu(client, &seat->members, in_seat, gpurt_clients_reading())
		if (client->tgid == tgid)
			return true;
	return false;
}

bool gpurt_process_may_run(struct gpurt_gpu *gpu, const struct pid *tgid)
{
	struct gpurt_sched_client *only;
	bool may;
	int reading;

	reading = gpurt_clients_read();
	only = smp_load_acquire(&gpu->runlist.only);	/* pairs with the release in apply() */
	may = !only || is_owners(gpu, only, tgid) || is_exempt(gpu, tgid);
	gpurt_clients_done(reading);
	return may;
}
EXPORT_SYMBOL_GPL(gpurt_process_may_run);

/*
 * Has the module look at the client.  For a real-time client the GPU's thread takes the decision, so that no other task
 * delays it.  For a best-effort client a worker does, because best effort must not keep that thread busy.
 */
static void announce(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	/* gpurt_gpu_stop() waits until this section is over, and the thread ends afterwards. */
	rcu_read_lock();
	if (!READ_ONCE(gpu->dying)) {
		if (gpurt_level_now(client))
			kthread_queue_work(gpu->worker, &client->news);
		else
			queue_work(gpurt_workers, &client->slow_news);
	}
	rcu_read_unlock();
}

void gpurt_client_tsgs_changed(struct gpurt_client *client, int delta)
{
	atomic_add(delta, &client->tsgs);
	announce(client);
}
EXPORT_SYMBOL_GPL(gpurt_client_tsgs_changed);

void gpurt_client_killed(struct gpurt_client *client)
{
	WRITE_ONCE(client->kill, true);
	announce(client);
}
EXPORT_SYMBOL_GPL(gpurt_client_killed);

void gpurt_client_retry(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	/* The thread would not retry earlier, and processes decide how often agents make their driver call this. */
	if (!READ_ONCE(gpu->runlist.fault) || ktime_get_ns() < READ_ONCE(gpu->runlist.retry.patient_until))
		return;
	WRITE_ONCE(gpu->runlist.retry_now, true);
	gpurt_runlist_look(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_client_retry);

/* Called by the driver, in any context: work of the client completed. */
void gpurt_client_work_done(struct gpurt_client *client, u64 when, u64 since)
{
	if (gpurt_netlink_heard())
		gpurt_event(client->gpu, client, GPURT_EVENT_WORK, when, 0, when - since);
	atomic_inc(&client->completions);
	gpurt_wait_wake(client);
	gpurt_boost_completed(client);
}
EXPORT_SYMBOL_GPL(gpurt_client_work_done);

/* Called by the driver, in any context: the client, an agent, has not carried out in time the order given at @since. */
void gpurt_client_late(struct gpurt_client *client, u64 now, u64 since)
{
	if (gpurt_netlink_heard())
		gpurt_event(client->gpu, client, GPURT_EVENT_LATE, now, 0, now - since);
}
EXPORT_SYMBOL_GPL(gpurt_client_late);

void gpurt_gpu_committed(struct gpurt_gpu *gpu, u64 sequence, u32 runlists, int err)
{
	struct gpurt_runlist *r = &gpu->runlist;
	unsigned long flags;
	bool newest;

	smp_rmb();	/* pairs with next_sequence() */
	raw_spin_lock_irqsave(&r->told_lock, flags);
	newest = sequence == READ_ONCE(r->sequence);
	if (newest && r->told_of != sequence) {
		r->told_of = sequence;
		r->told = 0;
		r->told_err = 0;
	}
	if (newest && err && !r->told_err)
		r->told_err = err;
	else if (newest && !err)
		r->told |= runlists;
	raw_spin_unlock_irqrestore(&r->told_lock, flags);
	if (newest)
		gpurt_runlist_look(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_committed);

void gpurt_gpu_reset_begin(struct gpurt_gpu *gpu)
{
	atomic_inc(&gpu->runlist.holds);
	/* Comes before the driver undoes a commit: after a commit, answered() in runlist.c checks for a reset. */
	smp_mb__after_atomic();
	gpurt_runlist_look(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_reset_begin);

void gpurt_gpu_reset_done(struct gpurt_gpu *gpu)
{
	WRITE_ONCE(gpu->runlist.replay, true);
	/* A full barrier: gpurt_runlist_is_held() sees one or the other. */
	if (!WARN_ON_ONCE(atomic_dec_if_positive(&gpu->runlist.holds) < 0))
		gpurt_runlist_look(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_reset_done);

static int decide_nothing(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return 0;
}

void gpurt_gpu_suspend(struct gpurt_gpu *gpu)
{
	/*
	 * Not above the caller's priority: a caller that loses its CPU would keep all others waiting.  Under `boosted`,
	 * raised threads keep any caller from its CPU.
	 */
	bool boosted = READ_ONCE(gpu->sched.policy) == GPURT_POLICY_BOOSTED;
	struct gpurt_update u = { .decide = decide_nothing, .level = boosted ? 0 : current->rt_priority };

	gpurt_gpu_reset_begin(gpu);
	/* When the gate is free, no commit is under way any more. */
	gpurt_update(gpu, &u);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_suspend);

void gpurt_gpu_resume(struct gpurt_gpu *gpu)
{
	gpurt_gpu_reset_done(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_resume);

static enum hrtimer_restart callback_due(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, callback.timer);

	kthread_queue_work(gpu->worker, &gpu->callback.work);
	return HRTIMER_NORESTART;
}

static void call_back(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, callback.work);
	int token;

	if (!gpurt_gpu_hold(gpu, &token))
		return;
	gpu->ops.called(gpu->driver);
	gpurt_gpu_release(gpu, token);
}

/* Called by the driver, in any context: asks for a call of its called() at @when.  A later call replaces this one. */
void gpurt_gpu_call(struct gpurt_gpu *gpu, u64 when)
{
	/* gpurt_gpu_stop() waits until this section is over, and stops the timer afterwards. */
	rcu_read_lock();
	if (!READ_ONCE(gpu->dying))
		hrtimer_start(&gpu->callback.timer, ns_to_ktime(when), HRTIMER_MODE_ABS_HARD);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(gpurt_gpu_call);

void gpurt_driver_init(struct gpurt_gpu *gpu)
{
	compat_hrtimer_setup(&gpu->callback.timer, callback_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	kthread_init_work(&gpu->callback.work, call_back);
}

/* Called when the GPU is dying and its thread still runs. */
void gpurt_driver_stop(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->callback.timer);
}
