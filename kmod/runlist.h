/* SPDX-License-Identifier: GPL-2.0 */
/* The runlist of one GPU: carries out the updates that the scheduler (core/policy.c) asks for. */
#ifndef GPURT_RUNLIST_H
#define GPURT_RUNLIST_H

#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "core/latency.h"
#include "core/policy.h"
#include "core/retry.h"

struct gpurt_gpu;

struct gpurt_runlist {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];
	u64 commits;
	u64 updated_ns;			/* how long all commits took together */
	u64 faults;			/* commits that the driver could not carry out */
	u64 everyone_since;		/* when the runlist last became everyone's */
	struct gpurt_retry retry;
	u64 armed;			/* what the timer is set to; U64_MAX: nothing */
	struct gpurt_sched_client *runner;	/* sched.runner once carried out, for readers without the gate */
	bool fault;			/* the last commit failed: the runlist is not what it should be */

	bool retry_now;			/* the driver expects that a commit would succeed now; set without the gate */
	struct hrtimer timer;		/* for budgets, and for commits that must be tried again */
	struct kthread_work tick;
	struct work_struct resume;
};

void gpurt_runlist_init(struct gpurt_gpu *gpu);
void gpurt_runlist_stop(struct gpurt_gpu *gpu);
void gpurt_runlist_set_timer(struct gpurt_gpu *gpu);

#endif
