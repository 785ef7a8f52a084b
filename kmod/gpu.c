// SPDX-License-Identifier: GPL-2.0
/* The GPUs that drivers have registered. */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "compat.h"
#include "internal.h"

static int thread_cpu = -1;
module_param(thread_cpu, int, 0444);
MODULE_PARM_DESC(thread_cpu, "CPU of the GPUs' threads, which poll under policy job (default -1: any)");

static DEFINE_MUTEX(gpus_lock);
static struct gpurt_gpu __rcu *gpus[GPURT_MAX_GPUS];

static void gpu_free(struct kref *ref)
{
	struct gpurt_gpu *gpu = container_of(ref, struct gpurt_gpu, ref);

	cleanup_srcu_struct(&gpu->alive);
	kfree_rcu(gpu, rcu);
}

void gpurt_gpu_put(struct gpurt_gpu *gpu)
{
	kref_put(&gpu->ref, gpu_free);
}

/* The GPU with that number, with a reference; NULL if there is none. */
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

bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token)
{
	*token = srcu_read_lock(&gpu->alive);
	if (likely(!READ_ONCE(gpu->dying)))
		return true;
	srcu_read_unlock(&gpu->alive, *token);
	return false;
}

void gpurt_gpu_release(struct gpurt_gpu *gpu, int token)
{
	srcu_read_unlock(&gpu->alive, token);
}

static int publish(struct gpurt_gpu *gpu)
{
	u32 i;

	mutex_lock(&gpus_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (!rcu_access_pointer(gpus[i]))
			break;
	if (i < GPURT_MAX_GPUS) {
		gpu->index = i;
		rcu_assign_pointer(gpus[i], gpu);
	}
	mutex_unlock(&gpus_lock);
	return i < GPURT_MAX_GPUS ? 0 : -ENOSPC;
}

static int thread_start(struct gpurt_gpu *gpu)
{
	int err;

	if (thread_cpu < 0)
		gpu->worker = compat_kthread_worker("gpurt");
	else
		gpu->worker = compat_kthread_worker_on_cpu(thread_cpu, "gpurt");
	if (IS_ERR(gpu->worker))
		return PTR_ERR(gpu->worker);
	err = compat_set_highest_fifo(gpu->worker->task);
	if (err)
		kthread_destroy_worker(gpu->worker);
	return err;
}

static struct gpurt_gpu *gpu_create(const struct gpurt_driver_ops *ops, void *driver)
{
	struct gpurt_gpu *gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	int err = -ENOMEM;

	if (!gpu)
		return ERR_PTR(err);
	kref_init(&gpu->ref);
	gpu->ops = ops;
	gpu->driver = driver;
	init_completion(&gpu->drained);
	mutex_init(&gpu->clients_lock);
	INIT_LIST_HEAD(&gpu->clients);
	gpurt_gate_init(&gpu->gate);
	err = init_srcu_struct(&gpu->alive);
	if (err)
		goto free;
	err = thread_start(gpu);
	if (err)
		goto cleanup_srcu;
	gpurt_sched_init_gpu(gpu);
	gpurt_job_init_gpu(gpu);
	return gpu;

cleanup_srcu:
	cleanup_srcu_struct(&gpu->alive);
free:
	kfree(gpu);
	return ERR_PTR(err);
}

/* Everything about the GPU stops; the driver has been told that all its clients are gone. */
static void gpu_stop(struct gpurt_gpu *gpu)
{
	WRITE_ONCE(gpu->dying, true);
	synchronize_rcu();	/* decisions taken with preemption off */
	synchronize_srcu(&gpu->alive);
	gpurt_job_stop(gpu);
	gpurt_sched_stop_gpu(gpu);
	kthread_destroy_worker(gpu->worker);
	gpurt_clients_drain(gpu);
	complete_all(&gpu->drained);
}

struct gpurt_gpu *gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver)
{
	struct gpurt_gpu *gpu;
	int err;

	if (!ops->commit || !ops->client_open || !ops->client_close)
		return ERR_PTR(-EINVAL);
	gpu = gpu_create(ops, driver);
	if (IS_ERR(gpu))
		return gpu;
	err = publish(gpu);
	if (err) {
		gpu_stop(gpu);
		gpurt_gpu_put(gpu);
		return ERR_PTR(err);
	}
	return gpu;
}
EXPORT_SYMBOL_GPL(gpurt_gpu_register);

void gpurt_gpu_unregister(struct gpurt_gpu *gpu)
{
	mutex_lock(&gpus_lock);
	RCU_INIT_POINTER(gpus[gpu->index], NULL);
	mutex_unlock(&gpus_lock);
	gpu_stop(gpu);
	gpurt_gpu_put(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_unregister);
