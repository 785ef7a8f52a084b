// SPDX-License-Identifier: GPL-2.0
/*
 * The gate: decisions about a GPU are taken one at a time, and whoever is more urgent on the GPU goes first.
 *
 * The bounds rest on what this file does (docs/readings.md, assumptions A2 and A3).  An rt_mutex would serve
 * its waiters by their priority on the CPU, which need not be the one on the GPU, and a task above all of
 * them could preempt its holder in the middle of an update, for as long as it likes.  Here
 *
 *   - those who wait stay in the queue until they run, and only the first of the queue may enter: a less
 *     urgent task never passes a more urgent one that was woken but has not got its CPU yet; a more urgent
 *     one that comes meanwhile does pass;
 *   - who is inside cannot be preempted.  If the driver's commit() does not sleep, preemption is off until
 *     the decision is carried out.  If it may sleep, the GPU's thread decides for the callers, at the
 *     highest FIFO priority.
 *
 * Nothing that is called inside may allocate, sleep (but for such a commit), or take a lock that sleeps under
 * PREEMPT_RT.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>

#include "internal.h"

void gpurt_gate_init(struct gpurt_gate *gate)
{
	raw_spin_lock_init(&gate->lock);
	gate->held = false;
	gpurt_queue_init(&gate->waiters);
}

static struct gpurt_update *first(const struct gpurt_gate *gate)
{
	struct list_head *node = gpurt_queue_first(&gate->waiters);

	return node ? list_entry(node, struct gpurt_update, node) : NULL;
}

/* Called with the lock held; returns with the gate and without the lock.  May have slept, unless @u is first. */
static void wait_in_queue(struct gpurt_gate *gate, struct gpurt_update *u)
{
	gpurt_queue_add(&gate->waiters, &u->node, u->level);
	for (;;) {
		/* Not to be interrupted: every stay inside is short, and a waiter must leave the queue. */
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (!gate->held && first(gate) == u)
			break;
		raw_spin_unlock(&gate->lock);
		schedule();
		raw_spin_lock(&gate->lock);
	}
	__set_current_state(TASK_RUNNING);
	gpurt_queue_del(&gate->waiters, &u->node, u->level);
}

/* Returns with preemption off. */
static void enter(struct gpurt_gate *gate, struct gpurt_update *u)
{
	struct gpurt_update *other;

	u->task = current;
	raw_spin_lock(&gate->lock);
	other = first(gate);
	if (gate->held || (other && other->level >= u->level))
		wait_in_queue(gate, u);
	gate->held = true;
	preempt_disable();
	raw_spin_unlock(&gate->lock);
}

static void leave(struct gpurt_gate *gate)
{
	struct gpurt_update *next;

	raw_spin_lock(&gate->lock);
	gate->held = false;
	next = first(gate);
	if (next)
		wake_up_process(next->task);
	raw_spin_unlock(&gate->lock);
	preempt_enable();
}

static void decide(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	u64 now = ktime_get_ns();

	gpu->wanted = gpurt_events_wanted();
	u->ret = u->decide(gpu, u, now);
	gpurt_sched_after(gpu, now);
}

/* The GPU's thread: takes the decisions that wait, the most urgent first. */
void gpurt_gate_delegated(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, delegated_work);
	struct gpurt_gate *gate = &gpu->gate;
	struct task_struct *task;
	struct gpurt_update *u;

	raw_spin_lock(&gate->lock);
	while ((u = first(gate))) {
		gpurt_queue_del(&gate->waiters, &u->node, u->level);
		raw_spin_unlock(&gate->lock);
		decide(gpu, u);
		task = u->task;
		get_task_struct(task);
		/* From here on @u is its owner's again, who may be gone.  Pairs with delegate(). */
		smp_store_release(&u->done, true);
		wake_up_process(task);
		put_task_struct(task);
		raw_spin_lock(&gate->lock);
	}
	raw_spin_unlock(&gate->lock);
}

/* The caller is killed, and cannot end before its decision is taken: which need not wait for its process. */
static void tell_end(struct gpurt_gpu *gpu, const struct gpurt_update *u)
{
	if (u->own && gpu->ops->client_ends)
		gpu->ops->client_ends(gpu->driver, u->client->ctx, true);
}

static void delegate(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;
	bool told = false;

	u->task = current;
	u->done = false;
	raw_spin_lock(&gate->lock);
	gpurt_queue_add(&gate->waiters, &u->node, u->level);
	raw_spin_unlock(&gate->lock);
	kthread_queue_work(gpu->worker, &gpu->delegated_work);
	for (;;) {
		set_current_state(told ? TASK_UNINTERRUPTIBLE : TASK_KILLABLE);
		/* Pairs with gpurt_gate_delegated(): who sees that it is done sees the result. */
		if (smp_load_acquire(&u->done))
			break;
		if (told || !fatal_signal_pending(current)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		tell_end(gpu, u);
		told = true;
	}
	__set_current_state(TASK_RUNNING);
}

/*
 * Has the decision taken and carried out; returns what it returned.  The caller holds the GPU alive, or else
 * its driver's commit() does not sleep: then -ENODEV once the driver is going away.
 */
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	if (!gpu->ops->commit_sleeps) {
		enter(&gpu->gate, u);
		/* Preemption is off, which gpu_stop() waits for. */
		if (likely(!READ_ONCE(gpu->dying)))
			decide(gpu, u);
		else
			u->ret = -ENODEV;
		leave(&gpu->gate);
	} else if (gpu->worker->task == current) {
		decide(gpu, u);
	} else {
		delegate(gpu, u);
	}
	return u->ret;
}
