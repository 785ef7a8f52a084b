// SPDX-License-Identifier: GPL-2.0
#include "core.h"

#include "../../../kmod/core/sched.h"

static struct gpurt_sched sched;
static struct gpurt_sched_client clients[CORE_CLIENTS];
static bool wanted;
static u64 now;

static void commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 when)
{
	wanted = true;
}

static void event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 what, u64 when) {}

static const struct gpurt_sched_ops ops = { .commit = commit, .event = event };

void core_start(unsigned int policy)
{
	int c;

	gpurt_sched_init(&sched, &ops, NULL, now);
	gpurt_set_policy(&sched, policy, now);
	for (c = 0; c < CORE_CLIENTS; c++)
		gpurt_sched_client_init(&clients[c]);
}

bool core_step(int client, unsigned int what, unsigned int priority)
{
	struct gpurt_sched_client *c = &clients[client];

	now += 1000;
	switch (what) {
	case 0:
	case 1:
		return !gpurt_begin(&sched, c, priority, 0, now);
	case 2:
	case 3:
		return !gpurt_end(&sched, c, now);
	case 4:
		return !gpurt_job(&sched, c, priority, priority % 2, now);
	case 5:
		return !gpurt_set_priority(&sched, c, priority, now);
	default:
		gpurt_set_exempt(&sched, c, priority < 10, now);
		return true;
	}
}

void core_tsgs(int client, int change)
{
	struct gpurt_sched_client *c = &clients[client];

	gpurt_set_tsgs(&sched, c, c->tsgs + (u32)change, ++now);
}

void core_killed(int client)
{
	gpurt_killed(&sched, &clients[client], ++now);
}

bool core_wants_commit(void)
{
	bool was = wanted;

	wanted = false;
	return was;
}

bool core_may_run(int client)
{
	return client < 0 ? !sched.runner : gpurt_on_runlist(&sched, &clients[client]);
}
