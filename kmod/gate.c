// SPDX-License-Identifier: GPL-2.0
/*
 * The gate: decisions about a GPU are taken one at a time, the one of the highest GPU priority first.
 *
 * The bounds rest on what this file does (docs/readings.md, assumptions A2 and A3).  An rt_mutex would serve its
 * waiters by their priority on the CPU, which may differ from the one on the GPU; and any task of higher CPU priority
 * could preempt its holder in the middle of an update, for an unbounded time.  Here
 *
 *   - a waiter stays in the queue until it runs, and only the first of the queue may enter.  A less urgent task never
 *     passes a more urgent one that was woken but has not got its CPU yet.  A more urgent task that arrives meanwhile
 *     does pass;
 *   - the holder cannot be preempted.  If the driver's commit() does not sleep, preemption is off until the decision
 *     is carried out.  If commit() may sleep, the GPU's thread, which has the highest FIFO priority, takes the
 *     decisions for the callers.
 *
 * Code that runs with the gate held must not allocate, must not sleep (except in such a commit), and must not take a
 * lock that sleeps under PREEMPT_RT.
 */
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "client.h"
#include "events.h"
#include "gate.h"
#include "gpu.h"

static struct gpurt_update *first(const struct gpurt_gate *gate)
{
	struct gpurt_turn *turn = gpurt_turns_first(&gate->turns);

	return turn ? container_of(turn, struct gpurt_update, turn) : NULL;
}

/* Called with gate->lock held.  Returns with it held, when the gate is free and @u is the first; may have slept. */
static void wait_in_queue(struct gpurt_gate *gate, struct gpurt_update *u)
{
	gpurt_turns_add(&gate->turns, &u->turn, u->level);
	for (;;) {
		/* Signals do not interrupt this wait: every holder is quick, and a waiter must leave the queue. */
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (!gate->turns.held && first(gate) == u)
			break;
		raw_spin_unlock(&gate->lock);
		schedule();
		raw_spin_lock(&gate->lock);
	}
	__set_current_state(TASK_RUNNING);
	gpurt_turns_remove(&gate->turns, &u->turn);
}

/* Returns with the gate held and preemption off. */
static void enter(struct gpurt_gate *gate, struct gpurt_update *u)
{
	u->task = current;
	raw_spin_lock(&gate->lock);
	if (!gpurt_turns_may_enter(&gate->turns, u->level))
		wait_in_queue(gate, u);
	gate->turns.held = true;
	gate->holder = current;
	preempt_disable();
	raw_spin_unlock(&gate->lock);
}

static void leave(struct gpurt_gate *gate)
{
	struct gpurt_update *next;

	raw_spin_lock(&gate->lock);
	gate->turns.held = false;
	gate->holder = NULL;
	next = first(gate);
	if (next)
		wake_up_process(next->task);
	raw_spin_unlock(&gate->lock);
	preempt_enable();
}

/* Called with the gate held. */
static void decide(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	u64 now = ktime_get_ns();

	gpu->events_wanted = gpurt_events_wanted();
	u->ret = u->decide(gpu, u, now);
	gpurt_runlist_set_timer(gpu);
}

/* The GPU's thread takes the decisions that wait, the most urgent first. */
static void decide_for_others(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, gate.delegated);
	struct gpurt_gate *gate = &gpu->gate;
	struct task_struct *task;
	struct gpurt_update *u;

	raw_spin_lock(&gate->lock);
	while ((u = first(gate))) {
		gpurt_turns_remove(&gate->turns, &u->turn);
		raw_spin_unlock(&gate->lock);
		decide(gpu, u);
		task = u->task;
		get_task_struct(task);
		/* From here on @u belongs to its caller again, which may have returned.  Pairs with delegate(). */
		smp_store_release(&u->done, true);
		wake_up_process(task);
		put_task_struct(task);
		raw_spin_lock(&gate->lock);
	}
	raw_spin_unlock(&gate->lock);
}

/* The caller was killed but must stay until its decision is taken.  Tell the driver not to wait for its process. */
static void tell_end(struct gpurt_gpu *gpu, const struct gpurt_update *u)
{
	if (u->own && gpu->ops->client_ends)
		gpu->ops->client_ends(gpu->driver, u->client->ctx, true);
}

/* Waits until the GPU's thread has taken the decision. */
static void delegate(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;
	bool told = false;

	u->task = current;
	u->done = false;
	raw_spin_lock(&gate->lock);
	gpurt_turns_add(&gate->turns, &u->turn, u->level);
	raw_spin_unlock(&gate->lock);
	kthread_queue_work(gpu->worker, &gate->delegated);
	for (;;) {
		set_current_state(told ? TASK_UNINTERRUPTIBLE : TASK_KILLABLE);
		/* Pairs with decide_for_others(): a caller that sees @done also sees the result. */
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
 * Has the decision taken and carried out; returns what decide() returned.  The caller holds the GPU alive, or the
 * driver's commit() does not sleep.  In the second case -ENODEV once the driver is going away.
 */
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	if (!gpu->ops->commit_sleeps) {
		enter(&gpu->gate, u);
		/* gpurt_gpu_stop() waits until preemption is on again. */
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

/* The same for a caller that does not hold the GPU alive.  -ENODEV once the driver is going away. */
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

#ifdef GPURT_DEBUG
void gpurt_gate_assert_held(const struct gpurt_gpu *gpu)
{
	WARN_ON_ONCE(current != (gpu->ops->commit_sleeps ? gpu->worker->task : READ_ONCE(gpu->gate.holder)));
}
#endif

void gpurt_gate_init(struct gpurt_gate *gate)
{
	raw_spin_lock_init(&gate->lock);
	gpurt_turns_init(&gate->turns);
	gate->holder = NULL;
	kthread_init_work(&gate->delegated, decide_for_others);
}
