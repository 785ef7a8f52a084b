/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Energy-aware scheduling of GPU jobs in space: sBEET (algorithms 1 to 3), sBEET-mg (algorithm 5), their baselines.
 *
 * gpurt_sbeet_decide() is a function of tables, state and time: whether a ready job is dispatched now, on which GPU and
 * on how many units.  The host keeps the ready queue in order, and dispatches.  The host calls again at each release,
 * when a job frees its units or finishes, and when a pending deadline passes.  Times are ns below 2^60, powers uW up to
 * 10^12.  The host provides valid tables: @best is a multiple of the granularity and at most @whole, or 0 where the
 * task cannot run.  Each task can run on the GPU that it is assigned to.
 *
 * analysis/energy/ has the same in a readable form, and docs/readings.md says what differs from print.
 */
#ifndef GPURT_CORE_SBEET_H
#define GPURT_CORE_SBEET_H

#include "../../kmod/core/env.h"
#include "sgpu.h"

enum gpurt_sbeet_rule {
	GPURT_SBEET_WHOLE,	/* one job at a time on all units: fcfs, rm, edf */
	GPURT_SBEET_STATIC,	/* each task has its own units: stgm */
	GPURT_SBEET_ALLOCATE,	/* algorithm 2 on the assigned GPU */
	GPURT_SBEET_MIGRATE,	/* algorithm 5 */
	GPURT_SBEET_EXACT,	/* m^opt units of the assigned GPU, or none */
	GPURT_SBEET_BIG,	/* the first GPU in @by_size that is not full */
	GPURT_SBEET_SMALL,	/* the same, with @by_size in ascending order */
	GPURT_SBEET_FREE,	/* an idle GPU, else the GPU with most free units */
};

/* Orders of the ready queue; ties by release, then by the number of the task. */
enum gpurt_sbeet_order {
	GPURT_SBEET_EDF,
	GPURT_SBEET_RM,
	GPURT_SBEET_FIFO,
};

struct gpurt_sbeet_gpu {
	u32 units;		/* M: includes units that jobs may not hold */
	u64 static_power;	/* uW */
	u64 idle_power;		/* of one idle unit while a kernel executes, uW */
};

struct gpurt_sbeet_kernel {
	u64 copy_in;
	u64 copy_out;
	const u64 *time;	/* e(m) at time[m - 1] */
	u64 power;		/* of one active unit, uW */
	u32 best;		/* m^opt; 0: the task cannot run on the GPU */
};

struct gpurt_sbeet_task {
	u64 period;
	u64 deadline;
	u32 assigned;		/* x: a GPU */
};

struct gpurt_sbeet_future {
	u64 release;
	u64 deadline;
	u32 task;
};

struct gpurt_sbeet_tables {
	u32 rule;
	u32 gpus;
	u32 tasks;
	u32 room;		/* of @window */
	bool active;		/* compare active energies of complete schedules */
	bool hold_job;		/* units are held until the copy out is done */
	bool weigh;		/* algorithm 5, full GPU, as printed: energies decide even if waiting is in time */
	const struct gpurt_sbeet_gpu *gpu;
	const struct gpurt_sbeet_task *task;
	const struct gpurt_sbeet_kernel *kernel;	/* by task, then by GPU */
	const u32 *preferred;	/* by task: all GPUs in order of preference, those that cannot run it last */
	const u32 *by_size;	/* GPUs */
	const u8 *conflict;	/* STATIC: by task and task, whether their units overlap */
	const u32 *own;		/* STATIC: how many units a task has */
	struct gpurt_sbeet_future *window;	/* room for the work of a decision */
};

/* @earliest: when the next job of each task can come.  @ready: by task, its oldest pending job; U64_MAX: no job. */
struct gpurt_sbeet_state {
	const struct gpurt_sgpu *gpu;
	const u64 *earliest;
	const struct gpurt_sbeet_future *ready;
	u64 overflows;		/* decisions whose window had no room: they count every deadline as missed */
};

struct gpurt_sbeet_decision {
	u32 gpu;
	u32 units;		/* 0: the job waits */
};

void gpurt_sbeet_plan(const struct gpurt_sbeet_tables *t, u32 task, u32 gpu, u32 units, u64 now,
		      struct gpurt_sgpu_job *plan, u64 *finish);
struct gpurt_sbeet_decision gpurt_sbeet_decide(const struct gpurt_sbeet_tables *t, struct gpurt_sbeet_state *s,
					       const struct gpurt_sbeet_future *job, u64 now);

#endif
