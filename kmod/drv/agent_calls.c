// SPDX-License-Identifier: GPL-2.0
/* The agents' driver: clients that come and go, agents that register, answer, and ask for orders. */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "agent.h"

/* How long after a refusal by its driver an agent gets the order again, ns. */
#define AGAIN 1000000ULL

/* Under the lock. */
static struct agent_process *find(struct agent_gpu *dev, struct pid *tgid)
{
	struct agent_process *p;

	list_for_each_entry(p, &dev->processes, node)
		if (p->tgid == tgid)
			return p;
	return NULL;
}

/* Likewise.  The client's process; @fresh if there is none yet. */
static struct agent_process *join(struct agent_gpu *dev, struct agent_process *fresh, struct pid *tgid)
{
	struct agent_process *p = find(dev, tgid);

	if (p)
		return p;
	fresh->tgid = tgid;
	INIT_LIST_HEAD(&fresh->contexts);
	list_add_tail(&fresh->node, &dev->processes);
	return fresh;
}

int gpurt_agent_client_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	struct agent_process *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	struct agent_ctx *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	struct agent_gpu *dev = driver;

	if (!fresh || !c) {
		kfree(fresh);
		kfree(c);
		return -ENOMEM;
	}
	c->client = client;
	spin_lock(&dev->lock);
	c->process = join(dev, fresh, tgid);
	list_add_tail(&c->node, &c->process->contexts);
	spin_unlock(&dev->lock);
	if (c->process != fresh)
		kfree(fresh);
	*ctx = c;
	return 0;
}

/* Under the lock.  The process has no agent any more: nobody waits for it. */
static void resign(struct agent_gpu *dev, struct agent_process *p)
{
	p->agent = NULL;
	p->late = false;
	wake_up(&dev->answers);
}

void gpurt_agent_client_ends(void *driver, void *ctx, bool process)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;

	spin_lock(&dev->lock);
	if (process || c->process->agent == c)
		resign(dev, c->process);
	spin_unlock(&dev->lock);
	gpurt_client_retry(c->client);
}

void gpurt_agent_client_close(void *driver, void *ctx)
{
	struct agent_process *p, *empty = NULL;
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;

	p = c->process;
	spin_lock(&dev->lock);
	if (p->agent == c)
		resign(dev, p);
	list_del(&c->node);
	if (list_empty(&p->contexts)) {
		list_del(&p->node);
		empty = p;
	} else if (!gpurt_agent_wanted(dev, p)) {
		gpurt_agent_order(p, false);	/* it was the exempt one */
		gpurt_agent_arm(dev);
	}
	spin_unlock(&dev->lock);
	kfree(empty);
	kfree(c);
}

void gpurt_agent_exempt(void *driver, void *ctx, bool exempt)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;

	spin_lock(&dev->lock);
	c->exempt = exempt;
	spin_unlock(&dev->lock);
}

static int gpurt_agent_register(void *driver, void *ctx, struct gpurt_agent *a)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	struct agent_process *p = c->process;
	int err = 0;

	spin_lock(&dev->lock);
	if (!p->agent) {
		p->agent = c;
		p->on = dev->open && gpurt_agent_wanted(dev, p);
		p->late = false;
		p->since = ktime_get_ns();
		p->sequence = 1;
		p->answered = 0;
		p->again = U64_MAX;
		gpurt_agent_arm(dev);
	} else if (p->agent != c) {
		err = -EBUSY;
	}
	a->on = p->on;
	a->sequence = p->sequence;
	spin_unlock(&dev->lock);
	return err;
}

/* Under the lock.  The last order was carried out, or the agent's driver refused. */
static void answered(struct agent_gpu *dev, struct agent_process *p, s32 result)
{
	if (result) {
		p->answered = min(p->answered, p->sequence - 1);
		p->again = ktime_get_ns() + (p->late ? gpurt_agent_bound() : AGAIN);
		gpurt_agent_arm(dev);
	} else {
		p->answered = p->sequence;
		p->late = false;
		p->again = U64_MAX;
		wake_up(&dev->answers);
	}
}

static int gpurt_agent_answer(void *driver, void *ctx, u64 number, s32 result)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	int err = 0;

	spin_lock(&dev->lock);
	if (c->process->agent != c)
		err = -ENOENT;
	else if (number > c->process->sequence)
		err = -EINVAL;
	else if (number == c->process->sequence)
		answered(dev, c->process, result);
	spin_unlock(&dev->lock);
	if (!err && !result)
		gpurt_client_retry(c->client);
	return err;
}

static int gpurt_agent_next(void *driver, void *ctx, struct gpurt_order *o)
{
	struct agent_gpu *dev = driver;
	struct agent_ctx *c = ctx;
	int ret;

	spin_lock(&dev->lock);
	ret = c->process->agent != c ? -ENOENT : c->process->sequence > o->answered;
	if (ret > 0) {
		o->sequence = c->process->sequence;
		o->on = c->process->on;
	}
	spin_unlock(&dev->lock);
	return ret;
}

static u32 gpurt_agent_late(void *driver)
{
	struct agent_gpu *dev = driver;
	struct agent_process *p;
	u32 late = 0;

	spin_lock(&dev->lock);
	list_for_each_entry(p, &dev->processes, node)
		late += p->late;
	spin_unlock(&dev->lock);
	return late;
}

const struct gpurt_agent_ops gpurt_agent_calls = {
	.agent = gpurt_agent_register,
	.answer = gpurt_agent_answer,
	.order = gpurt_agent_next,
	.late = gpurt_agent_late,
};
