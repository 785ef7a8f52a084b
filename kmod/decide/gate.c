// SPDX-License-Identifier: GPL-2.0
/*
 * The gate: decisions about a GPU are taken one at a time, the one of the highest GPU priority first.
 *
 * The bounds rest on what this file does (docs/readings/model.md, assumptions A2 and A3).  An rt_mutex would serve its
 * waiters by their priority on the CPU, which may differ from their priority on the GPU.  Any task of higher CPU
 * priority could then preempt its holder in the middle of an update, for an unbounded time.  Here
 *
 *   - a waiter stays in the queue until it runs, and only the first of the queue may enter.  A less urgent task never
 *     passes a more urgent one that was woken but still waits for its CPU.  A more urgent task that arrives meanwhile
 *     does pass.
 *
 *   - the holder cannot be preempted.  Preemption is off while the caller takes the decision.  If the
 *     driver's commit() may sleep, the caller hands the update to the GPU's thread, which has the
 *     highest FIFO priority.  The gate stays closed until that thread has carried the update out.
 *
 * Under policy `boosted` a thread may be raised while its client owns the GPU.  Such a thread waits here at the
 * priority that it would have without its call, and keeps its CPU.  If it is handed the gate while its CPU executes
 * other threads, it is raised above all of them (boost.c).  The bounds for tasks that spin need both.
 *
 * The thread works only for updates.  A decision that changes no runlist costs only its caller's time, so best effort
 * cannot keep the thread busy by decisions.  Where best effort can cause updates (policies lock-*, agents that
 * register), it rests for as long as the thread has worked for it.
 *
 * On a GPU with groups, a decision may change a group on all GPUs of that group.  So gpurt_groups_lock is held, inside
 * the gate, while such a decision is taken, not while it is carried out.  No thread ever has two gates.
 *
 * Code that runs with the gate held must not allocate, nor sleep (except in such a commit), nor
 * take a lock that sleeps under PREEMPT_RT.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "base/deps.h"
#include "decide/decide.h"
#include "state/boost.h"
#include "state/client.h"
#include "state/events.h"
#include "state/netlink_family.h"
#include "state/team.h"

/* The longest time that a waiting thread keeps its CPU; libgpurt polls the user-space host for as long. */
#define SPIN_NS (20 * NSEC_PER_MSEC)

static GPURT_DEP(gate_held);

static struct gpurt_update *first(const struct gpurt_gate *gate)
{
	struct gpurt_turn *turn = gpurt_turns_first(&gate->turns);

	return turn ? container_of(turn, struct gpurt_update, turn) : NULL;
}

static bool is_next(const struct gpurt_gate *gate, const struct gpurt_update *u)
{
	return !gate->turns.held && first(gate) == u;
}

static void open_gate(struct gpurt_gate *gate)
{
	struct gpurt_update *next;

	raw_spin_lock(&gate->lock);
	gate->turns.held = false;
	gate->holder = NULL;
	next = first(gate);
	if (next) {
		if (next->caller == GPURT_CALLER_OFF)
			gpurt_boost_handed(next->client);
		WRITE_ONCE(next->caller, GPURT_CALLER_HANDED);
		wake_up_process(next->task);
	}
	raw_spin_unlock(&gate->lock);
}

/* Called with the gate held. */
static void decide(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	u64 now = ktime_get_ns();

	gpu->events_wanted = gpurt_netlink_heard();
	gpu->runlist.power_err = u->power_err;
	/* The runner does not have the GPU yet, or has lost it. */
	if (unlikely(gpu->runlist.fault || gpurt_runlist_is_held(gpu)))
		gpurt_uncharged(&gpu->sched, now);
	if (unlikely(READ_ONCE(gpu->groups))) {
		raw_spin_lock(&gpurt_groups_lock);
		u->ret = u->decide(gpu, u, now);
		raw_spin_unlock(&gpurt_groups_lock);
	} else {
		u->ret = u->decide(gpu, u, now);
	}
}

/* Called with the gate held, after decide().  Sleeps if the driver's commit() does. */
static void conclude(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	gpurt_runlist_conclude(gpu);
	u->fault = gpu->runlist.fault;
}

/* Called with the gate held.  The thread has worked since @since: if best effort caused that, it rests for as long. */
static void charge(struct gpurt_gate *gate, const struct gpurt_update *u, u64 since)
{
	u64 now = ktime_get_ns();

	if (!u->level)
		gate->rest_until = max(gate->rest_until, now) + now - since;
}

/* Called by the GPU's thread.  Carries out the update that the holder of the gate handed over, and opens the gate. */
static void work_for_holder(struct gpurt_gpu *gpu)
{
	struct gpurt_gate *gate = &gpu->gate;
	struct gpurt_update *u = gate->handed;
	struct task_struct *task = u->task;
	u64 since = ktime_get_ns();

	get_task_struct(task);
	gpurt_dep_begin(&gate_held);
	WRITE_ONCE(gate->handed, NULL);
	if (READ_ONCE(u->flags) & GPURT_UPDATE_IN_THREAD)
		decide(gpu, u);
	conclude(gpu, u);
	charge(gate, u, since);
	gpurt_dep_end(&gate_held);
	open_gate(gate);
	/* From here on @u belongs to its caller again, which may have returned.  Pairs with hand_over(). */
	smp_store_release(&u->caller, GPURT_CALLER_DONE);
	wake_up_process(task);
	put_task_struct(task);
}

static void handed_over(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, gate.work);

	/* The thread may have done this already, while it waited for the gate itself. */
	if (smp_load_acquire(&gpu->gate.handed))
		work_for_holder(gpu);
}

static bool is_thread(const struct gpurt_gpu *gpu)
{
	return gpu->thread == current;
}

/*
 * The caller was killed but must stay until its decision is taken: tells the driver not to wait for its process.  A
 * driver whose commit() does not sleep waits for no process, and its callers do not hold the GPU alive.
 */
static void tell_end(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	WRITE_ONCE(u->flags, u->flags | GPURT_UPDATE_TOLD);
	if (u->flags & GPURT_UPDATE_OWN && gpu->ops.commit_sleeps && gpu->ops.client_ends)
		gpu->ops.client_ends(gpu->driver, u->client->ctx, true);
}

/* Called before the caller checks whether its wait is over.  Holders are quick, so only fatal signals interrupt it. */
static void get_ready_to_sleep(const struct gpurt_update *u)
{
	set_current_state(u->flags & GPURT_UPDATE_TOLD ? TASK_UNINTERRUPTIBLE : TASK_KILLABLE);
}

/* Sleeps, or does what must not be delayed until the caller's wait is over. */
static void doze(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	/* Pairs with hand_over(). */
	if (is_thread(gpu) && smp_load_acquire(&gpu->gate.handed)) {
		__set_current_state(TASK_RUNNING);
		work_for_holder(gpu);
	} else if (!(u->flags & GPURT_UPDATE_TOLD) && fatal_signal_pending(current)) {
		__set_current_state(TASK_RUNNING);
		tell_end(gpu, u);
	} else {
		schedule();
	}
}

/*
 * Called with gate->lock held, which it releases for a time.  The caller takes the priority that it has without its
 * call, and lets more urgent tasks execute.
 */
static void give_way(struct gpurt_gate *gate, struct gpurt_update *u) __must_hold(&gate->lock)
{
	u->caller = GPURT_CALLER_OFF;
	raw_spin_unlock(&gate->lock);
	gpurt_boost_waits(u->client);
	cond_resched();
	raw_spin_lock(&gate->lock);
}

/* Called with preemption off.  Keeps the CPU for at most @ns.  Returns the time that is left. */
static u64 spin(const struct gpurt_update *u, u64 ns)
{
	u64 now = ktime_get_ns(), until = now + ns;

	while (READ_ONCE(u->caller) == GPURT_CALLER_SPINS && !need_resched() && now < until) {
		cpu_relax();
		now = ktime_get_ns();
	}
	return now < until ? until - now : 0;
}

/*
 * Called with gate->lock held, by the thread of a client of form `owner` or `fence`.  It keeps its CPU from less urgent
 * tasks until the gate is free and @u is the first.  It loses its CPU only in give_way(), so open_gate() knows whether
 * it sees at once that it has the gate.  It gives up after it has spun for SPIN_NS, because the thread before it in the
 * queue may wait for this CPU.  Time in which more urgent threads have the CPU does not count.
 */
static void spin_in_queue(struct gpurt_gate *gate, struct gpurt_update *u) __must_hold(&gate->lock)
{
	u64 left = SPIN_NS;

	while (!is_next(gate, u) && left) {
		if (gpurt_boost_passed(u->client) || need_resched()) {
			give_way(gate, u);
			continue;
		}
		WRITE_ONCE(u->caller, GPURT_CALLER_SPINS);
		preempt_disable();
		raw_spin_unlock(&gate->lock);
		left = spin(u, left);
		raw_spin_lock(&gate->lock);
		preempt_enable();
	}
	u->caller = GPURT_CALLER_OFF;
}

/*
 * Called with gate->lock held.  Returns with it held, when the gate is free and @u is the first; may have slept.  Not
 * inlined, to cost callers nothing that need not wait.
 */
static noinline void wait_in_queue(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;

	gpurt_turns_add(&gate->turns, &u->turn, u->level);
	if (u->flags & GPURT_UPDATE_OWN && u->level && gpurt_boost_is_owners(u->client)) {
		give_way(gate, u);
		if (gpurt_boost_spins(u->client))
			spin_in_queue(gate, u);
	}
	for (;;) {
		get_ready_to_sleep(u);
		if (is_next(gate, u))
			break;
		raw_spin_unlock(&gate->lock);
		doze(gpu, u);
		raw_spin_lock(&gate->lock);
	}
	__set_current_state(TASK_RUNNING);
	gpurt_turns_remove(&gate->turns, &u->turn);
}

/* Returns with the gate held and preemption off. */
static void enter(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;

	u->task = current;
	raw_spin_lock(&gate->lock);
	if (!gpurt_turns_may_enter(&gate->turns, u->level))
		wait_in_queue(gpu, u);
	gate->turns.held = true;
	gate->holder = current;
	preempt_disable();
	raw_spin_unlock(&gate->lock);
	gpurt_dep_begin(&gate_held);
}

static void leave(struct gpurt_gate *gate)
{
	gpurt_dep_end(&gate_held);
	open_gate(gate);
	preempt_enable();
}

/* Called with the gate held and preemption off.  Returns when the thread has carried out the update. */
static void hand_over(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;

	u->caller = GPURT_CALLER_SLEEPS;
	gpurt_dep_end(&gate_held);	/* from now on the thread holds the gate */
	gate->holder = gpu->worker->task;
	/* Pairs with doze() and handed_over(): a thread that sees @handed also sees the update. */
	smp_store_release(&gate->handed, u);
	kthread_queue_work(gpu->worker, &gate->work);
	/* In the middle of other work, the thread may be waiting for the gate. */
	wake_up_process(gpu->worker->task);
	/* Not earlier: a caller that is preempted before it has told the thread blocks the gate for everyone. */
	preempt_enable();
	for (;;) {
		get_ready_to_sleep(u);
		/* Pairs with work_for_holder(): a caller that sees that it is done also sees the result. */
		if (smp_load_acquire(&u->caller) == GPURT_CALLER_DONE)
			break;
		doze(gpu, u);
	}
	__set_current_state(TASK_RUNNING);
}

/* Like enter(), but a best-effort caller rests first if best effort has caused updates. */
static void enter_rested(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	struct gpurt_gate *gate = &gpu->gate;
	ktime_t until;

	for (;;) {
		enter(gpu, u);
		until = ns_to_ktime(gate->rest_until);
		if (!(u->flags & GPURT_UPDATE_RESTS) || u->level || ktime_after(ktime_get(), until) ||
		    fatal_signal_pending(current))
			break;
		leave(gate);
		set_current_state(TASK_KILLABLE);
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	}
}

/* The driver's commit() sleeps, and the caller holds the GPU alive. */
static void update_in_thread(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	enter_rested(gpu, u);
	if (is_thread(gpu)) {
		preempt_enable();
		decide(gpu, u);
		conclude(gpu, u);
		gpurt_dep_end(&gate_held);
		open_gate(&gpu->gate);
		return;
	}
	if (!(u->flags & GPURT_UPDATE_IN_THREAD))
		decide(gpu, u);
	if (u->flags & GPURT_UPDATE_IN_THREAD || gpu->runlist.due) {
		hand_over(gpu, u);
	} else {
		conclude(gpu, u);
		leave(&gpu->gate);
	}
}

/* The driver's commit() does not sleep. */
static void update_here(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	enter(gpu, u);
	/* gpurt_gpu_stop() waits until preemption is on again. */
	if (likely(!READ_ONCE(gpu->dying) || u->flags & GPURT_UPDATE_LAST)) {
		decide(gpu, u);
		conclude(gpu, u);
	} else {
		u->ret = -ENODEV;
	}
	leave(&gpu->gate);
}

/*
 * Called before the caller asks for the gate, because waking a GPU takes long.  Returns 0 if the GPU is powered.
 * Returns -EIO if it cannot be powered: the driver's own error could mean something else as a commit's answer.  Returns
 * -EAGAIN while a reset or a suspend is under way.  Nothing is committed until that is over, and a GPU that is being
 * suspended must not be woken.
 */
static int power_up(struct gpurt_gpu *gpu)
{
	if (atomic_read(&gpu->runlist.holds))
		return -EAGAIN;
	return gpu->ops.power(gpu->driver, true) < 0 ? -EIO : 0;
}

/*
 * Has the decision taken and carried out; returns the value of decide().  The caller holds the GPU alive, or neither
 * commit() nor power() of the driver sleeps.  In the second case returns -ENODEV once the driver is going away.
 */
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	if (gpu->ops.power)
		u->power_err = power_up(gpu);
	if (gpu->ops.commit_sleeps)
		update_in_thread(gpu, u);
	else
		update_here(gpu, u);
	if (gpu->ops.power && !u->power_err)
		gpu->ops.power(gpu->driver, false);
	return u->ret;
}

/* The same for a caller that does not hold the GPU alive.  -ENODEV once the driver is going away. */
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u)
{
	int token, ret;

	if (!gpu->ops.commit_sleeps && !gpu->ops.power)
		return gpurt_gate_update(gpu, u);
	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	ret = gpurt_gate_update(gpu, u);
	gpurt_gpu_release(gpu, token);
	return ret;
}

void gpurt_gate_init(struct gpurt_gate *gate)
{
	raw_spin_lock_init(&gate->lock);
	gpurt_turns_init(&gate->turns);
	gate->holder = NULL;
	gate->handed = NULL;
	gate->rest_until = 0;
	kthread_init_work(&gate->work, handed_over);
}
