// SPDX-License-Identifier: GPL-2.0
/* TSGs of the virtual GPU, and their work. */
#include <linux/jhash.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "vgpu.h"

/* How many work items are dropped at once, with interrupts off. */
#define DROP 32

static struct vgpu_tsg *tsg_of(struct gpurt_vgpu_tsg *t)
{
	return container_of(t, struct vgpu_tsg, core);
}

static struct vgpu_work *work_of(struct gpurt_vgpu_work *w)
{
	return container_of(w, struct vgpu_work, core);
}

/* Users choose which numbers are queued together, so the hash has a seed. */
static struct hlist_head *queued(struct vgpu_tsg *tsg, u64 number)
{
	u32 hash = jhash_2words(lower_32_bits(number), upper_32_bits(number), tsg->seed);

	return &tsg->queued[hash >> (32 - VGPU_QUEUED_BITS)];
}

/* Called by core/vgpu.c with the lock held. */
static void vgpu_done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u64 when)
{
	struct vgpu_tsg *tsg = tsg_of(t);
	struct vgpu *dev = v->host;

	tsg->when[w->number % GPURT_REMEMBERED] = when;
	tsg->ctx->last = when;
	tsg->ctx->queued--;
	hlist_del(&work_of(w)->by_number);
	list_add(&w->node, &dev->spent);
	gpurt_client_work_done(tsg->ctx->client, when, work_of(w)->since);
}

const struct gpurt_vgpu_ops vgpu_core_ops = {
	.done = vgpu_done,
};

/* Frees at most @most completed work items.  Each submission frees two, so they do not pile up. */
void vgpu_reap(struct vgpu *dev, unsigned int most)
{
	struct gpurt_vgpu_work *w;

	while (most--) {
		raw_spin_lock_irq(&dev->whole->lock);
		w = list_first_entry_or_null(&dev->spent, struct gpurt_vgpu_work, node);
		if (w)
			list_del(&w->node);
		raw_spin_unlock_irq(&dev->whole->lock);
		if (!w)
			break;
		kfree(work_of(w));
		cond_resched();
	}
}

static int vgpu_tsg_open(void *driver, void *context, u32 *id)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu_tsg *tsg;
	int err;

	tsg = kzalloc(sizeof(*tsg), GFP_KERNEL_ACCOUNT);
	if (!tsg)
		return -ENOMEM;
	gpurt_vgpu_tsg_open(&tsg->core, &ctx->core);
	tsg->ctx = ctx;
	tsg->seed = get_random_u32();
	err = xa_alloc(&ctx->tsgs, &tsg->id, tsg, XA_LIMIT(0, GPURT_MAX_CLIENT_TSGS - 1), GFP_KERNEL_ACCOUNT);
	if (err) {
		kfree(tsg);
		return err == -EBUSY ? -EMFILE : err;
	}
	gpurt_client_tsgs_changed(ctx->client, 1);
	*id = tsg->id;
	return 0;
}

/* Moves some of the TSG's work to @dropped.  Returns true when none is left and the TSG is closed. */
static bool drop_some(struct vgpu *dev, struct vgpu_tsg *tsg, struct list_head *dropped)
{
	struct gpurt_vgpu_work *w = NULL;
	unsigned long flags;
	u64 now;
	int i;

	now = vgpu_lock(dev, &flags);
	for (i = 0; i < DROP; i++) {
		w = gpurt_vgpu_drop(&dev->core, &tsg->core, now);
		if (!w)
			break;
		tsg->ctx->queued--;
		hlist_del(&work_of(w)->by_number);
		list_add(&w->node, dropped);
	}
	if (!w) {
		gpurt_vgpu_tsg_close(&dev->core, &tsg->core, now);
		gpurt_client_tsgs_changed(tsg->ctx->client, -1);
	}
	vgpu_unlock(dev, flags);
	return !w;
}

/* Drops the TSG's work and frees the TSG, which can no longer be found by its number. */
void vgpu_tsg_free(struct vgpu *dev, struct vgpu_tsg *tsg)
{
	struct gpurt_vgpu_work *w, *next;
	LIST_HEAD(dropped);

	while (!drop_some(dev, tsg, &dropped))
		cond_resched();
	list_for_each_entry_safe(w, next, &dropped, node) {
		kfree(work_of(w));
		cond_resched();
	}
	kfree(tsg);
}

static int vgpu_tsg_close(void *driver, void *context, u32 id)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu_tsg *tsg = xa_erase(&ctx->tsgs, id);

	if (!tsg)
		return -ENOENT;
	vgpu_tsg_free(driver, tsg);
	return 0;
}

/* A higher level, or a longer slice, takes GPU time from others. */
static bool takes_more(const struct gpurt_vgpu *v, const struct gpurt_tsg_shape *shape)
{
	return shape->level > GPURT_INTERLEAVE_LOW || shape->slice_ns > v->slice;
}

static int vgpu_tsg_shape(void *driver, void *context, const struct gpurt_tsg_shape *shape, bool real_time)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	unsigned long flags;
	int err = 0;
	u64 now;

	now = vgpu_lock(dev, &flags);
	tsg = xa_load(&ctx->tsgs, shape->tsg);
	if (!tsg)
		err = -ENOENT;
	else if (!real_time && takes_more(&dev->core, shape))
		err = -EPERM;
	else
		gpurt_vgpu_shape(&dev->core, &tsg->core, shape->slice_ns, shape->level, now);
	vgpu_unlock(dev, flags);
	return err;
}

/* Called with the lock held. */
static int check_submit(struct vgpu *dev, const struct vgpu_tsg *tsg, const struct gpurt_vgpu_demand *d)
{
	if (!tsg)
		return -ENOENT;
	if (gpurt_vgpu_time(&dev->core, d) < GPURT_MIN_WORK_NS)
		return -EINVAL;
	if (tsg->core.queued >= GPURT_MAX_QUEUED || tsg->ctx->queued >= GPURT_MAX_CLIENT_QUEUED)
		return -ENOBUFS;
	return 0;
}

static int vgpu_submit(void *driver, void *context, struct gpurt_submit *s)
{
	struct vgpu_work *work = kmalloc(sizeof(*work), GFP_KERNEL_ACCOUNT);
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	struct gpurt_vgpu_demand demand;
	unsigned long flags;
	int err;

	if (!work)
		return -ENOMEM;
	gpurt_vgpu_demand_of(&demand, s);
	vgpu_reap(dev, 2);
	work->since = vgpu_lock(dev, &flags);
	tsg = xa_load(&ctx->tsgs, s->tsg);
	err = check_submit(dev, tsg, &demand);
	if (!err) {
		ctx->queued++;
		s->work = gpurt_vgpu_submit_as(&dev->core, &tsg->core, &work->core, &demand, work->since);
		hlist_add_head(&work->by_number, queued(tsg, s->work));
	}
	vgpu_unlock(dev, flags);
	if (err)
		kfree(work);
	return err;
}

/* Called with the lock held. */
static bool is_queued(struct vgpu_tsg *tsg, u64 number)
{
	struct vgpu_work *work;

	hlist_for_each_entry(work, queued(tsg, number), by_number)
		if (work->core.number == number)
			return true;
	return false;
}

static int vgpu_work_done(void *driver, void *context, u32 id, u64 number, u64 *when)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	int ret = -ENOENT;

	raw_spin_lock_irq(&dev->whole->lock);
	tsg = xa_load(&ctx->tsgs, id);
	if (tsg && number && number <= tsg->core.submitted) {
		ret = !is_queued(tsg, number);
		if (ret)
			*when = tsg->core.submitted - number < GPURT_REMEMBERED ?
				tsg->when[number % GPURT_REMEMBERED] : tsg->ctx->last;
	}
	raw_spin_unlock_irq(&dev->whole->lock);
	return ret;
}

static int vgpu_idle(void *driver, void *context, u64 *when)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	int ret;

	raw_spin_lock_irq(&dev->whole->lock);
	ret = !ctx->queued;
	*when = ctx->last;
	raw_spin_unlock_irq(&dev->whole->lock);
	return ret;
}

const struct gpurt_work_ops vgpu_work_ops = {
	.tsg_open = vgpu_tsg_open,
	.tsg_close = vgpu_tsg_close,
	.submit = vgpu_submit,
	.work_done = vgpu_work_done,
	.idle = vgpu_idle,
	.tsg_shape = vgpu_tsg_shape,
};
