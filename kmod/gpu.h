/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One GPU.
 *
 * What protects what, the outermost lock first:
 *   gpurt_file.lock		a descriptor's clients: made, closed, and their TSGs opened and closed
 *   gpurt_gpu.alive (SRCU)	held by readers while a decision or an operation of the driver is under way.  The
 *				driver may go away only after they have left
 *   gpurt_gpu.gate		decisions and commits, everything about scheduling; see gate.c
 *   gpurt_gpu.bus.lock	the bus; spinning, and inside of all of these
 *   gpurt_gpu.clients_lock	changes of the list of clients.  gpurt_clients_read() is for its readers
 */
#ifndef GPURT_GPU_H
#define GPURT_GPU_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/srcu.h>
#include <linux/types.h>

#include "bus.h"
#include "core/agents.h"
#include "core/policy.h"
#include "driver.h"
#include "drv/drv.h"
#include "gate.h"
#include "job.h"
#include "processes.h"
#include "runlist.h"

struct gpurt_gpu {
	struct kref ref;
	struct rcu_head rcu;
	u32 index;
	/* A copy: readers may outlive the driver's module.  Its functions may be called while the GPU is held. */
	struct gpurt_driver_ops ops;
	char name[GPURT_NAME_LEN];	/* ops.name, which is NULL here */
	void *driver;			/* the driver's own */
	struct kthread_worker *worker;	/* its thread has the highest FIFO priority */
	const struct task_struct *thread;	/* the same, to be compared only: callers at the gate may outlive it */

	struct srcu_struct alive;
	bool dying;
	struct completion drained;	/* the driver has been told that every client is gone */

	struct gpurt_gate gate;
	struct gpurt_sched sched;	/* with the gate held */
	bool events_wanted;		/* with the gate held: somebody reads events */
	struct gpurt_runlist runlist;
	struct gpurt_callback callback;

	struct gpurt_gpu_bus bus;

	struct mutex policy_lock;	/* one change of the policy at a time */
	struct gpurt_job job;

	atomic_t waiting;		/* threads that wait, and clients that were ever polled */
	struct rt_mutex clients_lock;	/* real-time threads take it to open, ordinary ones as well */
	struct list_head clients;
	struct list_head leaving;	/* those that are gone, and may still be on the runlist: updates fail */
	struct gpurt_processes processes;	/* that have clients; changed with clients_lock held */
};

struct gpurt_gpu *gpurt_gpu_create(const struct gpurt_driver_ops *ops, void *driver);
void gpurt_gpu_stop(struct gpurt_gpu *gpu);
void gpurt_gpu_put(struct gpurt_gpu *gpu);

bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token);
void gpurt_gpu_release(struct gpurt_gpu *gpu, int token);
void gpurt_gpu_describe(struct gpurt_gpu *gpu, struct gpurt_agents_facts *facts);

#endif
