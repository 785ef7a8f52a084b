// SPDX-License-Identifier: GPL-2.0
/*
 * The virtual GPU as a driver: core/vgpu.c with a timer.  A soft timer wakes it when something happens on
 * the GPU; everything about it is under one spinlock.
 */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/xarray.h>

#include "../compat.h"
#include "../core/vgpu.h"
#include "../internal.h"

static unsigned int vgpus = 1;
module_param(vgpus, uint, 0444);
MODULE_PARM_DESC(vgpus, "number of virtual GPUs (default 1)");
static ulong vgpu_slice_ns = 1024000;
module_param(vgpu_slice_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_slice_ns, "time slice of the virtual GPUs in ns (default 1024000)");
static ulong vgpu_theta_ns;
module_param(vgpu_theta_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_theta_ns, "context switch cost of the virtual GPUs in ns (default 0)");
static ulong vgpu_alpha_ns;
module_param(vgpu_alpha_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_alpha_ns, "runlist update cost of the virtual GPUs in ns (default 0)");

/* Completion times that are remembered of each TSG; older ones are answered with the latest known. */
#define REMEMBERED 64

struct vgpu {
	spinlock_t lock;
	struct gpurt_vgpu core;
	struct hrtimer timer;
	struct gpurt_gpu *gpu;
	struct xarray tsgs;
};

struct vgpu_ctx {
	struct gpurt_vgpu_ctx core;
	struct list_head tsgs;
	u32 queued;			/* work items of all its TSGs */
	u64 last;			/* completion */
};

struct vgpu_tsg {
	struct gpurt_vgpu_tsg core;
	struct vgpu_ctx *ctx;
	struct list_head node;		/* of the context's */
	u32 id;
	u64 when[REMEMBERED];		/* by work number modulo */
};

struct vgpu_work {
	struct gpurt_vgpu_work core;
	struct rcu_head rcu;
};

static struct vgpu *devices[GPURT_MAX_GPUS];

static struct vgpu_tsg *tsg_of(struct gpurt_vgpu_tsg *t)
{
	return container_of(t, struct vgpu_tsg, core);
}

/* Called by the core, under the lock. */
static void vgpu_done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u64 when)
{
	struct vgpu_tsg *tsg = tsg_of(t);
	struct vgpu *dev = v->host;

	tsg->when[w->number % REMEMBERED] = when;
	tsg->ctx->last = when;
	tsg->ctx->queued--;
	kfree(container_of(w, struct vgpu_work, core));
	gpurt_gpu_work_done(dev->gpu, tsg->ctx);
}

static const struct gpurt_vgpu_ops vgpu_core_ops = {
	.done = vgpu_done,
};

/* Under the lock, after anything that may change what happens next. */
static void vgpu_arm(struct vgpu *dev)
{
	u64 next = gpurt_vgpu_next(&dev->core);

	if (next == U64_MAX)
		hrtimer_try_to_cancel(&dev->timer);
	else
		hrtimer_start(&dev->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart vgpu_timer(struct hrtimer *timer)
{
	struct vgpu *dev = container_of(timer, struct vgpu, timer);

	spin_lock(&dev->lock);
	gpurt_vgpu_advance(&dev->core, ktime_get_ns());
	vgpu_arm(dev);
	spin_unlock(&dev->lock);
	return HRTIMER_NORESTART;
}

static int vgpu_client_open(void *driver, struct pid *tgid, void **out)
{
	struct vgpu_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	gpurt_vgpu_ctx_init(&ctx->core);
	INIT_LIST_HEAD(&ctx->tsgs);
	*out = ctx;
	return 0;
}

/* Under the lock. */
static void tsg_destroy(struct vgpu *dev, struct vgpu_tsg *tsg, u64 now)
{
	struct gpurt_vgpu_work *w;

	while ((w = gpurt_vgpu_drop(&dev->core, &tsg->core, now))) {
		tsg->ctx->queued--;
		kfree(container_of(w, struct vgpu_work, core));
	}
	gpurt_vgpu_tsg_close(&dev->core, &tsg->core, now);
	list_del(&tsg->node);
}

static void vgpu_client_close(void *driver, void *context)
{
	struct vgpu_tsg *tsg, *next;
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	LIST_HEAD(closed);

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(tsg, next, &ctx->tsgs, node) {
		tsg_destroy(dev, tsg, ktime_get_ns());
		list_add(&tsg->node, &closed);
	}
	vgpu_arm(dev);
	spin_unlock_bh(&dev->lock);

	list_for_each_entry_safe(tsg, next, &closed, node) {
		xa_erase(&dev->tsgs, tsg->id);
		kfree(tsg);
	}
	kfree(ctx);
}

static int vgpu_commit(void *driver, void *only)
{
	struct vgpu_ctx *ctx = only;
	struct vgpu *dev = driver;
	u64 now, until;

	spin_lock_bh(&dev->lock);
	now = ktime_get_ns();
	until = gpurt_vgpu_commit(&dev->core, ctx ? &ctx->core : NULL, now);
	vgpu_arm(dev);
	spin_unlock_bh(&dev->lock);
	/* A real update keeps its caller for that long. */
	if (until > now) {
		ktime_t end = ns_to_ktime(until);

		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&end, HRTIMER_MODE_ABS);
	}
	return 0;
}

static void vgpu_exempt(void *driver, void *context, bool exempt)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;

	spin_lock_bh(&dev->lock);
	gpurt_vgpu_exempt(&dev->core, &ctx->core, exempt, ktime_get_ns());
	vgpu_arm(dev);
	spin_unlock_bh(&dev->lock);
}

static int vgpu_tsg_open(void *driver, void *context, u32 *id)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	int err;

	tsg = kzalloc(sizeof(*tsg), GFP_KERNEL_ACCOUNT);
	if (!tsg)
		return -ENOMEM;
	gpurt_vgpu_tsg_open(&tsg->core, &ctx->core);
	tsg->ctx = ctx;
	err = xa_alloc(&dev->tsgs, &tsg->id, tsg, XA_LIMIT(0, GPURT_MAX_TSGS - 1), GFP_KERNEL_ACCOUNT);
	if (err) {
		kfree(tsg);
		return err == -EBUSY ? -EMFILE : err;
	}
	spin_lock_bh(&dev->lock);
	list_add_tail(&tsg->node, &ctx->tsgs);
	spin_unlock_bh(&dev->lock);
	*id = tsg->id;
	return 0;
}

/* The client's TSG of that number, under the lock; NULL: it has none such. */
static struct vgpu_tsg *tsg_find(struct vgpu *dev, struct vgpu_ctx *ctx, u32 id)
{
	struct vgpu_tsg *tsg = xa_load(&dev->tsgs, id);

	return tsg && tsg->ctx == ctx ? tsg : NULL;
}

static int vgpu_tsg_close(void *driver, void *context, u32 id)
{
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;

	spin_lock_bh(&dev->lock);
	tsg = tsg_find(dev, context, id);
	if (tsg) {
		tsg_destroy(dev, tsg, ktime_get_ns());
		__xa_erase(&dev->tsgs, id);
		vgpu_arm(dev);
	}
	spin_unlock_bh(&dev->lock);
	kfree(tsg);
	if (tsg)
		gpurt_gpu_work_done(dev->gpu, context);
	return tsg ? 0 : -ENOENT;
}

static int vgpu_submit(void *driver, void *context, struct gpurt_submit *s)
{
	struct vgpu_work *work = kmalloc(sizeof(*work), GFP_KERNEL_ACCOUNT);
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	int err = 0;

	if (!work)
		return -ENOMEM;
	spin_lock_bh(&dev->lock);
	tsg = tsg_find(dev, ctx, s->tsg);
	if (!tsg) {
		err = -ENOENT;
	} else if (tsg->core.queued >= GPURT_MAX_QUEUED) {
		err = -ENOBUFS;
	} else {
		ctx->queued++;
		s->work = gpurt_vgpu_submit(&dev->core, &tsg->core, &work->core, s->engine,
					    s->flags & GPURT_SUBMIT_FENCE, s->duration_ns, ktime_get_ns());
		vgpu_arm(dev);
	}
	spin_unlock_bh(&dev->lock);
	if (err)
		kfree(work);
	return err;
}

/* Whether work @number is still in a queue of the TSG. */
static bool is_queued(const struct vgpu_tsg *tsg, u64 number)
{
	const struct gpurt_vgpu_work *w;
	int e;

	for (e = 0; e < GPURT_ENGINE_COUNT; e++)
		list_for_each_entry(w, &tsg->core.queue[e], node)
			if (w->number == number)
				return true;
	return false;
}

static int vgpu_work_done(void *driver, void *context, u32 id, u64 number, u64 *when)
{
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	int ret = -ENOENT;

	spin_lock_bh(&dev->lock);
	tsg = tsg_find(dev, context, id);
	if (tsg && number && number <= tsg->core.submitted) {
		ret = !is_queued(tsg, number);
		*when = tsg->core.submitted - number < REMEMBERED ? tsg->when[number % REMEMBERED] : tsg->ctx->last;
	}
	spin_unlock_bh(&dev->lock);
	return ret;
}

static int vgpu_idle(void *driver, void *context, u64 *when)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	int ret;

	spin_lock_bh(&dev->lock);
	ret = !ctx->queued;
	*when = ctx->last;
	spin_unlock_bh(&dev->lock);
	return ret;
}

static const struct gpurt_driver_ops vgpu_ops = {
	.owner = THIS_MODULE,
	.name = "vgpu",
	.tier = GPURT_TIER_VIRTUAL,
	.caps = GPURT_CAP_VGPU,
	.client_open = vgpu_client_open,
	.client_close = vgpu_client_close,
	.commit = vgpu_commit,
	.exempt = vgpu_exempt,
	.tsg_open = vgpu_tsg_open,
	.tsg_close = vgpu_tsg_close,
	.submit = vgpu_submit,
	.work_done = vgpu_work_done,
	.idle = vgpu_idle,
};

static struct vgpu *vgpu_create(void)
{
	struct vgpu *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	struct gpurt_gpu *gpu;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&dev->lock);
	xa_init_flags(&dev->tsgs, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH);
	compat_hrtimer_setup(&dev->timer, vgpu_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	gpurt_vgpu_init(&dev->core, &vgpu_core_ops, dev, vgpu_slice_ns, vgpu_theta_ns, vgpu_alpha_ns, true,
			ktime_get_ns());
	gpu = gpurt_gpu_register(&vgpu_ops, dev);
	if (IS_ERR(gpu)) {
		kfree(dev);
		return ERR_CAST(gpu);
	}
	dev->gpu = gpu;
	return dev;
}

int gpurt_vgpu_start(void)
{
	u32 i;

	if (!vgpus || vgpus > GPURT_MAX_GPUS) {
		pr_err("gpurt: vgpus=%u: 1 to %u\n", vgpus, GPURT_MAX_GPUS);
		return -EINVAL;
	}
	for (i = 0; i < vgpus; i++) {
		struct vgpu *dev = vgpu_create();

		if (IS_ERR(dev)) {
			gpurt_vgpu_stop();
			return PTR_ERR(dev);
		}
		devices[i] = dev;
	}
	return 0;
}

void gpurt_vgpu_stop(void)
{
	u32 i;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		if (!devices[i])
			continue;
		gpurt_gpu_unregister(devices[i]->gpu);
		hrtimer_cancel(&devices[i]->timer);
		xa_destroy(&devices[i]->tsgs);
		kfree(devices[i]);
		devices[i] = NULL;
	}
}
