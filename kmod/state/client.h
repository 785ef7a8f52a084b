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

/* A client's place in the list of those that are taken off when their process ends; with the lock of exits.c held. */
struct gpurt_urgent {
	struct list_head node;
	bool taken_off;
	bool lasting;		/* it is there until it ends, not only while it owns the GPU, or copies */
	bool over;		/* its own end is under way: it is not put there again */
};

/* A client's part in copies over the bus. */
struct gpurt_copier {
	/* With the lock of its GPU's bus held, down to the blank line. */
	struct gpurt_bus_node node;
	struct task_struct *task;	/* waits for the bus */
	u32 own;			/* the priority of the thread that asked last, */
	u32 hint;			/* and what it asked for */
	u32 changes;			/* of what the level of its request follows from; read without the lock, too */
	bool asking;			/* a call is under way: no other thread may begin, or go on */
	u32 request;			/* the number of its last BEGIN or NEXT */
	bool gone;

	/* With client->boost.lock held: policy `boosted` raises the thread that copies. */
	struct gpurt_raised raised;
	bool raises;			/* from before it asks for the bus until it has given it back */
};

/* The thread of a member of a group that raises all: while the group owns the GPU, in and out of segments. */
struct gpurt_kept {
	u32 level;			/* as gpurt_boosted.level, which was not GPURT_RAISED_TOP; likewise */
	/* With client->boost.lock held: */
	struct gpurt_raised raised;
	bool over;			/* another thread is to take its place */
};

/* Stages at the gate of the thread that is raised, or asks to be. */
enum gpurt_boost_call {
	GPURT_BOOST_IN_NONE,		/* it is in no call: gpurt-boost carries out what changes */
	GPURT_BOOST_CALLS,		/* it carries `level` out itself, at the end of its call */
	GPURT_BOOST_WAITS,		/* as without its call: gpurt-boost again carries out what changes */
	GPURT_BOOST_HANDED,		/* likewise, and it has been handed the gate without its CPU */
};

/* Bits of gpurt_boosted.flags, which are changed atomically. */
enum {
	GPURT_BOOST_MAY,		/* with the gate held: the begin of its segment has raised its thread */
	GPURT_BOOST_BARRED,		/* without a lock: the administrator's rules bar it, and none is raised now */
	GPURT_BOOST_LOST,		/* likewise: its group lost the GPU, and the kept thread was not lowered yet */
	/* With the lock held: */
	GPURT_BOOST_OVER,		/* the client is gone: no thread is raised for it again */
	GPURT_BOOST_SPINS,		/* its thread keeps its CPU while it waits at the gate */
	GPURT_BOOST_WORKING,		/* form fence: it waits for its own work, `awaited` */
};

/* A client's part in the raising of threads. */
struct gpurt_boosted {
	u32 level;			/* what gpurt_sched_ops.raise said last; written with the gate held */
	enum gpurt_boost_call call;	/* the thread's, except that the gate hands over with its lock held */
	unsigned long flags;		/* GPURT_BOOST_... */

	struct rt_mutex calls;		/* of the thread that is raised, or asks to be, while it is in a call; */
	struct rt_mutex lock;		/* innermost of the client's, and outside of raised.c's */
	/* With the lock held: */
	struct gpurt_raised raised;	/* the thread that began the outermost segment; it stays so while in a call */
	struct task_struct *asker;	/* the same, while it asks for that begin; only compared */
	u32 asked;			/* the level that it needs for its call; 0: none, or it waits at the gate */
	u32 form;			/* enum gpurt_form, of that begin */
	struct gpurt_wait awaited;

	atomic64_t since;		/* since when gpurt-boost is to look, ktime_get_ns(); 0: it is not to */
	struct kthread_work work;	/* has a thread of the highest FIFO priority carry all that out */
};

struct gpurt_client {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_sched_client core;
	u64 granted_at;
	u64 attempt;			/* number of the last commit that was to make it alone; 0: none was */
	struct gpurt_allowance *allowance;	/* whose budget it is under */
	bool gone;			/* the scheduler has forgotten it */
	bool killed;			/* its last segment was ended for it */
	struct gpurt_seat *seat;	/* of its group on that GPU, once it is a member; it stays so */
	struct list_head in_seat;	/* of gpurt_seat.members, until it is gone */
	bool leaves;			/* when it was gone others were in segments, who may wait for it */

	bool pins;			/* the driver's module stays loaded for it */
	bool ended;			/* gpurt_client_gone() was called; with gpurt_file.lock held */
	bool waits;			/* it counts in gpurt_runlist.leaving */
	struct kref ref;		/* the descriptor's, and while it is listed the list's */
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

	atomic_t tsgs;			/* as the driver told; core.tsgs follows */
	bool kill;			/* the driver told that it killed the client's work; killed follows */
	struct kthread_work news;	/* has the GPU's thread take that over, */
	struct work_struct slow_news;	/* or, for best effort, a worker */

	struct gpurt_waiters waiters;		/* for grants and completions */
	struct gpurt_waiters orders;		/* the call that waits for the agent's next order */
	struct kthread_work poll_wake;		/* has the GPU's thread wake poll() */
	struct kthread_work take_off;		/* has it take the client off the GPU */
	struct gpurt_urgent urgent;
	struct gpurt_looked looked;
	struct gpurt_boosted boost;
	struct gpurt_copier copier;
	struct gpurt_kept kept;
	u64 marks;				/* core/marks.c; several threads may use it at once */
	atomic_t marks_lost;			/* that readers were not told of, and do not know */
	atomic_t ordering;			/* 1: there is such a call */
	atomic_t completions;
	int seen;			/* completions that GPURT_IOC_WAIT has reported */
	bool polled;			/* written with gpurt_file.lock held */
	struct llist_node dead;
};

static inline struct gpurt_client *gpurt_client_of(struct gpurt_sched_client *c)
{
	return container_of(c, struct gpurt_client, core);
}

/* The level at which the client counts in the queues, or its group.  For readers without the gate, too. */
static inline u32 gpurt_level_now(const struct gpurt_client *client)
{
	return READ_ONCE(READ_ONCE(client->core.entry)->level);
}

/*
 * Whether the client is the owner, or its group is.  For readers without the gate, too: a decision that makes the owner
 * a member changes its entry before the runner.
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

/* Called while no client is freed.  The client that copies; NULL: none does. */
static inline struct gpurt_client *gpurt_bus_holder(const struct gpurt_gpu *gpu)
{
	struct gpurt_bus_node *n = READ_ONCE(gpu->bus.core.holder);

	return n ? container_of(n, struct gpurt_client, copier.node) : NULL;
}

#endif
