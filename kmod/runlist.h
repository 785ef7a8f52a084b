/* SPDX-License-Identifier: GPL-2.0 */
/* The runlist of one GPU: carries out the updates that the scheduler (core/policy.c) asks for. */
#ifndef GPURT_RUNLIST_H
#define GPURT_RUNLIST_H

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "core/latency.h"
#include "core/policy.h"
#include "core/retry.h"

struct gpurt_client;
struct gpurt_gpu;

/* How many clients gain and lose the GPU by one decision, at most: see decide() and gpurt_begin() in core/policy.c. */
#define GPURT_CHANGES 4

struct gpurt_change {
	struct gpurt_client *client;	/* NULL: everyone */
	u32 event;			/* GPURT_EVENT_GRANT, PREEMPT or RESUME */
	u64 time;
};

struct gpurt_runlist {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];
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
	int err;			/* of the last commit that is over */
	int power_err;			/* -EIO: the GPU of this decision has no power; -EAGAIN: it needed none; 0 */
	u32 stale;			/* mask of the runlists that are not what they should be */
	struct gpurt_client *only;	/* what the runlist should be, for drivers that rebuild it: NULL: everyone's */
	bool due;			/* the decision wants a commit, because of @cause, since @decided */
	u32 cause;			/* enum gpurt_cause */
	u64 decided;
	struct gpurt_change change[GPURT_CHANGES];	/* what is to be told once that is carried out */
	u32 changes;
	u32 owed;			/* as gpurt_client.owed, for everyone */
	u32 owing;			/* how many are owed an event */
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

void gpurt_runlist_init(struct gpurt_gpu *gpu);
void gpurt_runlist_drain(struct gpurt_gpu *gpu);
void gpurt_runlist_stop(struct gpurt_gpu *gpu);
void gpurt_runlist_prepare(struct gpurt_gpu *gpu, u64 now);
void gpurt_runlist_carry_out(struct gpurt_gpu *gpu);
void gpurt_runlist_set_timer(struct gpurt_gpu *gpu);
void gpurt_runlist_look(struct gpurt_gpu *gpu);
void gpurt_runlist_refresh(struct gpurt_gpu *gpu);
void gpurt_runlist_replay(struct gpurt_gpu *gpu);
bool gpurt_runlist_is_held(const struct gpurt_gpu *gpu);
bool gpurt_runlist_is_off(const struct gpurt_client *client);

#endif
