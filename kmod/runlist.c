// SPDX-License-Identifier: GPL-2.0
/*
 * The runlist of a GPU.  The scheduler (core/policy.c) asks for updates and says which clients gained and lost the
 * GPU; this file has the driver carry out the updates, wakes clients, and runs the scheduler's timer.
 */
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/printk.h>
#include <linux/workqueue.h>

#include "client.h"
#include "compat.h"
#include "events.h"
#include "gpu.h"
#include "runlist.h"
#include "wait.h"

static struct gpurt_gpu *gpu_of(struct gpurt_sched *s)
{
	return container_of(s, struct gpurt_gpu, sched);
}

/* Called with the gate held.  @now: when the commit was over. */
static void plan_retry(struct gpurt_runlist *r, bool failed, u32 cause, u64 now)
{
	WRITE_ONCE(r->fault, failed);
	if (failed) {
		r->faults++;
		gpurt_retry_failed(&r->retry, cause, now);
	} else {
		gpurt_retry_init(&r->retry);
	}
}

/* Called with the gate held.  Has the driver make the runlist @only's (NULL: everyone's). */
static void apply(struct gpurt_gpu *gpu, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	struct gpurt_client *client = only ? gpurt_client_of(only) : NULL;
	struct gpurt_runlist *r = &gpu->runlist;
	u64 took;
	int err;

	gpurt_gate_assert_held(gpu);
	err = gpu->ops->commit(gpu->driver, client ? client->ctx : NULL, now);
	took = ktime_get_ns() - now;
	gpurt_latency_record(&r->latency[cause], took);
	r->commits++;
	WRITE_ONCE(r->updated_ns, r->updated_ns + took);
	plan_retry(r, err, cause, now + took);
	if (!only)
		r->everyone_since = now;
	/* Pairs with gpurt_client_granted(): a reader that sees the runner also sees the fault. */
	smp_store_release(&r->runner, only);
	if (gpu->events_wanted)
		gpurt_event(gpu, client, GPURT_EVENT_COMMIT, now, cause, took);
}

/* Called with the gate held. */
static void runlist_commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	apply(gpu_of(s), only, cause, now);
}

/*
 * Called with the gate held.  The runlist became everyone's.  Any number of best-effort clients may wait for that, so
 * they are woken later, without the gate.
 */
static void resume_later(struct gpurt_gpu *gpu)
{
	/* Pairs with the increment in wait_counted(): a waiter that is not seen here sees the new runner. */
	smp_mb();
	if (atomic_read(&gpu->waiting))
		queue_work(system_unbound_wq, &gpu->runlist.resume);
}

/* Called with the gate held. */
static void runlist_event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 event, u64 now)
{
	struct gpurt_client *client = c ? gpurt_client_of(c) : NULL;
	struct gpurt_gpu *gpu = gpu_of(s);

	gpurt_gate_assert_held(gpu);
	if (gpu->events_wanted)
		gpurt_event(gpu, client, event, now, 0, 0);
	if (client && event == GPURT_EVENT_END) {
		gpurt_wait_wake(client);	/* a call that waits for a grant must return ENOENT */
		return;
	}
	if (event != GPURT_EVENT_GRANT && event != GPURT_EVENT_RESUME)
		return;
	if (client) {
		client->granted_at = now;
		gpurt_wait_wake(client);
	} else {
		resume_later(gpu);
	}
}

static const struct gpurt_sched_ops runlist_ops = {
	.commit = runlist_commit,
	.event = runlist_event,
};

/* Called with the gate held, after every decision. */
void gpurt_runlist_set_timer(struct gpurt_gpu *gpu)
{
	u64 next = min(gpu->sched.deadline, gpu->runlist.retry.at);

	gpurt_gate_assert_held(gpu);
	if (next == gpu->runlist.armed)
		return;
	gpu->runlist.armed = next;
	if (next == U64_MAX)
		hrtimer_try_to_cancel(&gpu->runlist.timer);
	else
		hrtimer_start(&gpu->runlist.timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
}

/* Called with the gate held. */
static bool retry_wanted(struct gpurt_runlist *r)
{
	bool now = READ_ONCE(r->retry_now);

	if (now)
		WRITE_ONCE(r->retry_now, false);
	return now && r->fault;
}

/* Called with the gate held. */
static void retry(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_sched_client *runner = gpu->sched.runner;

	apply(gpu, runner, gpu->runlist.retry.cause, now);
	if (gpu->runlist.fault)
		return;
	if (runner)
		gpurt_wait_wake(gpurt_client_of(runner));
	else
		resume_later(gpu);
}

static int decide_tick(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	r->armed = U64_MAX;
	if (r->retry.at <= now || retry_wanted(r))
		retry(gpu, now);
	if (gpu->sched.deadline <= now)
		gpurt_tick(&gpu->sched, now);
	return 0;
}

static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, runlist.timer);

	kthread_queue_work(gpu->worker, &gpu->runlist.tick);
	return HRTIMER_NORESTART;
}

static void tick(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, runlist.tick);
	struct gpurt_update u = { .decide = decide_tick, .level = GPURT_GATE_URGENT };

	gpurt_update(gpu, &u);
	if (READ_ONCE(gpu->runlist.fault))
		pr_err_ratelimited("gpurt: GPU %u: the runlist could not be updated; trying again\n", gpu->index);
}

/* Called by the driver: the commit() that failed may succeed now.  The caller holds the GPU alive. */
void gpurt_client_retry(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	if (!READ_ONCE(gpu->runlist.fault))
		return;
	WRITE_ONCE(gpu->runlist.retry_now, true);
	kthread_queue_work(gpu->worker, &gpu->runlist.tick);
}
EXPORT_SYMBOL_GPL(gpurt_client_retry);

/* The runlist is everyone's: every call that waits for that may return. */
static void resume(struct work_struct *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, runlist.resume);
	struct gpurt_client *client;

	mutex_lock(&gpu->clients_lock);
	list_for_each_entry(client, &gpu->clients, node)
		gpurt_wait_wake(client);
	mutex_unlock(&gpu->clients_lock);
}

void gpurt_runlist_init(struct gpurt_gpu *gpu)
{
	struct gpurt_runlist *r = &gpu->runlist;
	u64 now = ktime_get_ns();

	compat_hrtimer_setup(&r->timer, timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	kthread_init_work(&r->tick, tick);
	INIT_WORK(&r->resume, resume);
	gpurt_retry_init(&r->retry);
	r->armed = U64_MAX;
	r->everyone_since = now;
	gpurt_sched_init(&gpu->sched, &runlist_ops, gpu, now);
}

/* Called when no decision is under way and none will be taken. */
void gpurt_runlist_stop(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->runlist.timer);
	cancel_work_sync(&gpu->runlist.resume);
}
