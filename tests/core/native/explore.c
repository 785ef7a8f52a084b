// SPDX-License-Identifier: GPL-2.0
/*
 * explore DEPTH KIND PRIORITY... : runs every sequence of DEPTH events for clients of these own priorities, from every
 * policy.  The explorer checks the state after every event.  KIND 0: every event that decides; 1: likewise, and every
 * client has a budget; 2: budgets, and what policy `boosted` is told, from `segment` and `boosted`.
 *
 * Two sequences that lead to the same state have the same continuations.  So each state is expanded once, at the
 * least depth at which it is met (breadth first).  The explorer stores a state as its last event and the state
 * before that, and replays the events to make the state again.  A state's key holds everything that decides how the
 * scheduler, the model and the listener go on.  Keys are compared in full, never by a hash alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MAX_DEPTH 16
#define SLOTS (1u << 25)
#define MAX_EVENTS 64
#define KEY_BYTES 36

struct state {
	unsigned char key[KEY_BYTES];
	u32 from;
	u8 event;
};

static struct event alphabet[MAX_EVENTS];
static u32 events;
static struct state *states;
static u32 count, *slots;
static unsigned int own[CLIENTS];
static u32 first_policy;
static int kind;

static void letter(u32 op, u32 client, u32 a, u32 b)
{
	alphabet[events++] = (struct event){ op, client, a, b };
}

/* Whether the explorer goes to this policy.  Without boosting, the decisions of `boosted` are those of `segment`. */
static bool visited(u32 policy)
{
	return kind < 2 ? policy != GPURT_POLICY_BOOSTED :
			  policy == GPURT_POLICY_SEGMENT || policy == GPURT_POLICY_BOOSTED;
}

/* The events that a host tells of a client's thread under `boosted`. */
static void boost_letters(u32 i)
{
	u32 form;

	for (form = 0; form < GPURT_FORM_COUNT; form++)
		letter(OP_FORM, i, form, 0);
	letter(OP_ASK, i, own[i], 0);
	letter(OP_TURN, i, 0, 0);
	letter(OP_TURN, i, 1, 0);
	letter(OP_OVER, i, 0, 0);
	letter(OP_WORK, i, 0, 0);
	letter(OP_WORK, i, 1, 0);
}

/* All events.  A set priority is that of the next client, so that ties arise; another event undoes it. */
static void make_alphabet(void)
{
	u32 i;

	events = 0;
	for (i = 0; i < CLIENTS; i++) {
		letter(OP_BEGIN, i, own[i], 0);
		letter(OP_END, i, 0, 0);
		letter(OP_GONE, i, 0, 0);
		letter(OP_PRIORITY, i, own[(i + 1) % CLIENTS], 0);
		letter(OP_PRIORITY, i, GPURT_PRIORITY_OWN, 0);
		letter(OP_OPEN, i, 0, 0);
		letter(OP_CLOSE, i, 0, 0);
		if (kind == 2) {
			boost_letters(i);
			continue;
		}
		letter(OP_JOB, i, own[i], 0);
		letter(OP_JOB, i, own[i], 1);
		letter(OP_EXEMPT, i, 0, 0);
		letter(OP_EXEMPT, i, 1, 0);
	}
	for (i = 0; i < GPURT_POLICY_COUNT; i++)
		if (visited(i))
			letter(OP_POLICY, 0, i, 0);
	letter(OP_TICK, 0, 0, 0);
	if (kind == 2)
		letter(OP_LOST, 0, 0, 0);
}

static void fail(const struct world *w, const char *wrong, const u8 *path, u32 length)
{
	u32 i;

	printf("%s\n  policy %u", wrong, first_policy);
	for (i = 0; i < length; i++) {
		const struct event *e = &alphabet[path[i]];

		printf(", %s", world_name(e->op));
		if (e->op != OP_POLICY && e->op != OP_TICK)
			printf("[%u]", e->client);
		if (e->op == OP_PRIORITY || e->op == OP_POLICY || e->op == OP_EXEMPT || e->op >= OP_FORM)
			printf("(%u)", e->a);
		if (e->op == OP_JOB)
			printf("(%s)", e->b ? "on" : "off");
	}
	printf("\n  at %llu ns, runner %d\n", (unsigned long long)w->now, w->m.runner);
	exit(1);
}

static void step(struct world *w, const u8 *path, u32 length)
{
	const char *wrong = world_step(w, &alphabet[path[length - 1]], 1);

	if (wrong)
		fail(w, wrong, path, length);
}

/* Prepares the world for the first event: sets the policy and, if asked for, budgets that are soon used up. */
static void prepare(struct world *w)
{
	struct event set = { OP_POLICY, 0, first_policy, 0 };
	const char *wrong;
	u32 i;

	world_init(w);
	wrong = world_step(w, &set, 0);
	for (i = 0; kind && i < CLIENTS && !wrong; i++) {
		set = (struct event){ OP_BUDGET, i, 2 + i, i == 1 ? GPURT_OVERRUN_REPORT : GPURT_OVERRUN_DEMOTE };
		wrong = world_step(w, &set, 0);
	}
	if (wrong)
		fail(w, wrong, NULL, 0);
}

/* How many of the same kind came earlier: only the order counts, not the stamps. */
static u8 ranks(const struct model *m, int i)
{
	u8 came = 0, job = 0, began = 0;
	int k;

	for (k = 0; k < CLIENTS; k++) {
		const struct facts *a = &m->c[i], *b = &m->c[k];
		bool equals = model_level(a) == model_level(b);

		came += equals && model_in_segment(a) && model_in_segment(b) && b->came < a->came;
		job += equals && model_in_job(a) && model_in_job(b) && b->job_came < a->job_came;
		began += model_in_segment(a) && model_in_segment(b) && b->began < a->began;
	}
	return (u8)(came | job << 2 | began << 4);
}

static void make_key(const struct world *w, unsigned char *key)
{
	int i;

	memset(key, 0, KEY_BYTES);
	key[0] = (unsigned char)(w->m.policy << 4 | (w->m.runner + 1));
	key[1] = w->m.updating;
	for (i = 0; i < CLIENTS; i++) {
		const struct facts *f = &w->m.c[i];
		unsigned char *k = key + 2 + 10 * i;

		k[0] = (unsigned char)(f->depth << 4 | f->tsgs);
		k[1] = (unsigned char)f->set;
		k[2] = (unsigned char)(f->runnable | f->exempt << 1 | f->demoted << 2 | f->overrun << 4 |
				       w->c[i].granted << 5 | w->granted[i] << 6 | w->idle[i] << 7);
		k[3] = ranks(&w->m, i);
		k[4] = (unsigned char)(f->limit ? f->used < f->limit ? f->used : f->limit : 0);
		k[5] = (unsigned char)(f->limit << 1 | f->action);
		k[6] = (unsigned char)f->own;
		k[7] = (unsigned char)(f->limit && f->ends > w->now ? f->ends - w->now : 0);
		k[8] = (unsigned char)(f->form | f->turn << 2 | f->self << 3 | f->working << 4);
		k[9] = (unsigned char)f->asked;
	}
}

/* The slot of @key: its state's, or the free one where it belongs. */
static u32 find(const unsigned char *key)
{
	u64 hash = 1469598103934665603ULL;
	u32 i, slot;

	for (i = 0; i < KEY_BYTES; i++)
		hash = (hash ^ key[i]) * 1099511628211ULL;
	for (slot = (u32)(hash >> 20) % SLOTS; slots[slot]; slot = (slot + 1) % SLOTS)
		if (!memcmp(states[slots[slot] - 1].key, key, KEY_BYTES))
			break;
	return slot;
}

static void note(const struct world *w, u32 from, u8 event)
{
	struct state *new = &states[count];
	u32 slot;

	make_key(w, new->key);
	slot = find(new->key);
	if (slots[slot])
		return;
	if (count == SLOTS / 2) {
		printf("too many states for this depth\n");
		exit(2);
	}
	new->from = from;
	new->event = event;
	slots[slot] = ++count;
}

static void replay(struct world *w, u32 index, u8 *path, u32 length)
{
	u32 i = length;

	for (; i--; index = states[index].from)
		path[i] = states[index].event;
	prepare(w);
	for (i = 1; i <= length; i++)
		step(w, path, i);
}

/* Returns how many events were tried. */
static u64 explore(u32 depth)
{
	static struct world w, copy;
	u8 path[MAX_DEPTH];
	u32 begin = 0, end, length, index;
	u64 tried = 0;

	count = 0;
	memset(slots, 0, SLOTS * sizeof(*slots));
	prepare(&w);
	note(&w, 0, 0);
	for (length = 0; length < depth; length++, begin = end) {
		end = count;
		for (index = begin; index < end; index++) {
			replay(&w, index, path, length);
			memcpy(&copy, &w, sizeof(w));
			for (path[length] = 0; path[length] < events; path[length]++) {
				step(&w, path, length + 1);
				tried++;
				if (length + 1 < depth)
					note(&w, index, path[length]);
				memcpy(&w, &copy, sizeof(w));
			}
		}
	}
	return tried;
}

int main(int argc, char **argv)
{
	u32 depth = argc > 1 ? (u32)atoi(argv[1]) : 0, total = 0, policies = 0;
	u64 tried = 0;
	int i;

	if (argc != 3 + CLIENTS || !depth || depth > MAX_DEPTH) {
		fprintf(stderr, "usage: %s DEPTH KIND(0|1|2) PRIORITY PRIORITY PRIORITY\n", argv[0]);
		return 2;
	}
	kind = atoi(argv[2]);
	for (i = 0; i < CLIENTS; i++)
		own[i] = (u32)atoi(argv[3 + i]);
	states = calloc(SLOTS / 2 + 1, sizeof(*states));
	slots = calloc(SLOTS, sizeof(*slots));
	if (!states || !slots)
		return 2;
	make_alphabet();
	for (first_policy = 0; first_policy < GPURT_POLICY_COUNT; first_policy++) {
		if (!visited(first_policy))
			continue;
		tried += explore(depth);
		total += count;
		policies++;
	}
	printf("depth %u, %u events, %u policies: %u states, %llu steps checked\n", depth, events,
	       policies, total, (unsigned long long)tried);
	free(states);
	free(slots);
	return 0;
}
