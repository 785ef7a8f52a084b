// SPDX-License-Identifier: GPL-2.0
/*
 * Every state that the core's interleaving can reach with TSGs of given levels.  TSGs do anything in any order: get
 * work, run out of it, have a turn, end it.  In each state no TSG with work has waited for more turns of others than
 * analysis/slices/runlist.py charges (Runlist.waits).
 *
 *     interleave 0 1 2 2        the level of each TSG, at most 5
 *
 * A state is what decides the future.  The state holds the order of each ring, the holder of the turn, and how many
 * turns of each other a TSG has waited for.  Passes count for ever, so a state holds only which TSGs had their turn in
 * the pass of their level.  The program prints the number of states and steps; exit code 1: a TSG waited too long, and
 * the shortest way to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kmod/core/interleave.h"

#define TSGS 5
#define SLOTS (1 << 23)

enum { NO_WORK = 15, NOBODY = 15 };

/* Bytes, so that states are compared as memory. */
struct state {
	uint8_t ring[TSGS];		/* 2 * place in its ring + whether the ring is the due one; NO_WORK: in none */
	uint8_t had[TSGS];		/* whether its last turn was in this pass */
	uint8_t holder;
	uint8_t waited[TSGS][TSGS];	/* turns of each other since it began to wait */
};

struct visit {
	struct state state;
	uint32_t from;
	char step[8];
};

struct world {
	struct gpurt_interleave all;
	struct gpurt_place place[TSGS];
	struct state *state;
};

static uint32_t count, level[TSGS];
static struct visit *visits;
static uint32_t *slots, used;
static unsigned long steps;

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "interleave: %s\n", why);
	exit(2);
}

/* Builds the core's structures from a state.  Passes are 2 and 1: any two that differ do. */
static void build(struct world *w, struct state *s)
{
	uint32_t i, at;

	w->state = s;
	gpurt_interleave_init(&w->all);
	for (i = 0; i < GPURT_INTERLEAVE_COUNT; i++)
		w->all.pass[i] = i == GPURT_INTERLEAVE_LOW ? 1 : 2;
	for (i = 0; i < count; i++) {
		gpurt_place_init(&w->place[i], level[i]);
		w->place[i].pass = s->had[i] ? w->all.pass[level[i]] : 0;
	}
	for (at = 0; at < TSGS; at++)
		for (i = 0; i < count; i++)
			if (s->ring[i] != NO_WORK && s->ring[i] / 2 == at)
				list_add_tail(&w->place[i].node, &w->all.ring[level[i]][
					(w->all.pass[level[i]] + !(s->ring[i] % 2)) % 2]);
}

/* Reads the state back from the structures. */
static void read_back(struct world *w)
{
	const struct list_head *ring, *node;
	uint32_t i, n, at;

	for (i = 0; i < count; i++) {
		w->state->ring[i] = NO_WORK;
		w->state->had[i] = w->place[i].pass == w->all.pass[level[i]];
	}
	for (n = 0; n < 2 * GPURT_INTERLEAVE_COUNT; n++) {
		ring = &w->all.ring[n / 2][n % 2];
		at = 0;
		list_for_each(node, ring) {
			i = (uint32_t)(list_entry(node, struct gpurt_place, node) - w->place);
			w->state->ring[i] = (uint8_t)(2 * at++ + (w->all.pass[n / 2] % 2 == n % 2));
		}
	}
}

/* How many turns of TSGs above, beside and below @x it may wait for, from the documentation and not from the code. */
static int too_long(const struct state *s, uint32_t x)
{
	uint32_t number[GPURT_INTERLEAVE_COUNT] = { 0 }, i, below = 0, most;

	for (i = 0; i < count; i++)
		number[level[i]]++;
	for (i = 0; i < count; i++) {
		if (i == x)
			continue;
		if (level[i] < level[x]) {
			below += s->waited[x][i];
			continue;
		}
		most = 1;
		if (level[x] == GPURT_INTERLEAVE_MEDIUM && level[i] == GPURT_INTERLEAVE_HIGH)
			most = number[GPURT_INTERLEAVE_MEDIUM] + (number[GPURT_INTERLEAVE_LOW] > 0);
		if (level[x] == GPURT_INTERLEAVE_LOW && level[i] == GPURT_INTERLEAVE_MEDIUM)
			most = number[GPURT_INTERLEAVE_LOW];
		if (level[x] == GPURT_INTERLEAVE_LOW && level[i] == GPURT_INTERLEAVE_HIGH)
			most = number[GPURT_INTERLEAVE_LOW] * (number[GPURT_INTERLEAVE_MEDIUM] + 1);
		if (s->waited[x][i] > most)
			return 1;
	}
	return below > 1;
}

/* @x begins to wait: a turn in progress is the first that it waits for. */
static void begins(struct state *s, uint32_t x)
{
	memset(s->waited[x], 0, sizeof(s->waited[x]));
	if (s->holder != NOBODY && s->holder != x)
		s->waited[x][s->holder] = 1;
}

static void turn(struct world *w)
{
	struct gpurt_place *p = gpurt_interleave_take(&w->all);
	struct state *s = w->state;
	uint32_t x, taken = (uint32_t)(p - w->place);

	s->holder = (uint8_t)taken;
	memset(s->waited[taken], 0, sizeof(s->waited[taken]));
	for (x = 0; x < count; x++)
		if (x != taken && s->ring[x] != NO_WORK)
			s->waited[x][taken]++;
}

static void show(const struct visit *v)
{
	if (v != visits)
		show(&visits[v->from]);
	printf("%s ", v->step);
}

/* Keeps a state that was not met before; the first that breaks a bound ends the program. */
static void meet(struct state *s, uint32_t from, const char *what, uint32_t who)
{
	const uint8_t *bytes = (const uint8_t *)s;
	struct visit *v = &visits[used];
	uint64_t hash = 1469598103934665603u;
	uint32_t x, slot;
	size_t i;

	steps++;
	for (i = 0; i < sizeof(*s); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	for (slot = (hash ^ hash >> 32) % SLOTS; slots[slot]; slot = (slot + 1) % SLOTS)
		if (!memcmp(&visits[slots[slot] - 1].state, s, sizeof(*s)))
			return;
	if (used == SLOTS / 2)
		fail("too many states");
	*v = (struct visit){ .state = *s, .from = from };
	snprintf(v->step, sizeof(v->step), "%s%u", what, who);
	slots[slot] = ++used;
	for (x = 0; x < count; x++)
		if (s->ring[x] != NO_WORK && s->holder != x && too_long(s, x)) {
			printf("TSG %u waited too long: ", x);
			show(v);
			printf("\n");
			exit(1);
		}
}

static void visit(uint32_t at)
{
	struct world w;
	struct state s;
	uint32_t i;

	for (i = 0; i < count; i++) {
		s = visits[at].state;
		build(&w, &s);
		if (s.ring[i] == NO_WORK) {
			gpurt_interleave_join(&w.all, &w.place[i]);
			begins(&s, i);
			read_back(&w);
			meet(&s, at, "join", i);
		} else if (s.holder != i) {
			gpurt_interleave_leave(&w.place[i]);
			memset(s.waited[i], 0, sizeof(s.waited[i]));
			read_back(&w);
			meet(&s, at, "leave", i);
		} else {
			gpurt_interleave_over(&w.all, &w.place[i]);
			s.holder = NOBODY;
			begins(&s, i);
			read_back(&w);
			meet(&s, at, "over", i);
			gpurt_interleave_leave(&w.place[i]);
			read_back(&w);
			meet(&s, at, "done", i);
		}
	}
	s = visits[at].state;
	build(&w, &s);
	if (s.holder == NOBODY && gpurt_interleave_first(&w.all)) {
		turn(&w);
		read_back(&w);
		meet(&s, at, "turn", s.holder);
	}
}

int main(int argc, char **argv)
{
	struct state start = { .holder = NOBODY };
	uint32_t at;

	count = (uint32_t)argc - 1;
	if (!count || count > TSGS)
		fail("name the levels of 1 to 5 TSGs");
	for (at = 0; at < count; at++)
		level[at] = (uint32_t)atoi(argv[at + 1]) % GPURT_INTERLEAVE_COUNT;
	visits = calloc(SLOTS / 2 + 1, sizeof(*visits));
	slots = calloc(SLOTS, sizeof(*slots));
	if (!visits || !slots)
		fail("out of memory");
	memset(start.ring, NO_WORK, sizeof(start.ring));
	meet(&start, 0, "", 0);
	for (at = 0; at < used; at++)
		visit(at);
	printf("%u states, %lu steps\n", used, steps);
	return 0;
}
