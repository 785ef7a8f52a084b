// SPDX-License-Identifier: GPL-2.0
/* gpurt-vgpu.ko: virtual GPUs, for trials and tests.  It uses only drv.h and devices.h of gpurt.ko. */
#include <linux/module.h>

#include "devices.h"
#include "vgpu.h"

static int __init vgpu_init(void)
{
	return vgpu_valid() ? gpurt_devices_start(&vgpus) : -EINVAL;
}

static void __exit vgpu_exit(void)
{
	gpurt_devices_stop(&vgpus);
}

module_init(vgpu_init);
module_exit(vgpu_exit);
MODULE_DESCRIPTION("Virtual GPUs for gpurt");
MODULE_LICENSE("GPL");
