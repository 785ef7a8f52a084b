// SPDX-License-Identifier: GPL-2.0
/* A GPU: what its driver offers, its thread, its lifetime, its number.  calls/register.c puts its parts together. */
#include <linux/bitmap.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "base/deps.h"
#include "compat.h"
#include "core/agents.h"
#include "state/gpu.h"

static GPURT_DEP(gpu_alive);
static atomic64_t last_serial = ATOMIC64_INIT(0);
static DEFINE_MUTEX(gpus_lock);
static struct gpurt_gpu __rcu *gpus[GPURT_MAX_GPUS];
static DECLARE_BITMAP(taken, GPURT_MAX_GPUS);	/* numbers; with gpus_lock held */

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
 * True: the driver's operations may be called until gpurt_gpu_release().  False: the driver is going away.
 */
bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token)
{
	*token = srcu_read_lock(&gpu->alive);
	if (likely(!READ_ONCE(gpu->dying))) {
		gpurt_dep_read(&gpu_alive);
		return true;
	}
	srcu_read_unlock(&gpu->alive, *token);
	return false;
}

void gpurt_gpu_release(struct gpurt_gpu *gpu, int token)
{
	gpurt_dep_end(&gpu_alive);
	srcu_read_unlock(&gpu->alive, token);
}

/* Describes the GPU by its driver, or by its agents. */
void gpurt_gpu_describe(struct gpurt_gpu *gpu, struct gpurt_agents_facts *facts)
{
	int token;

	*facts = (struct gpurt_agents_facts){ .tier = gpu->ops.tier };
	memcpy(facts->driver, gpu->name, sizeof(facts->driver));
	if (gpu->ops.agents && gpurt_gpu_hold(gpu, &token)) {
		gpu->ops.agents->describe(gpu->driver, facts);
		gpurt_gpu_release(gpu, token);
	}
}

static int thread_start(struct gpurt_gpu *gpu)
{
	int err;

	gpu->worker = compat_kthread_worker("gpurt");
	if (IS_ERR(gpu->worker))
		return PTR_ERR(gpu->worker);
	gpu->thread = gpu->worker->task;
	err = compat_set_highest_fifo(gpu->worker->task);
	if (err)
		kthread_destroy_worker(gpu->worker);
	return err;
}

/*
 * Copies the driver's offer.  The driver may have been compiled with an older or a newer drv.h.  Returns -EINVAL if it
 * lacks what every driver needs, or has another version.  Returns -E2BIG if it offers something that this module does
 * not know.
 */
static int take_over(struct gpurt_gpu *gpu, const struct gpurt_driver_ops *ops)
{
	if (ops->version != GPURT_DRIVER_VERSION || ops->size < GPURT_DRIVER_SIZE_MIN)
		return -EINVAL;
	if (ops->size > sizeof(*ops) && memchr_inv(ops + 1, 0, ops->size - sizeof(*ops)))
		return -E2BIG;
	memcpy(&gpu->ops, ops, min_t(size_t, ops->size, sizeof(*ops)));
	if (!gpu->ops.name || !gpu->ops.commit || !gpu->ops.client_open || !gpu->ops.client_close)
		return -EINVAL;
	gpu->ops.runlists = gpu->ops.runlists ?: 1;
	gpu->ops.bound_ns = gpu->ops.bound_ns ?: 10ULL * NSEC_PER_SEC;
	strscpy(gpu->name, gpu->ops.name, sizeof(gpu->name));
	gpu->ops.name = NULL;
	strscpy(gpu->device, gpu->ops.device ?: "", sizeof(gpu->device));
	gpu->ops.device = NULL;
	return 0;
}

/* Makes a GPU with a thread and without other parts, which no other code can find yet.  An ERR_PTR() on failure. */
struct gpurt_gpu *gpurt_gpu_make(const struct gpurt_driver_ops *ops, void *driver)
{
	struct gpurt_gpu *gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	int err = -ENOMEM;

	if (!gpu)
		return ERR_PTR(err);
	err = take_over(gpu, ops);
	if (err)
		goto free;
	kref_init(&gpu->ref);
	gpu->serial = atomic64_inc_return(&last_serial);
	gpu->driver = driver;
	init_completion(&gpu->drained);
	rt_mutex_init(&gpu->clients_lock);
	INIT_LIST_HEAD(&gpu->clients);
	INIT_LIST_HEAD(&gpu->leaving);
	err = init_srcu_struct(&gpu->alive);
	if (err)
		goto free;
	err = thread_start(gpu);
	if (err)
		goto cleanup_srcu;
	return gpu;

cleanup_srcu:
	cleanup_srcu_struct(&gpu->alive);
free:
	kfree(gpu);
	return ERR_PTR(err);
}

/* The driver goes away.  On return no code holds the GPU or takes a decision with preemption off. */
void gpurt_gpu_dies(struct gpurt_gpu *gpu)
{
	WRITE_ONCE(gpu->dying, true);
	synchronize_rcu();	/* waits for decisions that are taken with preemption off */
	gpurt_dep_wait(&gpu_alive);
	synchronize_srcu(&gpu->alive);
}

/* Carries out the queued work.  No more work will be queued. */
void gpurt_gpu_end_thread(struct gpurt_gpu *gpu)
{
	kthread_destroy_worker(gpu->worker);
	gpu->worker = NULL;
}

/* The GPU with that number, with a reference for the caller; NULL: there is no such GPU. */
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

/* Gives the GPU the lowest free number.  -ENOSPC: no number is free. */
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

/* From now on the GPU cannot be found.  Its number stays taken. */
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
