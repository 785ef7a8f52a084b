/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One GPU.
 *
 * Locks, and what each protects, the outermost lock first (docs/locks.md has all locks of the
 * module):
 *   gpurt_file.lock		a descriptor's clients: made, closed, and their TSGs opened and closed
 *   gpurt_gpu.alive (SRCU)	held by readers while a decision or an operation of the driver is under way.  The
 *				driver may go away only after they have left
 *   gpurt_gpu.gate		decisions and commits, everything about scheduling; see gate.c
 *   gpurt_gpu.bus.lock	the bus; spinning, and inside of all of these
 *   gpurt_gpu.clients_lock	changes of the list of clients.  gpurt_clients_read() is for its readers
 */
#ifndef GPURT_STATE_GPU_H
#define GPURT_STATE_GPU_H

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "base/looks.h"
#include "core/bus.h"
#include "core/queue.h"
#include "core/grants.h"
#include "core/latency.h"
#include "core/sched.h"
#include "core/stuck.h"
#include "drv/drv.h"
#include "base/processes.h"

struct gpurt_client;
struct gpurt_update;

/* Decisions about one GPU are taken one at a time, in order of priority on the GPU: decide/gate.c. */
struct gpurt_gate {
	raw_spinlock_t lock;
	struct gpurt_turns turns;	/* of gpurt_update.turn */
	struct task_struct *holder;	/* the task that holds it, for assert_held() in decide/runlist.c */
	struct gpurt_update *handed;	/* where commit() sleeps: the holder that waits for the GPU's thread */
	struct kthread_work work;	/* has the thread see to it */
	u64 rest_until;			/* of best effort; written with the gate held */
};

/*
 * How many clients gain and lose the GPU by one decision, at most: see decide(), gpurt_begin() and become_member() in
 * core/sched.c.  The members of a group all do, and where one joins the owner may change several times.
 */
#define GPURT_CHANGES (4 + 8 * GPURT_MAX_MEMBERS)

struct gpurt_change {
	struct gpurt_client *client;	/* NULL: everyone */
	u32 event;			/* GPURT_EVENT_GRANT, PREEMPT or RESUME */
	u64 time;
};

/* The runlist, and the updates that the scheduler asks for: decide/runlist.c. */
struct gpurt_runlist {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];	/* that of RAISE: written by gpurt-boost */
	u64 commits;
	u64 carried;			/* number of the last commit that succeeded; they count from 1 */
	u64 updated_ns;			/* how long all commits took together */
	u64 faults;			/* commits that the driver could not carry out */
	u64 switch_ns;			/* what the driver says a context switch takes */
	u64 everyone_since;		/* when the runlist last became everyone's */
	struct gpurt_retry retry;
	u64 armed;			/* what the timer is set to; U64_MAX: nothing */
	struct gpurt_sched_client *runner;	/* sched.runner once carried out, for readers without the gate */
	bool fault;			/* the runlist is not what it should be, or is not known to be */
	bool flight;			/* because the last commit is in progress */
	bool broken;			/* because the driver says that the GPU must be reset */
	int err;			/* of the last commit that failed, until the log has it; 0 */
	int power_err;			/* -EIO: the GPU of this decision has no power; -EAGAIN: it needed none; 0 */
	u32 stale;			/* mask of the runlists that are not what they should be */
	/* The owner whose runlist it should be, for drivers that rebuild it; NULL: every client's. */
	struct gpurt_sched_client *only;
	bool due;			/* the decision wants a commit, because of @cause, since @decided */
	u32 cause;			/* enum gpurt_cause */
	u64 decided;
	struct gpurt_change change[GPURT_CHANGES];	/* what is to be told once that is carried out */
	u32 changes;
	struct gpurt_grants grants;
	u64 sequence;			/* of the last commit; counts on when what was said of it holds no more */

	raw_spinlock_t told_lock;
	u64 told_of;			/* the last commit that the driver has said something of; with told_lock held */
	u32 told;			/* likewise: mask of its runlists that the driver said to be done */
	int told_err;			/* likewise: the first error that it said */
	atomic_t holds;			/* resets and suspends under way: no commit until they are over */
	bool replay;			/* one is over: the runlist must be made anew; set without the gate */
	atomic_t leaving;		/* clients that are gone and wait for an update without them */
	bool retry_now;			/* the driver expects that a commit would succeed now; set without the gate */
	struct hrtimer timer;		/* for budgets, and for commits that must be tried again */
	struct kthread_work tick;
	struct work_struct aftermath;
};

/* A call of the driver by the GPU's thread. */
struct gpurt_callback {
	struct hrtimer timer;
	struct kthread_work work;
};

/* The bus between memory and the GPU: clients/bus.c. */
struct gpurt_gpu_bus {
	raw_spinlock_t lock;		/* inside of all locks except those of exits.c and events.c */
	struct gpurt_bus core;
	struct hrtimer timer;		/* best effort has kept the bus for too long */
};

/* How policy `job` notices that the state of a task has changed: decide/job.c. */
/* The probes look at a process only if the bucket of its hash says that it may be a client's. */
#define GPURT_WATCH_BITS 8

struct gpurt_job {
	/* Changed with gpurt_gpu.policy_lock held, down to the blank line. */
	u32 notice;			/* enum gpurt_notice */
	u64 poll_ns;
	bool probed;			/* the probes of the scheduler's tracepoints are registered */

	bool on;			/* policy `job` is in force: else no task is looked at, late or not */
	struct gpurt_looks looks;
	u32 left[2][2];			/* how many of looks.turns are to have one before all had; the thread's */
	bool more;			/* some of those that have not been real-time are */
	bool news;			/* something changed: all are to have a turn */
	u64 rest_until;			/* the thread does not look again before; ktime_get_ns() */
	struct hrtimer timer;
	struct irq_work irq;
	struct kthread_work look;
	atomic_t watched[1 << GPURT_WATCH_BITS];	/* clients by hash of their process */
};

/* Whether the owner waits for a program that waits for the GPU: decide/stuck.c. */
struct gpurt_stuck_watch {
	struct gpurt_stuck core;	/* written with the gate held */
	bool armed;			/* likewise: a look is due */
	struct delayed_work look;
};

struct gpurt_gpu {
	struct kref ref;
	struct rcu_head rcu;
	u32 index;
	u64 serial;			/* of all GPUs that there ever were, from 1 on */
	/* A copy: readers may outlive the driver's module.  Its functions may be called while the GPU is held. */
	struct gpurt_driver_ops ops;
	char name[GPURT_NAME_LEN];	/* ops.name, which is NULL here */
	char device[GPURT_NAME_LEN];	/* ops.device, likewise; empty: not known */
	void *driver;			/* the driver's own */
	struct kthread_worker *worker;	/* its thread has the highest FIFO priority */
	const struct task_struct *thread;	/* the same, to be compared only: callers at the gate may outlive it */

	struct srcu_struct alive;
	bool dying;
	struct completion drained;	/* the driver has been told that every client is gone */

	struct gpurt_gate gate;
	struct gpurt_sched sched;	/* with the gate held */
	u32 groups;			/* changed with clients_lock held: members of groups, and those about to be */
	bool events_wanted;		/* with the gate held: somebody reads events */
	struct gpurt_runlist runlist;
	struct gpurt_callback callback;

	struct gpurt_gpu_bus bus;
	struct gpurt_stuck_watch stuck;

	struct mutex policy_lock;	/* one change of the policy at a time */
	struct gpurt_job job;

	atomic_t waiting;		/* threads that wait, and clients that were ever polled */
	struct rt_mutex clients_lock;	/* real-time threads take it to open, ordinary ones as well */
	struct list_head clients;
	struct list_head leaving;	/* those that are gone, and may still be on the runlist: updates fail */
	struct gpurt_processes processes;	/* that have clients; changed with clients_lock held */
};

#endif
