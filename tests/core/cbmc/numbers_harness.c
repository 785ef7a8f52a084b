// SPDX-License-Identifier: GPL-2.0
/* For cbmc (scripts/check-core): budgets and the latency histogram for all 64-bit values. */
#include "../../../kmod/core/budget.h"
#include "../../../kmod/core/latency.h"

u32 nondet_u32(void);
u64 nondet_u64(void);
_Bool nondet_bool(void);

static void budgets(void)
{
	struct gpurt_budget b = { nondet_u64(), nondet_u64(), 0, nondet_bool() };
	u64 ns = nondet_u64(), used = b.used, left = gpurt_budget_left(&b);
	bool before = b.overrun, over = gpurt_budget_charge(&b, ns);

	__CPROVER_assert(b.used >= used && b.used >= ns, "what was used never wraps");
	__CPROVER_assert(over == (b.limit && !before && b.used >= b.limit), "an overrun is told once, when it happens");
	__CPROVER_assert(left == U64_MAX || over == (ns >= left), "not a nanosecond before it was announced");
	__CPROVER_assert(!over || gpurt_budget_left(&b) == U64_MAX, "nothing is left to notice");
#ifdef PLANT_BUG
	__CPROVER_assert(!over, "planted");
#endif
}

static void histogram(void)
{
	static struct gpurt_latency l;
	u64 ns = nondet_u64();
	u32 bucket = gpurt_hist_bucket(ns), next = nondet_u32();

	__CPROVER_assert(bucket < GPURT_HIST_BUCKETS, "in the histogram");
	__CPROVER_assert(gpurt_hist_floor(bucket) <= ns, "not below its bucket");
	__CPROVER_assert(bucket == GPURT_HIST_BUCKETS - 1 || ns < gpurt_hist_floor(bucket + 1), "not above it");
	__CPROVER_assume(next < GPURT_HIST_BUCKETS - 1);
	__CPROVER_assert(gpurt_hist_floor(next) < gpurt_hist_floor(next + 1), "buckets follow each other");
	gpurt_latency_record(&l, ns);
	__CPROVER_assert(l.count == 1 && l.min == ns && l.max == ns && l.sum == ns, "one value is all there is");
	__CPROVER_assert(l.bucket[bucket] == 1, "counted where it belongs");
}

int main(void)
{
	budgets();
	histogram();
	return 0;
}
