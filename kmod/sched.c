// SPDX-License-Identifier: GPL-2.0
/*
 * GPUs and their clients: the kernel's side of core/policy.c.  Every decision is taken, and the update that
 * it asks for carried out, under the GPU's update lock.
 */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "internal.h"

static unsigned int policy = GPURT_POLICY_SEGMENT;
module_param(policy, uint, 0444);
MODULE_PARM_DESC(policy, "policy of new GPUs: 0 timesliced, 1 segment (default), 2 job, 3 lock-priority, 4 lock-fifo");

static DEFINE_MUTEX(gpurt_gpus_lock);
static struct gpurt_gpu *gpurt_gpus[GPURT_MAX_GPUS];
static struct kthread_worker *gpurt_worker;
static atomic64_t gpurt_last_id = ATOMIC64_INIT(0);

static struct gpurt_slot *slot_of(struct gpurt_client *c)
{
	return container_of(c, struct gpurt_slot, core);
}

static struct gpurt_gpu *gpu_of(struct gpurt_sched *s)
{
	return container_of(s, struct gpurt_gpu, sched);
}

/* Called by the core, under the update lock. */
static void sched_commit(struct gpurt_sched *s, struct gpurt_client *only, u32 cause, u64 now)
{
	struct gpurt_gpu *gpu = gpu_of(s);
	u64 start = ktime_get_ns();

	gpu->commit_error = gpu->ops->commit(gpu->driver, only ? slot_of(only)->ctx : NULL);
	if (gpu->commit_error)
		pr_err_ratelimited("gpurt: GPU %u: runlist update failed: %d\n", gpu->index, gpu->commit_error);
	gpurt_latency_record(&gpu->latency[cause], ktime_get_ns() - start);
	gpu->commits++;
	WRITE_ONCE(gpu->runner, only);
}

static void sched_event(struct gpurt_sched *s, struct gpurt_client *c, u32 event, u64 now)
{
	struct gpurt_gpu *gpu = gpu_of(s);

	if (event == GPURT_EVENT_GRANT || event == GPURT_EVENT_RESUME || event == GPURT_EVENT_GONE)
		wake_up_all(&gpu->wait);
}

static const struct gpurt_sched_ops sched_ops = {
	.commit = sched_commit,
	.event = sched_event,
};

/* Takes the update lock; -ENODEV once the driver is going away. */
int gpurt_gpu_lock(struct gpurt_gpu *gpu)
{
	down_read(&gpu->alive);
	if (gpu->dying) {
		up_read(&gpu->alive);
		return -ENODEV;
	}
	rt_mutex_lock(&gpu->update);
	return 0;
}

static void arm_budget(struct gpurt_gpu *gpu)
{
	if (gpu->sched.deadline == U64_MAX)
		hrtimer_try_to_cancel(&gpu->budget_timer);
	else
		hrtimer_start(&gpu->budget_timer, ns_to_ktime(gpu->sched.deadline), HRTIMER_MODE_ABS);
}

void gpurt_gpu_unlock(struct gpurt_gpu *gpu)
{
	arm_budget(gpu);
	rt_mutex_unlock(&gpu->update);
	up_read(&gpu->alive);
}

static enum hrtimer_restart budget_expired(struct hrtimer *timer)
{
	struct gpurt_gpu *gpu = container_of(timer, struct gpurt_gpu, budget_timer);

	kthread_queue_work(gpurt_worker, &gpu->budget_work);
	return HRTIMER_NORESTART;
}

static void budget_work(struct kthread_work *work)
{
	struct gpurt_gpu *gpu = container_of(work, struct gpurt_gpu, budget_work);

	if (gpurt_gpu_lock(gpu))
		return;
	gpurt_tick(&gpu->sched, ktime_get_ns());
	gpurt_gpu_unlock(gpu);
}

static void gpu_release(struct kref *ref)
{
	kfree(container_of(ref, struct gpurt_gpu, ref));
}

void gpurt_gpu_put(struct gpurt_gpu *gpu)
{
	kref_put(&gpu->ref, gpu_release);
}

/* The GPU with that number, with a reference; NULL if there is none. */
struct gpurt_gpu *gpurt_gpu_get(u32 index)
{
	struct gpurt_gpu *gpu = NULL;

	mutex_lock(&gpurt_gpus_lock);
	if (index < GPURT_MAX_GPUS)
		gpu = gpurt_gpus[index];
	if (gpu)
		kref_get(&gpu->ref);
	mutex_unlock(&gpurt_gpus_lock);
	return gpu;
}

u32 gpurt_gpu_count(void)
{
	u32 i, n = 0;

	mutex_lock(&gpurt_gpus_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		n += !!gpurt_gpus[i];
	mutex_unlock(&gpurt_gpus_lock);
	return n;
}

static int gpu_publish(struct gpurt_gpu *gpu)
{
	int err = -ENOSPC;
	u32 i;

	mutex_lock(&gpurt_gpus_lock);
	for (i = 0; i < GPURT_MAX_GPUS && err; i++) {
		if (gpurt_gpus[i])
			continue;
		gpu->index = i;
		gpurt_gpus[i] = gpu;
		err = 0;
	}
	mutex_unlock(&gpurt_gpus_lock);
	return err;
}

struct gpurt_gpu *gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver)
{
	struct gpurt_gpu *gpu;
	int err;

	if (!ops->commit || !ops->client_open || !ops->client_close)
		return ERR_PTR(-EINVAL);
	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return ERR_PTR(-ENOMEM);
	kref_init(&gpu->ref);
	gpu->ops = ops;
	gpu->driver = driver;
	init_rwsem(&gpu->alive);
	rt_mutex_init(&gpu->update);
	INIT_LIST_HEAD(&gpu->slots);
	init_waitqueue_head(&gpu->wait);
	compat_hrtimer_setup(&gpu->budget_timer, budget_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	kthread_init_work(&gpu->budget_work, budget_work);
	gpurt_sched_init(&gpu->sched, &sched_ops, gpu, ktime_get_ns());
	gpurt_set_policy(&gpu->sched, policy, ktime_get_ns());
	err = gpu_publish(gpu);
	if (err) {
		gpurt_gpu_put(gpu);
		return ERR_PTR(err);
	}
	return gpu;
}
EXPORT_SYMBOL_GPL(gpurt_gpu_register);

/* Under update: the client's segments end and the driver forgets it. */
static void slot_retire(struct gpurt_slot *slot)
{
	struct gpurt_gpu *gpu = slot->gpu;

	if (list_empty(&slot->node))
		return;
	gpurt_client_gone(&gpu->sched, &slot->core, ktime_get_ns());
	list_del_init(&slot->node);
	gpu->ops->client_close(gpu->driver, slot->ctx);
	slot->ctx = NULL;
}

void gpurt_gpu_unregister(struct gpurt_gpu *gpu)
{
	struct gpurt_slot *slot, *next;

	mutex_lock(&gpurt_gpus_lock);
	gpurt_gpus[gpu->index] = NULL;
	mutex_unlock(&gpurt_gpus_lock);

	down_write(&gpu->alive);
	gpu->dying = true;
	rt_mutex_lock(&gpu->update);
	list_for_each_entry_safe(slot, next, &gpu->slots, node)
		slot_retire(slot);
	rt_mutex_unlock(&gpu->update);
	up_write(&gpu->alive);

	hrtimer_cancel(&gpu->budget_timer);
	kthread_flush_work(&gpu->budget_work);
	wake_up_all(&gpu->wait);
	gpurt_gpu_put(gpu);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_unregister);

void gpurt_gpu_work_done(struct gpurt_gpu *gpu, void *ctx)
{
	wake_up_all(&gpu->wait);
}
EXPORT_SYMBOL_GPL(gpurt_gpu_work_done);

/* Makes the descriptor a client of the GPU, whose reference passes to the slot if that goes well. */
struct gpurt_slot *gpurt_slot_open(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL);
	int err;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	gpurt_client_init(&slot->core);
	slot->gpu = gpu;
	slot->file = file;
	slot->id = atomic64_inc_return(&gpurt_last_id);
	INIT_LIST_HEAD(&slot->node);
	err = gpurt_gpu_lock(gpu);
	if (err)
		goto free;
	err = gpu->ops->client_open(gpu->driver, file->tgid, &slot->ctx);
	if (!err)
		list_add_tail(&slot->node, &gpu->slots);
	gpurt_gpu_unlock(gpu);
	if (!err)
		return slot;
free:
	kfree(slot);
	return ERR_PTR(err);
}

/* The client is gone; its memory stays until gpurt_slot_free(). */
void gpurt_slot_gone(struct gpurt_slot *slot)
{
	if (gpurt_gpu_lock(slot->gpu))
		return;		/* the driver went first and took its clients along */
	slot_retire(slot);
	gpurt_gpu_unlock(slot->gpu);
}

void gpurt_slot_free(struct gpurt_slot *slot)
{
	gpurt_gpu_put(slot->gpu);
	kfree(slot);
}

/* Whether the client's TSGs are on the runlist; for those who wait without the lock. */
bool gpurt_slot_granted(struct gpurt_slot *slot)
{
	struct gpurt_client *runner = READ_ONCE(slot->gpu->runner);

	return !runner || runner == &slot->core || READ_ONCE(slot->core.exempt);
}

int gpurt_sched_start(void)
{
	if (policy >= GPURT_POLICY_COUNT) {
		pr_err("gpurt: policy=%u: there are only %u\n", policy, GPURT_POLICY_COUNT);
		return -EINVAL;
	}
	gpurt_worker = kthread_create_worker(0, "gpurt");
	if (IS_ERR(gpurt_worker))
		return PTR_ERR(gpurt_worker);
	sched_set_fifo(gpurt_worker->task);
	return 0;
}

void gpurt_sched_stop(void)
{
	kthread_destroy_worker(gpurt_worker);
}
