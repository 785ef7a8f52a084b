// SPDX-License-Identifier: GPL-2.0
/*
 * The runlist of a GPU.  The scheduler (core/sched.c) asks for updates and says which clients gained and lost the GPU.
 * This file has the driver carry out the updates, with the gate held.  Then it tells clients that they gained or lost
 * the GPU, as core/grants.c decides, and wakes those that gained it.  The file updates.c has the work without a caller,
 * and clients/aftermath.c what follows an update.
 */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

#include "base/workers.h"
#include "decide/decide.h"
#include "state/boost.h"
#include "state/client.h"
#include "state/events.h"
#include "state/exits.h"
#include "state/team.h"
#include "state/wake.h"

static unsigned int stuck_ms = GPURT_STUCK_DEFAULT_NS / NSEC_PER_MSEC;
module_param(stuck_ms, uint, 0644);
MODULE_PARM_DESC(stuck_ms, "Report an owner that sleeps while its GPU idles and others wait, after this time; 0: never");

static struct gpurt_gpu *gpu_of(struct gpurt_sched *s)
{
	return container_of(s, struct gpurt_gpu, sched);
}

/* Warns, in a module built with GPURT_DEBUG=y, if the caller does not hold the gate. */
static void assert_held(const struct gpurt_gpu *gpu)
{
#ifdef GPURT_DEBUG
	WARN_ON_ONCE(current != READ_ONCE(gpu->gate.holder));
#endif
}

/*
 * Called with the gate held, after the runlist became everyone's, or became what it should be.  Any number of clients
 * may wait for that, so they are woken later, without the gate.
 */
static void resume_later(struct gpurt_gpu *gpu)
{
	/* Pairs with the increment in wait_counted(): a waiter that is not seen here sees the new runner. */
	smp_mb();
	if (atomic_read(&gpu->waiting) || gpu->runlist.grants.owing)
		queue_work(gpurt_updates, &gpu->runlist.aftermath);
}

/* Called with the gate held.  Reports the event. */
static void tell(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	if (gpu->events_wanted)
		gpurt_event(gpu, client, event, now, 0, 0);
}

/* Called with the gate held.  The client (NULL: everyone) may use the GPU from now on, and is told so. */
static void gained(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	tell(gpu, client, event, now);
	if (client) {
		client->granted_at = now;
		gpurt_wait_wake(client);
	} else {
		resume_later(gpu);
	}
}

/* Called with the gate held.  The client (NULL: everyone) gained or lost the GPU: GRANT, RESUME or PREEMPT. */
static void grants_change(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	/* If nothing is owed or becomes owed, the client is told.  The check here spares most decisions a call. */
	if (unlikely(r->fault || r->grants.owing) &&
	    !gpurt_grants_tell(&r->grants, client ? &client->core : NULL, event, r->fault))
		return;
	if (event == GPURT_EVENT_PREEMPT)
		tell(gpu, client, event, now);
	else
		gained(gpu, client, event, now);
}

/* Called with the gate held, after an update succeeded.  The client (NULL: everyone) has the GPU. */
void gpurt_grants_settle(struct gpurt_gpu *gpu, struct gpurt_client *client, u64 now)
{
	u32 event = gpurt_grants_take(&gpu->runlist.grants, client ? &client->core : NULL);

	if (event)
		gained(gpu, client, event, now);
}

/* In ns; 0: no look for stuck owners is wanted, or the driver does not report whether the GPU executes anything. */
u64 gpurt_stuck_limit(const struct gpurt_gpu *gpu)
{
	return gpu->ops.quiet ? (u64)READ_ONCE(stuck_ms) * NSEC_PER_MSEC : 0;
}

/* Called with the gate held.  The GPU has an owner: stuck.c looks at it GPURT_STUCK_LOOKS times in the bound. */
void gpurt_stuck_arm(struct gpurt_gpu *gpu)
{
	u64 limit = gpurt_stuck_limit(gpu);

	if (gpu->stuck.armed || !limit)
		return;
	gpu->stuck.armed = true;
	queue_delayed_work(gpurt_workers, &gpu->stuck.look, max(1UL, nsecs_to_jiffies(limit / GPURT_STUCK_LOOKS)));
}

/*
 * Called with the gate held.  A commit is over.  The client that should be alone stays on the runlist until a later
 * update has been carried out.
 */
static void record(struct gpurt_gpu *gpu, int err, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	gpurt_latency_record(&r->latency[r->cause], now - r->decided);
	WRITE_ONCE(r->updated_ns, r->updated_ns + now - r->decided);
	r->flight = false;
	r->broken = err == -ENOTRECOVERABLE;
	WRITE_ONCE(r->fault, err);
	gpurt_updated(&gpu->sched, now, err ? 0 : r->switch_ns);
	if (!err) {
		if (unlikely(gpu->sched.updating))
			gpurt_boost_over(&gpu->sched, NULL, now);
		r->stale = 0;
		WRITE_ONCE(r->carried, r->commits);
		gpurt_retry_init(&r->retry);
	} else {
		gpurt_boost_lost(&gpu->sched, now);
		r->faults++;
		WRITE_ONCE(r->err, err);
		gpurt_retry_failed(&r->retry, r->cause, now);
		if (r->broken)
			r->retry.at = U64_MAX;
	}
	if (gpu->events_wanted)
		gpurt_event(gpu, r->only ? gpurt_voice(r->only) : NULL, GPURT_EVENT_COMMIT, r->decided, r->cause,
			    now - r->decided);
}

/* Whether the client's TSGs are certainly not alone on the runlist, not even after a failed update.  Any context. */
bool gpurt_runlist_is_off(const struct gpurt_client *client)
{
	return !READ_ONCE(client->attempt) || READ_ONCE(client->gpu->runlist.carried) > READ_ONCE(client->attempt);
}

/* Called with the gate held.  The driver gets a new commit, and its answers to older commits no longer count. */
static u64 next_sequence(struct gpurt_runlist *r)
{
	u64 sequence = r->sequence + 1;

	WRITE_ONCE(r->sequence, sequence);
	/* Pairs with gpurt_gpu_committed(): a driver that knows the number is believed. */
	smp_wmb();
	return sequence;
}

/*
 * Whether a reset or a suspend is under way, or is over and the runlist has not been made anew.  Then no client has the
 * GPU, and the answers to commits do not hold.  Any context.
 */
bool gpurt_runlist_is_held(const struct gpurt_gpu *gpu)
{
	if (atomic_read(&gpu->runlist.holds))
		return true;
	smp_rmb();	/* pairs with gpurt_gpu_reset_done() */
	return READ_ONCE(gpu->runlist.replay);
}

/* Whether the client's TSGs are on the runlist.  For readers without the gate. */
bool gpurt_client_granted(const struct gpurt_client *client)
{
	/* Pairs with apply(): a reader that sees the runner also sees whether the commit succeeded. */
	struct gpurt_sched_client *runner = smp_load_acquire(&client->gpu->runlist.runner);

	if (READ_ONCE(client->gpu->runlist.fault) || gpurt_runlist_is_held(client->gpu))
		return false;
	return !runner || runner == READ_ONCE(client->core.entry) || READ_ONCE(client->core.exempt);
}

/* Called with the gate held.  The runlist is unknown, and no commit is tried until a reset or suspend ends. */
static void suspend_updates(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	gpurt_updated(&gpu->sched, now, 0);
	gpurt_boost_lost(&gpu->sched, now);
	next_sequence(r);
	r->flight = false;
	r->stale = U32_MAX;
	WRITE_ONCE(r->fault, true);
	gpurt_retry_init(&r->retry);
}

/* The driver's context of an owner. */
static void *ctx_of(struct gpurt_sched_client *owner)
{
	if (unlikely(owner->group))
		return gpurt_seat_of(owner)->ctx;
	return gpurt_client_of(owner)->ctx;
}

/* Called with the gate held.  Returns 0, -EINPROGRESS, or the driver's error. */
static int call_driver(struct gpurt_gpu *gpu, struct gpurt_sched_client *only)
{
	struct gpurt_runlist *r = &gpu->runlist;
	struct gpurt_commit c = {
		.only = only ? ctx_of(only) : NULL, .now = r->decided, .sequence = next_sequence(r),
		.runlists = r->stale & gpu->ops.runlists,
	};

	return r->power_err ? r->power_err : gpu->ops.commit(gpu->driver, &c);
}

/* Called with the gate held.  The driver has answered a commit: @err: 0, -EINPROGRESS, or the driver's error. */
static void answered(struct gpurt_gpu *gpu, int err)
{
	struct gpurt_runlist *r = &gpu->runlist;

	/* A reset that began during the commit undoes it; after the reset the runlist is made anew. */
	if (gpurt_runlist_is_held(gpu)) {
		suspend_updates(gpu, ktime_get_ns());
	} else if (err == -EINPROGRESS) {
		r->flight = true;
		WRITE_ONCE(r->fault, true);
		r->retry.cause = r->cause;
		r->retry.at = r->decided + gpu->ops.bound_ns;
	} else {
		record(gpu, err, ktime_get_ns());
	}
}

/* Called with the gate held.  Calls @fn for each member in a segment. */
static noinline void each(struct gpurt_sched_client *owner, void (*fn)(struct gpurt_client *client))
{
	struct gpurt_client *client;

	list_for_each_entry(client, &owner->group->inside, core.in_segments)
		fn(client);
}

/* Called with the gate held.  The GPU passes from @from to @to (NULL: to all clients). */
static void change_hands(struct gpurt_sched_client *from, struct gpurt_sched_client *to)
{
	if (from && likely(!from->group))
		gpurt_exits_calm(gpurt_client_of(from));
	else if (from)
		each(from, gpurt_exits_calm);
	if (to && unlikely(!to->level)) {
		if (to->group)
			each(to, gpurt_exits_holds);
		else
			gpurt_exits_holds(gpurt_client_of(to));
	}
}

/* Called with the gate held.  Has the driver give the runlist to the scheduler's runner (NULL: to everyone). */
static void apply(struct gpurt_gpu *gpu)
{
	struct gpurt_sched_client *only = gpu->sched.runner;
	struct gpurt_runlist *r = &gpu->runlist;

	if (r->only != only || r->cause == GPURT_CAUSE_EXEMPT)
		r->stale = U32_MAX;
	if (r->only != only)
		change_hands(r->only, only);
	smp_store_release(&r->only, only);	/* pairs with gpurt_may_run() */
	r->commits++;
	if (only && likely(!only->group))
		gpurt_client_of(only)->attempt = r->commits;
	if (r->broken || gpurt_runlist_is_held(gpu)) {
		suspend_updates(gpu, r->decided);
	} else if (r->power_err == -EAGAIN) {
		/* The reset ended, and the runlist was made anew, while this decision waited without power. */
		suspend_updates(gpu, r->decided);
		WRITE_ONCE(r->replay, true);
		gpurt_runlist_look(gpu);
	} else {
		answered(gpu, call_driver(gpu, only));
	}
	if (!only)
		r->everyone_since = r->decided;
	/* Pairs with gpurt_client_granted(): a reader that sees the runner also sees the fault. */
	smp_store_release(&r->runner, only);
	if (only && !gpu->stuck.armed)
		gpurt_stuck_arm(gpu);
}

/* Called with the gate held.  Notes that the runlist must become the runner's; gpurt_runlist_conclude() follows. */
static void want(struct gpurt_gpu *gpu, u32 cause, u64 now)
{
	gpu->runlist.due = true;
	gpu->runlist.cause = cause;
	gpu->runlist.decided = now;
}

/* Called with the gate held. */
static void runlist_commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	want(gpu_of(s), cause, now);
}

/* Called with the gate held.  Reports the update's changes once it is carried out. */
static void change_later(struct gpurt_runlist *r, struct gpurt_client *client, u32 event, u64 now)
{
	if (!WARN_ON_ONCE(r->changes == GPURT_CHANGES))
		r->change[r->changes++] = (struct gpurt_change){ client, event, now };
}

/* Called with the gate held. */
static void runlist_event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 event, u64 now)
{
	struct gpurt_client *client = c ? gpurt_client_of(c) : NULL;
	struct gpurt_gpu *gpu = gpu_of(s);

	assert_held(gpu);
	switch (event) {
	case GPURT_EVENT_GRANT:
	case GPURT_EVENT_PREEMPT:
	case GPURT_EVENT_RESUME:
		if (gpu->runlist.due)
			change_later(&gpu->runlist, client, event, now);
		else
			grants_change(gpu, client, event, now);
		return;
	case GPURT_EVENT_END:
	case GPURT_EVENT_GONE:
		if (gpu->runlist.grants.owing)
			gpurt_grants_take(&gpu->runlist.grants, &client->core);
		gpurt_wait_wake(client);	/* a call that waits for a grant must return ENOENT */
		break;
	}
	tell(gpu, client, event, now);
}

/* Called with the gate held. */
static void runlist_raise(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now)
{
	gpurt_boost_wanted(gpurt_client_of(c), level);
}

/*
 * Called with the gate and gpurt_groups_lock held.  The key of the group has changed on this GPU.  The threads of the
 * group's other GPUs change it there: gpurt_updates_settle().
 */
static void runlist_regroup(struct gpurt_sched *s, struct gpurt_group *group, u64 now)
{
	struct gpurt_seat *seat;

	rcu_read_lock();	/* gpurt_gpu_dies() waits for it, and the thread ends afterwards */
	list_for_each_entry(seat, &group->gpus, core.in_group) {
		if (!seat->core.unsettled || !seat->core.members || READ_ONCE(seat->gpu->dying))
			continue;
		kref_get(&seat->team->ref);
		/* Work that waits already has a reference.  This is not the last one: the group has members. */
		if (!kthread_queue_work(seat->gpu->worker, &seat->settle))
			gpurt_team_put(seat->team);
	}
	rcu_read_unlock();
}

static const struct gpurt_sched_ops runlist_ops = {
	.commit = runlist_commit,
	.event = runlist_event,
	.raise = runlist_raise,
	.regroup = runlist_regroup,
};

/* Called with the gate held.  The client is the owner, or its member, and now has the GPU. */
static void settle(struct gpurt_client *client)
{
	gpurt_grants_settle(client->gpu, client, ktime_get_ns());
	gpurt_wait_wake(client);
}

/*
 * Called with the gate held.  An update succeeded that took longer than its decision, or came after failed updates.
 * Tells clients that they may use the GPU, if they have not been told so.  Every waiting call checks again.
 */
static void fault_over(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_sched_client *runner = gpu->sched.runner;
	struct gpurt_runlist *r = &gpu->runlist;

	gpurt_uncharged(&gpu->sched, now);
	if (!runner)
		gpurt_grants_settle(gpu, NULL, now);
	else if (runner->group)
		each(runner, settle);
	else
		settle(gpurt_client_of(runner));
	/* Pairs with wait_counted() and leave_soon(): a waiter that is not seen here sees that the fault is over. */
	smp_mb();
	if (atomic_read(&gpu->waiting) || r->grants.owing || atomic_read(&r->leaving))
		queue_work(gpurt_updates, &r->aftermath);
}

/* Called with the gate held.  The decision wants an update. */
static void carry_out(struct gpurt_gpu *gpu)
{
	struct gpurt_runlist *r = &gpu->runlist;
	bool fault = r->fault;
	u32 i;

	r->due = false;
	apply(gpu);
	for (i = 0; i < r->changes; i++)
		grants_change(gpu, r->change[i].client, r->change[i].event, r->change[i].time);
	r->changes = 0;
	if (r->fault && !r->flight)
		queue_work(gpurt_updates, &r->aftermath);
	else if (!r->fault && fault)
		fault_over(gpu, ktime_get_ns());
}

/* Called with the gate held. */
static void set_timer(struct gpurt_gpu *gpu)
{
	struct gpurt_runlist *r = &gpu->runlist;
	u64 next = r->fault ? r->retry.at : gpu->sched.deadline;

	assert_held(gpu);	/* also after a commit that has slept */
	if (next == r->armed)
		return;
	r->armed = next;
	if (next == U64_MAX)
		hrtimer_try_to_cancel(&r->timer);
	else	/* a time beyond the clock's range never comes, and must not count as past */
		hrtimer_start(&r->timer, ns_to_ktime(min_t(u64, next, KTIME_MAX)), HRTIMER_MODE_ABS_HARD);
}

/* Called with the gate held, after every decision.  Sleeps if the driver's commit() does. */
void gpurt_runlist_conclude(struct gpurt_gpu *gpu)
{
	assert_held(gpu);
	if (gpu->runlist.due)
		carry_out(gpu);
	set_timer(gpu);
}

/* Called with the gate held. */
static bool retry_wanted(struct gpurt_runlist *r)
{
	bool now = READ_ONCE(r->retry_now);

	if (now)
		WRITE_ONCE(r->retry_now, false);
	return now && r->fault && !r->flight;
}

/* Called with the gate held, while a commit is in progress.  Returns -EINPROGRESS, or the driver's final answer. */
static int progress(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;
	unsigned long flags;
	int err = 0;

	raw_spin_lock_irqsave(&r->told_lock, flags);
	if (r->told_of == r->sequence) {
		r->stale &= ~r->told;
		err = r->told_err;
	}
	raw_spin_unlock_irqrestore(&r->told_lock, flags);
	if (err)
		return err;
	if (!(r->stale & gpu->ops.runlists))
		return 0;
	return r->retry.at <= now ? -ETIMEDOUT : -EINPROGRESS;
}

/* Called with the gate held.  The commit in progress may be over. */
static void land(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;
	int err = progress(gpu, now);

	if (err == -EINPROGRESS)
		return;
	next_sequence(r);
	record(gpu, err, now);
	if (err)
		queue_work(gpurt_updates, &r->aftermath);
	else
		fault_over(gpu, now);
}

/* Called with the gate held.  The driver may have begun a reset, or ended one. */
static void see_holds(struct gpurt_gpu *gpu, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	if (atomic_read(&r->holds)) {
		suspend_updates(gpu, now);
	} else if (READ_ONCE(r->replay)) {
		WRITE_ONCE(r->replay, false);
		r->broken = false;
		suspend_updates(gpu, now);
		want(gpu, GPURT_CAUSE_RESET, now);
	}
}

/* A decision of the GPU's thread, which the driver, the timer, or a reset has asked for. */
int gpurt_runlist_tick(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_runlist *r = &gpu->runlist;

	r->armed = U64_MAX;
	see_holds(gpu, now);
	if (r->flight) {
		land(gpu, now);
		return 0;
	}
	if (retry_wanted(r))
		gpurt_retry_hurry(&r->retry, now);
	if (r->retry.at <= now)
		want(gpu, r->retry.cause, now);
	if (gpu->sched.deadline <= now)
		gpurt_tick(&gpu->sched, now);
	return 0;
}

/* Any context.  Has the GPU's thread look at the driver's answers. */
void gpurt_runlist_look(struct gpurt_gpu *gpu)
{
	/* gpurt_gpu_stop() waits until this section is over, and ends the thread afterwards. */
	rcu_read_lock();
	if (!READ_ONCE(gpu->dying))
		kthread_queue_work(gpu->worker, &gpu->runlist.tick);
	rcu_read_unlock();
}

/* A decision: the driver updates the exempt TSGs beside the runner. */
int gpurt_runlist_renew(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	/* Everyone is on the runlist already. */
	if (!gpu->sched.runner)
		return 0;
	gpurt_updated(&gpu->sched, now, 0);	/* a commit in progress is superseded */
	want(gpu, GPURT_CAUSE_EXEMPT, now);
	return 0;
}

/* A decision: the runlist becomes everyone's, and no client is the runner. */
int gpurt_runlist_give_all(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_set_policy(&gpu->sched, GPURT_POLICY_TIMESLICED, now);
	want(gpu, GPURT_CAUSE_GONE, now);
	return 0;
}

/* Called before there are decisions. */
void gpurt_runlist_init(struct gpurt_gpu *gpu)
{
	struct gpurt_driver_costs costs = { };
	struct gpurt_runlist *r = &gpu->runlist;
	u64 now = ktime_get_ns();

	if (gpu->ops.costs)
		gpu->ops.costs(gpu->driver, &costs);
	r->switch_ns = costs.theta_ns;
	raw_spin_lock_init(&r->told_lock);
	gpurt_retry_init(&r->retry);
	r->armed = U64_MAX;
	r->everyone_since = now;
	gpurt_sched_init(&gpu->sched, &runlist_ops, gpu, now);
}
