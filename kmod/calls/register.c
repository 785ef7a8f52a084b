// SPDX-License-Identifier: GPL-2.0
/* Drivers register GPUs: each GPU is assembled from its parts here, and taken apart. */
#include <linux/err.h>
#include <linux/export.h>

#include "calls/calls.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "drv/drv.h"

/* Makes a GPU that no other code can find yet.  Returns an ERR_PTR() on failure. */
static struct gpurt_gpu *assemble(const struct gpurt_driver_ops *ops, void *driver)
{
	struct gpurt_gpu *gpu = gpurt_gpu_make(ops, driver);

	if (IS_ERR(gpu))
		return gpu;
	gpurt_gate_init(&gpu->gate);
	gpurt_bus_start(gpu);
	gpurt_driver_init(gpu);
	gpurt_stuck_init(gpu);
	gpurt_runlist_init(gpu);
	gpurt_updates_init(gpu);
	gpurt_aftermath_init(gpu);
	gpurt_policy_init(gpu);
	return gpu;
}

/* Stops everything about the GPU.  On return the driver has been told that all its clients are gone. */
static void stop(struct gpurt_gpu *gpu)
{
	gpurt_gpu_dies(gpu);
	gpurt_policy_stop(gpu);
	gpurt_updates_drain(gpu);
	gpurt_client_disband(gpu);
	gpurt_stuck_stop(gpu);
	gpurt_driver_stop(gpu);
	gpurt_updates_stop(gpu);
	gpurt_gpu_end_thread(gpu);
	gpurt_client_drain(gpu);
	gpurt_bus_stop(gpu);
	complete_all(&gpu->drained);
}

int gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver, struct gpurt_gpu **out)
{
	struct gpurt_gpu *gpu;
	int err;

	*out = NULL;
	gpu = assemble(ops, driver);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	*out = gpu;
	err = gpurt_gpus_publish(gpu);
	if (err) {
		stop(gpu);	/* commits once more: the driver may answer through *out */
		*out = NULL;
		gpurt_gpu_put(gpu);
		return err;
	}
	/* Not earlier: until now gpurt_cpu_start()'s notification would not have found the GPU. */
	gpurt_cpu_bind(gpu);
	return 0;
}
EXPORT_SYMBOL_GPL(gpurt_gpu_register);

void gpurt_gpu_unregister(struct gpurt_gpu *gpu)
{
	gpurt_gpus_withdraw(gpu);
	stop(gpu);
	gpurt_allowances_forget_gpu(gpu->index);
	gpurt_gpus_free_number(gpu->index);
	gpurt_gpu_put(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_unregister);

u32 gpurt_gpu_number(const struct gpurt_gpu *gpu)
{
	return gpu->index;
}
EXPORT_SYMBOL_GPL(gpurt_gpu_number);
