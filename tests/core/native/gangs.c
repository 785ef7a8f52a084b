// SPDX-License-Identifier: GPL-2.0
/*
 * gangs POLICY OVERRUNS LEVELS: every interleaving of gangs of two threads that wait for one another, over the core.
 *
 * GANGS 2: two gangs on two GPUs; 3: three gangs on three GPUs in a ring.  Each gang is a group, or with POLICY
 * "alone" none, and follows one of the patterns below.  Its two threads wait asleep on CPUs of their own.  Each system of
 * patterns, GPUs, and the first LEVELS assignments of levels is explored from its start to all its ends.  It is stuck where a thread is not over, and
 * nothing can happen any more.  OVERRUNS 1: the budget of a gang on a GPU may also be used up at any time.
 *
 * Steps that only enable others, and that nothing can prevent, are taken at once: all orders lead to the same states.
 *
 * Prints how many systems there are, how many of them get stuck, and how many states were visited.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kmod/core/sched.h"

#ifndef GANGS
#define GANGS 3
#endif
#define GPUS GANGS
#define THREADS 2
#define STEPS 8
#define FLAGS 4		/* of a gang */
#define SEEN (1u << 20)

enum op { OVER, BEGIN, END, WORK, RAISE, AWAIT, MEET };

/* @gpu 0: the gang's first, 1: its other one.  RAISE and AWAIT: a flag; MEET: a flag that both raise, then await. */
struct step {
	u8 op, at;
};

#define B(gpu) { BEGIN, gpu }
#define E(gpu) { END, gpu }
#define W(gpu) { WORK, gpu }

static const struct step patterns[][THREADS][STEPS] = {
	/* Both are inside, then a barrier. */
	{ { B(0), { MEET, 0 }, W(0), E(0) }, { B(1), { MEET, 0 }, W(1), E(1) } },
	/* Work, barrier, work, twice. */
	{ { B(0), W(0), { MEET, 0 }, W(0), { MEET, 1 }, E(0) }, { B(1), W(1), { MEET, 0 }, W(1), { MEET, 1 }, E(1) } },
	/* A parent inside waits for a worker's segment, on the other GPU and on the same one. */
	{ { B(0), { RAISE, 0 }, { AWAIT, 1 }, W(0), E(0) }, { { AWAIT, 0 }, B(1), W(1), E(1), { RAISE, 1 } } },
	{ { B(0), { RAISE, 0 }, { AWAIT, 1 }, W(0), E(0) }, { { AWAIT, 0 }, B(0), W(0), E(0), { RAISE, 1 } } },
	/* A producer and a consumer, with two segments. */
	{ { B(0), W(0), { RAISE, 0 }, { AWAIT, 1 }, E(0), B(0), W(0), E(0) },
	  { B(1), { AWAIT, 0 }, W(1), { RAISE, 1 }, E(1), B(1), W(1), E(1) } },
	/* A member begins late. */
	{ { B(0), W(0), { AWAIT, 1 }, E(0) }, { B(1), W(1), E(1), B(1), W(1), { RAISE, 1 }, E(1) } },
	/* Nested segments on two GPUs. */
	{ { B(0), B(1), W(1), E(1), W(0), E(0) }, { B(1), B(0), W(0), E(0), W(1), E(1) } },
	/* Inside, it waits for what a member does on a CPU between its segments. */
	{ { B(0), { AWAIT, 0 }, W(0), E(0) }, { B(1), W(1), E(1), { RAISE, 0 }, B(1), W(1), E(1) } },
};

#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

/* The priorities of the two threads of each gang. */
static const u8 levels[][3][THREADS] = {
	{ { 10, 5 }, { 10, 5 }, { 10, 5 } }, { { 8, 3 }, { 10, 5 }, { 9, 9 } }, { { 10, 5 }, { 8, 3 }, { 6, 4 } },
};

static struct world {
	struct gpurt_sched s[GPUS];
	struct gpurt_group g[GANGS];
	struct gpurt_group_gpu on[GANGS][GPUS];
	struct gpurt_budget b[GANGS][GPUS];
	struct gpurt_sched_client c[GANGS][THREADS][GPUS];
	u64 stamps, now[GPUS];
	u8 pc[GANGS][THREADS], arrived[GANGS][THREADS], flags[GANGS][FLAGS], overruns;
} w;

static u32 policy, overruns;
static bool alone;
static u32 pattern[GANGS];
static u8 place[GANGS][2];
static const u8 (*level)[THREADS];

static void commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	(void)only, (void)cause;
	gpurt_updated(s, now, 0);
}

static void event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 what, u64 now)
{
	(void)s, (void)c, (void)what, (void)now;
}

static void raised(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 to, u64 now)
{
	(void)s, (void)c, (void)to, (void)now;
}

/* The flag gpurt_group_gpu.unsettled says that gpurt_group_settle() is due; any other step may come before it. */
static void regroup(struct gpurt_sched *s, struct gpurt_group *group, u64 now)
{
	(void)s, (void)group, (void)now;
}

static const struct gpurt_sched_ops ops = { .commit = commit, .event = event, .raise = raised, .regroup = regroup };

static void must(bool holds, const char *what)
{
	if (!holds) {
		printf("%s\n", what);
		exit(2);
	}
}

static void start(void)
{
	u32 g, t, d;

	memset(&w, 0, sizeof(w));
	w.overruns = overruns;
	for (d = 0; d < GPUS; d++) {
		gpurt_sched_init(&w.s[d], &ops, NULL, 0);
		must(!gpurt_set_policy(&w.s[d], policy, 0), "no such policy");
	}
	for (g = 0; g < GANGS; g++) {
		gpurt_group_init(&w.g[g], &w.stamps);
		for (d = 0; d < GPUS; d++) {
			gpurt_group_gpu_init(&w.on[g][d], &w.g[g], &w.s[d]);
			gpurt_budget_start(&w.b[g][d], 1, 1000000, GPURT_OVERRUN_DEMOTE);
			for (t = 0; t < THREADS; t++) {
				gpurt_sched_client_init(&w.c[g][t][d]);
				if (!alone)
					must(!gpurt_group_add(&w.on[g][d], &w.c[g][t][d], level[g][t], 0), "no member");
			}
			if (overruns)
				gpurt_join_budget(&w.s[d], &w.c[g][0][d], &w.b[g][d], 0);
		}
	}
}

static const struct step *at(u32 g, u32 t)
{
	static const struct step over;

	return w.pc[g][t] < STEPS ? &patterns[pattern[g]][t][w.pc[g][t]] : &over;
}

/* Takes the thread's step; false: it cannot now. */
static bool advance(u32 g, u32 t)
{
	const struct step *step = at(g, t);
	u32 d = step->op <= WORK ? place[g][step->at] : 0;
	struct gpurt_sched_client *c = &w.c[g][t][d];

	switch (step->op) {
	case OVER:
		return false;
	case BEGIN:
		must(!gpurt_begin(&w.s[d], c, level[g][t], 0, w.now[d]), "no begin");
		break;
	case END:
		must(!gpurt_end(&w.s[d], c, w.now[d]), "no end");
		break;
	case WORK:
		if (!gpurt_on_runlist(&w.s[d], c))
			return false;
		break;
	case RAISE:
		w.flags[g][step->at]++;
		break;
	case AWAIT:
		if (!w.flags[g][step->at])
			return false;
		break;
	case MEET:
		if (!w.arrived[g][t]) {
			w.arrived[g][t] = 1;
			w.flags[g][step->at]++;
			return true;
		}
		if (w.flags[g][step->at] < THREADS)
			return false;
		w.arrived[g][t] = 0;
		break;
	}
	w.pc[g][t]++;
	return true;
}

static void advance_what_nothing_prevents(void)
{
	u32 g, t, op;
	bool some;

	do {
		some = false;
		for (g = 0; g < GANGS; g++)
			for (t = 0; t < THREADS; t++) {
				op = at(g, t)->op;
				some |= op >= RAISE && advance(g, t);
			}
	} while (some);
}

/* A hash of what the future depends on. */
static u64 key(void)
{
	u64 h = 14695981039346656037ull;
	u32 d, g, l;

#define MIX(value) (h = (h ^ (u64)(value)) * 1099511628211ull, h ^= h >> 29)
	for (g = 0; g < sizeof(w.pc) + sizeof(w.arrived) + sizeof(w.flags) + 1; g++)
		MIX(((const u8 *)w.pc)[g]);
	for (d = 0; d < GPUS; d++) {
		const struct list_head *head, *node;

		MIX(w.s[d].runner ? (uintptr_t)w.s[d].runner - (uintptr_t)&w : 0);
		for (l = 0; l < GPURT_LEVELS; l++) {
			head = &w.s[d].segments.level[l];
			for (node = head->next; node != head; node = node->next)
				MIX(((uintptr_t)node - (uintptr_t)&w) * 128 + l);
		}
	}
	for (g = 0; g < GANGS; g++) {
		u64 ahead = 0;

		for (l = 0; l < GANGS; l++)
			ahead += w.g[l].open && w.g[l].stamp < w.g[g].stamp;
		MIX(w.g[g].open ? ahead * 512 + w.g[g].level * 2 + w.g[g].demoted + 1 : 0);
		for (d = 0; d < GPUS; d++)
			MIX(w.on[g][d].unsettled * 4 + w.b[g][d].overrun * 2 + (w.on[g][d].core.demoted > 0));
	}
	return h ? h : 1;
}

static u64 seen[SEEN];
static u32 slots[SEEN / 2], states, total;

static bool is_new(void)
{
	u64 k = key();
	u32 i;

	for (i = k % SEEN; seen[i]; i = (i + 1) % SEEN)
		if (seen[i] == k)
			return false;
	must(states < SEEN / 2, "too many states");
	seen[i] = k;
	slots[states++] = i;
	return true;
}

/* Whether some end of what can follow is stuck. */
static bool gets_stuck(void)
{
	struct world before;
	bool some = false, stuck = false, over = true;
	u32 g, t, d;

	advance_what_nothing_prevents();
	if (!is_new())
		return false;
	before = w;
	for (g = 0; g < GANGS && !stuck; g++)
		for (t = 0; t < THREADS && !stuck; t++) {
			over = over && at(g, t)->op == OVER;
			if (advance(g, t)) {
				some = true;
				stuck = gets_stuck();
				w = before;
			}
		}
	for (g = 0; g < GANGS && !stuck; g++)
		for (d = 0; d < GPUS && !stuck; d++)
			if (w.on[g][d].unsettled) {
				some = true;
				gpurt_group_settle(&w.on[g][d], w.now[d]);
				stuck = gets_stuck();
				w = before;
			}
	if (!stuck && !some && !over)
		return true;
	for (d = 0; d < GPUS && w.overruns && !stuck; d++)
		if (w.s[d].runner) {
			w.overruns--;
			gpurt_tick(&w.s[d], ++w.now[d]);
			stuck = gets_stuck();
			w = before;
		}
	return stuck;
}

static bool explored(void)
{
	bool stuck;

	while (states)
		seen[slots[--states]] = 0;
	start();
	stuck = gets_stuck();
	total += states;
	return stuck;
}

int main(int argc, char **argv)
{
	u32 systems = 0, stuck = 0, i, l, crossed, g;

	if (argc != 4)
		return 2;
	alone = !strcmp(argv[1], "alone");
	policy = strcmp(argv[1], "lock") ? GPURT_POLICY_SEGMENT : GPURT_POLICY_LOCK_PRIORITY;
	overruns = (u32)atoi(argv[2]);
	for (l = 0; l < (u32)atoi(argv[3]) && l < sizeof(levels) / sizeof(levels[0]); l++) {
		level = levels[l];
		/* Two gangs: each pair of patterns, on the same GPUs in both orders.  Three: one pattern in a ring. */
		for (i = 0; i < (GANGS == 2 ? PATTERNS * PATTERNS : PATTERNS); i++)
			for (crossed = GANGS == 2 ? 0 : 1; crossed < 2; crossed++) {
				for (g = 0; g < GANGS; g++) {
					pattern[g] = GANGS == 2 && g ? i / PATTERNS : i % PATTERNS;
					place[g][0] = crossed ? g : 0;
					place[g][1] = (place[g][0] + 1) % GPUS;
				}
				systems++;
				stuck += explored();
			}
	}
	printf("%u systems, %u stuck, %u states\n", systems, stuck, total);
	return 0;
}
