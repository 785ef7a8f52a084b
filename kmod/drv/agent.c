// SPDX-License-Identifier: GPL-2.0
/*
 * Real GPUs on unmodified drivers: agents in the processes carry out the updates of the runlist
 * (GPURT_IOC_AGENT, GPURT_IOC_ORDER).
 *
 * An update that gives the GPU to one client is two steps.  Every process whose TSGs must be off is ordered off,
 * and only when all of them have answered is the owner's process ordered on; when its agent has answered as well the
 * update is over.  Opening the GPU to everyone takes nobody off: it waits for nobody.
 *
 * An order replaces the one before it.  An agent that has not carried out its order within agent_bound_ms is late
 * and is not waited for any more: its process gets no further than hurting isolation, which is reported until it
 * answers; or, with agent_wait, the update fails until then and is tried again by the module.  So a step of an
 * update takes agent_bound_ms at most, whatever the processes do.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "agent.h"
#include "devices.h"

#define BOUND_MAX 60000

static uint agent_bound_ms = 100;
module_param(agent_bound_ms, uint, 0444);
MODULE_PARM_DESC(agent_bound_ms, "how long an agent may take to carry out an order, 1 to 60000 ms (default 100)");
static bool agent_wait;
module_param(agent_wait, bool, 0644);
MODULE_PARM_DESC(agent_wait, "whether nobody is given the GPU while an agent is late (default: given regardless)");

u64 gpurt_agent_bound(void)
{
	return (u64)agent_bound_ms * NSEC_PER_MSEC;
}

/* From here on everything is called under the lock, down to the blank comment. */

/* Whether the process's TSGs are to run: any of its clients may. */
bool gpurt_agent_wanted(const struct agent_gpu *dev, const struct agent_process *p)
{
	const struct agent_ctx *c;

	list_for_each_entry(c, &p->contexts, node)
		if (!dev->only || c == dev->only || c->exempt)
			return true;
	return false;
}

static bool obeyed(const struct agent_process *p)
{
	return !p->agent || p->answered == p->sequence;
}

static void deliver(struct agent_process *p)
{
	p->again = U64_MAX;
	p->sequence++;
	gpurt_client_ordered(p->agent->client);
}

/* Gives an order, unless it is the one that holds. */
void gpurt_agent_order(struct agent_process *p, bool on)
{
	if (!p->agent || p->on == on)
		return;
	p->on = on;
	p->since = ktime_get_ns();
	deliver(p);		/* who is late stays late until it answers: it is not waited for over and over */
}

static void order_all(struct agent_gpu *dev, bool on)
{
	struct agent_process *p;

	list_for_each_entry(p, &dev->processes, node)
		if (gpurt_agent_wanted(dev, p) == on)
			gpurt_agent_order(p, on);
}

static void notice_late(struct agent_process *p, u64 now)
{
	if (obeyed(p) || p->late || now < p->since + gpurt_agent_bound())
		return;
	p->late = true;
	gpurt_client_late(p->agent->client, now, p->since);
}

/* When watch() has something to do about the process. */
static u64 next_of(const struct agent_process *p)
{
	if (obeyed(p))
		return U64_MAX;
	return min(p->again, p->late ? U64_MAX : p->since + gpurt_agent_bound());
}

void gpurt_agent_arm(struct agent_gpu *dev)
{
	u64 next = U64_MAX, now = ktime_get_ns();
	struct agent_process *p;

	list_for_each_entry(p, &dev->processes, node)
		next = min(next, next_of(p));
	if (next != U64_MAX)
		mod_delayed_work(system_unbound_wq, &dev->watch, nsecs_to_jiffies(next > now ? next - now : 0) + 1);
}

/* Whether an update has to do with the process: its TSGs must be off, or else it is the owner's. */
static bool concerns(const struct agent_gpu *dev, const struct agent_process *p, bool owner)
{
	return owner ? dev->only && dev->only->process == p : !gpurt_agent_wanted(dev, p);
}

static bool all_off(const struct agent_gpu *dev)
{
	const struct agent_process *p;

	list_for_each_entry(p, &dev->processes, node)
		if (!gpurt_agent_wanted(dev, p) && !obeyed(p))
			return false;
	return true;
}

/* */

/* Whether there is no answer left to wait for. */
static bool settled(struct agent_gpu *dev, bool owner)
{
	struct agent_process *p;
	bool done = true;

	spin_lock(&dev->lock);
	list_for_each_entry(p, &dev->processes, node) {
		if (!concerns(dev, p, owner))
			continue;
		notice_late(p, ktime_get_ns());
		done = done && (obeyed(p) || p->late);
	}
	spin_unlock(&dev->lock);
	return done;
}

static void await(struct agent_gpu *dev, bool owner)
{
	/* Those who are late are seen to be when the time is over. */
	if (wait_event_hrtimeout(dev->answers, settled(dev, owner), ns_to_ktime(gpurt_agent_bound())))
		settled(dev, owner);
}

static int agents_commit(void *driver, void *only, u64 now)
{
	struct agent_gpu *dev = driver;
	int err = 0;

	spin_lock(&dev->lock);
	dev->only = only;
	dev->open = false;
	order_all(dev, false);
	spin_unlock(&dev->lock);
	await(dev, false);
	spin_lock(&dev->lock);
	if (READ_ONCE(agent_wait) && !all_off(dev))
		err = -ETIMEDOUT;
	dev->open = !err;
	if (!err)
		order_all(dev, true);
	gpurt_agent_arm(dev);
	spin_unlock(&dev->lock);
	if (!err)
		await(dev, true);
	return err;
}

static void watch(struct work_struct *work)
{
	struct agent_gpu *dev = container_of(to_delayed_work(work), struct agent_gpu, watch);
	u64 now = ktime_get_ns();
	struct agent_process *p;

	spin_lock(&dev->lock);
	list_for_each_entry(p, &dev->processes, node) {
		notice_late(p, now);
		if (!obeyed(p) && now >= p->again)
			deliver(p);
	}
	gpurt_agent_arm(dev);
	spin_unlock(&dev->lock);
}

static const struct gpurt_driver_ops agent_ops = {
	.name = "agents",
	.tier = GPURT_TIER_UNPATCHED,
	.commit_sleeps = true,
	.agents = &gpurt_agent_calls,
	.client_open = gpurt_agent_client_open,
	.client_ends = gpurt_agent_client_ends,
	.client_close = gpurt_agent_client_close,
	.commit = agents_commit,
	.exempt = gpurt_agent_exempt,
};

static void *agents_create(void)
{
	struct agent_gpu *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	struct gpurt_gpu *gpu;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&dev->lock);
	INIT_LIST_HEAD(&dev->processes);
	dev->open = true;
	init_waitqueue_head(&dev->answers);
	INIT_DELAYED_WORK(&dev->watch, watch);
	gpu = gpurt_gpu_register(&agent_ops, dev);
	if (IS_ERR(gpu)) {
		kfree(dev);
		return ERR_CAST(gpu);
	}
	dev->gpu = gpu;
	return dev;
}

static void agents_destroy(void *device)
{
	struct agent_gpu *dev = device;

	gpurt_gpu_unregister(dev->gpu);
	cancel_delayed_work_sync(&dev->watch);
	kfree(dev);
}

static struct gpurt_devices agent_gpus = { .create = agents_create, .destroy = agents_destroy };
module_param_cb(agent_gpus, &gpurt_devices_ops, &agent_gpus, 0600);
MODULE_PARM_DESC(agent_gpus, "number of GPUs that agents switch, 0 to 16 (default 0); may be changed at any time");

int gpurt_agents_start(void)
{
	if (!agent_bound_ms || agent_bound_ms > BOUND_MAX) {
		pr_err("gpurt: agent_bound_ms=%u: 1 to %u\n", agent_bound_ms, BOUND_MAX);
		return -EINVAL;
	}
	return gpurt_devices_start(&agent_gpus);
}

void gpurt_agents_stop(void)
{
	gpurt_devices_stop(&agent_gpus);
}
