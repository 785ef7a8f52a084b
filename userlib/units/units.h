/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The run time of sBEET: jobs that clients announce, and the units that these jobs hold.
 *
 * A host passes on what its clients say: a task has a job (ready), a job's kernel has ended (kernel_done), a job is
 * done (done).  A host also reports that a task's client is gone.  The host calls gpurt_units_tick() at
 * gpurt_units_next().  Each of these makes a pass (sbeet_pass.h).  Afterwards the host looks which jobs have got units
 * (@run) and which were skipped (@skipped).
 *
 * A task has at most one pending job, and at most one job that holds units or copies out.  No job is released less than
 * a period after the task's last one, however early its client announces it.  Until a task's first job is announced,
 * and after its client has gone, no job of it is expected.  A kernel that executes longer than planned is expected to
 * end at any time.  Once it is late by its own length, it is expected to go on for as long as it is late.  Its program
 * may hang, and other jobs must not wait for it for ever while other units are free.
 */
#ifndef GPURT_CORE_UNITS_H
#define GPURT_CORE_UNITS_H

#include "sbeet_pass.h"
#include "../../kmod/uapi/gpurt.h"

enum gpurt_units_pending {
	GPURT_UNITS_NONE,
	GPURT_UNITS_EARLY,	/* announced, and released later */
	GPURT_UNITS_READY,
};

enum gpurt_units_running {
	GPURT_UNITS_IDLE,
	GPURT_UNITS_KERNEL,	/* dispatched; the kernel has not been reported to have ended */
	GPURT_UNITS_COPY,	/* the kernel has ended, the job is not done */
};

struct gpurt_units_job {
	u64 number;		/* counts all jobs from 1 */
	u64 release;
	u64 deadline;
	u64 granted;		/* when, ns */
	u64 kernel;		/* the kernel's time in the worst case, ns */
	u64 due;		/* when its units are free in the worst case */
	u32 gpu;
	u32 first;		/* unit */
	u32 units;
};

struct gpurt_units_task {
	u32 pending;		/* enum gpurt_units_pending */
	u32 running;		/* enum gpurt_units_running */
	struct gpurt_units_job next;	/* the pending one */
	struct gpurt_units_job run;	/* the running one */
	u64 skipped;		/* the number of the last job that was pending at its deadline; 0: none */
	u64 allowed;		/* no job is released before this time */
	u64 jobs;		/* done */
	u64 late;		/* of these, after the deadline */
	u64 skips;
	u64 lost;		/* jobs that had got units when their client was gone */
	u64 longest;		/* longest response time of a done job, ns */
};

/* The arrays have an entry a task. */
struct gpurt_units {
	const struct gpurt_sbeet_tables *tables;
	struct gpurt_sgpu *gpu;		/* initialised, one for each GPU of the tables */
	struct gpurt_units_task *task;	/* zeroed */
	u64 *earliest;
	u64 *finish;
	struct gpurt_sbeet_future *ready;
	u32 *room;
	u32 order;			/* enum gpurt_sbeet_order */
	bool run_late;			/* a job that is pending at its deadline still runs */
	u64 numbers;			/* jobs that were announced */
	u64 now;			/* time of the pass */
	struct gpurt_sbeet_state state;
};

void gpurt_units_init(struct gpurt_units *u);
int gpurt_units_ready(struct gpurt_units *u, u32 task, u64 release, u64 now);
int gpurt_units_begin(struct gpurt_units *u, u32 task, u64 number, u64 start);
int gpurt_units_kernel_done(struct gpurt_units *u, u32 task, u64 number, u64 now);
int gpurt_units_done(struct gpurt_units *u, u32 task, u64 number, u64 now);
void gpurt_units_gone(struct gpurt_units *u, u32 task, u64 now);
u64 gpurt_units_next(const struct gpurt_units *u);
void gpurt_units_tick(struct gpurt_units *u, u64 now);

#endif
