// SPDX-License-Identifier: GPL-2.0
/*
 * Looks now and then whether the owner of a GPU waits for a program that waits for the GPU (core/stuck.c decides).
 *
 * An ordinary worker looks, only while the GPU has an owner.  It looks at threads only while the GPU executes nothing
 * and a client waits for the GPU.  A look sees at most GPURT_STUCK_THREADS threads, and holds only RCU meanwhile.
 */
#include <linux/ktime.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>

#include "compat.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/clients.h"
#include "state/events.h"
#include "state/netlink_family.h"
#include "state/team.h"

struct look {
	struct gpurt_update u;
	struct gpurt_sched_client *owner;	/* the owner that is looked at; NULL: none */
	struct gpurt_stuck_look seen;
};

static bool see_threads(struct pid *tgid, struct gpurt_stuck_look *seen)
{
	struct task_struct *leader, *t;
	u32 threads = 0;

	rcu_read_lock();
	leader = pid_task(tgid, PIDTYPE_TGID);
	seen->asleep = leader;
	if (!leader)
		goto unlock;
	for_each_thread(leader, t) {
		if (++threads > GPURT_STUCK_THREADS || compat_task_is_runnable(t)) {
			seen->asleep = false;
			break;
		}
		seen->cpu += READ_ONCE(t->se.sum_exec_runtime);
	}
unlock:
	rcu_read_unlock();
	return seen->asleep;
}

/* Looks at the processes of a group's members until one is found that executes. */
static void see_members(struct gpurt_seat *seat, struct gpurt_stuck_look *seen)
{
	struct pid *pids[GPURT_MAX_MEMBERS];
	u32 n = gpurt_team_pids(seat->team, pids), i;

	for (i = 0; i < n && see_threads(pids[i], seen); i++)
		cond_resched();
	for (i = 0; i < n; i++)
		put_pid(pids[i]);
}

/* How many work items of the owner, or of a group's members on this GPU, have completed. */
static u64 done_of(struct gpurt_gpu *gpu, struct gpurt_sched_client *owner)
{
	struct gpurt_seat *seat = gpurt_seat_of(owner);
	struct gpurt_client *client;
	u64 done = 0;

	if (!seat)
		return atomic_read(&gpurt_client_of(owner)->completions);
	gpurt_for_each_client(client, gpu) {
		if (READ_ONCE(client->seat) == seat)
			done += (u32)atomic_read(&client->completions);
		cond_resched();
	}
	return done;
}

/* Whether the seat's GPU executes nothing for the group, which may wait on one GPU for its work on another. */
static bool is_quiet(struct gpurt_seat *seat)
{
	struct gpurt_gpu *gpu = NULL;
	bool quiet = true, asked;
	int token;

	raw_spin_lock(&gpurt_groups_lock);
	if (seat->core.members && seat->core.core.depth)
		gpu = seat->gpu;
	if (gpu)
		kref_get(&gpu->ref);
	raw_spin_unlock(&gpurt_groups_lock);
	if (!gpu)
		return true;
	if (gpurt_gpu_hold(gpu, &token)) {
		quiet = gpu->ops.quiet && gpu->ops.quiet(gpu->driver, &asked);
		gpurt_gpu_release(gpu, token);
	}
	gpurt_gpu_put(gpu);
	return quiet;
}

static bool is_quiet_elsewhere(const struct gpurt_sched_client *owner)
{
	struct gpurt_seat *seat = gpurt_seat_of(owner);
	int i;

	for (i = 0; seat && i < GPURT_MAX_GPUS; i++)
		if (&seat->team->seats[i] != seat && !is_quiet(&seat->team->seats[i]))
			return false;
	return true;
}

/* Called with the GPU held alive and clients kept from being freed, without the gate. */
static void see(struct gpurt_gpu *gpu, struct look *l)
{
	struct gpurt_sched_client *owner = smp_load_acquire(&gpu->runlist.runner);	/* pairs with apply() */
	const struct list_head *order = &gpu->sched.order;

	if (!owner || READ_ONCE(gpu->runlist.fault) || gpurt_runlist_is_held(gpu))
		return;
	l->owner = owner;
	l->seen.done = done_of(gpu, owner);
	l->seen.idle = gpu->ops.quiet(gpu->driver, &l->seen.asked) && is_quiet_elsewhere(owner);
	/* Goes on if more than one client is in a segment, or just was: decide_look() decides. */
	if (!l->seen.idle || (!l->seen.asked && READ_ONCE(order->next) == READ_ONCE(order->prev)))
		return;
	if (gpurt_seat_of(owner))
		see_members(gpurt_seat_of(owner), &l->seen);
	else
		see_threads(gpurt_client_of(owner)->tgid, &l->seen);
}

static int decide_look(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct look *l = container_of(u, struct look, u);
	struct gpurt_stuck *k = &gpu->stuck.core;

	l->seen.now = now;
	if (l->owner != gpu->sched.runner)
		l->seen.idle = false;
	if (gpurt_stuck_seen(k, &gpu->sched, gpurt_stuck_limit(gpu), &l->seen))
		gpurt_event(gpu, gpurt_voice(l->owner), GPURT_EVENT_STUCK, now, 0, now - k->since);
	gpu->stuck.armed = false;
	if (gpu->sched.runner)
		gpurt_stuck_arm(gpu);
	return 0;
}

static void look(struct work_struct *work)
{
	struct gpurt_gpu *gpu = container_of(to_delayed_work(work), struct gpurt_gpu, stuck.look);
	struct look l = { .u = { .decide = decide_look } };
	int token, reading;

	if (!gpurt_gpu_hold(gpu, &token))
		return;
	reading = gpurt_clients_read();
	see(gpu, &l);
	gpurt_gate_update(gpu, &l.u);
	gpurt_clients_done(reading);
	gpurt_gpu_release(gpu, token);
}

static bool has_ended(struct pid *tgid)
{
	struct task_struct *leader;
	bool ended;

	rcu_read_lock();
	leader = pid_task(tgid, PIDTYPE_TGID);
	ended = !leader || !atomic_read(&leader->signal->live);
	rcu_read_unlock();
	return ended;
}

/*
 * The client is gone; if its process has died, others may wait for it.  A process that dies closes its descriptors,
 * perhaps before exits.c ends its clients.
 */
void gpurt_stuck_died(struct gpurt_client *client)
{
	if (client->leaves && gpurt_netlink_heard() && has_ended(client->tgid))
		gpurt_event(client->gpu, client, GPURT_EVENT_MEMBER_DIED, ktime_get_ns(), 0, 0);
}

void gpurt_stuck_init(struct gpurt_gpu *gpu)
{
	INIT_DELAYED_WORK(&gpu->stuck.look, look);
}

/* Called when the GPU is dying and has no owner. */
void gpurt_stuck_stop(struct gpurt_gpu *gpu)
{
	cancel_delayed_work_sync(&gpu->stuck.look);
}
