/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a GPU driver offers to gpurt.  All policy stays in the module: a driver says which TSGs there are and
 * carries out what it is told.
 *
 * A driver calls gpurt_gpu_register() once a GPU and gpurt_gpu_unregister() before the GPU goes away; the
 * latter returns when no operation is running and none will start.  Before it returns it has commit() put
 * everyone back on the runlist, and client_close() called for every client.
 *
 * commit() and exempt() are called one at a time.  A driver whose commit() never sleeps leaves commit_sleeps
 * unset: it is called with preemption off, in the context of whoever causes the update, and costs no context
 * switch.  Otherwise both are called in the GPU's own thread of highest FIFO priority.  Either way commit()
 * must take a bounded time: everyone who begins or ends a segment meanwhile waits for it.
 *
 * @now is the time at which the update was decided on, ktime_get_ns().
 *
 * The other operations are called in process context and may sleep, but for work_done(), idle() and order(), which
 * may not; those for one client are called one at a time, but for submit(), work_done(), idle(), answer() and
 * order().
 */
#ifndef GPURT_DRV_H
#define GPURT_DRV_H

#include <linux/types.h>

#include "../uapi/gpurt.h"

struct gpurt_gpu;
struct gpurt_client;
struct pid;

/* What the driver knows about the costs of its GPU; 0 where it knows nothing. */
struct gpurt_driver_costs {
	u64 alpha_ns, theta_ns, slice_ns;
};

struct gpurt_driver_ops {
	const char *name;
	u32 tier;			/* enum gpurt_tier */
	u32 caps;			/* GPURT_CAP_* */
	bool commit_sleeps;

	/* A process became a client of the GPU; *ctx is the driver's own.  @client is for gpurt_client_work_done(). */
	int (*client_open)(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx);
	/*
	 * It is about to be gone, with @process because its process ended or executed another program and hence all
	 * that process's clients are: a commit() that is under way need not wait for it.  May come several times, and
	 * while other operations for the client are under way; not where the GPU goes away.  May be NULL.
	 */
	void (*client_ends)(void *driver, void *ctx, bool process);
	/* It is gone: so are its TSGs and its work. */
	void (*client_close)(void *driver, void *ctx);
	/* Put @only's TSGs (everyone's if NULL) and the exempt ones on the runlist, take all others off. */
	int (*commit)(void *driver, void *only, u64 now);
	/* From the next commit() on the client's TSGs are on every runlist, or no longer.  May be NULL. */
	void (*exempt)(void *driver, void *ctx, bool exempt);
	/* May be NULL. */
	void (*costs)(void *driver, struct gpurt_driver_costs *costs);

	/* GPURT_CAP_VGPU only. */
	int (*tsg_open)(void *driver, void *ctx, u32 *tsg);
	int (*tsg_close)(void *driver, void *ctx, u32 tsg);
	int (*submit)(void *driver, void *ctx, struct gpurt_submit *submit);
	/* 1: done, at *when; 0: not yet; -ENOENT: never submitted, or no such TSG. */
	int (*work_done)(void *driver, void *ctx, u32 tsg, u64 work, u64 *when);
	int (*idle)(void *driver, void *ctx, u64 *when);

	/* GPURT_CAP_AGENTS only; errors as GPURT_IOC_AGENT and GPURT_IOC_ORDER have them. */
	int (*agent)(void *driver, void *ctx, struct gpurt_agent *agent);
	/* The order @answered was carried out, or was not (@result).  Called once before order(). */
	int (*answer)(void *driver, void *ctx, u64 answered, s32 result);
	/*
	 * 1: there is a newer order than order->answered, which *order tells now; 0: not yet, it is asked again
	 * after gpurt_client_ordered().  Waiting, its time limit, signals, and the end of the GPU are the module's.
	 */
	int (*order)(void *driver, void *ctx, struct gpurt_order *order);
	/* How many processes have an order that is not carried out although its time is over. */
	u32 (*late)(void *driver);
};

struct gpurt_gpu *gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver);
void gpurt_gpu_unregister(struct gpurt_gpu *gpu);
/* Work of the client completed at @when, having been submitted at @since.  Any context. */
void gpurt_client_work_done(struct gpurt_client *client, u64 when, u64 since);
/* A commit() that failed may go well now: it is tried at once.  From operations of the client, but client_close(). */
void gpurt_client_retry(struct gpurt_client *client);
/* There may be an order for the client, an agent.  Any context. */
void gpurt_client_ordered(struct gpurt_client *client);
/* The client, an agent, has not carried out the order given at @since in time.  Any context. */
void gpurt_client_late(struct gpurt_client *client, u64 now, u64 since);

#endif
