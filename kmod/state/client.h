/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A client: one open descriptor on one GPU.  The scheduler knows it as struct gpurt_sched_client,
 * the driver by its context.
 */
#ifndef GPURT_STATE_CLIENT_H
#define GPURT_STATE_CLIENT_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rtmutex.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "base/looks.h"
#include "base/raised.h"
#include "base/waiters.h"
#include "core/bus.h"
#include "core/sched.h"
#include "state/gpu.h"
#include "uapi/gpurt.h"

struct gpurt_file;
struct gpurt_allowance;
struct gpurt_process;
struct gpurt_seat;
struct pid;
struct task_struct;

/* A client's place in the list of clients to take off when their process ends; with the lock of exits.c held. */
struct gpurt_urgent {
	struct list_head node;
	bool taken_off;
	bool lasting;		/* listed until it ends, not only while it owns the GPU or copies */
	bool over;		/* its own end is under way: it is not listed again */
};

/* A client's part in copies over the bus. */
struct gpurt_copier {
	/* With the lock of its GPU's bus held, down to the blank line. */
	struct gpurt_bus_node node;
	struct task_struct *task;	/* the thread that waits for the bus */
	u32 own;			/* the priority of the thread that asked last */
	u32 hint;			/* the priority that it asked for */
	u32 changes;			/* of facts that decide its request's level; also read without the lock */
	bool asking;			/* a call is under way: no other thread may begin, or go on */
	u32 request;			/* the number of its last BEGIN or NEXT */
	bool gone;

	/* With client->boost.lock held: policy `boosted` raises the thread that copies. */
	struct gpurt_raised raised;
	bool raises;			/* from before the request until the bus is given back */
};

/* The thread of a member of a group that raises all: while the group owns the GPU, in and out of segments. */
struct gpurt_kept {
	u32 level;			/* last gpurt_boosted.level other than GPURT_RAISED_TOP; likewise */
	/* With client->boost.lock held: */
	struct gpurt_raised raised;
	bool over;			/* another thread will take its place */
};

/* Stages at the gate of the thread that is raised, or asks to be raised. */
enum gpurt_boost_call {
	GPURT_BOOST_IN_NONE,		/* in no call: gpurt-boost carries out changes */
	GPURT_BOOST_CALLS,		/* it carries out `level` itself, at the end of its call */
	GPURT_BOOST_WAITS,		/* as without its call: gpurt-boost carries out changes */
	GPURT_BOOST_HANDED,		/* likewise, and it was handed the gate while off its CPU */
};

/* Bits of gpurt_boosted.flags, which are changed atomically. */
enum {
	GPURT_BOOST_MAY,		/* with the gate held: the begin of its segment has raised its thread */
	GPURT_BOOST_BARRED,		/* without a lock: the administrator's rules bar it */
	GPURT_BOOST_LOST,		/* likewise: its group lost the GPU, its kept thread is not lowered yet */
	/* With the lock held: */
	GPURT_BOOST_OVER,		/* the client is gone: no thread is raised for it again */
	GPURT_BOOST_SPINS,		/* its thread keeps its CPU while it waits at the gate */
	GPURT_BOOST_WORKING,		/* form fence: it waits for its own work, `awaited` */
};

/* A client's part in the raising of threads. */
struct gpurt_boosted {
	u32 level;			/* last level of gpurt_sched_ops.raise; written with the gate held */
	enum gpurt_boost_call call;	/* written by the thread; _HANDED by the gate, with its lock held */
	unsigned long flags;		/* GPURT_BOOST_... */

	struct rt_mutex calls;		/* held by the raised or asking thread while it is in a call */
	struct rt_mutex lock;		/* the client's innermost lock, taken before those of raised.c */
	/* With the lock held: */
	struct gpurt_raised raised;	/* the thread that began the outermost segment; fixed while in a call */
	struct task_struct *asker;	/* that thread while it asks for that begin; only compared */
	u32 asked;			/* the level that its call needs; 0: none, or it waits at the gate */
	u32 form;			/* enum gpurt_form, of that begin */
	struct gpurt_wait awaited;

	atomic64_t since;		/* when gpurt-boost was asked to look, ktime_get_ns(); 0: not asked */
	struct kthread_work work;	/* has gpurt-boost, of the highest FIFO priority, look */
};

struct gpurt_client {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_sched_client core;
	u64 granted_at;
	u64 attempt;			/* number of the last commit to isolate it; 0: there was none */
	struct gpurt_allowance *allowance;	/* the allowance with its budget */
	bool gone;			/* the scheduler has forgotten it */
	bool killed;			/* the driver's kill ended its last segment */
	struct gpurt_seat *seat;	/* of its group on that GPU, for good once it is a member */
	struct list_head in_seat;	/* of gpurt_seat.members, until it is gone */
	bool leaves;			/* when it went, others were in segments and may wait for it */

	bool pins;			/* the driver's module stays loaded for it */
	bool ended;			/* gpurt_client_gone() was called; with gpurt_file.lock held */
	bool waits;			/* it counts in gpurt_runlist.leaving */
	struct kref ref;		/* the descriptor's, and the list's while it is listed */
	struct gpurt_gpu *gpu;
	struct gpurt_file *file;
	void *ctx;			/* the driver's context */
	struct list_head node;		/* of gpurt_gpu.clients */
	struct gpurt_process *process;
	struct list_head by_process;	/* of gpurt_process.clients */
	struct list_head leaving;	/* of gpurt_gpu.leaving */
	bool listed;			/* with gpurt_gpu.clients_lock held */
	u64 id;
	struct pid *tgid;
	kuid_t uid;
	char comm[GPURT_COMM_LEN];

	atomic_t tsgs;			/* as the driver reported; core.tsgs follows */
	bool kill;			/* the driver reported a kill of the client's work; @killed follows */
	struct kthread_work news;	/* has the GPU's thread take over these two, */
	struct work_struct slow_news;	/* or, for best effort, a worker */

	struct gpurt_waiters waiters;		/* for grants and completions */
	struct gpurt_waiters orders;		/* the call that waits for the agent's next order */
	struct kthread_work poll_wake;		/* has the GPU's thread wake poll() */
	struct kthread_work take_off;		/* has the GPU's thread take the client off the GPU */
	struct gpurt_urgent urgent;
	struct gpurt_looked looked;
	struct gpurt_boosted boost;
	struct gpurt_copier copier;
	struct gpurt_kept kept;
	u64 marks;				/* core/marks.c; several threads may use it at once */
	atomic_t marks_lost;			/* marks that readers missed without having been told so */
	atomic_t ordering;			/* 1: a call waits for the agent's next order */
	atomic_t completions;
	int seen;			/* completions that GPURT_IOC_WAIT has reported */
	bool polled;			/* written with gpurt_file.lock held */
	struct llist_node dead;
};

static inline struct gpurt_client *gpurt_client_of(struct gpurt_sched_client *c)
{
	return container_of(c, struct gpurt_client, core);
}

/* The level of the client, or of its group, in the queues.  Also for readers without the gate. */
static inline u32 gpurt_level_now(const struct gpurt_client *client)
{
	return READ_ONCE(READ_ONCE(client->core.entry)->level);
}

/*
 * Whether the client or its group is the owner.  Also for readers without the gate: a decision that makes the owner a
 * member changes its entry before the runner.
 */
static inline bool gpurt_client_owns(const struct gpurt_client *client)
{
	const struct gpurt_sched_client *runner = READ_ONCE(client->gpu->sched.runner);

	return runner == &client->core || runner == READ_ONCE(client->core.entry);
}

/* Why the client has no segment open: it ended them all, or the driver killed its work. */
static inline int gpurt_client_without_segment(const struct gpurt_client *client)
{
	return READ_ONCE(client->killed) ? -EIO : -ENOENT;
}

/* Called while no client is freed.  The client that has the bus; NULL: no client. */
static inline struct gpurt_client *gpurt_bus_holder(const struct gpurt_gpu *gpu)
{
	struct gpurt_bus_node *n = READ_ONCE(gpu->bus.core.holder);

	return n ? container_of(n, struct gpurt_client, copier.node) : NULL;
}

#endif
