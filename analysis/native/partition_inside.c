// SPDX-License-Identifier: GPL-2.0
/* The schedulability tests inside a partition; analysis/partition/inside.py has them in readable form. */
#include "partition_internal.h"

typedef unsigned __int128 u128;

static int64_t ceil_div(int64_t time, int64_t period)
{
	return time > 0 ? (time - 1) / period + 1 : 0;
}

static u64 gcd(u64 a, u64 b)
{
	while (b) {
		u64 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The least common multiple of periods, or deadlines; 0 if it has more than @bits bits. */
static u64 hyperperiod(const struct job *jobs, u32 count, bool of_deadlines, u32 bits)
{
	u64 hyper = 1;

	for (u32 i = 0; i < count; i++) {
		u64 whole = of_deadlines ? jobs[i].deadline : jobs[i].period;
		u128 next = (u128)(hyper / gcd(hyper, whole)) * whole;

		if (next >> bits)
			return 0;
		hyper = next;
	}
	return hyper;
}

/* The sum of cost / period against 1, exactly; UNKNOWN if the hyperperiod has too many bits. */
static enum verdict exact_sum(const struct job *jobs, u32 count, bool by_deadline)
{
	u64 hyper = hyperperiod(jobs, count, by_deadline, 62);
	u128 sum = 0;

	if (!hyper)
		return UNKNOWN;
	for (u32 i = 0; i < count; i++)
		sum += (u128)jobs[i].cost * (hyper / (by_deadline ? jobs[i].deadline : jobs[i].period));
	return sum <= hyper ? PASSES : FAILS;
}

/* Whether the sum of cost / period, or cost / deadline, is at most 1. */
static enum verdict within(const struct job *jobs, u32 count, bool by_deadline)
{
	u64 low = 0, high = 0;

	for (u32 i = 0; i < count; i++) {
		u64 whole = by_deadline ? jobs[i].deadline : jobs[i].period;
		u128 part = (u128)jobs[i].cost << SHIFT;
		u64 share = jobs[i].cost >> 33 ? (u64)(part / whole) : (u64)part / whole;

		low += share;
		high += share + (part != (u128)share * whole);
	}
	if (low > (u64)1 << SHIFT)
		return FAILS;
	return high <= (u64)1 << SHIFT ? PASSES : exact_sum(jobs, count, by_deadline);
}

static int64_t demand(const struct job *jobs, u32 count, int64_t time)
{
	int64_t sum = 0;

	for (u32 i = 0; i < count; i++)
		if (jobs[i].deadline <= time)
			sum += ((time - jobs[i].deadline) / jobs[i].period + 1) * jobs[i].cost;
	return sum;
}

static int64_t deadline_before(const struct job *jobs, u32 count, int64_t time)
{
	int64_t latest = 0;

	for (u32 i = 0; i < count; i++) {
		int64_t d = jobs[i].deadline;

		if (d < time) {
			d += (time - 1 - d) / jobs[i].period * jobs[i].period;
			latest = d > latest ? d : latest;
		}
	}
	return latest;
}

/* The length of the first busy period of jobs that are released together; -1: too many bits or steps. */
static int64_t busy_period(const struct job *jobs, u32 count)
{
	int64_t busy = 0;

	for (u32 i = 0; i < count; i++)
		busy += jobs[i].cost;
	for (u32 step = 0; step < MAX_STEPS; step++) {
		int64_t next = 0;

		for (u32 i = 0; i < count; i++)
			next += ceil_div(busy, jobs[i].period) * jobs[i].cost;
		if (next == busy)
			return busy;
		if (next >> 60)
			return -1;
		busy = next;
	}
	return -1;
}

/*
 * A length up to which demand has to be compared with time. The length is a little above the readable test's L, from
 * sums that are rounded against the limit. Where L is long it is the hyperperiod, and where both are too long the first
 * busy period.
 */
static int64_t horizon(const struct job *jobs, u32 count)
{
	int64_t latest = 0;
	u64 used = 0;
	u128 excess = 0;

	for (u32 i = 0; i < count; i++) {
		u128 part = (u128)jobs[i].cost << SHIFT;
		u64 share = (jobs[i].cost >> 33 ? (u64)(part / jobs[i].period) : (u64)part / jobs[i].period) + 1;

		used += share;
		excess += (u128)share * (jobs[i].period - jobs[i].deadline);
		latest = jobs[i].deadline > latest ? jobs[i].deadline : latest;
	}
	if (used < (u64)1 << SHIFT) {
		u64 spare = ((u64)1 << SHIFT) - used;
		u128 length = excess >> 64 ? excess / spare : (u64)excess / spare;

		if (length < 64 * (u128)latest)
			return (int64_t)length + 1 > latest ? (int64_t)length + 1 : latest;

		u64 hyper = hyperperiod(jobs, count, false, 58);

		if (hyper || !(length >> 58))
			return hyper && hyper < length ? (int64_t)hyper : (int64_t)length + 1;
	}
	int64_t busy = busy_period(jobs, count);

	return busy < 0 || busy > latest ? busy : latest;
}

/* QPA, see Zhang and Burns 2009. */
static enum verdict edf(const struct job *jobs, u32 count)
{
	enum verdict light = within(jobs, count, false);
	int64_t first = MAX_TIME, at;

	if (light != PASSES)
		return light;
	for (u32 i = 0; i < count; i++)
		first = jobs[i].deadline < first ? jobs[i].deadline : first;
	if (demand(jobs, count, first) > first)
		return FAILS;
	at = horizon(jobs, count);
	if (at < 0)
		return UNKNOWN;
	at = deadline_before(jobs, count, at + 1);
	for (u32 step = 0; step < MAX_STEPS; step++) {
		int64_t wanted = demand(jobs, count, at);

		if (wanted > at)
			return FAILS;
		if (wanted <= first)
			return PASSES;
		at = wanted < at ? wanted : deadline_before(jobs, count, at);
	}
	return UNKNOWN;
}

/* Whether job @i meets its deadline; the jobs are sorted by decreasing priority. */
static enum verdict responds(const struct job *jobs, u32 count, u32 i)
{
	const struct job *own = &jobs[i];
	int64_t response = own->cost;
	u32 end = i + 1;

	while (end < count && jobs[end].priority == own->priority)
		end++;
	for (u32 step = 0; step < MAX_STEPS; step++) {
		int64_t next = own->cost;

		if (response > own->deadline)
			return FAILS;
		for (u32 j = 0; j < end; j++)
			if (j != i)
				next += ceil_div(response, jobs[j].period) * jobs[j].cost;
		if (next == response)
			return PASSES;
		response = next;
	}
	return UNKNOWN;
}

static enum verdict fixed_priority(const struct job *jobs, u32 count)
{
	enum verdict all = PASSES;

	for (u32 i = count; i-- && all == PASSES;)	/* the least urgent one fails first */
		all = responds(jobs, count, i);
	return all;
}

static enum verdict np_edf(const struct job *jobs, u32 count)
{
	enum verdict preemptive = edf(jobs, count);
	int64_t latest = 0, points = 0;

	for (u32 i = 0; i < count; i++)
		latest = jobs[i].deadline > latest ? jobs[i].deadline : latest;
	for (u32 i = 0; i < count; i++)
		points += ceil_div(latest - jobs[i].deadline, jobs[i].period);
	if (points > MAX_STEPS)
		return FAILS;
	for (u32 i = 0; i < count && preemptive == PASSES; i++) {
		for (int64_t at = jobs[i].deadline; at < latest; at += jobs[i].period) {
			int64_t blocking = 0;

			for (u32 j = 0; j < count; j++)
				if (jobs[j].deadline > at && jobs[j].cost > blocking)
					blocking = jobs[j].cost;
			if (demand(jobs, count, at) + blocking > at)
				return FAILS;
		}
	}
	return preemptive;
}

/* The least w with w = base + sum (w / T + 1) C, up to @limit; -1: none, -2: too many steps. */
static int64_t start_time(const struct job *jobs, u32 end, u32 skip, int64_t base, int64_t limit)
{
	int64_t w = base;

	for (u32 step = 0; step < MAX_STEPS; step++) {
		int64_t next = base;

		if (w > limit)
			return -1;
		for (u32 j = 0; j < end; j++)
			if (j != skip)
				next += (w / jobs[j].period + 1) * jobs[j].cost;
		if (next == w)
			return w;
		w = next;
	}
	return -2;
}

static enum verdict np_responds(const struct job *jobs, u32 count, u32 i)
{
	const struct job *own = &jobs[i];
	int64_t blocking = 0, busy, before = 0;
	u32 end = i + 1;

	while (end < count && jobs[end].priority == own->priority)
		end++;
	for (u32 j = end; j < count; j++)
		blocking = jobs[j].cost > blocking ? jobs[j].cost : blocking;
	busy = blocking + own->cost;
	for (u32 step = 0; busy != before; step++) {
		before = busy;
		busy = blocking;
		for (u32 j = 0; j < end; j++)
			busy += ceil_div(before, jobs[j].period) * jobs[j].cost;
		if (busy >> 58 || step == MAX_STEPS)
			return UNKNOWN;
	}
	if (ceil_div(busy, own->period) > MAX_STEPS)
		return FAILS;
	for (int64_t q = 0; q * own->period < busy; q++) {
		int64_t base = blocking + q * own->cost;
		int64_t found = start_time(jobs, end, i, base, q * own->period + own->deadline - own->cost);

		if (found < 0)
			return found == -1 ? FAILS : UNKNOWN;
	}
	return PASSES;
}

static enum verdict np_fixed_priority(const struct job *jobs, u32 count)
{
	enum verdict all = within(jobs, count, false);

	for (u32 i = 0; i < count && all == PASSES; i++)
		all = np_responds(jobs, count, i);
	return all;
}

/* Whether the jobs, sorted by decreasing priority, meet their deadlines.  No cost exceeds its deadline. */
enum verdict partition_test(u32 test, const struct job *jobs, u32 count)
{
	switch (test) {
	case GPURT_PARTITION_EDF:
		return edf(jobs, count);
	case GPURT_PARTITION_NP_FP:
		return np_fixed_priority(jobs, count);
	case GPURT_PARTITION_NP_EDF:
		return np_edf(jobs, count);
	case GPURT_PARTITION_DENSITY:
		return within(jobs, count, true);
	default:
		return fixed_priority(jobs, count);
	}
}
