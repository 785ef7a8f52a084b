/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The virtual GPU.  File vgpu.c is the device, vgpu_whole.c the GPU that it is a partition of.  File vgpu_work.c has
 * its TSGs and their work, vgpu_faults.c its faults.  File vgpu_module.c makes these a module of their own.
 */
#ifndef GPURT_DRV_VGPU_H
#define GPURT_DRV_VGPU_H

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "../core/vgpu.h"
#include "../core/whole.h"
#include "drv.h"

/* A hash table finds a work item among thousands without a long walk with interrupts off. */
#define VGPU_QUEUED_BITS 6

/* A GPU whose partitions are virtual GPUs, or that is one virtual GPU. */
struct vgpu_whole {
	raw_spinlock_t lock;		/* everything of all partitions; taken with interrupts off */
	struct gpurt_whole core;	/* the partitions */
	struct gpurt_vgpu *one;		/* one of its virtual GPUs; NULL: there is no such GPU */
	struct hrtimer timer;
	u64 armed;			/* what the timer is set to */
	u64 rest_until;			/* the timer does not expire before */
	u32 number;			/* vgpu_whole.c: its number, and how many partitions it has */
	u32 parts;
};

struct vgpu {
	struct vgpu_whole *whole;
	struct gpurt_vgpu core;		/* with whole->lock held, as all that follows */
	struct list_head spent;		/* completed work; the timer may not free memory, later calls do */
	struct gpurt_gpu *gpu;
	struct gpurt_vgpu_ctx nobody;	/* on the runlist in place of a group that is gone, while updates fail */
	struct mutex clients_lock;	/* taken to look for a client of a process, and to close it */
	/* vgpu_faults.c */
	struct hrtimer completion;	/* reports the update of @sequence */
	u64 sequence;
	bool registered;		/* a GPU may be told of updates later; with whole->lock held */
	atomic_t powered;		/* references to its power */
};

struct vgpu_ctx {
	struct gpurt_vgpu_ctx core;	/* first member: commit() gets this one, or a group's */
	struct gpurt_client *client;
	struct xarray tsgs;		/* by number; has a lock of its own */
	u32 queued;			/* work items of all its TSGs */
	u64 last;			/* completion of the client's latest work */
};

struct vgpu_tsg {
	struct gpurt_vgpu_tsg core;
	struct vgpu_ctx *ctx;
	u32 id;
	u64 when[GPURT_REMEMBERED];	/* by work number modulo */
	u32 seed;
	struct hlist_head queued[1 << VGPU_QUEUED_BITS];	/* work that has not completed, by hash of its number */
};

struct vgpu_work {
	struct gpurt_vgpu_work core;
	struct hlist_node by_number;	/* of vgpu_tsg.queued */
	u64 since;			/* submission */
};

/* vgpu.c */
bool vgpu_valid(void);
extern struct gpurt_devices vgpus;

/* vgpu_whole.c */
bool vgpu_whole_valid(void);
int vgpu_join(struct vgpu *dev, u32 place);
void vgpu_leave(struct vgpu *dev);
void vgpu_part(void *driver, struct gpurt_driver_part *part);
u64 vgpu_lock_at(struct vgpu *dev, u64 at, unsigned long *flags);
u64 vgpu_lock(struct vgpu *dev, unsigned long *flags);
void vgpu_unlock(struct vgpu *dev, unsigned long flags);

/* vgpu_faults.c */
void vgpu_faults_init(struct vgpu *dev, struct gpurt_driver_ops *ops);
void vgpu_faults_start(struct vgpu *dev);
void vgpu_faults_stop(struct vgpu *dev);
int vgpu_faults_before(void);
int vgpu_faults_after(struct vgpu *dev, u64 sequence);

/* vgpu_work.c */
extern const struct gpurt_vgpu_ops vgpu_core_ops;
extern const struct gpurt_work_ops vgpu_work_ops;
void vgpu_reap(struct vgpu *dev, unsigned int most);
void vgpu_tsg_free(struct vgpu *dev, struct vgpu_tsg *tsg);

#endif
