/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Durations of runlist updates: count, extremes, sum, and a log-linear histogram with
 * GPURT_HIST_SUB sub-buckets an octave.  A bucket is never wider than a quarter of its lower edge.
 */
#ifndef GPURT_CORE_LATENCY_H
#define GPURT_CORE_LATENCY_H

#include "env.h"
#include "../uapi/gpurt.h"

struct gpurt_latency {
	u64 count;
	u64 min;		/* ns; 0 while count is 0 */
	u64 max;
	u64 sum;
	u64 bucket[GPURT_HIST_BUCKETS];
};

void gpurt_latency_record(struct gpurt_latency *l, u64 ns);
u32 gpurt_hist_bucket(u64 ns);
u64 gpurt_hist_floor(u32 bucket);

#endif
