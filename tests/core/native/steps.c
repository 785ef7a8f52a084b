// SPDX-License-Identifier: GPL-2.0
/*
 * steps COUNT: how many steps the scheduler and the virtual GPU take for each operation when there are COUNT clients,
 * under each policy.  A step is a basic block of the core, which the compiler has call __sanitizer_cov_trace_pc().
 *
 * Prints POLICY OPERATION STEPS, a line each: the most steps of any of many calls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../kmod/core/sched.h"
#include "../../../kmod/core/vgpu.h"

#define ROUNDS 40

static unsigned long steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	steps++;
}

static void commit(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now)
{
	(void)only, (void)cause;
	gpurt_updated(s, now, 0);
}

static void event(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 what, u64 now)
{
	(void)s, (void)c, (void)what, (void)now;
}

static void raised(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now)
{
	(void)s, (void)c, (void)level, (void)now;
}

enum operation { BEGIN, NEST, END, PRIORITY, JOB, TSG, EXEMPT, BUDGET, TICK, POLICY, STATE, KILLED, GONE, OPERATIONS };

static const char *const names[OPERATIONS] = {
	"begin", "nest", "end", "priority", "job", "tsg", "exempt", "budget", "tick", "policy", "state", "killed", "gone",
};

struct many {
	struct gpurt_sched s;
	struct gpurt_sched_client *clients;
	struct gpurt_budget budget;
	u32 policy, count;
	u64 now;
};

static void carry_out(struct many *m, enum operation op, struct gpurt_sched_client *c, u32 round)
{
	m->now += 1000;
	switch (op) {
	case BEGIN: case NEST: gpurt_begin(&m->s, c, round % 49, 0, m->now); break;
	case END: gpurt_end(&m->s, c, m->now); break;
	case PRIORITY: gpurt_set_priority(&m->s, c, round % 2 ? 49 - round % 40 : GPURT_PRIORITY_OWN, m->now); break;
	case JOB: gpurt_job(&m->s, c, round % 49, round % 2, m->now); break;
	case TSG: gpurt_set_tsgs(&m->s, c, 1 + round % 2, m->now); break;
	case EXEMPT: gpurt_set_exempt(&m->s, c, round % 2, m->now); break;
	case BUDGET: gpurt_set_budget(&m->s, &m->budget, 1, 1000000, GPURT_OVERRUN_DEMOTE, m->now); break;
	case TICK: gpurt_tick(&m->s, m->now); break;
	case POLICY: gpurt_set_policy(&m->s, round % 2 ? GPURT_POLICY_TIMESLICED : m->policy, m->now); break;
	case STATE: gpurt_state_of(&m->s, c); break;
	case KILLED: gpurt_killed(&m->s, c, m->now); break;
	default: gpurt_gone(&m->s, c, m->now);
	}
}

/* They are in segments, and have jobs, of all priorities, best effort among them. */
static void join(struct many *m, struct gpurt_sched_client *c, u32 number)
{
	gpurt_sched_client_init(c);
	gpurt_set_tsgs(&m->s, c, 1, m->now);
	gpurt_begin(&m->s, c, number % 25, 0, m->now);
	gpurt_job(&m->s, c, number % 25, true, m->now);
}

static void measure(struct many *m)
{
	unsigned long most[OPERATIONS] = { 0 };
	u32 op, round, i;

	for (op = 0; op < OPERATIONS; op++) {
		for (round = 0; round < ROUNDS; round++) {
			/* The same places among however many. */
			i = round % 4 ? round % 8 : m->count - 1 - round % 8;
			steps = 0;
			carry_out(m, op, &m->clients[i], round);
			most[op] = steps > most[op] ? steps : most[op];
			if (op == GONE)
				join(m, &m->clients[i], i);
			else if (op == END || op == KILLED)
				gpurt_begin(&m->s, &m->clients[i], i % 25, 0, m->now);
		}
		if (op == BUDGET)	/* none any more */
			gpurt_set_budget(&m->s, &m->budget, 0, 0, 0, m->now);
		gpurt_set_policy(&m->s, m->policy, m->now);
		printf("%u %s %lu\n", m->policy, names[op], most[op]);
	}
}

/* A group of so many, one of whom is in segments beside a client without a group. */
static void measure_group(struct many *m)
{
	struct gpurt_group_gpu on;
	struct gpurt_group group;
	unsigned long most[2] = { 0 };
	u64 stamps = 0;
	u32 i, op;

	gpurt_group_init(&group, &stamps);
	gpurt_group_gpu_init(&on, &group, &m->s);
	for (i = 0; i < m->count; i++) {
		gpurt_sched_client_init(&m->clients[i]);
		if (i && gpurt_group_add(&on, &m->clients[i], i % 49, m->now))
			exit(1);
	}
	for (i = 0; i < ROUNDS; i++) {
		op = i % 4 / 2;
		steps = 0;
		if (op)
			gpurt_end(&m->s, &m->clients[i % 2], ++m->now);
		else
			gpurt_begin(&m->s, &m->clients[i % 2], 20 + i % 2, 0, ++m->now);
		most[op] = steps > most[op] ? steps : most[op];
	}
	printf("%u member-begin %lu\n%u member-end %lu\n", m->policy, most[0], m->policy, most[1]);
}

static void done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u64 when)
{
	(void)v, (void)t, (void)w, (void)when;
}

/* As many TSGs, all with work; the most steps of one thing that happens, of an update, and of a submission. */
static void measure_vgpu(u32 count)
{
	static const struct gpurt_vgpu_ops ops = { .done = done };
	struct gpurt_vgpu_work *works = calloc(count + ROUNDS, sizeof(*works));
	struct gpurt_vgpu_ctx *contexts = calloc(count, sizeof(*contexts));
	struct gpurt_vgpu_tsg *tsgs = calloc(count, sizeof(*tsgs));
	unsigned long most[3] = { 0 };
	struct gpurt_vgpu v;
	u32 i;

	gpurt_vgpu_init(&v, &ops, NULL, 1000, 10, 100, true, 0);
	for (i = 0; i < count; i++) {
		gpurt_vgpu_ctx_init(&contexts[i]);
		gpurt_vgpu_tsg_open(&tsgs[i], &contexts[i]);
		gpurt_vgpu_submit(&v, &tsgs[i], &works[i], GPURT_ENGINE_EXEC, false, 1500, v.now);
	}
	for (i = 0; i < ROUNDS; i++) {
		steps = 0;
		gpurt_vgpu_catch_up(&v, gpurt_vgpu_next(&v), 1);
		most[0] = steps > most[0] ? steps : most[0];
		steps = 0;
		gpurt_vgpu_commit_here(&v, i % 4 == 3 ? &contexts[i % 8] : NULL);
		most[1] = i % 8 == 7 && steps > most[1] ? steps : most[1];
		steps = 0;
		gpurt_vgpu_submit(&v, &tsgs[i % 8], &works[count + i], GPURT_ENGINE_COPY, false, 1500, v.now);
		most[2] = steps > most[2] ? steps : most[2];
	}
	printf("vgpu happen %lu\nvgpu commit %lu\nvgpu submit %lu\n", most[0], most[1], most[2]);
	free(works);
	free(contexts);
	free(tsgs);
}

int main(int argc, char **argv)
{
	static const struct gpurt_sched_ops ops = { .commit = commit, .event = event, .raise = raised };
	struct many m = { .count = argc > 1 ? (u32)atoi(argv[1]) : 0 };
	u32 i;

	if (m.count < 8)
		return 2;
	m.clients = calloc(m.count, sizeof(*m.clients));
	for (m.policy = 0; m.policy < GPURT_POLICY_COUNT; m.policy++) {
		gpurt_sched_init(&m.s, &ops, &m, m.now);
		m.s.lock_bound = 500;
		if (gpurt_set_policy(&m.s, m.policy, m.now))
			return 1;
		m.budget = (struct gpurt_budget){ .limit = 0 };
		for (i = 0; i < m.count; i++)
			join(&m, &m.clients[i], i);
		for (i = 0; i < 3; i++)
			gpurt_join_budget(&m.s, &m.clients[i], &m.budget, m.now);
		measure(&m);
		gpurt_sched_init(&m.s, &ops, &m, m.now);
		if (gpurt_set_policy(&m.s, m.policy, m.now))
			return 1;
		measure_group(&m);
	}
	measure_vgpu(m.count);
	free(m.clients);
	return 0;
}
