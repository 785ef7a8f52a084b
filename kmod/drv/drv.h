/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a GPU driver offers to gpurt.  All policy stays in the module: a driver says which TSGs there are and
 * carries out what it is told.
 *
 * A driver calls gpurt_gpu_register() once a GPU and gpurt_gpu_unregister() before the GPU goes away; the
 * latter returns when no operation is running and none will start.  commit() is called with the GPU's update
 * lock held and may sleep; the lock has priority inheritance.  The other operations are called in process
 * context without that lock.
 */
#ifndef GPURT_DRV_H
#define GPURT_DRV_H

#include <linux/types.h>

#include "../uapi/gpurt.h"

struct gpurt_gpu;
struct module;

struct gpurt_driver_ops {
	struct module *owner;
	const char *name;
	u32 tier;			/* enum gpurt_tier */
	u32 caps;			/* GPURT_CAP_* */

	/* A process became a client of the GPU; *ctx is the driver's own.  A driver knows it by its pid. */
	int (*client_open)(void *driver, struct pid *tgid, void **ctx);
	/* It is gone: so are its TSGs and its work. */
	void (*client_close)(void *driver, void *ctx);
	/* Put @only's TSGs (everyone's if NULL) and the exempt ones on the runlist, take all others off. */
	int (*commit)(void *driver, void *only);
	void (*exempt)(void *driver, void *ctx, bool exempt);

	/* GPURT_CAP_VGPU only. */
	int (*tsg_open)(void *driver, void *ctx, u32 *tsg);
	int (*tsg_close)(void *driver, void *ctx, u32 tsg);
	int (*submit)(void *driver, void *ctx, struct gpurt_submit *submit);
	/* 1: done, at *when; 0: not yet; -ENOENT: never submitted, or no such TSG. */
	int (*work_done)(void *driver, void *ctx, u32 tsg, u64 work, u64 *when);
	int (*idle)(void *driver, void *ctx, u64 *when);
};

struct gpurt_gpu *gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver);
void gpurt_gpu_unregister(struct gpurt_gpu *gpu);
/* Work of the client whose driver context is @ctx completed: wakes those who wait for it.  Any context. */
void gpurt_gpu_work_done(struct gpurt_gpu *gpu, void *ctx);

#endif
