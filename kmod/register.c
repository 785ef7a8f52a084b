// SPDX-License-Identifier: GPL-2.0
/* The GPUs that drivers have registered, by number. */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "budgets.h"
#include "cpu.h"
#include "gpu.h"
#include "register.h"

static DEFINE_MUTEX(gpus_lock);
static struct gpurt_gpu __rcu *gpus[GPURT_MAX_GPUS];
static DECLARE_BITMAP(taken, GPURT_MAX_GPUS);	/* numbers; with gpus_lock held */

/* The GPU with that number, with a reference for the caller; NULL: there is none. */
struct gpurt_gpu *gpurt_gpu_get(u32 index)
{
	struct gpurt_gpu *gpu = NULL;

	if (index >= GPURT_MAX_GPUS)
		return NULL;
	rcu_read_lock();
	gpu = rcu_dereference(gpus[index]);
	if (gpu && !kref_get_unless_zero(&gpu->ref))
		gpu = NULL;
	rcu_read_unlock();
	return gpu;
}

u32 gpurt_gpu_count(void)
{
	u32 i, n = 0;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		n += !!rcu_access_pointer(gpus[i]);
	return n;
}

/* Gives the GPU the lowest number that is free.  -ENOSPC: there is none. */
static int publish(struct gpurt_gpu *gpu)
{
	u32 i;

	mutex_lock(&gpus_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (!test_bit(i, taken))
			break;
	if (i < GPURT_MAX_GPUS) {
		gpu->index = i;
		__set_bit(i, taken);
		rcu_assign_pointer(gpus[i], gpu);
	}
	mutex_unlock(&gpus_lock);
	return i < GPURT_MAX_GPUS ? 0 : -ENOSPC;
}

int gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver, struct gpurt_gpu **out)
{
	struct gpurt_gpu *gpu;
	int err;

	*out = NULL;
	gpu = gpurt_gpu_create(ops, driver);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	*out = gpu;
	err = publish(gpu);
	if (err) {
		gpurt_gpu_stop(gpu);	/* commits once more: the driver may answer later, by *out */
		*out = NULL;
		gpurt_gpu_put(gpu);
		return err;
	}
	/* Not before: until now gpurt_cpu_start()'s notification would not have found it. */
	gpurt_cpu_bind(gpu);
	return 0;
}
EXPORT_SYMBOL_GPL(gpurt_gpu_register);

void gpurt_gpu_unregister(struct gpurt_gpu *gpu)
{
	mutex_lock(&gpus_lock);
	RCU_INIT_POINTER(gpus[gpu->index], NULL);
	mutex_unlock(&gpus_lock);
	gpurt_gpu_stop(gpu);
	gpurt_groups_forget_gpu(gpu->index);
	mutex_lock(&gpus_lock);
	__clear_bit(gpu->index, taken);
	mutex_unlock(&gpus_lock);
	gpurt_gpu_put(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_unregister);
