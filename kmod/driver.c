// SPDX-License-Identifier: GPL-2.0
/* What drivers ask of the module, beside decisions. */
#include <linux/export.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "driver.h"
#include "gpu.h"

static enum hrtimer_restart callback_due(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, callback.timer);

	kthread_queue_work(gpu->worker, &gpu->callback.work);
	return HRTIMER_NORESTART;
}

static void call_back(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, callback.work);
	int token;

	if (!gpurt_gpu_hold(gpu, &token))
		return;
	gpu->ops.called(gpu->driver);
	gpurt_gpu_release(gpu, token);
}

/* Called by the driver, in any context: its called() is to be called at @when.  A later call replaces this one. */
void gpurt_gpu_call(struct gpurt_gpu *gpu, u64 when)
{
	/* gpurt_gpu_stop() waits until no code is in here, and stops the timer afterwards. */
	rcu_read_lock();
	if (!READ_ONCE(gpu->dying))
		hrtimer_start(&gpu->callback.timer, ns_to_ktime(when), HRTIMER_MODE_ABS_HARD);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(gpurt_gpu_call);

void gpurt_driver_init(struct gpurt_gpu *gpu)
{
	compat_hrtimer_setup(&gpu->callback.timer, callback_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	kthread_init_work(&gpu->callback.work, call_back);
}

/* Called when the GPU is dying and its thread still runs. */
void gpurt_driver_stop(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->callback.timer);
}
