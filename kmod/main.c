// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

#include "internal.h"

static int __init gpurt_init(void)
{
	int err;

	err = gpurt_sched_start();
	if (err)
		return err;
	err = gpurt_vgpu_start();
	if (err)
		goto stop_sched;
	err = gpurt_chardev_start();
	if (err)
		goto stop_vgpu;
	pr_info("gpurt: loaded, interface version %d\n", GPURT_VERSION);
	return 0;

stop_vgpu:
	gpurt_vgpu_stop();
stop_sched:
	gpurt_sched_stop();
	return err;
}

static void __exit gpurt_exit(void)
{
	gpurt_chardev_stop();
	gpurt_vgpu_stop();
	gpurt_sched_stop();
	pr_info("gpurt: unloaded\n");
}

module_init(gpurt_init);
module_exit(gpurt_exit);
MODULE_DESCRIPTION("Real-time priorities for GPU work");
MODULE_LICENSE("GPL");
