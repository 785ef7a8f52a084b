// SPDX-License-Identifier: GPL-2.0
/* The data plane of uapi/gpurt.h: each ioctl of /dev/gpurt. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "chardev.h"
#include "compat.h"

static u32 own_priority(void)
{
	return current->policy == SCHED_FIFO || current->policy == SCHED_RR ? current->rt_priority : 0;
}

/* What sched_setscheduler(2) would let the caller take. */
static bool may_have(u32 priority)
{
	return priority <= own_priority() || priority <= rlimit(RLIMIT_RTPRIO) || capable(CAP_SYS_NICE);
}

static long do_query(struct gpurt_query *q)
{
	struct gpurt_gpu *gpu;
	u32 i;

	if (q->pad)
		return -EINVAL;
	gpu = gpurt_gpu_get(q->gpu);
	if (!gpu)
		return -ENODEV;
	q->version = GPURT_VERSION;
	q->caps = gpu->ops->caps | (gpurt_job_can_notify() ? GPURT_CAP_NOTIFY : 0);
	q->gpus = gpurt_gpu_count();
	q->tier = gpu->ops->tier;
	q->policy = READ_ONCE(gpu->sched.policy);
	q->epsilon_ns = 0;
	for (i = 0; i < GPURT_CAUSE_COUNT; i++)
		q->epsilon_ns = max_t(u64, q->epsilon_ns, READ_ONCE(gpu->latency[i].max));
	gpurt_gpu_put(gpu);
	return 0;
}

/* 1 if what is waited for has come true, 0 if not yet, -errno if it never will. */
typedef int (*check_fn)(struct gpurt_client *client, struct gpurt_wait *w);

static int check(struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	int ret, token;

	if (!gpurt_gpu_hold(client->gpu, &token))
		return -ENODEV;
	ret = READ_ONCE(client->file->gone) ? -ESTALE : fn(client, w);
	gpurt_gpu_release(client->gpu, token);
	return ret;
}

static int check_grant(struct gpurt_client *client, struct gpurt_wait *w)
{
	if (!READ_ONCE(client->core.depth))
		return -ENOENT;
	if (!gpurt_client_granted(client))
		return 0;
	w->completed_ns = max(READ_ONCE(client->granted_at), READ_ONCE(client->gpu->runner) ?
			      0 : READ_ONCE(client->gpu->everyone_since));
	return 1;
}

static int check_work(struct gpurt_client *client, struct gpurt_wait *w)
{
	return client->gpu->ops->work_done(client->gpu->driver, client->ctx, w->tsg, w->work, &w->completed_ns);
}

static int check_idle(struct gpurt_client *client, struct gpurt_wait *w)
{
	return client->gpu->ops->idle(client->gpu->driver, client->ctx, &w->completed_ns);
}

/* One more wait; 0, -EINTR or -ETIMEDOUT. */
static int doze(ktime_t *until)
{
	if (signal_pending(current))
		return -EINTR;
	return schedule_hrtimeout(until, HRTIMER_MODE_ABS) ? 0 : -ETIMEDOUT;
}

/*
 * Waits on @queue until @fn says so, for w->timeout_ns at most.  A wake-up wakes one, who may wait for something else
 * than has come true, or for the same as others: it passes the wake-up on, once.
 */
static int wait_on(struct swait_queue_head *queue, struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	ktime_t until = ns_to_ktime(KTIME_MAX), *limit = NULL;
	int ret, err = 0, woken, seen = atomic_read(&client->wakes);
	DECLARE_SWAITQUEUE(wait);

	if (w->timeout_ns < KTIME_MAX) {
		until = ktime_add_safe(ktime_get(), ns_to_ktime(w->timeout_ns));
		limit = &until;
	}
	for (;;) {
		prepare_to_swait_exclusive(queue, &wait, TASK_INTERRUPTIBLE);
		ret = check(client, w, fn);
		if (ret || err)
			break;
		woken = atomic_read(&client->wakes);
		if (woken != seen)
			swake_up_one(queue);
		seen = woken;
		err = doze(limit);
	}
	finish_swait(queue, &wait);
	swake_up_one(queue);
	return ret < 0 ? ret : ret ? 0 : err;
}

/* For a grant, or a completion. */
static int wait_for(struct gpurt_client *client, struct gpurt_wait *w, check_fn fn)
{
	int err;

	atomic_inc(&client->gpu->waiting);
	err = wait_on(&client->waiters, client, w, fn);
	atomic_dec(&client->gpu->waiting);
	return err;
}

static long do_begin(struct gpurt_file *file, struct gpurt_begin *b)
{
	struct gpurt_wait granted = { .timeout_ns = GPURT_FOREVER };
	struct gpurt_client *client;
	int err;

	if (b->flags & ~GPURT_BEGIN_FLAGS || b->pad || b->priority > GPURT_MAX_PRIORITY)
		return -EINVAL;
	client = gpurt_file_client(file, b->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (b->priority && !may_have(b->priority))
		return -EPERM;
	err = gpurt_client_begin(client, own_priority(), b->priority, &b->state);
	if (err || b->state == GPURT_STATE_RUNNING || !(b->flags & GPURT_BEGIN_WAIT))
		return err;
	err = wait_for(client, &granted, check_grant);
	if (!err)
		b->state = GPURT_STATE_RUNNING;
	return err;
}

static long do_end(struct gpurt_file *file, struct gpurt_end *e)
{
	struct gpurt_wait drained = { .timeout_ns = GPURT_FOREVER };
	struct gpurt_client *client;
	int err = 0;

	if (e->flags & ~GPURT_END_FLAGS || e->pad)
		return -EINVAL;
	client = gpurt_file_client(file, e->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (!READ_ONCE(client->core.depth))
		return -ENOENT;
	if (e->flags & GPURT_END_DRAIN && !client->gpu->ops->idle)
		return -EOPNOTSUPP;
	if (e->flags & GPURT_END_DRAIN)
		err = wait_for(client, &drained, check_idle);
	return err ? err : gpurt_client_end(client);
}

static long do_wait(struct gpurt_file *file, struct gpurt_wait *w)
{
	static const check_fn checks[GPURT_WAIT_COUNT] = {
		[GPURT_WAIT_GRANT] = check_grant, [GPURT_WAIT_WORK] = check_work, [GPURT_WAIT_IDLE] = check_idle,
	};
	struct gpurt_client *client;
	int err;

	if (w->what >= GPURT_WAIT_COUNT || (w->what != GPURT_WAIT_WORK && (w->tsg || w->work)))
		return -EINVAL;
	client = gpurt_file_client(file, w->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (w->what == GPURT_WAIT_WORK && !client->gpu->ops->work_done)
		return -EOPNOTSUPP;
	if (w->what == GPURT_WAIT_IDLE && !client->gpu->ops->idle)
		return -EOPNOTSUPP;
	err = wait_for(client, w, checks[w->what]);
	WRITE_ONCE(client->seen, atomic_read(&client->completions));
	return err;
}

/* Tells the driver of a TSG that opens, or the core of one that closes. */
static int tsg_call(struct gpurt_client *client, struct gpurt_tsg *t, bool open)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err, token;

	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	err = open ? gpu->ops->tsg_open(gpu->driver, client->ctx, &t->tsg) :
		     gpu->ops->tsg_close(gpu->driver, client->ctx, t->tsg);
	if (!err)
		gpurt_client_tsg(client, open);
	gpurt_gpu_release(gpu, token);
	return err;
}

static long do_tsg(struct gpurt_file *file, struct gpurt_tsg *t, bool open)
{
	struct gpurt_client *client;
	int err;

	if (t->flags || (open && t->tsg))
		return -EINVAL;
	client = gpurt_file_client(file, t->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (!client->gpu->ops->tsg_open)
		return -EOPNOTSUPP;
	mutex_lock(&file->lock);
	err = tsg_call(client, t, open);
	mutex_unlock(&file->lock);
	if (!open)
		gpurt_client_wake(client);	/* who waits for its work waits in vain */
	return err;
}

static long do_submit(struct gpurt_file *file, struct gpurt_submit *s)
{
	struct gpurt_client *client;
	int err, token;

	if (s->flags & ~GPURT_SUBMIT_FLAGS || s->pad || s->engine >= GPURT_ENGINE_COUNT ||
	    !s->duration_ns || s->duration_ns > GPURT_MAX_WORK_NS)
		return -EINVAL;
	client = gpurt_file_client(file, s->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (!client->gpu->ops->submit)
		return -EOPNOTSUPP;
	if (!gpurt_gpu_hold(client->gpu, &token))
		return -ENODEV;
	err = client->gpu->ops->submit(client->gpu->driver, client->ctx, s);
	gpurt_gpu_release(client->gpu, token);
	return err;
}

static bool is_name(const char *name, size_t size)
{
	size_t i, length = strnlen(name, size);

	for (i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~')
			return false;
	return length && length < size;
}

/* Tells the driver of an agent, and the core of its TSGs. */
static int agent_call(struct gpurt_client *client, struct gpurt_agent *a)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err, token;

	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	err = gpu->ops->agent(gpu->driver, client->ctx, a);
	if (!err)
		gpurt_client_tsgs(client, a->tsgs);
	gpurt_gpu_release(gpu, token);
	return err;
}

static long do_agent(struct gpurt_file *file, struct gpurt_agent *a)
{
	struct gpurt_client *client;
	int err;

	if (a->flags || a->tier >= GPURT_TIER_COUNT || a->tsgs > GPURT_MAX_TSGS ||
	    !is_name(a->driver, sizeof(a->driver)))
		return -EINVAL;
	client = gpurt_file_client(file, a->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (!client->gpu->ops->agent)
		return -EOPNOTSUPP;
	mutex_lock(&file->lock);
	err = agent_call(client, a);
	mutex_unlock(&file->lock);
	return err;
}

struct order_wait {
	struct gpurt_wait w;
	struct gpurt_order *order;
};

static int check_order(struct gpurt_client *client, struct gpurt_wait *w)
{
	return client->gpu->ops->order(client->gpu->driver, client->ctx, container_of(w, struct order_wait, w)->order);
}

static int answer_call(struct gpurt_client *client, const struct gpurt_order *o)
{
	int err, token;

	if (!gpurt_gpu_hold(client->gpu, &token))
		return -ENODEV;
	err = client->gpu->ops->answer(client->gpu->driver, client->ctx, o->answered, o->result);
	gpurt_gpu_release(client->gpu, token);
	return err;
}

static long do_order(struct gpurt_file *file, struct gpurt_order *o)
{
	struct order_wait wait = { .w = { .timeout_ns = o->timeout_ns }, .order = o };
	struct gpurt_client *client;
	int err;

	if (o->flags || o->pad || o->result > 0)
		return -EINVAL;
	client = gpurt_file_client(file, o->gpu);
	if (IS_ERR(client))
		return PTR_ERR(client);
	if (!client->gpu->ops->order)
		return -EOPNOTSUPP;
	if (atomic_xchg(&client->ordering, 1))
		return -EBUSY;
	err = answer_call(client, o);
	if (!err)
		err = wait_on(&client->orders, client, &wait.w, check_order);
	atomic_set(&client->ordering, 0);
	return err;
}

static long dispatch(struct gpurt_file *file, unsigned int nr, void *argument)
{
	switch (nr) {
	case _IOC_NR(GPURT_IOC_QUERY):
		return do_query(argument);
	case _IOC_NR(GPURT_IOC_BEGIN):
		return do_begin(file, argument);
	case _IOC_NR(GPURT_IOC_END):
		return do_end(file, argument);
	case _IOC_NR(GPURT_IOC_WAIT):
		return do_wait(file, argument);
	case _IOC_NR(GPURT_IOC_TSG_OPEN):
		return do_tsg(file, argument, true);
	case _IOC_NR(GPURT_IOC_TSG_CLOSE):
		return do_tsg(file, argument, false);
	case _IOC_NR(GPURT_IOC_SUBMIT):
		return do_submit(file, argument);
	case _IOC_NR(GPURT_IOC_AGENT):
		return do_agent(file, argument);
	case _IOC_NR(GPURT_IOC_ORDER):
		return do_order(file, argument);
	}
	return -ENOTTY;
}

/* The size of the structure as this module knows it; 0: no such call. */
static size_t argument_size(unsigned int nr)
{
	switch (nr) {
	case _IOC_NR(GPURT_IOC_QUERY):
		return sizeof(struct gpurt_query);
	case _IOC_NR(GPURT_IOC_BEGIN):
		return sizeof(struct gpurt_begin);
	case _IOC_NR(GPURT_IOC_END):
		return sizeof(struct gpurt_end);
	case _IOC_NR(GPURT_IOC_WAIT):
		return sizeof(struct gpurt_wait);
	case _IOC_NR(GPURT_IOC_TSG_OPEN):
	case _IOC_NR(GPURT_IOC_TSG_CLOSE):
		return sizeof(struct gpurt_tsg);
	case _IOC_NR(GPURT_IOC_SUBMIT):
		return sizeof(struct gpurt_submit);
	case _IOC_NR(GPURT_IOC_AGENT):
		return sizeof(struct gpurt_agent);
	case _IOC_NR(GPURT_IOC_ORDER):
		return sizeof(struct gpurt_order);
	}
	return 0;
}

static bool has_answer(unsigned int nr)
{
	return nr != _IOC_NR(GPURT_IOC_END) && nr != _IOC_NR(GPURT_IOC_TSG_CLOSE);
}

long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	union {
		struct gpurt_query query;
		struct gpurt_begin begin;
		struct gpurt_end end;
		struct gpurt_wait wait;
		struct gpurt_tsg tsg;
		struct gpurt_submit submit;
		struct gpurt_agent agent;
		struct gpurt_order order;
	} argument;
	size_t known = argument_size(_IOC_NR(cmd));
	u32 size;
	long ret;

	if (_IOC_TYPE(cmd) != GPURT_IOC_MAGIC || !known)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	/* All structures have grown to what they are in version 1. */
	if (size < known || size > GPURT_MAX_STRUCT)
		return size < known ? -EINVAL : -E2BIG;
	ret = copy_struct_from_user(&argument, known, user, size);
	if (ret)
		return ret;
	ret = dispatch(filp->private_data, _IOC_NR(cmd), &argument);
	/* A call that was interrupted has still begun its segment: the caller learns the state. */
	if ((!ret || ret == -EINTR) && has_answer(_IOC_NR(cmd)) && copy_to_user(user, &argument, known))
		return -EFAULT;
	return ret;
}
