// SPDX-License-Identifier: GPL-2.0
/*
 * Real GPUs on unmodified drivers: agents in the processes carry out the updates of the runlist (GPURT_IOC_AGENT,
 * GPURT_IOC_ORDER).  The protocol is core/agents.c.  This file has its orders delivered, calls its tick and its
 * reminders, and waits in commit() until an update is finished.
 *
 * agent_gpu.lock protects everything here.  Inside it only the locks of waiters, of timers and of events are taken.  A
 * waiting commit() does not hold it, so agents answer, register and end meanwhile.  The lock does not sleep under
 * PREEMPT_RT either.  Otherwise an agent that is preempted with the lock would inherit the priority of the GPU's
 * thread.  Other agents would queue in between.
 *
 * Users choose how many agents an update wakes, within a limit, and nothing on its CPU outranks the GPU's thread.  So
 * orders, except the owner's, are only noted where they are given.  The GPU's thread wakes agents whose own thread has
 * a real-time priority, which takes a privilege.  It wakes some at a time, and rests in between.  An ordinary worker
 * wakes the others, first those that must be off: they are ordinary threads like the worker itself.
 */
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>

#include "../compat.h"
#include "../core/agents.h"
#include "../base/workers.h"
#include "agent_processes.h"
#include "agents.h"
#include "devices.h"
#include "drv.h"

static uint agent_bound_ms = GPURT_AGENT_BOUND_NS / NSEC_PER_MSEC;
module_param(agent_bound_ms, uint, 0444);
MODULE_PARM_DESC(agent_bound_ms, "how long an agent may take to carry out an order, 1 to 60000 ms (default 100)");
static uint agent_limit = GPURT_AGENT_LIMIT;
module_param(agent_limit, uint, 0644);
MODULE_PARM_DESC(agent_limit, "agents that one user may have on each GPU (default 32); CAP_SYS_NICE: any number");
static bool agent_wait;
module_param(agent_wait, bool, 0644);
MODULE_PARM_DESC(agent_wait, "whether nobody is given the GPU while an agent is late (default: given regardless)");

#define ORDERS 4	/* orders that are handed out at once */

struct agent_gpu {
	struct gpurt_gpu *gpu;
	raw_spinlock_t lock;		/* everything here, and the processes */
	struct gpurt_agents agents;	/* of agent_process.core */
	bool finished;			/* the update of commit() is finished, with @err */
	int err;
	bool retry;			/* the update that failed may succeed now */
	struct task_struct *committer;	/* in commit(), which waits for @finished */
	u64 armed;			/* the latest time of agents_called(); U64_MAX: never */
	u64 rest_until;			/* before this, no agents_called() and no needless tick in a commit */
	struct agent_processes processes;
	struct list_head urgent;	/* of agent_process.ordered: real-time agents to be woken */
	struct list_head others;	/* the same for other agents */
	struct work_struct handing_out;
};

/* A client, from client_open() to client_close(), or a group, from group_open() to group_close(). */
struct agent_ctx {
	struct agent_process *process;	/* NULL: it is a group */
	u64 group;			/* its number, as in struct gpurt_agent_process */
	bool member;			/* a client that is in a group */
	struct gpurt_client *client;
	const void *program;		/* of the client's descriptor; only compared */
	u64 user;			/* who opened the client */
	bool exempt;
	struct hrtimer again;		/* wakes the agent that waits for the order that its driver refused */
};

static struct agent_process *process_of(struct gpurt_agent_process *core)
{
	return container_of(core, struct agent_process, core);
}

/* Called with the lock held.  Has the agent look at its order. */
static void wake(struct agent_process *p)
{
	list_del_init(&p->ordered);
	gpurt_client_ordered(p->agent);
}

/* Callbacks of the protocol, with the lock held. */

static void on_order(struct gpurt_agents *a, struct gpurt_agent_process *core)
{
	struct agent_gpu *dev = container_of(a, struct agent_gpu, agents);
	struct agent_process *p = process_of(core);

	if (core->taken)
		p->taken = p->told;
	if (gpurt_agents_owns(a, core))
		wake(p);
	else if (core->on)
		list_move_tail(&p->ordered, p->real_time ? &dev->urgent : &dev->others);
	else
		list_move(&p->ordered, p->real_time ? &dev->urgent : &dev->others);
}

static void on_late(struct gpurt_agents *a, struct gpurt_agent_process *core, u64 now)
{
	gpurt_client_late(process_of(core)->agent, now, core->since);
}

static void on_finished(struct gpurt_agents *a, int err, u64 now)
{
	struct agent_gpu *dev = container_of(a, struct agent_gpu, agents);

	dev->err = err;
	WRITE_ONCE(dev->finished, true);
	wake_up_process(dev->committer);
}

static void on_retry(struct gpurt_agents *a)
{
	container_of(a, struct agent_gpu, agents)->retry = true;
}

static const struct gpurt_agents_ops protocol_ops = {
	.order = on_order,
	.late = on_late,
	.finished = on_finished,
	.retry = on_retry,
};

/* Called with the lock held.  Wakes at most ORDERS agents of the list.  Returns whether there are more. */
static bool wake_some(struct list_head *ordered)
{
	unsigned int count;

	for (count = 0; count < ORDERS && !list_empty(ordered); count++)
		wake(list_first_entry(ordered, struct agent_process, ordered));
	return !list_empty(ordered);
}

/* Called by a worker. */
static void hand_out(struct work_struct *work)
{
	struct agent_gpu *dev = container_of(work, struct agent_gpu, handing_out);
	bool more = true;

	while (more) {
		raw_spin_lock(&dev->lock);
		more = wake_some(list_empty(&dev->urgent) ? &dev->others : &dev->urgent) || !list_empty(&dev->others);
		raw_spin_unlock(&dev->lock);
		cond_resched();
	}
}

/* Called with the lock held. */
static void hand_out_later(struct agent_gpu *dev)
{
	if (!list_empty(&dev->urgent) || !list_empty(&dev->others))
		queue_work(gpurt_orders, &dev->handing_out);
}

/* Called by the GPU's thread in an update.  Sleeps until the update is finished, for at most @ns. */
static void doze(struct agent_gpu *dev, u64 ns)
{
	ktime_t until = ktime_add_ns(ktime_get(), ns);

	do {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (READ_ONCE(dev->finished))
			break;
	} while (schedule_hrtimeout(&until, HRTIMER_MODE_ABS));	/* 0: the time has come */
	__set_current_state(TASK_RUNNING);
}

/*
 * Called with the lock held, by the GPU's thread in an update.  Gives other tasks of this CPU as much time as the
 * thread took, unless the update finishes meanwhile.  Releases the lock in between.
 */
static void hand_out_now(struct agent_gpu *dev) __must_hold(&dev->lock)
{
	u64 began = ktime_get_ns();

	hand_out_later(dev);
	while (wake_some(&dev->urgent) && !dev->finished) {
		raw_spin_unlock(&dev->lock);
		doze(dev, ktime_get_ns() - began);
		raw_spin_lock(&dev->lock);
		began = ktime_get_ns();
	}
	hand_out_later(dev);
}

/* Called with the lock held.  When a tick is due. */
static u64 tick_at(const struct agent_gpu *dev)
{
	return max(dev->agents.overdue, dev->rest_until);
}

/*
 * Called with the lock held.  Makes the protocol's tick come soon enough.  In an update, commit() calls the tick
 * itself, and calls this in the end.
 */
static void arm(struct agent_gpu *dev)
{
	u64 when = tick_at(dev);

	if (dev->agents.step || when >= dev->armed)
		return;
	dev->armed = when;
	gpurt_gpu_call(dev->gpu, when);
}

/* Called with the lock held, after a change.  Returns whether the caller is to call gpurt_client_retry(). */
static bool changed(struct agent_gpu *dev)
{
	bool retry = dev->retry;

	dev->retry = false;
	hand_out_later(dev);
	arm(dev);
	return retry;
}

/*
 * Called with the lock held, by the GPU's thread.  Notices lateness.  Agents determine how often a tick is due, and a
 * tick looks at every process, so the thread rests in between.
 */
static void tick(struct agent_gpu *dev)
{
	gpurt_agents_tick(&dev->agents, ktime_get_ns());
	dev->rest_until = ktime_get_ns() + GPURT_AGENT_AGAIN_NS;
}

/* Called between updates; an update may just have done this already. */
static void agents_called(void *driver)
{
	struct agent_gpu *dev = driver;

	raw_spin_lock(&dev->lock);
	dev->armed = U64_MAX;
	if (ktime_get_ns() >= tick_at(dev))
		tick(dev);
	hand_out_later(dev);
	arm(dev);
	raw_spin_unlock(&dev->lock);
}

/* Called with the lock held, in an update.  The time until a tick is due, ns: no step of the update takes longer. */
static u64 time_left(const struct agent_gpu *dev)
{
	u64 now = ktime_get_ns(), step_over = dev->agents.step_since + dev->agents.bound;
	u64 due = min(tick_at(dev), step_over);

	return due > now ? due - now : 0;
}

/* Called with the lock held.  The worker may still have to tell the owner's processes that they may run. */
static void wake_owner(struct agent_gpu *dev)
{
	struct gpurt_agent_process *p;

	list_for_each_entry(p, &dev->agents.registered, node)
		if (gpurt_agents_owns(&dev->agents, p) && !list_empty(&process_of(p)->ordered))
			wake(process_of(p));
}

/* The number of a client's process, or of a group; 0: everyone. */
static u64 number_of(const struct agent_ctx *c)
{
	if (!c)
		return 0;
	return c->process ? c->process->core.number : c->group;
}

/* With the gate held, in the GPU's thread.  Each step of the protocol takes at most agent_bound_ms. */
static int agents_commit(void *driver, const struct gpurt_commit *c)
{
	struct agent_gpu *dev = driver;
	u64 left;
	int err;

	raw_spin_lock(&dev->lock);
	dev->agents.wait = READ_ONCE(agent_wait);
	dev->committer = current;
	dev->finished = false;
	gpurt_agents_commit(&dev->agents, number_of(c->only), GPURT_AGENTS_ALONE, c->now);
	wake_owner(dev);
	hand_out_now(dev);
	while (!dev->finished) {
		left = time_left(dev);
		raw_spin_unlock(&dev->lock);
		/* An agent wakes this thread when it ends the update. */
		doze(dev, left);
		raw_spin_lock(&dev->lock);
		if (!dev->finished) {
			tick(dev);
			hand_out_now(dev);
		}
	}
	err = dev->err;
	arm(dev);
	raw_spin_unlock(&dev->lock);
	return err;
}

/* Called with the lock held.  Returns the process of a new client: @fresh, unless the process is known. */
static struct agent_process *join(struct agent_gpu *dev, struct agent_process *fresh)
{
	struct agent_process *p = gpurt_agent_process_enter(&dev->processes, fresh);

	if (!p->clients++) {
		list_del_init(&p->ordered);	/* it had lapsed */
		gpurt_agents_join(&dev->agents, &p->core, p->core.late);
	}
	return p;
}

/* Has the agent look at its order again. */
static enum hrtimer_restart again(struct hrtimer *timer)
{
	gpurt_client_ordered(container_of(timer, struct agent_ctx, again)->client);
	return HRTIMER_NORESTART;
}

static int agents_client_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	struct agent_ctx *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	struct agent_gpu *dev = driver;
	struct agent_process *fresh;
	LIST_HEAD(gone);

	if (!c)
		return -ENOMEM;
	fresh = gpurt_agent_process_make(tgid);
	if (!fresh) {
		kfree(c);
		return -ENOMEM;
	}
	c->client = client;
	c->program = current->mm;	/* the client's descriptor keeps the address from being reused */
	c->user = gpurt_agent_user();
	/* Not in a hard interrupt, because users choose how many agents refuse, and when. */
	compat_hrtimer_setup(&c->again, again, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	raw_spin_lock(&dev->lock);
	c->process = join(dev, fresh);
	gpurt_agent_processes_prune(&dev->processes, &gone);
	raw_spin_unlock(&dev->lock);
	gpurt_agent_processes_free(&gone);
	if (c->process != fresh)
		gpurt_agent_process_free(fresh);
	*ctx = c;
	return 0;
}

/* Called with the lock held.  The process no longer has an agent. */
static void resign(struct agent_gpu *dev, struct agent_process *p)
{
	gpurt_agents_resign(&dev->agents, &p->core, ktime_get_ns());
	list_del_init(&p->ordered);
	p->real_time = false;
	p->told.set = NO_SET;
	p->agent = NULL;
	p->program = NULL;
}

/* If the process has executed another program, that program's agent stays. */
static void agents_client_ends(void *driver, void *ctx, bool process)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	struct agent_process *p = c->process;
	bool retry;

	raw_spin_lock(&dev->lock);
	if (p->agent == c->client || (process && p->program == c->program))
		resign(dev, p);
	retry = changed(dev);
	raw_spin_unlock(&dev->lock);
	if (retry)
		gpurt_client_retry(c->client);
}

/* Called with the lock held.  The process no longer has a client.  Returns whether it can be freed. */
static bool forget(struct agent_gpu *dev, struct agent_process *p)
{
	gpurt_agents_leave(&dev->agents, &p->core, ktime_get_ns());
	if (p->core.late)
		gpurt_agent_process_lapse(&dev->processes, p);
	else
		gpurt_agent_process_remove(&dev->processes, p);
	return !p->core.late;
}

static void agents_client_close(void *driver, void *ctx)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	struct agent_process *p = c->process;
	bool empty;

	raw_spin_lock(&dev->lock);
	if (p->agent == c->client)
		resign(dev, p);
	if (c->exempt)
		gpurt_agents_exempt(&dev->agents, &p->core, false, ktime_get_ns());
	if (c->member && !--p->members)
		gpurt_agents_unite(&dev->agents, &p->core, 0, ktime_get_ns());
	empty = !--p->clients && forget(dev, p);
	hand_out_later(dev);
	arm(dev);
	raw_spin_unlock(&dev->lock);
	hrtimer_cancel(&c->again);
	if (empty)
		gpurt_agent_process_free(p);
	kfree(c);
}

static int agents_group_open(void *driver, void **group)
{
	struct agent_ctx *g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);
	struct agent_gpu *dev = driver;

	if (!g)
		return -ENOMEM;
	raw_spin_lock(&dev->lock);
	g->group = gpurt_agents_group(&dev->agents);
	raw_spin_unlock(&dev->lock);
	*group = g;
	return 0;
}

static void agents_group_close(void *driver, void *group)
{
	kfree(group);
}

/* An agent switches its process as a whole, so a process can be of one group only. */
static int agents_group_join(void *driver, void *ctx, void *group)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx, *g = group;
	struct agent_process *p = c->process;
	bool retry;
	int err = -EBUSY;

	raw_spin_lock(&dev->lock);
	if (!p->members || p->core.group == g->group) {
		c->member = true;
		p->members++;
		gpurt_agents_unite(&dev->agents, &p->core, g->group, ktime_get_ns());
		err = 0;
	}
	retry = changed(dev);
	raw_spin_unlock(&dev->lock);
	if (retry)
		gpurt_client_retry(c->client);
	return err;
}

static void agents_exempt(void *driver, void *ctx, bool exempt)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	bool retry;

	raw_spin_lock(&dev->lock);
	c->exempt = exempt;
	gpurt_agents_exempt(&dev->agents, &c->process->core, exempt, ktime_get_ns());
	retry = changed(dev);
	raw_spin_unlock(&dev->lock);
	if (retry)
		gpurt_client_retry(c->client);
}

/* Called with the lock held.  Notes the agent's report of its process's channels, and whether it can switch others'. */
static void note_channels(struct agent_process *p, struct gpurt_agents *agents, const struct gpurt_agent *a)
{
	bool knows = a->flags & GPURT_AGENT_MANY, calls = knows && a->tsgs;

	if (p->told.calls == calls && p->told.set == a->set)
		return;
	p->told.set = a->set;
	p->told.calls = calls;
	p->told.list = a->channels;
	gpurt_agents_channels(agents, &p->core, calls, knows ? a->channels.count : 0);
}

/* Called with the lock held.  The order in force (enum gpurt_order_on). */
static u32 order_of(const struct gpurt_agent_process *p)
{
	u32 on = p->on ? GPURT_ORDER_ON : 0;

	if (p->taken)
		on |= GPURT_ORDER_TAKEN;
	if (p->anew)
		on |= GPURT_ORDER_ANEW;
	if (p->many == p->sequence)
		on |= GPURT_ORDER_MANY;
	return on;
}

static int agents_register(void *driver, void *ctx, struct gpurt_agent *a, u64 now)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	struct agent_process *p = c->process;
	bool retry;
	int err = -EBUSY;

	raw_spin_lock(&dev->lock);
	dev->agents.limit = READ_ONCE(agent_limit);
	/* The process executes another program than its agent's, whose clients end soon. */
	if (p->agent && p->program != c->program)
		resign(dev, p);
	if (!p->agent || p->agent == c->client)
		err = gpurt_agents_register(&dev->agents, &p->core, c->user, a->driver, a->tier, now);
	if (!err) {
		p->agent = c->client;
		p->program = c->program;
		note_channels(p, &dev->agents, a);
		a->on = order_of(&p->core);
		a->sequence = p->core.sequence;
	}
	retry = changed(dev);
	raw_spin_unlock(&dev->lock);
	if (retry)
		gpurt_client_retry(c->client);
	return err;
}

static int agents_answer(void *driver, void *ctx, u64 number, s32 result)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	bool retry;
	int err = -ENOENT;

	raw_spin_lock(&dev->lock);
	if (c->process->agent == c->client)
		err = gpurt_agents_answer(&dev->agents, &c->process->core, number, result, ktime_get_ns());
	retry = changed(dev);
	raw_spin_unlock(&dev->lock);
	if (retry)
		gpurt_client_retry(c->client);
	return err;
}

/* Called with the lock held, by an agent whose order is to switch others.  The core chose only as many as fit. */
static void channels_of_others(struct agent_gpu *dev, const struct gpurt_agent_process *by, struct gpurt_channels *to)
{
	struct gpurt_agent_process *p;

	list_for_each_entry(p, &dev->agents.registered, node) {
		const struct gpurt_channels *from = &process_of(p)->taken.list;
		u32 count = min_t(u32, from->count, GPURT_MAX_CHANNELS - to->count);

		if (p->taker != by->number || p->taken_in != by->many)
			continue;
		memcpy(&to->clients[to->count], from->clients, count * sizeof(from->clients[0]));
		memcpy(&to->channels[to->count], from->channels, count * sizeof(from->channels[0]));
		to->count += count;
	}
}

/* Called with the lock held, by the agent.  1: *@o holds its order; 0: there is no order yet, or it will come again. */
static int look_for_order(struct agent_gpu *dev, struct agent_ctx *c, struct gpurt_order *o)
{
	struct gpurt_agent_process *p = &c->process->core;

	c->process->real_time = current->rt_priority || current->policy == SCHED_DEADLINE;
	gpurt_agents_remind(&dev->agents, p, ktime_get_ns());
	if (p->sequence > o->answered) {
		list_del_init(&c->process->ordered);	/* no need to wake it */
		o->sequence = p->sequence;
		o->on = order_of(p);
		o->set = c->process->taken.set;
		o->channels.count = 0;
		if (o->on & GPURT_ORDER_MANY)
			channels_of_others(dev, p, &o->channels);
		return 1;
	}
	if (p->again != U64_MAX)
		hrtimer_start(&c->again, ns_to_ktime(p->again), HRTIMER_MODE_ABS_SOFT);
	return 0;
}

/*
 * The agent that waits for orders gives itself a refused order again here.  The GPU's thread must not, because users
 * choose how many agents refuse, and how often.
 */
static int agents_order(void *driver, void *ctx, struct gpurt_order *o)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	int ret = -ENOENT;

	raw_spin_lock(&dev->lock);
	if (c->process->agent == c->client)
		ret = look_for_order(dev, c, o);
	raw_spin_unlock(&dev->lock);
	return ret;
}

static void agents_describe(void *driver, struct gpurt_agents_facts *facts)
{
	struct agent_gpu *dev = driver;
	struct gpurt_agents_kept copy;	/* the agents' reports are combined without the lock */

	raw_spin_lock(&dev->lock);
	copy = dev->agents.kept;
	raw_spin_unlock(&dev->lock);
	gpurt_agents_facts(&copy, facts);
}

static const struct gpurt_agent_ops agent_ops = {
	.agent = agents_register,
	.answer = agents_answer,
	.order = agents_order,
	.describe = agents_describe,
};

static const struct gpurt_driver_ops driver_ops = {
	GPURT_DRIVER,
	.name = "agents",
	.tier = GPURT_TIER_UNPATCHED,
	.commit_sleeps = true,
	.agents = &agent_ops,
	.client_open = agents_client_open,
	.client_ends = agents_client_ends,
	.client_close = agents_client_close,
	.commit = agents_commit,
	.exempt = agents_exempt,
	.called = agents_called,
	.group_open = agents_group_open,
	.group_close = agents_group_close,
	.group_join = agents_group_join,
};

static void *agents_create(unsigned int place)
{
	struct agent_gpu *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	raw_spin_lock_init(&dev->lock);
	gpurt_agents_init(&dev->agents, &protocol_ops, dev, (u64)agent_bound_ms * NSEC_PER_MSEC, agent_wait);
	INIT_LIST_HEAD(&dev->processes.lapsed);
	INIT_LIST_HEAD(&dev->urgent);
	INIT_LIST_HEAD(&dev->others);
	INIT_WORK(&dev->handing_out, hand_out);
	dev->armed = U64_MAX;
	err = gpurt_gpu_register(&driver_ops, dev, &dev->gpu);
	if (err) {
		kfree(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static void agents_destroy(void *device)
{
	struct agent_gpu *dev = device;

	gpurt_gpu_unregister(dev->gpu);
	cancel_work_sync(&dev->handing_out);
	gpurt_agent_processes_free(&dev->processes.lapsed);
	kfree(dev);
}

static struct gpurt_devices agent_gpus = { .create = agents_create, .destroy = agents_destroy };
module_param_cb(agent_gpus, &gpurt_devices_ops, &agent_gpus, 0600);
MODULE_PARM_DESC(agent_gpus, "number of GPUs that agents switch, 0 to 16 (default 0); may be changed at any time");

int gpurt_agents_start(void)
{
	const u32 min = GPURT_AGENT_BOUND_MIN_NS / NSEC_PER_MSEC, max = GPURT_AGENT_BOUND_MAX_NS / NSEC_PER_MSEC;

	if (agent_bound_ms < min || agent_bound_ms > max) {
		pr_err("gpurt: agent_bound_ms=%u: %u to %u\n", agent_bound_ms, min, max);
		return -EINVAL;
	}
	return gpurt_devices_start(&agent_gpus);
}

void gpurt_agents_stop(void)
{
	gpurt_devices_stop(&agent_gpus);
}
