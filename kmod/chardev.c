// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/gpurt: the data plane of uapi/gpurt.h.
 *
 * A descriptor belongs to the process that opened it.  Another process that got hold of it can do nothing
 * with it, and the client ends when its owner does, whoever still holds the descriptor: the notifier of the
 * owner's address space says when that process exits or executes another program.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "internal.h"

/* All slots end; for the descriptor's release and for its owner's end, whichever comes first. */
static void file_gone(struct gpurt_file *file)
{
	int i;

	mutex_lock(&file->lock);
	file->gone = true;
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->slots[i])
			gpurt_slot_gone(file->slots[i]);
	mutex_unlock(&file->lock);
}

static void file_free(struct kref *ref)
{
	struct gpurt_file *file = container_of(ref, struct gpurt_file, ref);
	int i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->slots[i])
			gpurt_slot_free(file->slots[i]);
	put_pid(file->tgid);
	kfree(file);
}

#ifdef CONFIG_MMU_NOTIFIER
static void owner_ended(struct mmu_notifier *mn, struct mm_struct *mm)
{
	file_gone(container_of(mn, struct gpurt_file, mm));
}

static const struct mmu_notifier_ops owner_ops = {
	.release = owner_ended,
};

static int owner_watch(struct gpurt_file *file)
{
	file->mm.ops = &owner_ops;
	return mmu_notifier_register(&file->mm, current->mm);
}

static void owner_unwatch(struct gpurt_file *file)
{
	mmu_notifier_unregister(&file->mm, file->mm.mm);
}
#else
static int owner_watch(struct gpurt_file *file) { return 0; }
static void owner_unwatch(struct gpurt_file *file) { }
#endif

static int gpurt_open(struct inode *inode, struct file *filp)
{
	struct gpurt_file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	int err;

	if (!file)
		return -ENOMEM;
	kref_init(&file->ref);
	mutex_init(&file->lock);
	file->tgid = get_pid(task_tgid(current));
	err = owner_watch(file);
	if (err) {
		kref_put(&file->ref, file_free);
		return err;
	}
	filp->private_data = file;
	return stream_open(inode, filp);
}

static int gpurt_release(struct inode *inode, struct file *filp)
{
	struct gpurt_file *file = filp->private_data;

	file_gone(file);
	owner_unwatch(file);
	kref_put(&file->ref, file_free);
	return 0;
}

/*
 * The caller's slot for that GPU, made on first use.  It lives as long as the descriptor does, hence longer
 * than any call on it.
 */
static struct gpurt_slot *file_slot(struct gpurt_file *file, u32 index)
{
	struct gpurt_slot *slot;
	struct gpurt_gpu *gpu;

	if (file->tgid != task_tgid(current))
		return ERR_PTR(-EPERM);
	if (index >= GPURT_MAX_GPUS)
		return ERR_PTR(-ENODEV);
	mutex_lock(&file->lock);
	slot = file->slots[index];
	if (file->gone) {
		slot = ERR_PTR(-ESTALE);
	} else if (!slot) {
		gpu = gpurt_gpu_get(index);
		slot = gpu ? gpurt_slot_open(gpu, file) : ERR_PTR(-ENODEV);
		if (gpu && IS_ERR(slot))
			gpurt_gpu_put(gpu);
		if (!IS_ERR(slot))
			file->slots[index] = slot;
	}
	mutex_unlock(&file->lock);
	return slot;
}

/* Like gpurt_gpu_lock(), for a client that must still be there. */
static int slot_lock(struct gpurt_slot *slot)
{
	int err = gpurt_gpu_lock(slot->gpu);

	if (err)
		return err;
	if (list_empty(&slot->node)) {
		gpurt_gpu_unlock(slot->gpu);
		return -ESTALE;
	}
	return 0;
}

static u32 own_priority(void)
{
	return current->policy == SCHED_FIFO || current->policy == SCHED_RR ? current->rt_priority : 0;
}

/* What sched_setscheduler(2) would let the caller take. */
static bool may_have(u32 priority)
{
	return priority <= own_priority() || priority <= rlimit(RLIMIT_RTPRIO) || capable(CAP_SYS_NICE);
}

static long do_query(struct gpurt_file *file, struct gpurt_query *q)
{
	struct gpurt_gpu *gpu;
	u32 i;

	if (q->pad)
		return -EINVAL;
	gpu = gpurt_gpu_get(q->gpu);
	if (!gpu)
		return -ENODEV;
	q->version = GPURT_VERSION;
	q->caps = gpu->ops->caps;
	q->gpus = gpurt_gpu_count();
	q->tier = gpu->ops->tier;
	rt_mutex_lock(&gpu->update);
	q->policy = gpu->sched.policy;
	for (i = 0; i < GPURT_CAUSE_COUNT; i++)
		q->epsilon_ns = max_t(u64, q->epsilon_ns, gpu->latency[i].max);
	rt_mutex_unlock(&gpu->update);
	gpurt_gpu_put(gpu);
	return 0;
}

static long wait_granted(struct gpurt_slot *slot)
{
	struct gpurt_gpu *gpu = slot->gpu;

	return wait_event_interruptible(gpu->wait, gpurt_slot_granted(slot) || READ_ONCE(gpu->dying) ||
						   READ_ONCE(slot->file->gone)) ? -EINTR : 0;
}

static long do_begin(struct gpurt_file *file, struct gpurt_begin *b)
{
	struct gpurt_slot *slot;
	int err;

	if (b->flags & ~GPURT_BEGIN_FLAGS || b->pad || b->priority > GPURT_MAX_PRIORITY)
		return -EINVAL;
	if (b->priority && !may_have(b->priority))
		return -EPERM;
	slot = file_slot(file, b->gpu);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	err = slot_lock(slot);
	if (err)
		return err;
	err = gpurt_begin(&slot->gpu->sched, &slot->core, own_priority(), b->priority, ktime_get_ns());
	b->state = gpurt_client_state(&slot->gpu->sched, &slot->core);
	gpurt_gpu_unlock(slot->gpu);
	if (err || b->state == GPURT_STATE_RUNNING || !(b->flags & GPURT_BEGIN_WAIT))
		return err;
	err = wait_granted(slot);
	if (!err)
		b->state = GPURT_STATE_RUNNING;
	return err;
}

static bool is_idle(struct gpurt_slot *slot, u64 *when)
{
	struct gpurt_gpu *gpu = slot->gpu;
	bool idle = true;

	if (!gpu->ops->idle)
		return true;
	down_read(&gpu->alive);
	if (!gpu->dying && slot->ctx)
		idle = gpu->ops->idle(gpu->driver, slot->ctx, when);
	up_read(&gpu->alive);
	return idle;
}

static long do_end(struct gpurt_file *file, struct gpurt_end *e)
{
	struct gpurt_slot *slot;
	u64 when;
	int err;

	if (e->flags & ~GPURT_END_FLAGS || e->pad)
		return -EINVAL;
	slot = file_slot(file, e->gpu);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (e->flags & GPURT_END_DRAIN &&
	    wait_event_interruptible(slot->gpu->wait, is_idle(slot, &when) || READ_ONCE(slot->gpu->dying)))
		return -EINTR;
	err = slot_lock(slot);
	if (err)
		return err;
	err = gpurt_end(&slot->gpu->sched, &slot->core, ktime_get_ns());
	gpurt_gpu_unlock(slot->gpu);
	return err;
}

/* 1 if what is waited for has come true, 0 if not yet, -errno if it never will. */
static int wait_check(struct gpurt_slot *slot, struct gpurt_wait *w)
{
	struct gpurt_gpu *gpu = slot->gpu;
	int ret;

	down_read(&gpu->alive);
	if (gpu->dying) {
		ret = -ENODEV;
	} else if (READ_ONCE(slot->file->gone)) {
		ret = -ESTALE;
	} else if (w->what == GPURT_WAIT_GRANT) {
		w->completed_ns = ktime_get_ns();
		ret = !READ_ONCE(slot->core.depth) ? -ENOENT : gpurt_slot_granted(slot);
	} else if (!gpu->ops->work_done || !gpu->ops->idle) {
		ret = -EOPNOTSUPP;
	} else if (w->what == GPURT_WAIT_WORK) {
		ret = gpu->ops->work_done(gpu->driver, slot->ctx, w->tsg, w->work, &w->completed_ns);
	} else {
		ret = gpu->ops->idle(gpu->driver, slot->ctx, &w->completed_ns);
	}
	up_read(&gpu->alive);
	return ret;
}

static long do_wait(struct gpurt_file *file, struct gpurt_wait *w)
{
	struct gpurt_slot *slot;
	int check = 0;
	long ret;

	if (w->what >= GPURT_WAIT_COUNT || (w->what != GPURT_WAIT_WORK && (w->tsg || w->work)))
		return -EINVAL;
	slot = file_slot(file, w->gpu);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (w->timeout_ns > KTIME_MAX)
		ret = wait_event_interruptible(slot->gpu->wait, (check = wait_check(slot, w)));
	else
		ret = wait_event_interruptible_hrtimeout(slot->gpu->wait, (check = wait_check(slot, w)),
							 ns_to_ktime(w->timeout_ns));
	if (check < 0)
		return check;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	return ret ? -EINTR : 0;
}

/* The driver's part of a TSG call, with the driver held alive. */
static long do_tsg(struct gpurt_file *file, struct gpurt_tsg *t, bool open)
{
	struct gpurt_slot *slot;
	struct gpurt_gpu *gpu;
	int err;

	if (t->flags || (open && t->tsg))
		return -EINVAL;
	slot = file_slot(file, t->gpu);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	gpu = slot->gpu;
	if (!gpu->ops->tsg_open)
		return -EOPNOTSUPP;
	err = slot_lock(slot);
	if (err)
		return err;
	err = open ? gpu->ops->tsg_open(gpu->driver, slot->ctx, &t->tsg) :
		     gpu->ops->tsg_close(gpu->driver, slot->ctx, t->tsg);
	if (!err && open)
		gpurt_tsg_opened(&gpu->sched, &slot->core, ktime_get_ns());
	else if (!err)
		gpurt_tsg_closed(&gpu->sched, &slot->core, ktime_get_ns());
	gpurt_gpu_unlock(gpu);
	return err;
}

static long do_submit(struct gpurt_file *file, struct gpurt_submit *s)
{
	struct gpurt_slot *slot;
	struct gpurt_gpu *gpu;
	long err = -ENODEV;

	if (s->flags & ~GPURT_SUBMIT_FLAGS || s->pad || s->engine >= GPURT_ENGINE_COUNT ||
	    !s->duration_ns || s->duration_ns > GPURT_MAX_WORK_NS)
		return -EINVAL;
	slot = file_slot(file, s->gpu);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	gpu = slot->gpu;
	if (!gpu->ops->submit)
		return -EOPNOTSUPP;
	down_read(&gpu->alive);
	if (!gpu->dying)
		err = slot->ctx ? gpu->ops->submit(gpu->driver, slot->ctx, s) : -ESTALE;
	up_read(&gpu->alive);
	return err;
}

static long dispatch(struct gpurt_file *file, unsigned int nr, void *argument)
{
	switch (nr) {
	case _IOC_NR(GPURT_IOC_QUERY):
		return do_query(file, argument);
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
	}
	return 0;
}

static long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	union {
		struct gpurt_query query;
		struct gpurt_begin begin;
		struct gpurt_end end;
		struct gpurt_wait wait;
		struct gpurt_tsg tsg;
		struct gpurt_submit submit;
	} argument;
	size_t known = argument_size(_IOC_NR(cmd));
	u32 size;
	long ret;

	if (_IOC_TYPE(cmd) != GPURT_IOC_MAGIC || !known)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	/* All structures have grown to what they are in version 1. */
	if (size < known || size > PAGE_SIZE)
		return size < known ? -EINVAL : -E2BIG;
	memset(&argument, 0, sizeof(argument));
	ret = copy_struct_from_user(&argument, known, user, size);
	if (ret)
		return ret;
	ret = dispatch(filp->private_data, _IOC_NR(cmd), &argument);
	/* A call that was interrupted has still begun its segment: the caller learns the state. */
	if ((!ret || ret == -EINTR) && copy_to_user(user, &argument, known))
		return -EFAULT;
	return ret;
}

static __poll_t gpurt_poll(struct file *filp, poll_table *table)
{
	struct gpurt_file *file = filp->private_data;
	struct gpurt_slot *slot = file_slot(file, 0);
	__poll_t mask = 0;
	u64 when;

	if (IS_ERR(slot))
		return EPOLLERR;
	poll_wait(filp, &slot->gpu->wait, table);
	if (READ_ONCE(slot->core.depth) && gpurt_slot_granted(slot))
		mask |= EPOLLOUT | EPOLLWRNORM;
	if (is_idle(slot, &when))
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

static const struct file_operations gpurt_fops = {
	.owner = THIS_MODULE,
	.open = gpurt_open,
	.release = gpurt_release,
	.unlocked_ioctl = gpurt_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = gpurt_poll,
};

static struct miscdevice gpurt_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = GPURT_DEVICE_NAME,
	.fops = &gpurt_fops,
	.mode = 0660,
};

int gpurt_chardev_start(void)
{
	return misc_register(&gpurt_device);
}

void gpurt_chardev_stop(void)
{
	misc_deregister(&gpurt_device);
}
