// SPDX-License-Identifier: GPL-2.0
/* Faults of a GPU, on demand: module parameters for tests of gpurt's reactions. */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/pid.h>

#include "../compat.h"
#include "devices.h"
#include "vgpu.h"

static uint vgpu_fail;
module_param(vgpu_fail, uint, 0600);
MODULE_PARM_DESC(vgpu_fail, "for tests: so many of the next updates fail");
static uint vgpu_error = EIO;
module_param(vgpu_error, uint, 0600);
MODULE_PARM_DESC(vgpu_error, "for tests: the error number with which they fail (default EIO)");
static uint vgpu_lose;
module_param(vgpu_lose, uint, 0600);
MODULE_PARM_DESC(vgpu_lose, "for tests: so many of the next updates are begun and never carried out");
static ulong vgpu_late_ns;
module_param(vgpu_late_ns, ulong, 0600);
MODULE_PARM_DESC(vgpu_late_ns, "for tests: updates are reported as carried out so much later, in ns");
static ulong vgpu_bound_ms;
module_param(vgpu_bound_ms, ulong, 0444);
MODULE_PARM_DESC(vgpu_bound_ms, "for tests: after so long an update that is not reported has failed (default 10000)");
static bool vgpu_power;
module_param(vgpu_power, bool, 0444);
MODULE_PARM_DESC(vgpu_power, "for tests: the virtual GPUs need power");
static uint vgpu_power_fail;
module_param(vgpu_power_fail, uint, 0600);
MODULE_PARM_DESC(vgpu_power_fail, "for tests: so many of the next attempts to power a virtual GPU fail");

/* Counts down a parameter, the number of faults to come; returns whether a fault was left. */
static bool strikes(uint *parameter)
{
	uint left = READ_ONCE(*parameter);

	if (left)
		WRITE_ONCE(*parameter, left - 1);
	return left;
}

/* Called before an update begins.  Returns 0, or an error for commit() to return. */
int vgpu_faults_before(void)
{
	if (unlikely(strikes(&vgpu_fail)))
		return -(int)READ_ONCE(vgpu_error);
	return unlikely(strikes(&vgpu_lose)) ? -EINPROGRESS : 0;
}

/* Reports the update as carried out only after @late. */
static int report_late(struct vgpu *dev, u64 sequence, ulong late)
{
	bool started = false;
	ulong flags;

	/* vgpu_faults_stop() must not come between check and start: nothing would stop the timer afterwards. */
	raw_spin_lock_irqsave(&dev->whole->lock, flags);
	if (dev->registered) {
		WRITE_ONCE(dev->sequence, sequence);
		hrtimer_start(&dev->completion, ns_to_ktime(late), HRTIMER_MODE_REL_HARD);
		started = true;
	}
	raw_spin_unlock_irqrestore(&dev->whole->lock, flags);
	return started ? -EINPROGRESS : 0;
}

/* The same after the update is carried out. */
int vgpu_faults_after(struct vgpu *dev, u64 sequence)
{
	ulong late = READ_ONCE(vgpu_late_ns);

	return unlikely(late) ? report_late(dev, sequence, late) : 0;
}

static enum hrtimer_restart complete_late(struct hrtimer *timer)
{
	struct vgpu *dev = container_of(timer, struct vgpu, completion);

	gpurt_gpu_committed(dev->gpu, READ_ONCE(dev->sequence), 1, 0);
	return HRTIMER_NORESTART;
}

static int power(void *driver, bool on)
{
	struct vgpu *dev = driver;

	if (on && strikes(&vgpu_power_fail))
		return -EIO;
	WARN_ON(atomic_add_return(on ? 1 : -1, &dev->powered) < 0);
	return 0;
}

void vgpu_faults_init(struct vgpu *dev, struct gpurt_driver_ops *ops)
{
	compat_hrtimer_setup(&dev->completion, complete_late, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	ops->bound_ns = (u64)vgpu_bound_ms * NSEC_PER_MSEC;
	ops->power = vgpu_power ? power : NULL;
}

static void set_registered(struct vgpu *dev, bool registered)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&dev->whole->lock, flags);
	dev->registered = registered;
	raw_spin_unlock_irqrestore(&dev->whole->lock, flags);
}

/* Called when the GPU has been registered: before, there was no GPU to tell of updates. */
void vgpu_faults_start(struct vgpu *dev)
{
	set_registered(dev, true);
}

/* Called before the GPU is unregistered: afterwards it must not be told of updates. */
void vgpu_faults_stop(struct vgpu *dev)
{
	set_registered(dev, false);
	hrtimer_cancel(&dev->completion);
}

static void reset(void *device, ulong ms)
{
	struct vgpu *dev = device;

	gpurt_gpu_reset_begin(dev->gpu);
	msleep_interruptible(ms);
	gpurt_gpu_reset_done(dev->gpu);
}

static void suspend(void *device, ulong ms)
{
	struct vgpu *dev = device;

	gpurt_gpu_suspend(dev->gpu);
	msleep_interruptible(ms);
	gpurt_gpu_resume(dev->gpu);
}

static void kill_work(void *device, ulong number)
{
	struct pid *tgid = find_get_pid((pid_t)number);
	struct gpurt_client *client;
	struct vgpu *dev = device;

	mutex_lock(&dev->clients_lock);
	client = tgid ? gpurt_client_find(dev->gpu, tgid) : NULL;
	if (client)
		gpurt_client_killed(client);
	mutex_unlock(&dev->clients_lock);
	put_pid(tgid);
}

struct mishap {
	void (*happen)(void *device, ulong argument);
};

/* Makes the mishap happen to every virtual GPU. */
static int mishap_set(const char *text, const struct kernel_param *param)
{
	const struct mishap *mishap = param->arg;
	ulong argument;
	int err = kstrtoul(text, 0, &argument);

	if (!err)
		gpurt_devices_each(&vgpus, mishap->happen, argument);
	return err;
}

static const struct kernel_param_ops mishap_ops = {
	.set = mishap_set,
};

static struct mishap resets = { reset }, suspends = { suspend }, kills = { kill_work };
module_param_cb(vgpu_reset, &mishap_ops, &resets, 0200);
MODULE_PARM_DESC(vgpu_reset, "for tests: the virtual GPUs are reset, which takes so many ms");
module_param_cb(vgpu_suspend, &mishap_ops, &suspends, 0200);
MODULE_PARM_DESC(vgpu_suspend, "for tests: the virtual GPUs are suspended for so many ms");
module_param_cb(vgpu_kill, &mishap_ops, &kills, 0200);
MODULE_PARM_DESC(vgpu_kill, "for tests: the work of a client of that process is killed");
