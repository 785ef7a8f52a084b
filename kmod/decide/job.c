// SPDX-License-Identifier: GPL-2.0
/*
 * Policy `job`: the GPU belongs to the most urgent runnable task that uses it, for the task's whole
 * job.  The GPU's thread looks at the states of the clients' tasks.  The thread looks periodically
 * (`poll`), or when the scheduler's tracepoints report that a task's state changed (`notify`).  A
 * probe of a tracepoint runs with the scheduler's locks held, where nothing may be woken.  So it
 * raises an interrupt, which wakes the thread.  A machine that cannot interrupt itself sets a timer
 * instead.
 */
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/rcupdate.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <trace/events/sched.h>

#include "base/deps.h"
#include "base/looks.h"
#include "base/raised.h"
#include "base/tracepoints.h"
#include "compat.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/exits.h"

static GPURT_DEP(job_look);

static bool has_watched(struct gpurt_gpu *gpu, struct pid *tgid)
{
	return atomic_read(&gpu->job.watched[hash_ptr(tgid, GPURT_WATCH_BITS)]) > 0;
}

/* @change: 1 for a process that became a client, -1 for a process that is no longer a client. */
void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change)
{
	atomic_add(change, &gpu->job.watched[hash_ptr(tgid, GPURT_WATCH_BITS)]);
}

/* The client can be found from now on. */
void gpurt_job_join(struct gpurt_client *client)
{
	gpurt_looks_add(&client->gpu->job.looks, &client->looked);
	gpurt_job_watch(client->gpu, client->tgid, 1);
}

/* The client cannot be found any more. */
void gpurt_job_leave(struct gpurt_client *client)
{
	gpurt_looks_remove(&client->gpu->job.looks, &client->looked);
	gpurt_job_watch(client->gpu, client->tgid, -1);
}

/* Wakes the thread.  Any context, also with the scheduler's locks held. */
static void go_on(struct gpurt_gpu *gpu)
{
	if (arch_irq_work_has_interrupt())
		irq_work_queue(&gpu->job.irq);
	else
		hrtimer_start(&gpu->job.timer, 0, HRTIMER_MODE_REL_PINNED_HARD);
}

/* The same after a change. */
static void look_soon(struct gpurt_gpu *gpu)
{
	WRITE_ONCE(gpu->job.news, true);
	go_on(gpu);
}

/*
 * A kernel thread is no client, but may share its bucket with a client.  The GPU's own thread would see its own change
 * of state when it goes to sleep after a look, and look again for ever.
 */
static void changed(struct gpurt_gpu *gpu, struct task_struct *task)
{
	if (!(task->flags & PF_KTHREAD) && has_watched(gpu, task_tgid(task)))
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

static struct gpurt_probe probes[] = {
	GPURT_PROBE(sched_switch, on_switch),
	GPURT_PROBE(sched_wakeup, on_wakeup),
	GPURT_PROBE(sched_wakeup_new, on_wakeup),
};

void gpurt_job_find_tracepoints(void)
{
	gpurt_probes_find(probes, ARRAY_SIZE(probes));
}

bool gpurt_job_can_notify(void)
{
	return gpurt_probes_found(probes, ARRAY_SIZE(probes));
}

/*
 * Users choose how many clients and threads there are, and nothing else executes on this CPU during a look.  So a look
 * has limits.  It sees the THREADS oldest threads of a client that has been real-time, and at most THREADS clients and
 * threads in all.  A look at other clients sees the SOME_THREADS oldest threads of each client, and PART of these
 * clients and threads (and the rest of the last client's).  The lists keep the order of turns, so the next look
 * continues where this one stops.  Best-effort clients, however many, do not delay the look at a client that has been
 * real-time.  They do not make a look much longer either: real-time tasks of this CPU wait for it.
 */
#define THREADS 1024U
#define SOME_THREADS 512U
#define PART 32U
/* With `poll`, the time until the next look while more clients are to have a turn. */
#define SOON GPURT_POLL_MIN_NS

/*
 * Called with RCU held.  Whether any thread of the process is runnable.  Raises *@priority to the highest real-time
 * priority of runnable threads.  Adds to *@seen the number of threads that were looked at, from 1 to @most.
 */
static bool is_runnable(struct pid *tgid, u32 *priority, u32 most, u32 *seen)
{
	struct task_struct *leader = pid_task(tgid, PIDTYPE_TGID), *t;
	u32 until = *seen + most;
	bool runnable = false;

	++*seen;
	if (!leader)
		return false;
	for_each_thread(leader, t) {
		if (++*seen > until)
			break;
		if (!compat_task_is_runnable(t))
			continue;
		runnable = true;
		if (t->policy == SCHED_FIFO || t->policy == SCHED_RR)
			*priority = max_t(u32, *priority, gpurt_raised_own(t));
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

/*
 * Reports a change of the client's state or priority.  A client that has been real-time (@urgent)
 * is reported only if its state is @runnable now.
 */
static void look_at(struct gpurt_gpu *gpu, struct gpurt_client *client, bool runnable, bool urgent, u32 *seen)
{
	struct job_update j = { .u = { .decide = decide_job, .client = client, .level = GPURT_GATE_URGENT } };

	rcu_read_lock();
	j.runnable = is_runnable(client->tgid, &j.own, urgent ? THREADS : SOME_THREADS, seen);
	rcu_read_unlock();
	if (urgent && j.runnable != runnable)
		return;
	if (!j.runnable)
		j.own = READ_ONCE(client->core.own);
	if (j.runnable != READ_ONCE(client->core.runnable) || j.own != READ_ONCE(client->core.own))
		gpurt_gate_update(gpu, &j.u);
	if (gpurt_level_now(client))
		gpurt_exits_urgent(client);
}

/*
 * Called with the GPU held alive and clients kept from being freed.  Looks in turn at some of the clients that have
 * been real-time (@urgent), or at some of the others.
 */
static void scan(struct gpurt_gpu *gpu, bool runnable, bool urgent)
{
	u32 *left = &gpu->job.left[runnable][urgent], seen = 0, most = urgent ? THREADS : PART;
	struct gpurt_client *client;
	struct gpurt_looked *next;

	while (*left && seen < most) {
		next = gpurt_looks_next(&gpu->job.looks, runnable, urgent);
		client = next ? container_of(next, struct gpurt_client, looked) : NULL;
		*left = next ? *left - 1 : 0;
		seen++;
		if (next && READ_ONCE(client->core.tsgs))
			look_at(gpu, client, runnable, urgent, &seen);
	}
}

/* Likewise.  Returns false if more clients are to have a turn. */
static bool scan_all(struct gpurt_gpu *gpu)
{
	struct gpurt_job *job = &gpu->job;
	bool news = xchg(&job->news, false);
	u32 left = 0;
	int i;

	/* Without probes nothing reports changes. */
	for (i = 1; i < 4; i++)
		if (news || (!READ_ONCE(job->probed) && (i % 2 || !READ_ONCE(job->more))))
			job->left[i / 2][i % 2] = gpurt_looks_count(&job->looks, i % 2);
	/*
	 * First the tasks that started, then those that stopped, so that a hand-over is one update, not two.  In
	 * between the clients that have not been real-time: such a task starts when it becomes real-time.
	 */
	for (i = 3; i >= 1; i--) {
		scan(gpu, i / 2, i % 2);
		left |= job->left[i / 2][i % 2];
	}
	WRITE_ONCE(job->more, job->left[true][false]);
	return !left;
}

/* How long until the thread may look again, in ns. */
static u64 rest(struct gpurt_gpu *gpu)
{
	u64 until = READ_ONCE(gpu->job.rest_until), now = ktime_get_ns();

	return until > now ? until - now : 0;
}

static void look(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, job.look);
	u64 began = ktime_get_ns(), updated = READ_ONCE(gpu->runlist.updated_ns), now, took, wait = rest(gpu);
	int token, reading;
	bool all;

	/* A change or an expiry during the last look has queued this one before the rest began. */
	if (wait) {
		if (READ_ONCE(gpu->job.probed))
			hrtimer_start(&gpu->job.timer, ns_to_ktime(wait), HRTIMER_MODE_REL_HARD);
		return;
	}
	if (!gpurt_gpu_hold(gpu, &token))
		return;
	gpurt_dep_begin(&job_look);
	reading = gpurt_clients_read();
	all = scan_all(gpu);
	gpurt_clients_done(reading);
	gpurt_dep_end(&job_look);
	gpurt_gpu_release(gpu, token);
	/*
	 * No task on this CPU outranks this thread.  The thread rests for as long as it looked, which leaves half of
	 * the time to other tasks, however short the period is and however often tasks change state.  The driver's time
	 * for updates of the runlist does not count, because the analyses charge it as epsilon.
	 */
	now = ktime_get_ns();
	took = now - began;
	took -= min(took, READ_ONCE(gpu->runlist.updated_ns) - updated);
	WRITE_ONCE(gpu->job.rest_until, now + took);
	/* With `poll` the timer expires anyway. */
	if (!all && READ_ONCE(gpu->job.probed))
		go_on(gpu);
}

static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, job.timer);
	u64 wait = rest(gpu);

	if (!READ_ONCE(gpu->job.on))
		return HRTIMER_NORESTART;
	if (!wait)
		kthread_queue_work(gpu->worker, &gpu->job.look);
	if (READ_ONCE(gpu->job.notice) == GPURT_NOTICE_NOTIFY) {
		/* Started, not forwarded: an interrupt on another CPU may have restarted the timer. */
		if (wait)
			hrtimer_start(timer, ns_to_ktime(wait), HRTIMER_MODE_REL_HARD);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(READ_ONCE(gpu->job.more) ? SOON : READ_ONCE(gpu->job.poll_ns)));
	return HRTIMER_RESTART;
}

static void irq_raised(struct irq_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, job.irq);
	u64 wait = rest(gpu);

	if (!READ_ONCE(gpu->job.on))
		return;
	if (wait)
		hrtimer_start(&gpu->job.timer, ns_to_ktime(wait), HRTIMER_MODE_REL_HARD);
	else
		kthread_queue_work(gpu->worker, &gpu->job.look);
}

/* Called with gpu->policy_lock held. */
void gpurt_job_stop(struct gpurt_gpu *gpu)
{
	lockdep_assert_held(&gpu->policy_lock);
	WRITE_ONCE(gpu->job.on, false);
	if (gpu->job.probed)
		gpurt_probes_remove(probes, ARRAY_SIZE(probes), gpu);
	WRITE_ONCE(gpu->job.probed, false);
	gpurt_dep_wait(&job_look);
	kthread_flush_work(&gpu->job.look);	/* the work may raise the interrupt; no later work does */
	irq_work_sync(&gpu->job.irq);
	hrtimer_cancel(&gpu->job.timer);
	kthread_flush_work(&gpu->job.look);
}

/* Called with gpu->policy_lock held.  @why: a warning, or unchanged. */
void gpurt_job_start(struct gpurt_gpu *gpu, const char **why)
{
	lockdep_assert_held(&gpu->policy_lock);
	if (gpu->job.notice == GPURT_NOTICE_NOTIFY) {
		gpu->job.probed = !gpurt_probes_add(probes, ARRAY_SIZE(probes), gpu);
		if (!gpu->job.probed) {
			WRITE_ONCE(gpu->job.notice, GPURT_NOTICE_POLL);
			*why = "the scheduler's tracepoints are missing in this kernel: polling instead";
		}
	}
	WRITE_ONCE(gpu->job.news, true);
	WRITE_ONCE(gpu->job.on, true);
	/* The timer expires at once, so that tasks that are runnable already are noticed. */
	hrtimer_start(&gpu->job.timer, 0, HRTIMER_MODE_REL_HARD);
}

/*
 * Called with the GPU held alive, because it wakes the GPU's thread.  A process that opens a TSG is running already, so
 * no change of its state will be reported.
 */
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu)
{
	if (READ_ONCE(gpu->job.probed))
		look_soon(gpu);
}

void gpurt_job_init(struct gpurt_gpu *gpu)
{
	compat_hrtimer_setup(&gpu->job.timer, timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	compat_irq_work_init_hard(&gpu->job.irq, irq_raised);
	kthread_init_work(&gpu->job.look, look);
	gpurt_looks_init(&gpu->job.looks);
	gpu->job.notice = GPURT_NOTICE_POLL;
	gpu->job.poll_ns = GPURT_POLL_DEFAULT_NS;
}
