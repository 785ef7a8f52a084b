// SPDX-License-Identifier: GPL-2.0
/* What the core asks its host for: runlist updates, telling who gained and lost the GPU, and a timer. */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "internal.h"

/* An update that failed is tried again after so long, ns; twice as long each time. */
#define RETRY_FIRST 1000000ULL
#define RETRY_LAST 128000000ULL

static unsigned int policy = GPURT_POLICY_SEGMENT;
module_param(policy, uint, 0444);
MODULE_PARM_DESC(policy, "policy of new GPUs: 0 timesliced, 1 segment (default), 2 job, 3 lock-priority, 4 lock-fifo");

static struct gpurt_gpu *gpu_of(struct gpurt_sched *s)
{
	return container_of(s, struct gpurt_gpu, sched);
}

/* Everything below here down to the blank comment is called at the gate. */

static void apply(struct gpurt_gpu *gpu, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	struct gpurt_client *client = only ? gpurt_client_of(only) : NULL;
	u64 took;
	int err;

	err = gpu->ops->commit(gpu->driver, client ? client->ctx : NULL, now);
	took = ktime_get_ns() - now;
	gpurt_latency_record(&gpu->latency[cause], took);
	gpu->commits++;
	WRITE_ONCE(gpu->updated_ns, gpu->updated_ns + took);
	WRITE_ONCE(gpu->fault, !!err);
	if (err) {
		gpu->faults++;
		gpu->retry_cause = cause;
		gpu->retry_at = now + gpu->retry_delay;
		gpu->retry_delay = min_t(u64, 2 * gpu->retry_delay, RETRY_LAST);
	} else {
		gpu->retry_at = U64_MAX;
		gpu->retry_delay = RETRY_FIRST;
	}
	if (!only)
		gpu->everyone_since = now;
	/* Pairs with gpurt_client_granted(): who sees the runner sees the fault. */
	smp_store_release(&gpu->runner, only);
	if (gpu->wanted)
		gpurt_event(gpu, client, GPURT_EVENT_COMMIT, now, cause, took);
}

static void sched_commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	apply(gpu_of(s), only, cause, now);
}

/* The runlist is everyone's.  Best-effort clients may wait for that, any number of them: not from in here. */
static void resume_later(struct gpurt_gpu *gpu)
{
	/* Pairs with the increment in wait_for(): who is not seen here sees the new runner. */
	smp_mb();
	if (atomic_read(&gpu->waiting))
		queue_work(system_unbound_wq, &gpu->resume_work);
}

static void sched_event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 event, u64 now)
{
	struct gpurt_client *client = c ? gpurt_client_of(c) : NULL;
	struct gpurt_gpu *gpu = gpu_of(s);

	if (gpu->wanted)
		gpurt_event(gpu, client, event, now, 0, 0);
	if (client && event == GPURT_EVENT_END) {
		gpurt_client_wake(client);		/* who waits for a grant waits in vain */
		return;
	}
	if (event != GPURT_EVENT_GRANT && event != GPURT_EVENT_RESUME)
		return;
	if (client) {
		client->granted_at = now;
		gpurt_client_wake(client);
	} else {
		resume_later(gpu);
	}
}

static const struct gpurt_sched_ops sched_ops = {
	.commit = sched_commit,
	.event = sched_event,
};

/* After every decision: sees to the timer. */
void gpurt_sched_after(struct gpurt_gpu *gpu, u64 now)
{
	u64 next = min(gpu->sched.deadline, gpu->retry_at);

	if (next == gpu->armed)
		return;
	gpu->armed = next;
	if (next == U64_MAX)
		hrtimer_try_to_cancel(&gpu->timer);
	else
		hrtimer_start(&gpu->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
}

static bool retry_wanted(struct gpurt_gpu *gpu)
{
	bool now = READ_ONCE(gpu->retry_now);

	if (now)
		WRITE_ONCE(gpu->retry_now, false);
	return now && gpu->fault;
}

static int decide_tick(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_sched_client *c;

	gpu->armed = U64_MAX;
	if (gpu->retry_at <= now || retry_wanted(gpu)) {
		apply(gpu, gpu->sched.runner, gpu->retry_cause, now);
		c = gpu->sched.runner;
		if (!gpu->fault && c)
			gpurt_client_wake(gpurt_client_of(c));
		else if (!gpu->fault)
			resume_later(gpu);
	}
	if (gpu->sched.deadline <= now)
		gpurt_tick(&gpu->sched, now);
	return 0;
}

/* */

static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, timer);

	kthread_queue_work(gpu->worker, &gpu->tick_work);
	return HRTIMER_NORESTART;
}

static void tick(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, tick_work);
	struct gpurt_update u = { .decide = decide_tick, .level = GPURT_MAX_PRIORITY };

	gpurt_update(gpu, &u);
	if (READ_ONCE(gpu->fault))
		pr_err_ratelimited("gpurt: GPU %u: the runlist could not be updated; trying again\n", gpu->index);
}

/* The driver: the commit() that failed may go well now.  The GPU is held alive. */
void gpurt_client_retry(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;

	if (!READ_ONCE(gpu->fault))
		return;
	WRITE_ONCE(gpu->retry_now, true);
	kthread_queue_work(gpu->worker, &gpu->tick_work);
}
EXPORT_SYMBOL_GPL(gpurt_client_retry);

/* The runlist is everyone's: whoever waits for that may go on. */
static void resume(struct work_struct *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, resume_work);
	struct gpurt_client *client;

	mutex_lock(&gpu->clients_lock);
	list_for_each_entry(client, &gpu->clients, node)
		gpurt_client_wake(client);
	mutex_unlock(&gpu->clients_lock);
}

/* Has a decision taken.  -ENODEV once the driver is going away. */
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	int token, ret;

	if (!gpu->ops->commit_sleeps)
		return gpurt_gate_update(gpu, u);
	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	ret = gpurt_gate_update(gpu, u);
	gpurt_gpu_release(gpu, token);
	return ret;
}

void gpurt_sched_init_gpu(struct gpurt_gpu *gpu)
{
	u64 now = ktime_get_ns();

	compat_hrtimer_setup(&gpu->timer, timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	kthread_init_work(&gpu->tick_work, tick);
	kthread_init_work(&gpu->delegated_work, gpurt_gate_delegated);
	INIT_WORK(&gpu->resume_work, resume);
	gpu->retry_at = U64_MAX;
	gpu->retry_delay = RETRY_FIRST;
	gpu->armed = U64_MAX;
	gpu->everyone_since = now;
	gpurt_sched_init(&gpu->sched, &sched_ops, gpu, now);
	gpurt_set_policy(&gpu->sched, policy, now);
}

/* No decision is under way, and none will be taken. */
void gpurt_sched_stop_gpu(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->timer);
	cancel_work_sync(&gpu->resume_work);
}

/* Whether the module's parameters make sense. */
int gpurt_sched_check(void)
{
	if (policy < GPURT_POLICY_COUNT)
		return 0;
	pr_err("gpurt: policy=%u: 0 to %u\n", policy, GPURT_POLICY_COUNT - 1);
	return -EINVAL;
}
