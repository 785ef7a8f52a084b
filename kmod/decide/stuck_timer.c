// SPDX-License-Identifier: GPL-2.0
/* When the next look of stuck.c is due: while a GPU has an owner, GPURT_STUCK_LOOKS times in the bound. */
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>

#include "base/workers.h"
#include "decide/decide.h"
#include "state/gpu.h"

static unsigned int stuck_ms = GPURT_STUCK_DEFAULT_NS / NSEC_PER_MSEC;
module_param(stuck_ms, uint, 0644);
MODULE_PARM_DESC(stuck_ms, "Report an owner that sleeps while its GPU idles and others wait, after this time; 0: never");

/* ns; 0: nobody looks, or the driver does not tell whether the GPU executes anything. */
u64 gpurt_stuck_limit(const struct gpurt_gpu *gpu)
{
	return gpu->ops.quiet ? (u64)READ_ONCE(stuck_ms) * NSEC_PER_MSEC : 0;
}

/* Called with the gate held.  The GPU has an owner. */
void gpurt_stuck_arm(struct gpurt_gpu *gpu)
{
	u64 limit = gpurt_stuck_limit(gpu);

	if (gpu->stuck.armed || !limit)
		return;
	gpu->stuck.armed = true;
	queue_delayed_work(gpurt_workers, &gpu->stuck.look, max(1UL, nsecs_to_jiffies(limit / GPURT_STUCK_LOOKS)));
}
