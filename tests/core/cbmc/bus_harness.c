// SPDX-License-Identifier: GPL-2.0
/*
 * For cbmc (scripts/check-core), which follows every path: the bus and three clients.  ASKED of the clients have asked
 * for the bus, at any of LEVELS levels; then any client makes any call.  On all paths cbmc proves that the assertions
 * hold and that there is no undefined behaviour.  Assertions are: one copies at a time, none is preempted, the most
 * urgent request is next, and equals go as they came.  With -DPLANT_BUG the proof must fail.
 */
#include "../../../kmod/core/bus.h"

#define CLIENTS 3

_Bool nondet_bool(void);

static struct gpurt_bus b;
static struct gpurt_bus_node c[CLIENTS];
static u32 asked[CLIENTS];	/* when each came to its level */
static u32 clock;

/* One of 0..@n - 1, a path each. */
static u32 choose(u32 n)
{
	u32 i;

	for (i = 0; i + 1 < n; i++)
		if (nondet_bool())
			return i;
	return n - 1;
}

/* Best effort, and both ends of the bitmap's words. */
static u32 choose_level(void)
{
	static const u32 levels[] = { 0, 40, GPURT_MAX_PRIORITY };

	return levels[choose(LEVELS)];
}

/* The request that is next; NULL: none waits. */
static struct gpurt_bus_node *best(void)
{
	struct gpurt_bus_node *found = NULL;
	u32 i;

	for (i = 0; i < CLIENTS; i++) {
		if (c[i].state != GPURT_STATE_PENDING)
			continue;
		if (!found || c[i].level > found->level ||
		    (c[i].level == found->level && asked[i] < asked[found - c]))
			found = &c[i];
	}
	return found;
}

static void check(void)
{
	u32 i, waiters = 0;

	for (i = 0; i < CLIENTS; i++) {
		waiters += c[i].state == GPURT_STATE_PENDING;
		__CPROVER_assert((c[i].state == GPURT_STATE_RUNNING) == (b.holder == &c[i]), "one copies at a time");
		__CPROVER_assert((c[i].state == GPURT_STATE_PENDING) == !list_empty(&c[i].node), "who waits is queued");
	}
	__CPROVER_assert(waiters == b.waiters, "as many wait as are counted");
	__CPROVER_assert(b.holder || !waiters, "the bus is not idle while one waits");
}

static void step(void)
{
	struct gpurt_bus_node *n = &c[choose(CLIENTS)], *old = b.holder, *next = best();
	u32 what = choose(6), level;
	bool may = true;	/* take the bus from its holder */

	clock++;
	switch (what) {
	case 0:
		if (n->state == GPURT_STATE_IDLE)
			asked[n - c] = clock;
		if (gpurt_bus_request(&b, n, choose_level(), clock) == 0 && !old)
			next = n;
		may = false;
		break;
	case 1:
		may = n == old;
		if (may && (!next || next->level < n->level))
			next = n;
		if (may)
			asked[n - c] = clock;
		gpurt_bus_next(&b, n, clock);
		break;
	case 2:
		may = n == old;
		gpurt_bus_release(&b, n, clock);
		break;
	case 3:
		may = n == old;
		gpurt_bus_gone(&b, n, clock);
		gpurt_bus_node_init(n);
		break;
	case 4:
		level = choose_level();
		if (n->level != level)
			asked[n - c] = clock;
		gpurt_bus_set_level(&b, n, level);
		may = false;
		break;
	case 5:
		b.bound = 1;
		may = old && !old->level && next && next->level;
		gpurt_bus_tick(&b, clock);
		break;
	}
#ifdef PLANT_BUG
	may = false;
#endif
	__CPROVER_assert(!old || may || b.holder == old, "no copy is preempted");
	__CPROVER_assert(b.holder == old || b.holder == next, "the most urgent request is next");
}

int main(void)
{
	u32 i;

	gpurt_bus_init(&b);
	for (i = 0; i < CLIENTS; i++)
		gpurt_bus_node_init(&c[i]);
	for (i = 0; i < ASKED; i++) {
		asked[i] = ++clock;
		gpurt_bus_request(&b, &c[i], choose_level(), clock);
		check();
	}
	step();
	check();
	return 0;
}
