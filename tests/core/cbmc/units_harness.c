// SPDX-License-Identifier: GPL-2.0
/*
 * For cbmc (scripts/check-core), which follows every path: jobs of two clients under the rule RULE (enum
 * gpurt_sbeet_rule) on two GPUs of two units.  Branches are what the clients say and how much time passes before,
 * EVENTS of them in a row.  With -DFIRST one of two kernels has ended before.  On all paths there is no undefined
 * behaviour and the assertions hold.  Instead -DTIMES asks how long a GPU was busy, for any 64-bit times of a job.
 * With -DPLANT_BUG the proof must fail.
 */
#include "../../../userlib/units/units.h"

#ifndef EVENTS
#define EVENTS 3
#endif
#define GPUS 2
#define TASKS 2
#define UNITS 2

_Bool nondet_bool(void);
u32 nondet_u32(void);
u64 nondet_u64(void);

#ifdef TIMES

/* Any job comes. */
static void job(struct gpurt_sgpu *g, u64 now)
{
	struct gpurt_sgpu_job j = {
		.units = nondet_u32(), .start = nondet_u64(), .end = nondet_u64(), .free = nondet_u64(),
	};
	const struct gpurt_sgpu_job *placed;
	u32 held = g->held, count = g->count;

	__CPROVER_assume(j.units && j.start >= now && j.end >= j.start);
	placed = gpurt_sgpu_place(g, &j, now);
	__CPROVER_assert(!placed == (count == g->slots || j.units > g->whole - held), "placed iff it fits");
	__CPROVER_assert(!placed || (g->held == held + j.units && placed->first + j.units <= g->whole), "within the GPU");
	__CPROVER_assert(placed || (g->held == held && g->count == count), "or nothing happens");
}

/* From @first, when its only job came if one did, until @last. */
static void time_passes(struct gpurt_sgpu *g, u64 first, u64 last)
{
	__CPROVER_assert(gpurt_sgpu_free_units(g) <= 7 - g->held, "free units");
	gpurt_sgpu_advance(g, last);
	__CPROVER_assert(g->counted == last && g->busy <= last - first, "busy no longer than time passed");
	__CPROVER_assert(gpurt_sgpu_next(g) > last, "what was due is free");
#ifdef PLANT_BUG
	__CPROVER_assert(g->busy < last - first || last == first, "planted");
#endif
}

int main(void)
{
	struct gpurt_sgpu g;
	u64 first = nondet_u64(), last = nondet_u64();

	__CPROVER_assume(first <= last && last < U64_MAX);	/* which is never */
	gpurt_sgpu_init(&g, 7, 2, 2);
	job(&g, first);
	/* A count that cbmc knows as a number, not as a formula, shortens the proof to a hundredth. */
	if (g.count) {
		__CPROVER_assert(g.count == 1, "one job");
		g.count = 1;
		time_passes(&g, first, last);
	} else {
		g.count = 0;
		time_passes(&g, first, last);
	}
	return 0;
}

#else

static const u64 slow[UNITS] = { 8, 5 }, fast[UNITS] = { 3, 3 };
static const struct gpurt_sbeet_gpu gpus[GPUS] = { { UNITS, 5, 1 }, { UNITS, 7, 2 } };
static const struct gpurt_sbeet_task tasks[TASKS] = { { 20, 12, 0 }, { 30, 9, 0 } };
static const struct gpurt_sbeet_kernel kernels[TASKS * GPUS] = {
	{ 1, 1, slow, 3, 2 }, { 0, 1, fast, 9, 1 }, { 0, 0, fast, 2, 1 }, { 2, 0, slow, 4, 2 },
};
static const u32 preferred[TASKS * GPUS] = { 0, 1, 0, 1 }, by_size[GPUS] = { 0, 1 };
static struct gpurt_sbeet_future window[3];
static const struct gpurt_sbeet_tables tables = {
	.rule = RULE, .gpus = GPUS, .tasks = TASKS, .room = 3, .gpu = gpus, .task = tasks, .kernel = kernels,
	.preferred = preferred, .by_size = by_size, .window = window, .hold_job = RULE == 0,
};

static struct gpurt_sgpu gpu[GPUS];
static struct gpurt_units_task task[TASKS];
static u64 earliest[TASKS], finish[TASKS];
static struct gpurt_sbeet_future ready[TASKS];
static u32 room[TASKS];
static struct gpurt_units u = {
	.tables = &tables, .gpu = gpu, .task = task, .earliest = earliest, .finish = finish, .ready = ready, .room = room,
	.order = GPURT_SBEET_EDF,
};

/* One of 0..@n - 1, a path each. */
static u32 choose(u32 n)
{
	u32 i;

	for (i = 0; i + 1 < n; i++)
		if (nondet_bool())
			return i;
	return n - 1;
}

/* How many jobs of the task hold units of the GPU. */
static u32 holds(u32 which, u32 who)
{
	u32 i, found = 0;

	for (i = 0; i < gpu[which].count; i++)
		found += gpu[which].jobs[i].task == who;
	return found;
}

static void check(u64 now)
{
	u32 i, total = 0;

	for (i = 0; i < GPUS; i++) {
		const struct gpurt_sgpu_job *a = &gpu[i].jobs[0], *b = &gpu[i].jobs[1];

		__CPROVER_assert(gpu[i].count <= gpu[i].slots && gpu[i].held <= UNITS, "no more than there is");
		__CPROVER_assert(gpu[i].count < 1 || a->first + a->units <= UNITS, "units of this GPU");
		__CPROVER_assert(gpu[i].count < 2 || (b->first + b->units <= UNITS && a->units + b->units == gpu[i].held &&
				 (a->first >= b->first + b->units || b->first >= a->first + a->units)), "disjoint");
		total += gpu[i].count;
	}
	for (i = 0; i < TASKS; i++) {
		const struct gpurt_units_task *one = &task[i];
		u32 held = holds(0, i) + holds(1, i);

		__CPROVER_assert(held == (one->running == GPURT_UNITS_KERNEL ||
					  (one->running == GPURT_UNITS_COPY && tables.hold_job)), "what it holds");
		__CPROVER_assert(!held || holds(one->run.gpu, i) == 1, "where it says");
		__CPROVER_assert((one->running == GPURT_UNITS_IDLE) == (finish[i] == U64_MAX), "unfinished jobs");
		__CPROVER_assert((one->pending == GPURT_UNITS_READY) == (ready[i].release != U64_MAX), "the ready queue");
		__CPROVER_assert(one->pending == GPURT_UNITS_NONE || one->next.deadline > now, "late jobs are skipped");
		__CPROVER_assert(one->pending != GPURT_UNITS_READY || one->running || total, "nobody waits for nothing");
	}
	__CPROVER_assert(gpurt_units_next(&u) > now, "what is due was done");
#ifdef PLANT_BUG
	__CPROVER_assert(total < 2, "planted");
#endif
}

int main(void)
{
	u64 now = 100;
	u32 i;

	for (i = 0; i < GPUS; i++)
		gpurt_sgpu_init(&gpu[i], UNITS, 1, RULE == 0 ? 1 : 2);
	gpurt_units_init(&u);
	gpurt_units_ready(&u, 0, 0, now);
	gpurt_units_ready(&u, 1, 0, now);
	check(now);
#ifdef FIRST
	now += 4;
	gpurt_units_kernel_done(&u, 0, task[0].run.number, now);
	check(now);
#endif
	for (i = 0; i < EVENTS; i++) {
		u32 who = choose(TASKS);

		now += choose(2) ? 9 : 0;
		switch (choose(5)) {
		case 0:
			gpurt_units_ready(&u, who, choose(2) ? now + 4 : 0, now);
			break;
		case 1:
			gpurt_units_kernel_done(&u, who, task[who].run.number, now);
			break;
		case 2:
			gpurt_units_done(&u, who, task[who].run.number, now);
			break;
		case 3:
			gpurt_units_gone(&u, who, now);
			break;
		default:
			gpurt_units_tick(&u, now);
		}
		gpurt_units_tick(&u, now);	/* as hosts do before they wait */
		check(now);
	}
	return 0;
}

#endif
