// SPDX-License-Identifier: GPL-2.0
/*
 * For cbmc (scripts/check-core): two TSGs of any levels, and EVENTS things in a row that they or the GPU do.  Passes begin at
 * any number, so also just before they wrap.  There is no undefined behaviour, a TSG has a turn if and only if one has work,
 * and it is never one without work.  How long a TSG waits is followed for every length of run by
 * tests/core/native/interleave.c.  With -DPLANT_BUG the proof must fail.
 */
#include "../../../kmod/core/interleave.h"

#ifndef EVENTS
#define EVENTS 4
#endif
#define TSGS 2

u32 nondet_u32(void);
u64 nondet_u64(void);

static struct gpurt_interleave all;
static struct gpurt_place place[TSGS];
static bool work[TSGS];
static struct gpurt_place *holder;

static void turn(void)
{
	holder = gpurt_interleave_take(&all);
	__CPROVER_assert(!holder == (!work[0] && !work[1]), "a turn iff a TSG has work");
	__CPROVER_assert(!holder || work[holder - place], "of a TSG that has work");
#ifdef PLANT_BUG
	__CPROVER_assert(holder != &place[1], "planted");
#endif
}

static void event(struct gpurt_place *p, bool *has)
{
	if (!*has) {
		gpurt_interleave_join(&all, p);
		*has = true;
		return;
	}
	if (p == holder) {
		gpurt_interleave_over(&all, p);
		holder = NULL;
	}
	if (nondet_u32() % 2) {
		gpurt_interleave_leave(p);
		*has = false;
	}
}

int main(void)
{
	u32 i, n;

	gpurt_interleave_init(&all);
	for (i = GPURT_INTERLEAVE_MEDIUM; i < GPURT_INTERLEAVE_COUNT; i++) {
		all.pass[i] = nondet_u64();
		__CPROVER_assume(all.pass[i]);
	}
	for (i = 0; i < TSGS; i++)
		gpurt_place_init(&place[i], nondet_u32() % GPURT_INTERLEAVE_COUNT);
	for (n = 0; n < EVENTS; n++) {
		i = nondet_u32() % TSGS;
		event(&place[i], &work[i]);
		if (!holder)
			turn();
	}
	return 0;
}
