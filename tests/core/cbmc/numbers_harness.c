// SPDX-License-Identifier: GPL-2.0
/* For cbmc (scripts/check-core): budgets and the latency histogram for all 64-bit values. */
#include "../../../kmod/core/budget.h"
#include "../../../kmod/core/latency.h"

u32 nondet_u32(void);
u64 nondet_u64(void);
_Bool nondet_bool(void);

static void budgets(void)
{
	struct gpurt_budget b = {
		.limit = nondet_u64(), .period = nondet_u64(), .used = nondet_u64(), .ends = nondet_u64(),
		.overrun = nondet_bool(),
	};
	u64 from = nondet_u64(), to = nondet_u64(), used = b.used, end, ends = b.ends;
	u64 until = nondet_u64(), ns = nondet_u64();
	bool before = b.overrun, over;

	/* A longer charge is several of these. */
	__CPROVER_assume(from <= to && b.limit <= b.period && (to < ends || (from >= ends && to - from < b.period)));
	end = gpurt_budget_end(&b, from);
	over = gpurt_budget_charge(&b, from, to);
	if (!b.limit) {
		__CPROVER_assert(!over && end == U64_MAX, "there is no budget");
		return;
	}
	__CPROVER_assert(b.used >= to - from && (from >= ends || b.used >= used), "what was used never wraps");
	__CPROVER_assert(!over || from >= ends || !before, "an overrun is told once a period");
	__CPROVER_assert(b.overrun == (b.used >= b.limit || (from < ends && before)), "and whenever there is one");
	__CPROVER_assert(!over || end <= to, "not a nanosecond before it was announced");
	used = b.used;
	ends = b.ends;
	gpurt_budget_pay(&b, until, ns);
	__CPROVER_assert(b.used >= used && b.used >= ns, "what was paid never wraps");
	__CPROVER_assert(b.ends >= ends && b.ends >= until, "no period gets shorter");
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
