// SPDX-License-Identifier: GPL-2.0
/* The GPUs that drivers have registered, by number. */
#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "decide/gpu.h"
#include "decide/gpus.h"

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
int gpurt_gpus_publish(struct gpurt_gpu *gpu)
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

/* The GPU cannot be found any more.  Its number stays taken. */
void gpurt_gpus_withdraw(struct gpurt_gpu *gpu)
{
	mutex_lock(&gpus_lock);
	RCU_INIT_POINTER(gpus[gpu->index], NULL);
	mutex_unlock(&gpus_lock);
}

/* Another GPU may get the number. */
void gpurt_gpus_free_number(u32 index)
{
	mutex_lock(&gpus_lock);
	__clear_bit(index, taken);
	mutex_unlock(&gpus_lock);
}
