/* SPDX-License-Identifier: GPL-2.0 */
/* A task's workload on a resource in any window, and the search for the least window that is long enough. */
#ifndef GPURT_RTGPU_LOAD_H
#define GPURT_RTGPU_LOAD_H

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

#endif
