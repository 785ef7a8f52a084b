// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `job`: the GPU belongs to the most urgent runnable task that uses it, for its whole job.  The GPU's
 * thread looks at the states of the clients' tasks, either every so often (`poll`) or when the scheduler's
 * tracepoints say that one of them changed (`notify`).  A probe runs under the scheduler's own locks, where
 * nobody may be woken; an interrupt is raised instead, or where a machine cannot do that to itself, a timer set.
 */
#include <linux/hash.h>
#include <linux/rcupdate.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "internal.h"

#define POLL_MIN 100000ULL
#define POLL_MAX 10000000000ULL

static bool has_watched(struct gpurt_gpu *gpu, struct pid *tgid)
{
	return atomic_read(&gpu->watched[hash_ptr(tgid, GPURT_WATCH_BITS)]) > 0;
}

/* @change: 1 for a process that became a client, -1 for one that no longer is. */
void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change)
{
	atomic_add(change, &gpu->watched[hash_ptr(tgid, GPURT_WATCH_BITS)]);
}

/* The scheduler's tracepoints. */

#ifdef CONFIG_TRACEPOINTS

static struct tracepoint *tp_switch, *tp_wakeup, *tp_wakeup_new;

static void look_at(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "sched_switch"))
		tp_switch = tp;
	else if (!strcmp(tp->name, "sched_wakeup"))
		tp_wakeup = tp;
	else if (!strcmp(tp->name, "sched_wakeup_new"))
		tp_wakeup_new = tp;
}

/* Modules are not given their names; those of the kernel itself stay where they are. */
void gpurt_job_start(void)
{
	for_each_kernel_tracepoint(look_at, NULL);
}

bool gpurt_job_can_notify(void)
{
	return tp_switch && tp_wakeup && tp_wakeup_new;
}

/* Also in the scheduler, with its locks held. */
static void look_soon(struct gpurt_gpu *gpu)
{
	if (arch_irq_work_has_interrupt())
		irq_work_queue(&gpu->job_irq);
	else
		hrtimer_start(&gpu->job_timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
}

static void changed(struct gpurt_gpu *gpu, struct task_struct *task)
{
	if (has_watched(gpu, task_tgid(task)))
		look_soon(gpu);
}

static void on_switch(COMPAT_SCHED_SWITCH_ARGS(gpu, prev, next, state))
{
	if (compat_switched_out_asleep(prev, state))
		changed(gpu, prev);
}

static void on_wakeup(void *gpu, struct task_struct *task)
{
	changed(gpu, task);
}

static int probes_add(struct gpurt_gpu *gpu)
{
	int err;

	if (!gpurt_job_can_notify())
		return -EOPNOTSUPP;
	err = tracepoint_probe_register(tp_switch, on_switch, gpu);
	if (err)
		return err;
	err = tracepoint_probe_register(tp_wakeup, on_wakeup, gpu);
	if (err)
		goto no_switch;
	err = tracepoint_probe_register(tp_wakeup_new, on_wakeup, gpu);
	if (!err)
		return 0;
	tracepoint_probe_unregister(tp_wakeup, on_wakeup, gpu);
no_switch:
	tracepoint_probe_unregister(tp_switch, on_switch, gpu);
	tracepoint_synchronize_unregister();
	return err;
}

static void probes_remove(struct gpurt_gpu *gpu)
{
	tracepoint_probe_unregister(tp_switch, on_switch, gpu);
	tracepoint_probe_unregister(tp_wakeup, on_wakeup, gpu);
	tracepoint_probe_unregister(tp_wakeup_new, on_wakeup, gpu);
	tracepoint_synchronize_unregister();
}

#else
static int probes_add(struct gpurt_gpu *gpu) { return -EOPNOTSUPP; }
static void probes_remove(struct gpurt_gpu *gpu) { }
static void look_soon(struct gpurt_gpu *gpu) { }
bool gpurt_job_can_notify(void) { return false; }
void gpurt_job_start(void) { }
#endif

/* The thread. */

/* The highest real-time priority among the process's runnable threads; whether there are any. */
static bool is_runnable(struct pid *tgid, u32 *priority)
{
	struct task_struct *leader = pid_task(tgid, PIDTYPE_TGID), *t;
	bool runnable = false;

	if (!leader)
		return false;
	for_each_thread(leader, t) {
		if (!compat_task_is_runnable(t))
			continue;
		runnable = true;
		if (t->policy == SCHED_FIFO || t->policy == SCHED_RR)
			*priority = max_t(u32, *priority, t->rt_priority);
	}
	return runnable;
}

struct job_update {
	struct gpurt_update u;
	u32 own;
	bool runnable;
};

static int decide_job(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct job_update *j = container_of(u, struct job_update, u);

	if (u->client->gone)
		return 0;
	return gpurt_job(&gpu->sched, &u->client->core, j->own, j->runnable, now);
}

/* Reports those whose state is @runnable now and was not, or whose priority changed. */
static void scan(struct gpurt_gpu *gpu, bool runnable)
{
	struct gpurt_client *client;

	gpurt_for_each_client(client, gpu) {
		struct job_update j = {
			.u = { .decide = decide_job, .client = client, .level = GPURT_MAX_PRIORITY },
		};

		if (!READ_ONCE(client->core.tsgs))
			continue;
		rcu_read_lock();
		j.runnable = is_runnable(client->tgid, &j.own);
		rcu_read_unlock();
		if (j.runnable != runnable)
			continue;
		if (!runnable)
			j.own = READ_ONCE(client->core.own);
		if (j.runnable != READ_ONCE(client->core.runnable) || j.own != READ_ONCE(client->core.own))
			gpurt_gate_update(gpu, &j.u);
	}
}

static void look(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, job_work);
	u64 began = ktime_get_ns(), updated = READ_ONCE(gpu->updated_ns), now, took;
	int token, reading;

	if (!gpurt_gpu_hold(gpu, &token))
		return;
	reading = gpurt_clients_read();
	/* Who starts first, then who stops: a hand-over is one update, not two. */
	scan(gpu, true);
	scan(gpu, false);
	gpurt_clients_done(reading);
	gpurt_gpu_release(gpu, token);
	/*
	 * Nothing on this CPU outranks this thread.  However short the period, and however often those who are
	 * watched change state, it leaves half of the time to everyone else.  What the driver needs to update the
	 * runlist is epsilon's, and does not count.
	 */
	now = ktime_get_ns();
	took = now - began;
	took -= min(took, READ_ONCE(gpu->updated_ns) - updated);
	WRITE_ONCE(gpu->job_rest, now + took);
}

/* How long until the thread may look again, ns. */
static u64 rest(struct gpurt_gpu *gpu)
{
	u64 until = READ_ONCE(gpu->job_rest), now = ktime_get_ns();

	return until > now ? until - now : 0;
}

static enum hrtimer_restart job_timer(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, job_timer);
	u64 wait = rest(gpu);

	if (!wait)
		kthread_queue_work(gpu->worker, &gpu->job_work);
	if (READ_ONCE(gpu->notice) == GPURT_NOTICE_NOTIFY) {
		/* Not forwarded: an interrupt on another CPU may have started it again by now. */
		if (wait)
			hrtimer_start(timer, ns_to_ktime(wait), HRTIMER_MODE_REL_HARD);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(READ_ONCE(gpu->poll_ns)));
	return HRTIMER_RESTART;
}

static void job_irq(struct irq_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, job_irq);
	u64 wait = rest(gpu);

	if (wait)
		hrtimer_start(&gpu->job_timer, ns_to_ktime(wait), HRTIMER_MODE_REL_HARD);
	else
		kthread_queue_work(gpu->worker, &gpu->job_work);
}

/* Which way to notice. */

static void stop(struct gpurt_gpu *gpu)
{
	if (gpu->job_probed)
		probes_remove(gpu);
	gpu->job_probed = false;
	irq_work_sync(&gpu->job_irq);
	hrtimer_cancel(&gpu->job_timer);
	kthread_flush_work(&gpu->job_work);
	gpu->job_active = false;
}

/* The timer goes off at once, so that what is true already is noticed. */
static void start(struct gpurt_gpu *gpu, const char **why)
{
	if (gpu->notice == GPURT_NOTICE_NOTIFY) {
		gpu->job_probed = !probes_add(gpu);
		if (!gpu->job_probed) {
			WRITE_ONCE(gpu->notice, GPURT_NOTICE_POLL);
			*why = "the scheduler's tracepoints are missing in this kernel: polling instead";
		}
	}
	gpu->job_active = true;
	hrtimer_start(&gpu->job_timer, 0, HRTIMER_MODE_REL_HARD);
}

struct policy_update {
	struct gpurt_update u;
	u32 policy;
};

static int decide_policy(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return gpurt_set_policy(&gpu->sched, container_of(u, struct policy_update, u)->policy, now);
}

/* -EINVAL with @why, or -ENODEV; on success @why may be a warning. */
int gpurt_job_set_policy(struct gpurt_gpu *gpu, u32 policy, u32 notice, u64 poll_ns, const char **why)
{
	struct policy_update p = { .u = { .decide = decide_policy }, .policy = policy };
	int err;

	if (poll_ns < POLL_MIN || poll_ns > POLL_MAX) {
		*why = "a polling period must be 0.1 ms to 10 s";
		return -EINVAL;
	}
	mutex_lock(&gpu->job_lock);
	stop(gpu);
	WRITE_ONCE(gpu->notice, notice);
	WRITE_ONCE(gpu->poll_ns, poll_ns);
	err = gpurt_update(gpu, &p.u);
	if (!err && policy == GPURT_POLICY_JOB && !READ_ONCE(gpu->dying))
		start(gpu, why);
	mutex_unlock(&gpu->job_lock);
	return err;
}

/* A process that opens a TSG is running, and there is no change of state to tell of it. */
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu)
{
	if (READ_ONCE(gpu->job_probed))
		look_soon(gpu);
}

void gpurt_job_init_gpu(struct gpurt_gpu *gpu)
{
	const char *why = NULL;

	mutex_init(&gpu->job_lock);
	compat_hrtimer_setup(&gpu->job_timer, job_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	compat_irq_work_init_hard(&gpu->job_irq, job_irq);
	kthread_init_work(&gpu->job_work, look);
	gpu->notice = GPURT_NOTICE_POLL;
	gpu->poll_ns = GPURT_POLL_DEFAULT_NS;
	if (gpu->sched.policy == GPURT_POLICY_JOB)
		start(gpu, &why);
}

/* The GPU is dying: nobody starts it again. */
void gpurt_job_stop(struct gpurt_gpu *gpu)
{
	mutex_lock(&gpu->job_lock);
	stop(gpu);
	mutex_unlock(&gpu->job_lock);
}
