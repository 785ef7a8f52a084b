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

struct gpurt_agents_facts;
struct gpurt_client;
struct gpurt_update;

/* Decisions about one GPU are taken one at a time, in order of priority on the GPU: decide/gate.c. */
struct gpurt_gate {
	raw_spinlock_t lock;
	struct gpurt_turns turns;	/* of gpurt_update.turn */
	struct task_struct *holder;	/* the task that holds it, for assert_held() in decide/runlist.c */
	struct gpurt_update *handed;	/* if commit() sleeps: the holder's update, for the GPU's thread */
	struct kthread_work work;	/* has the thread carry that out */
	u64 rest_until;			/* of best effort; written with the gate held */
};

/*
 * The most clients that gain and lose the GPU by one decision: see decide(), gpurt_begin() and become_member() in
 * core/sched.c.  All members of a group do, and when a member joins the owner may change several times.
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
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];	/* of RAISE: written by gpurt-boost */
	u64 commits;
	u64 carried;			/* number of the last successful commit, from 1 */
	u64 updated_ns;			/* how long all commits took together */
	u64 faults;			/* commits that the driver could not carry out */
	u64 switch_ns;			/* duration of a context switch, by the driver */
	u64 everyone_since;		/* when the runlist last became everyone's */
	struct gpurt_retry retry;
	u64 armed;			/* the timer's expiry; U64_MAX: none */
	struct gpurt_sched_client *runner;	/* sched.runner once carried out, for readers without the gate */
	bool fault;			/* the runlist is not, or may not be, what it should be */
	bool flight;			/* because the last commit is in progress */
	bool broken;			/* because the driver says that the GPU must be reset */
	int err;			/* of the last failed commit, until it is logged; else 0 */
	int power_err;			/* -EIO: the GPU of this decision has no power; -EAGAIN: it needed none; 0 */
	u32 stale;			/* mask of the runlists that are not what they should be */
	/* The owner whose runlist it should be, for drivers that rebuild it; NULL: every client's. */
	struct gpurt_sched_client *only;
	bool due;			/* the decision wants a commit, because of @cause, since @decided */
	u32 cause;			/* enum gpurt_cause */
	u64 decided;
	struct gpurt_change change[GPURT_CHANGES];	/* to be reported once the commit is carried out */
	u32 changes;
	struct gpurt_grants grants;
	u64 sequence;			/* of the last commit; also counts when answers to it become void */

	raw_spinlock_t told_lock;
	u64 told_of;			/* the last commit that the driver answered; with told_lock held */
	u32 told;			/* likewise: mask of its runlists that are done */
	int told_err;			/* likewise: its first error */
	atomic_t holds;			/* resets and suspends under way: no commit until they are over */
	bool replay;			/* one is over: the runlist must be made anew; set without the gate */
	atomic_t leaving;		/* gone clients that wait for an update without them */
	bool retry_now;			/* the driver expects that a commit would succeed now; set without the gate */
	struct hrtimer timer;		/* for budgets, and for commits that must be tried again */
	struct kthread_work tick;
	struct work_struct aftermath;
};

/* A call of the driver's called() by the GPU's thread. */
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
/* Probes look at a process only if its hash bucket says that it may have a client. */
#define GPURT_WATCH_BITS 8

struct gpurt_job {
	/* Changed with gpurt_gpu.policy_lock held, down to the blank line. */
	u32 notice;			/* enum gpurt_notice */
	u64 poll_ns;
	bool probed;			/* the probes of the scheduler's tracepoints are registered */

	bool on;			/* policy `job` is in force: otherwise there are no looks */
	struct gpurt_looks looks;
	u32 left[2][2];			/* how many of looks.turns still need their turn; the thread's */
	bool more;			/* some clients that have not been real-time still need a turn */
	bool news;			/* something changed: all need a turn */
	u64 rest_until;			/* no look before this time; ktime_get_ns() */
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
	u64 serial;			/* counts all GPUs there ever were, from 1 */
	/* A copy: readers may outlive the driver's module.  Its functions may be called while the GPU is held. */
	struct gpurt_driver_ops ops;
	char name[GPURT_NAME_LEN];	/* ops.name, which is NULL here */
	char device[GPURT_NAME_LEN];	/* ops.device, likewise; empty: not known */
	void *driver;			/* the driver's own */
	struct kthread_worker *worker;	/* its thread has the highest FIFO priority */
	const struct task_struct *thread;	/* its thread, only compared: callers at the gate may outlive it */

	struct srcu_struct alive;
	bool dying;
	struct completion drained;	/* the driver has been told that every client is gone */

	struct gpurt_gate gate;
	struct gpurt_sched sched;	/* with the gate held */
	u32 groups;			/* members of groups, and future ones; changed with clients_lock held */
	bool events_wanted;		/* with the gate held: somebody reads events */
	struct gpurt_runlist runlist;
	struct gpurt_callback callback;

	struct gpurt_gpu_bus bus;
	struct gpurt_stuck_watch stuck;

	struct mutex policy_lock;	/* one change of the policy at a time */
	struct gpurt_job job;

	atomic_t waiting;		/* waiting threads, and clients that were ever polled */
	struct rt_mutex clients_lock;	/* taken by real-time and by ordinary threads */
	struct list_head clients;
	struct list_head leaving;	/* gone, but maybe still on the runlist, because updates fail */
	struct gpurt_processes processes;	/* that have clients; changed with clients_lock held */
};

struct gpurt_gpu *gpurt_gpu_make(const struct gpurt_driver_ops *ops, void *driver);
void gpurt_gpu_put(struct gpurt_gpu *gpu);

bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token);
void gpurt_gpu_release(struct gpurt_gpu *gpu, int token);
void gpurt_gpu_dies(struct gpurt_gpu *gpu);
void gpurt_gpu_end_thread(struct gpurt_gpu *gpu);
void gpurt_gpu_describe(struct gpurt_gpu *gpu, struct gpurt_agents_facts *facts);

/* The GPUs that drivers have registered, by number. */
struct gpurt_gpu *gpurt_gpu_get(u32 index);
u32 gpurt_gpu_count(void);
int gpurt_gpus_publish(struct gpurt_gpu *gpu);
void gpurt_gpus_withdraw(struct gpurt_gpu *gpu);
void gpurt_gpus_free_number(u32 index);

#endif
