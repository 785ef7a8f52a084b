// SPDX-License-Identifier: GPL-2.0
/* A GPU: its parts, its thread, and its lifetime. */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "client.h"
#include "compat.h"
#include "gpu.h"
#include "policy.h"

static int thread_cpu = -1;
module_param(thread_cpu, int, 0444);
MODULE_PARM_DESC(thread_cpu, "CPU of the GPUs' threads, which poll under policy job (default -1: any)");

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

/*
 * If it returns true, the driver's operations may be called, until gpurt_gpu_release().  False: the driver is going
 * away.
 */
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

/* What the GPU says of itself: what its driver does, or what its agents do. */
void gpurt_gpu_describe(struct gpurt_gpu *gpu, struct gpurt_agents_facts *facts)
{
	int token;

	*facts = (struct gpurt_agents_facts){ .tier = gpu->ops->tier };
	strscpy(facts->driver, gpu->ops->name, sizeof(facts->driver));
	if (gpu->ops->agents && gpurt_gpu_hold(gpu, &token)) {
		gpu->ops->agents->describe(gpu->driver, facts);
		gpurt_gpu_release(gpu, token);
	}
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

/* Makes a GPU that no other code can find yet.  Returns an ERR_PTR() on failure. */
struct gpurt_gpu *gpurt_gpu_create(const struct gpurt_driver_ops *ops, void *driver)
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
	gpurt_runlist_init(gpu);
	gpurt_policy_init(gpu);
	return gpu;

cleanup_srcu:
	cleanup_srcu_struct(&gpu->alive);
free:
	kfree(gpu);
	return ERR_PTR(err);
}

/* Stops everything about the GPU.  When it returns the driver has been told that all its clients are gone. */
void gpurt_gpu_stop(struct gpurt_gpu *gpu)
{
	WRITE_ONCE(gpu->dying, true);
	synchronize_rcu();	/* waits for decisions that are taken with preemption off */
	synchronize_srcu(&gpu->alive);
	gpurt_policy_stop(gpu);
	gpurt_runlist_drain(gpu);
	gpurt_runlist_stop(gpu);
	kthread_destroy_worker(gpu->worker);
	gpurt_clients_drain(gpu);
	complete_all(&gpu->drained);
}
