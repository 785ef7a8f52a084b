/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module's files share.  One gpurt_gpu a registered GPU, one gpurt_file an open descriptor, one
 * gpurt_slot a descriptor and GPU that it has named: the *client*.
 *
 * Locks, outermost first:
 *   gpurt_gpus_lock	 the table of GPUs
 *   gpurt_file.lock	 which slots a descriptor has
 *   gpurt_gpu.alive	 read: the driver may be called; write: it goes away
 *   gpurt_gpu.update	 decisions and runlist updates; priority inheritance, for a low task that updates the
 *			 runlist must not be held up by a middling one while a high one waits
 */
#ifndef GPURT_INTERNAL_H
#define GPURT_INTERNAL_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/rwsem.h>
#include <linux/wait.h>

#include "core/latency.h"
#include "core/policy.h"
#include "drv/drv.h"

struct gpurt_gpu {
	struct kref ref;
	u32 index;
	const struct gpurt_driver_ops *ops;
	void *driver;

	struct rw_semaphore alive;
	bool dying;			/* under alive */

	struct rt_mutex update;		/* everything down to the blank line */
	struct gpurt_sched sched;
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];
	struct list_head slots;
	u64 commits;
	int commit_error;		/* of the last update, 0 if it went well */

	struct gpurt_client *runner;	/* sched.runner, for readers without the lock */
	wait_queue_head_t wait;		/* for grants and completions */
	struct hrtimer budget_timer;
	struct kthread_work budget_work;
};

struct gpurt_slot {
	struct gpurt_client core;	/* under gpu->update */
	struct gpurt_gpu *gpu;
	struct gpurt_file *file;
	void *ctx;			/* the driver's */
	struct list_head node;		/* of gpu->slots; empty once the client is gone */
	u64 id;
};

struct gpurt_file {
	struct kref ref;		/* the descriptor, and the notifier */
	struct mutex lock;
	struct gpurt_slot *slots[GPURT_MAX_GPUS];
	bool gone;			/* its process died or executed another program */
	struct pid *tgid;
#ifdef CONFIG_MMU_NOTIFIER
	struct mmu_notifier mm;
#endif
};

/* sched.c: GPUs, clients, decisions */
int gpurt_sched_start(void);
void gpurt_sched_stop(void);
struct gpurt_gpu *gpurt_gpu_get(u32 index);
void gpurt_gpu_put(struct gpurt_gpu *gpu);
u32 gpurt_gpu_count(void);
struct gpurt_slot *gpurt_slot_open(struct gpurt_gpu *gpu, struct gpurt_file *file);
void gpurt_slot_gone(struct gpurt_slot *slot);
void gpurt_slot_free(struct gpurt_slot *slot);
bool gpurt_slot_granted(struct gpurt_slot *slot);
int gpurt_gpu_lock(struct gpurt_gpu *gpu);
void gpurt_gpu_unlock(struct gpurt_gpu *gpu);

/* chardev.c */
int gpurt_chardev_start(void);
void gpurt_chardev_stop(void);

/* drv/vgpu.c */
int gpurt_vgpu_start(void);
void gpurt_vgpu_stop(void);

#endif
