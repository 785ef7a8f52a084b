// SPDX-License-Identifier: GPL-2.0
/*
 * The virtual GPU of core/vgpu.c as a driver.  Module parameters make it fail, stall, appear and disappear, to test the
 * module's reactions.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/ktime.h>

#include "../compat.h"
#include "devices.h"
#include "vgpu.h"

/* The longest busy-wait of commit() with preemption off, in ns.  Longer updates sleep. */
#define BUSY_MAX 10000000UL
/* The longest update, and the longest context switch, in ns. */
#define COST_MAX 10000000000UL
/* How soon a sleeping update notices a shorter setting, in ns. */
#define LOOK 100000000ULL

static ulong vgpu_slice_ns = 1024000;
module_param(vgpu_slice_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_slice_ns, "time slice of the virtual GPUs in ns (default 1024000; 0: none)");
static ulong vgpu_theta_ns;
module_param(vgpu_theta_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_theta_ns, "context switch cost of the virtual GPUs in ns (default 0)");
static ulong vgpu_alpha_ns;
module_param(vgpu_alpha_ns, ulong, 0444);
MODULE_PARM_DESC(vgpu_alpha_ns, "runlist update cost of the virtual GPUs in ns (default 0)");
static bool vgpu_copy_engine = true;
module_param(vgpu_copy_engine, bool, 0444);
MODULE_PARM_DESC(vgpu_copy_engine, "whether copies have an engine of their own (default yes)");
static bool vgpu_sleeps;
module_param(vgpu_sleeps, bool, 0444);
MODULE_PARM_DESC(vgpu_sleeps, "updates sleep, as those of most real GPUs do (default: only those of more than 10 ms)");
static ulong vgpu_stall_ns;
module_param(vgpu_stall_ns, ulong, 0600);
MODULE_PARM_DESC(vgpu_stall_ns, "for tests: every update takes so much longer, in ns; with vgpu_sleeps only");

static int vgpu_client_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **out)
{
	struct vgpu_ctx *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return -ENOMEM;
	gpurt_vgpu_ctx_init(&ctx->core);
	ctx->client = client;
	xa_init_flags(&ctx->tsgs, XA_FLAGS_ALLOC);
	*out = ctx;
	return 0;
}

static void vgpu_client_close(void *driver, void *context)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	struct vgpu_tsg *tsg;
	unsigned long id;

	/* A thread that has found the client uses it with the lock held: wait for that thread. */
	mutex_lock(&dev->clients_lock);
	mutex_unlock(&dev->clients_lock);
	/* No other operation for the client is under way, so its TSGs have stayed until here. */
	xa_for_each(&ctx->tsgs, id, tsg)
		vgpu_tsg_free(dev, tsg);
	xa_destroy(&ctx->tsgs);
	vgpu_reap(dev, UINT_MAX);
	kfree(ctx);
}

/* A context that has no TSGs of its own. */
static int vgpu_group_open(void *driver, void **out)
{
	struct gpurt_vgpu_ctx *group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);

	if (!group)
		return -ENOMEM;
	gpurt_vgpu_ctx_init(group);
	*out = group;
	return 0;
}

static void vgpu_group_close(void *driver, void *group)
{
	struct vgpu *dev = driver;
	unsigned long flags;

	vgpu_lock(dev, &flags);
	if (dev->core.only == group)
		dev->core.only = &dev->nobody;
	vgpu_unlock(dev, flags);
	kfree(group);
}

static int vgpu_group_join(void *driver, void *context, void *group)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	unsigned long flags;

	gpurt_vgpu_unite(&dev->core, &ctx->core, group, vgpu_lock(dev, &flags));
	vgpu_unlock(dev, flags);
	return 0;
}

/* An update lasts until @until: a real driver would delay its caller for as long. */
static void keep_busy(u64 until)
{
	u64 now;

	while ((now = ktime_get_ns()) < until) {
		u64 ns = until - now;

		if (ns >= NSEC_PER_USEC)
			udelay(min_t(u64, ns / NSEC_PER_USEC, 100));
		else
			ndelay(ns);
	}
}

static void keep_asleep(u64 until)
{
	u64 end, now;
	ktime_t next;

	/* If the stall is too long, only a new value of the parameter ends the wait. */
	while ((now = ktime_get_ns()) < (end = until + READ_ONCE(vgpu_stall_ns))) {
		next = ns_to_ktime(min(end, now + LOOK));
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&next, HRTIMER_MODE_ABS);
	}
}

static bool update_sleeps(void)
{
	return vgpu_sleeps || vgpu_alpha_ns > BUSY_MAX;
}

static int vgpu_commit(void *driver, const struct gpurt_commit *c)
{
	struct vgpu *dev = driver;
	unsigned long flags;
	u64 now, until;
	int err;

	err = vgpu_faults_before();
	if (err)
		return err;
	/* An update that does not sleep begins when it is decided, in the same stretch without preemption. */
	now = vgpu_lock_at(dev, update_sleeps() ? 0 : c->now, &flags);
	until = gpurt_vgpu_commit_here(&dev->core, c->only);
	vgpu_unlock(dev, flags);
	if (update_sleeps())
		keep_asleep(until);
	else if (until > now)
		keep_busy(until);
	return vgpu_faults_after(dev, c->sequence);
}

static void vgpu_exempt(void *driver, void *context, bool exempt)
{
	struct vgpu_ctx *ctx = context;
	struct vgpu *dev = driver;
	unsigned long flags;

	gpurt_vgpu_exempt(&dev->core, &ctx->core, exempt, vgpu_lock(dev, &flags));
	vgpu_unlock(dev, flags);
}

static void vgpu_costs(void *driver, struct gpurt_driver_costs *costs)
{
	*costs = (struct gpurt_driver_costs){ vgpu_alpha_ns, vgpu_theta_ns, vgpu_slice_ns };
}

static bool vgpu_quiet(void *driver, bool *asked)
{
	struct vgpu *dev = driver;
	unsigned long flags;
	bool quiet;

	vgpu_lock(dev, &flags);
	quiet = gpurt_vgpu_quiet(&dev->core, asked);
	vgpu_unlock(dev, flags);
	return quiet;
}

static void *vgpu_create(unsigned int place)
{
	struct gpurt_driver_ops ops = {
		GPURT_DRIVER, .name = "vgpu", .tier = GPURT_TIER_VIRTUAL, .commit_sleeps = update_sleeps(),
		.work = &vgpu_work_ops, .client_open = vgpu_client_open, .client_close = vgpu_client_close,
		.commit = vgpu_commit, .exempt = vgpu_exempt, .costs = vgpu_costs, .part = vgpu_part,
		.quiet = vgpu_quiet, .group_open = vgpu_group_open, .group_close = vgpu_group_close,
		.group_join = vgpu_group_join,
	};
	struct vgpu *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	mutex_init(&dev->clients_lock);
	vgpu_faults_init(dev, &ops);
	INIT_LIST_HEAD(&dev->spent);
	gpurt_vgpu_ctx_init(&dev->nobody);
	gpurt_vgpu_init(&dev->core, &vgpu_core_ops, dev, vgpu_slice_ns, vgpu_theta_ns, vgpu_alpha_ns,
			vgpu_copy_engine, ktime_get_ns());
	err = vgpu_join(dev, place);
	if (err)
		goto free;
	err = gpurt_gpu_register(&ops, dev, &dev->gpu);
	if (err)
		goto leave;
	vgpu_faults_start(dev);
	return dev;
leave:
	vgpu_leave(dev);
free:
	kfree(dev);
	return ERR_PTR(err);
}

static void vgpu_destroy(void *device)
{
	struct vgpu *dev = device;

	vgpu_faults_stop(dev);
	gpurt_gpu_unregister(dev->gpu);
	vgpu_reap(dev, UINT_MAX);
	vgpu_leave(dev);
	kfree(dev);
}

struct gpurt_devices vgpus = { .create = vgpu_create, .destroy = vgpu_destroy, .wanted = 1 };
module_param_cb(vgpus, &gpurt_devices_ops, &vgpus, 0600);
MODULE_PARM_DESC(vgpus, "number of virtual GPUs, 0 to 16 (default 1); may be changed at any time");

static bool cost_valid(const char *name, ulong ns)
{
	if (ns <= COST_MAX)
		return true;
	pr_err("gpurt: %s=%lu: %lu at most\n", name, ns, COST_MAX);
	return false;
}

/* Whether the parameters are valid.  For an invalid one the kernel's log says which values are allowed. */
bool vgpu_valid(void)
{
	return cost_valid("vgpu_alpha_ns", vgpu_alpha_ns) && cost_valid("vgpu_theta_ns", vgpu_theta_ns) &&
	       vgpu_whole_valid();
}
