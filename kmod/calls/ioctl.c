// SPDX-License-Identifier: GPL-2.0
/* The data plane of uapi/gpurt.h: each ioctl of /dev/gpurt.  core/calls.c has checked the structures. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "calls/calls.h"
#include "clients/clients.h"
#include "core/agents.h"
#include "core/calls.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/events.h"
#include "state/file.h"
#include "state/wake.h"

/* Whether sched_setscheduler(2) would let the caller, whose priority is @own, take that priority. */
static bool may_have(u32 own, u32 priority)
{
	return priority <= own || priority <= rlimit(RLIMIT_RTPRIO) || capable(CAP_SYS_NICE);
}

static u32 caps_of(const struct gpurt_gpu *gpu)
{
	return (gpu->ops.work ? GPURT_CAP_VGPU : 0) | (gpu->ops.agents ? GPURT_CAP_AGENTS : 0) |
	       (gpu->ops.group_open ? GPURT_CAP_GROUPS : 0) | (gpurt_job_can_notify() ? GPURT_CAP_NOTIFY : 0) |
	       (gpurt_boost_why_not() ? 0 : GPURT_CAP_RAISES);
}

static long do_query(struct gpurt_file *file, union gpurt_argument *a)
{
	struct gpurt_query *q = &a->query;
	struct gpurt_gpu *gpu = gpurt_gpu_get(q->gpu);
	struct gpurt_agents_facts facts;
	u32 i;

	if (!gpu)
		return -ENODEV;
	q->version = GPURT_VERSION;
	q->caps = caps_of(gpu);
	q->gpus = gpurt_gpu_count();
	gpurt_gpu_describe(gpu, &facts);
	q->tier = facts.tier;
	q->policy = READ_ONCE(gpu->sched.policy);
	q->epsilon_ns = 0;
	for (i = 0; i < GPURT_CAUSE_RAISE; i++)
		q->epsilon_ns = max_t(u64, q->epsilon_ns, READ_ONCE(gpu->runlist.latency[i].max));
	q->epsilon_ns += READ_ONCE(gpu->runlist.latency[GPURT_CAUSE_RAISE].max);
	memcpy(q->device, gpu->device, sizeof(q->device));
	gpurt_gpu_put(gpu);
	return 0;
}

static int wait_for_grant(struct gpurt_client *client, struct gpurt_begin *b)
{
	struct gpurt_wait granted = { .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
	int err = gpurt_wait_for(client, &granted);

	b->flags |= GPURT_BEGIN_BEGUN;	/* the same call made again begins nothing */
	if (err)
		return err;
	b->flags &= ~(u32)GPURT_BEGIN_BEGUN;
	b->state = GPURT_STATE_RUNNING;
	return 0;
}

/*
 * Begins a segment.  Under policy `boosted` the outermost one is that of a thread that may be raised.  Where none is,
 * nor has to be lowered, that costs next to nothing.
 */
static int begin(struct gpurt_client *client, u32 own, u32 form, struct gpurt_begin *b)
{
	bool boosted, raised = false;
	int err;

	do {
		boosted = READ_ONCE(client->gpu->sched.policy) == GPURT_POLICY_BOOSTED ||
			  READ_ONCE(client->boost.raised.task);
		err = unlikely(boosted) ? gpurt_boost_begins(client, own, b, &raised) : 0;
		if (err)
			return err;
		err = gpurt_client_begin(client, own, b->priority, form, &b->state);
		if (unlikely(boosted))
			gpurt_boost_returns(client, raised);
	} while (err == -EAGAIN);
	return err;
}

static long do_begin(struct gpurt_client *client, union gpurt_argument *a)
{
	u32 own = gpurt_raised_own(current), form;
	struct gpurt_begin *b = &a->begin;
	int err;

	if (b->flags & GPURT_BEGIN_POST)
		return -EINVAL;		/* every ioctl has an answer */
	if (b->flags & GPURT_BEGIN_BEGUN)
		return wait_for_grant(client, b);
	if (b->priority && !may_have(own, b->priority))
		return -EPERM;
	form = gpurt_boost_form_of(client, gpurt_boost_stated(b->flags));
	if (form == GPURT_FORM_FENCE && !client->gpu->ops.work)
		return -EOPNOTSUPP;
	err = begin(client, own, form, b);
	if (err || b->state == GPURT_STATE_RUNNING || !(b->flags & GPURT_BEGIN_WAIT))
		return err;
	return wait_for_grant(client, b);
}

static long do_end(struct gpurt_client *client, union gpurt_argument *a)
{
	struct gpurt_wait drained = { .what = GPURT_WAIT_IDLE, .timeout_ns = GPURT_FOREVER };
	bool raised;
	int err = 0;

	if (!READ_ONCE(client->core.depth))
		return gpurt_client_without_segment(client);
	if (a->end.flags & GPURT_END_DRAIN)
		err = gpurt_wait_for(client, &drained);
	if (err)
		return err;
	raised = gpurt_boost_ends(client);
	err = gpurt_client_end(client);
	if (raised || READ_ONCE(client->boost.raised.task))
		gpurt_boost_returns(client, raised);
	return err;
}

static long do_wait(struct gpurt_client *client, union gpurt_argument *a)
{
	int err;

	gpurt_boost_works(client, &a->wait);
	err = gpurt_wait_for(client, &a->wait);
	if (!err)
		gpurt_boost_worked(client, &a->wait);
	if (err != -EOPNOTSUPP)
		WRITE_ONCE(client->seen, atomic_read(&client->completions));
	return err;
}

static long do_copy(struct gpurt_client *client, union gpurt_argument *a)
{
	struct gpurt_copy *c = &a->copy;
	u32 own;

	c->granted_ns = 0;
	switch (c->what) {
	case GPURT_COPY_BEGIN:
		own = gpurt_raised_own(current);
		if (c->priority && !may_have(own, c->priority))
			return -EPERM;
		return gpurt_bus_begin(client, own, c);
	case GPURT_COPY_NEXT:
		return gpurt_bus_go_on(client, c);
	default:
		return gpurt_bus_end(client, c);
	}
}

static long do_tsg_open(struct gpurt_client *client, union gpurt_argument *a)
{
	int err = client->gpu->ops.work->tsg_open(client->gpu->driver, client->ctx, &a->tsg.tsg);

	if (!err)
		gpurt_client_hear(client);
	return err;
}

static long do_tsg_close(struct gpurt_client *client, union gpurt_argument *a)
{
	int err = client->gpu->ops.work->tsg_close(client->gpu->driver, client->ctx, a->tsg.tsg);

	if (!err)
		gpurt_client_hear(client);
	gpurt_wait_wake(client);	/* a call that waits for the TSG's work must return ENOENT */
	gpurt_boost_completed(client);
	return err;
}

static long do_tsg_shape(struct gpurt_client *client, union gpurt_argument *a)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err;

	if (!gpu->ops.work->tsg_shape)
		return -EOPNOTSUPP;
	err = gpu->ops.work->tsg_shape(gpu->driver, client->ctx, &a->shape, false);
	/* A caller is asked for a capability only if it is needed. */
	if (err == -EPERM && may_have(gpurt_raised_own(current), 1))
		err = gpu->ops.work->tsg_shape(gpu->driver, client->ctx, &a->shape, true);
	return err;
}

static long do_submit(struct gpurt_client *client, union gpurt_argument *a)
{
	gpurt_boost_submits(client);
	return client->gpu->ops.work->submit(client->gpu->driver, client->ctx, &a->submit);
}

static long do_agent(struct gpurt_client *client, union gpurt_argument *a)
{
	return gpurt_client_agent(client, &a->agent);
}

static int answer_call(struct gpurt_client *client, const struct gpurt_order *o)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err, token;

	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	err = gpu->ops.agents->answer(gpu->driver, client->ctx, o->answered, o->result);
	gpurt_gpu_release(gpu, token);
	return err;
}

static long do_order(struct gpurt_client *client, union gpurt_argument *a)
{
	int err;

	if (atomic_xchg(&client->ordering, 1))
		return -EBUSY;
	err = answer_call(client, &a->order);
	if (!err)
		err = gpurt_wait_for_order(client, &a->order);
	atomic_set(&client->ordering, 0);
	return err;
}

static long do_job_mark(struct gpurt_client *client, union gpurt_argument *a)
{
	/* Its number may be another GPU's by now. */
	if (READ_ONCE(client->gpu->dying))
		return -ENODEV;
	return gpurt_event_job(client, &a->job_mark);
}

static long do_group_join(struct gpurt_file *file, union gpurt_argument *a)
{
	if (file->tgid != task_tgid(current))
		return -EPERM;
	if (!gpurt_file_is_alive(file))
		return -ESTALE;
	return gpurt_group_join(file, &a->group_join, gpurt_raised_own(current));
}

/* Conditions of a call. */
enum {
	WORK	= 1 << 0,	/* needs a GPU whose work the module sees */
	AGENTS	= 1 << 1,	/* needs a GPU that agents switch */
	LOCKED	= 1 << 2,	/* called with file->lock held */
	HELD	= 1 << 3,	/* called with the GPU held alive, inside that lock */
};

/*
 * A call belongs to a client (@call) or to the descriptor (@file_call).  With neither, it is about jobs that share a
 * GPU in space, which only the user-space host supports.
 */
static const struct handler {
	long (*call)(struct gpurt_client *client, union gpurt_argument *a);
	long (*file_call)(struct gpurt_file *file, union gpurt_argument *a);
	u32 needs;
} handlers[] = {
	[_IOC_NR(GPURT_IOC_QUERY)] = { .file_call = do_query },
	[_IOC_NR(GPURT_IOC_GROUP_JOIN)] = { .file_call = do_group_join },
	[_IOC_NR(GPURT_IOC_BEGIN)] = { do_begin },
	[_IOC_NR(GPURT_IOC_END)] = { do_end },
	[_IOC_NR(GPURT_IOC_WAIT)] = { do_wait },
	[_IOC_NR(GPURT_IOC_COPY)] = { do_copy },
	[_IOC_NR(GPURT_IOC_TSG_OPEN)] = { do_tsg_open, .needs = WORK | LOCKED | HELD },
	[_IOC_NR(GPURT_IOC_TSG_CLOSE)] = { do_tsg_close, .needs = WORK | LOCKED | HELD },
	[_IOC_NR(GPURT_IOC_TSG_SHAPE)] = { do_tsg_shape, .needs = WORK | LOCKED | HELD },
	[_IOC_NR(GPURT_IOC_SUBMIT)] = { do_submit, .needs = WORK | HELD },
	[_IOC_NR(GPURT_IOC_AGENT)] = { do_agent, .needs = AGENTS | LOCKED },
	[_IOC_NR(GPURT_IOC_ORDER)] = { do_order, .needs = AGENTS },
	[_IOC_NR(GPURT_IOC_JOB_READY)] = { },
	[_IOC_NR(GPURT_IOC_JOB_WAIT)] = { },
	[_IOC_NR(GPURT_IOC_JOB_RUN)] = { },
	[_IOC_NR(GPURT_IOC_JOB_KERNEL_DONE)] = { },
	[_IOC_NR(GPURT_IOC_JOB_DONE)] = { },
	[_IOC_NR(GPURT_IOC_JOB_MARK)] = { do_job_mark },
};

/* The GPU's number is the second field of every structure that names a GPU. */
static long call_client(const struct handler *h, struct gpurt_file *file, union gpurt_argument *a)
{
	struct gpurt_client *client = gpurt_file_client(file, a->query.gpu);
	long ret = -ENODEV;
	int token;

	if (IS_ERR(client))
		return PTR_ERR(client);
	if ((h->needs & WORK && !client->gpu->ops.work) || (h->needs & AGENTS && !client->gpu->ops.agents))
		return -EOPNOTSUPP;
	if (h->needs & LOCKED)
		mutex_lock(&file->lock);
	if (!(h->needs & HELD)) {
		ret = h->call(client, a);
	} else if (gpurt_gpu_hold(client->gpu, &token)) {
		ret = h->call(client, a);
		gpurt_gpu_release(client->gpu, token);
	}
	if (h->needs & LOCKED)
		mutex_unlock(&file->lock);
	return ret;
}

static long carry_out(const struct handler *h, struct gpurt_file *file, union gpurt_argument *a)
{
	if (h->call)
		return call_client(h, file, a);
	return h->file_call ? h->file_call(file, a) : -EOPNOTSUPP;
}

/* Copies the caller's structure.  0, -EFAULT, -EINVAL or -E2BIG. */
static int get_argument(const struct gpurt_call *call, union gpurt_argument *argument, void __user *user)
{
	u32 size;
	int err;

	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	err = gpurt_call_check_size(call, size);
	if (!err)
		err = copy_struct_from_user(argument, call->size, user, size);
	return err ? err : gpurt_call_check(call, argument);
}

/* Copies the call's answer to the caller's structure.  After most begins, the most frequent call, it is one field. */
static int put_answer(const struct gpurt_call *call, const union gpurt_argument *argument, void __user *user)
{
	if (call->code == GPURT_IOC_BEGIN && !(argument->begin.flags & GPURT_BEGIN_WAIT))
		return put_user(argument->begin.state, &((struct gpurt_begin __user *)user)->state);
	return copy_to_user(user, argument, call->size) ? -EFAULT : 0;
}

long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	const struct gpurt_call *call = gpurt_call_find(cmd);
	void __user *user = (void __user *)arg;
	union gpurt_argument argument;
	long ret;

	if (!call)
		return -ENOTTY;
	ret = get_argument(call, &argument, user);
	if (ret)
		return ret;
	ret = carry_out(&handlers[_IOC_NR(call->code)], filp->private_data, &argument);
	/* The structure of an interrupted call says how to continue it.  A begin has begun its segment. */
	if ((!ret || ret == -ERESTARTNOHAND) && call->answers && put_answer(call, &argument, user))
		return -EFAULT;
	return ret;
}
