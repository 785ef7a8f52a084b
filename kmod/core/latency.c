// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "latency.h"

#define SUB_BITS 2	/* log2(GPURT_HIST_SUB) */

/* The bucket that holds @ns; the last one holds everything larger. */
u32 gpurt_hist_bucket(u64 ns)
{
	u32 octave, bucket;

	if (ns < GPURT_HIST_SUB)
		return (u32)ns;
	octave = (u32)fls64(ns) - 1;
	bucket = (octave - SUB_BITS + 1) * GPURT_HIST_SUB +
		 (u32)((ns >> (octave - SUB_BITS)) & (GPURT_HIST_SUB - 1));
	return bucket < GPURT_HIST_BUCKETS ? bucket : GPURT_HIST_BUCKETS - 1;
}

/* The smallest value that falls into @bucket, ns. */
u64 gpurt_hist_floor(u32 bucket)
{
	u32 octave = bucket / GPURT_HIST_SUB;

	if (!octave)
		return bucket;
	return ((u64)GPURT_HIST_SUB + bucket % GPURT_HIST_SUB) << (octave - 1);
}

void gpurt_latency_record(struct gpurt_latency *l, u64 ns)
{
	if (!l->count || ns < l->min)
		l->min = ns;
	if (ns > l->max)
		l->max = ns;
	l->count++;
	l->sum += ns;
	l->bucket[gpurt_hist_bucket(ns)]++;
}
