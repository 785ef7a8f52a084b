// SPDX-License-Identifier: GPL-2.0
/*
 * For cbmc (scripts/check-core), which follows every path.  A path starts under the policy POLICY with two clients
 * that are in segments and have TSGs, or with -DFRESH with two new clients.  Then comes the event FIRST if it is
 * given, then any event of either client.  Choices are branches, so that each combination is a path.  On all paths
 * cbmc proves that there is no undefined behaviour and that the assertions hold: the rule of policy `segment` in
 * docs/policies.md.  With -DPLANT_BUG the proof must fail.  numbers_harness.c covers arbitrary 64-bit times.
 */
#include "../../../kmod/core/sched.h"

#define CLIENTS 2

_Bool nondet_bool(void);

static struct gpurt_sched s;
static struct gpurt_sched_client c[CLIENTS];
static struct gpurt_budget budget;	/* of both clients */
static struct gpurt_sched_client *only;	/* what the driver was told: NULL is all clients */
static u32 commits;

static void commit(struct gpurt_sched *sched, struct gpurt_sched_client *next, u32 cause, u64 now)
{
	__CPROVER_assert(sched == &s && cause < GPURT_CAUSE_COUNT, "arguments of commit");
	__CPROVER_assert(next != only || cause == GPURT_CAUSE_EXEMPT, "no update where nothing changes");
	__CPROVER_assert(!s.payer || s.payer == &budget, "a budget pays");
	only = next;
	commits++;
	if (commits % 2)	/* the next one supersedes it */
		gpurt_updated(sched, now, 1);
}

static void event(struct gpurt_sched *sched, struct gpurt_sched_client *client, u32 what, u64 now)
{
	(void)now;
	__CPROVER_assert(sched == &s && what < GPURT_EVENT_COUNT, "arguments of event");
	__CPROVER_assert(!client || (client >= c && client < c + CLIENTS), "event of a client");
}

static u32 raised[CLIENTS];	/* what each client's thread was told */

static void raise_to(struct gpurt_sched *sched, struct gpurt_sched_client *client, u32 level, u64 now)
{
	(void)now;
	__CPROVER_assert(sched == &s && client >= c && client < c + CLIENTS, "arguments of raise");
	__CPROVER_assert(level <= GPURT_RAISED_TOP && raised[client - c] != level, "no change is told twice");
	raised[client - c] = level;
}

static const struct gpurt_sched_ops ops = { .commit = commit, .event = event, .raise = raise_to };

/* One of 0..@n - 1, a path each. */
static u32 choose(u32 n)
{
	u32 i;

	for (i = 0; i + 1 < n; i++)
		if (nondet_bool())
			return i;
	return n - 1;
}

/* A priority: best effort, both ends of the bitmap's words, and one that must be refused. */
static u32 choose_priority(void)
{
	static const u32 priorities[] = { 0, 1, 40, GPURT_MAX_PRIORITY + 1 };

	return priorities[choose(4)];
}

static void step(u32 event, u64 now)
{
	struct gpurt_sched_client *client = event < 9 || (event > 10 && event < 14) ? &c[choose(CLIENTS)] : &c[0];

	switch (event) {
	case 0:
		gpurt_begin(&s, client, choose_priority(), 0, now);
		break;
	case 1:
		gpurt_end(&s, client, now);
		break;
	case 2:
		gpurt_gone(&s, client, now);
		gpurt_sched_client_init(client);
		client->budget = &budget;
		break;
	case 3:
		gpurt_set_priority(&s, client, choose_priority(), now);
		break;
	case 4:
		gpurt_job(&s, client, 1, choose(2), now);
		break;
	case 5:
		gpurt_tsg_opened(&s, client, now);
		break;
	case 6:
		gpurt_tsg_closed(&s, client, now);
		break;
	case 7:
		gpurt_set_exempt(&s, client, choose(2), now);
		break;
	case 8:
		gpurt_set_budget(&s, &budget, choose(2), 2, choose(3), now);
		break;
	case 9:
		gpurt_set_policy(&s, choose(GPURT_POLICY_COUNT + 1), now);
		break;
	case 10:
		gpurt_tick(&s, now);
		break;
	case 11:
		gpurt_boost_ask(&s, client, choose(2), now);
		break;
	case 12:
		gpurt_boost_turn(&s, client, choose(2), now);
		break;
	case 13:
		gpurt_boost_over(&s, client, now);
		break;
	case 14:
		gpurt_boost_lost(&s, now);
		break;
	}
}

/* Form self: raised from the wait for a begin to the end.  Others: while they have the gate, or own the GPU for good. */
static void check_raised(u32 i)
{
	const struct gpurt_boost *b = &c[i].boost;

	__CPROVER_assert(raised[i] == b->raised && b->raised == gpurt_boost_level(&s, &c[i]), "threads are as they should");
	__CPROVER_assert(!b->raised || b->asked || c[i].depth, "nobody is raised outside of segments and the gate");
	if (b->form == GPURT_FORM_SELF)
		return;
	__CPROVER_assert(!b->raised || b->turn || (s.runner == &c[i] && s.policy == GPURT_POLICY_BOOSTED && !s.updating),
			 "only the owner is raised");
}

static void check(void)
{
	const struct gpurt_sched_client *best = NULL;
	u32 i, running = 0;

	for (i = 0; i < CLIENTS; i++) {
		if (c[i].depth && c[i].level && (!best || c[i].level > best->level))
			best = &c[i];
		running += c[i].depth && c[i].level && !c[i].exempt && gpurt_on_runlist(&s, &c[i]);
		__CPROVER_assert(c[i].level <= GPURT_MAX_PRIORITY, "level in range");
		check_raised(i);
	}
	__CPROVER_assert(only == s.runner, "the driver and the scheduler agree");
	if (s.policy == GPURT_POLICY_TIMESLICED)
		__CPROVER_assert(!s.runner, "all clients run under timesliced");
	if (s.policy != GPURT_POLICY_SEGMENT && s.policy != GPURT_POLICY_BOOSTED)
		return;
	__CPROVER_assert(!best == !s.runner, "one runs if any is real time");
	__CPROVER_assert(!best || s.runner->level == best->level, "the highest priority runs");
	__CPROVER_assert(running <= 1, "at most one real-time client runs");
}

/* Both clients have a TSG, are runnable and in a segment; the second is the more urgent one. */
static void prepare(void)
{
	u32 i;

	for (i = 0; i < CLIENTS; i++) {
		gpurt_tsg_opened(&s, &c[i], 1);
		gpurt_job(&s, &c[i], 1 + 39 * i, true, 1);
		gpurt_boost_form(&c[i], i ? GPURT_FORM_OWNER : GPURT_FORM_SELF);
		gpurt_boost_ask(&s, &c[i], 1 + 39 * i, 1);
		gpurt_begin(&s, &c[i], 1 + 39 * i, 0, 1);
		gpurt_boost_over(&s, &c[i], 1);
	}
}

int main(void)
{
	u32 i;

	gpurt_sched_init(&s, &ops, NULL, 0);
	for (i = 0; i < CLIENTS; i++)
	{
		gpurt_sched_client_init(&c[i]);
		c[i].budget = &budget;
	}
	gpurt_set_policy(&s, POLICY, 0);
#ifndef FRESH
	prepare();
#endif
#ifdef FIRST
	step(FIRST, 2);
	check();
#endif
	step(choose(POLICY == GPURT_POLICY_BOOSTED ? 15 : 11), 3);
#ifdef PLANT_BUG
	if (s.runner && c[0].depth > 1)
		s.runner = &c[0];
#endif
	check();
	return 0;
}
