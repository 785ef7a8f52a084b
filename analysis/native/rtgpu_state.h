/* SPDX-License-Identifier: GPL-2.0 */
/* The tasks of one taskset while their bounds are computed: what each of them needs on the units that it was given last. */
#ifndef GPURT_RTGPU_STATE_H
#define GPURT_RTGPU_STATE_H

#include "rtgpu.h"

/*
 * W(t) of a task on a resource (analysis/rtgpu/workload.py).  Each segment starts as early as it can.  Then segment i
 * of a job starts off[i] after the job's first one, when the job has executed pre[i].  The second job starts @second
 * after the first, every later one @cycle after the one before.
 */
struct load {
	u32 count;
	int64_t *length, *off, *pre;
	int64_t total, second, cycle;
};

/* W(t) at @window.  @run: for how long beyond it the function certainly goes on growing with slope 1. */
int64_t rtgpu_work(const struct load *load, int64_t window, int64_t *run);

/*
 * The least x = @constant + sum of W(x) over @loads, up to @limit; any larger value if there is none.  No solution is
 * below @start.
 */
int64_t rtgpu_window(const struct load *const *loads, u32 count, int64_t constant, int64_t start, int64_t limit);

/* Longer than every deadline, and several of it can be added. */
#define NEVER (INT64_MAX / 8)

/* A real-time or best-effort task on the units that it was given last. */
struct state {
	u32 units;
	u32 cpu;
	struct load on[2];		/* by enum gpurt_rtgpu_need: the CPU, the bus */
	struct load alone;		/* on the bus, in a window that begins with no job of it pending; if it is `single` */
	int64_t *sorted[2];		/* the same lengths, shortest first */
	int64_t kernels;		/* GR_hi of a job */
	int64_t longest;		/* copy */
	int64_t once;			/* the most copying without a CPU segment in between */
	bool fresh;			/* it never suspends, and has one CPU segment */
	bool single;			/* a job is one copy, and nothing else */
	int64_t spun;			/* what a job keeps its CPU for while it waits busily */
	int64_t bus_waits, cpu_waits;	/* the sums of MR and of CR */
	int64_t wcrt;
};

struct run {
	const struct gpurt_rtgpu_batch *b;
	const struct gpurt_rtgpu_method *method;
	const struct gpurt_rtgpu_units *units;
	u32 begin, tasks, real_time;
	u32 tried;
	struct state *state;
	const struct load **loads[2];	/* of the tasks above the one in question */
	u32 above[2];
	int64_t *times;
};

/* Prepares a taskset in @r.  One block of memory, r->state, holds everything.  Returns 0 or -GPURT_RTGPU_ENOMEM. */
int rtgpu_begin(struct run *r, u32 set);

/* Reads the steps of a task on @units units. */
void rtgpu_prepare(struct run *r, u32 index, u32 units);

/* Says by when a job is over; @second of its loads is then the start of the window's second job. */
void rtgpu_is_over(struct run *r, u32 index, int64_t end);

/* The most that one lower copy, or merged request, keeps a task waiting for. */
int64_t rtgpu_blocking(const struct run *r, u32 index);

/* Collects the loads of the tasks above. */
void rtgpu_gather(struct run *r, u32 index);

/* The same, and what the responses of a task need that does not depend on its own units. */
void rtgpu_settle(struct run *r, u32 index);

/* R1 to R4 of a task on the units that it has; beyond the deadline if none holds.  @all: their least, else any. */
int64_t rtgpu_suspended(struct run *r, u32 index, int all);

/* The response of a task that waits busily (analysis/rtgpu/stgm.py). */
int64_t rtgpu_busy(struct run *r, u32 index);

#endif
