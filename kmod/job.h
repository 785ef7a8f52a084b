/* SPDX-License-Identifier: GPL-2.0 */
/* How policy `job` notices that the state of a task has changed. */
#ifndef GPURT_JOB_H
#define GPURT_JOB_H

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/types.h>

#include "looks.h"

struct gpurt_client;
struct gpurt_gpu;
struct pid;

/* The probes look at a process only if the bucket of its hash says that it may be a client's. */
#define GPURT_WATCH_BITS 8

struct gpurt_job {
	/* Changed with gpurt_gpu.policy_lock held, down to the blank line. */
	u32 notice;			/* enum gpurt_notice */
	u64 poll_ns;
	bool probed;			/* the probes of the scheduler's tracepoints are registered */

	bool on;			/* policy `job` is in force: else nothing is looked at, whoever is late */
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

void gpurt_job_find_tracepoints(void);
bool gpurt_job_can_notify(void);

void gpurt_job_init(struct gpurt_gpu *gpu);
void gpurt_job_start(struct gpurt_gpu *gpu, const char **why);
void gpurt_job_stop(struct gpurt_gpu *gpu);

void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change);
void gpurt_job_join(struct gpurt_client *client);
void gpurt_job_leave(struct gpurt_client *client);
void gpurt_job_urgent(struct gpurt_client *client);
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu);

#endif
