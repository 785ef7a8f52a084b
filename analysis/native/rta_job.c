// SPDX-License-Identifier: GPL-2.0
/* Policy `job`: analysis/rta/kernel_thread.py, term by term. */
#include "rta_internal.h"

#define THREAD_CPU 0	/* where the kernel thread runs, as in analysis/rta/kernel_thread.py */

/*
 * Adds what the kernel thread executes on the CPU of @t. The thread runs at the start and the end of every job that
 * uses the GPU, above every task of its CPU.
 */
static void thread(struct rta *s, const struct rta_task *t)
{
	u32 u;

	for (u = 0; u < s->user_count; u++) {
		const struct rta_task *h = &s->tasks[s->users[u]];

		if (h != t)
			rta_push(s, 2 * s->alpha, h, rta_jitter(h, 0) + s->poll);
	}
}

/*
 * Adds the jobs of a CPU that can own the GPU at @level, from their release to the update after their completion. Adds
 * the jobs of that CPU that delay them, too.
 */
static void owners_on(struct rta *s, const struct rta_cpu *cpu, u32 level)
{
	u32 u, entry, lowest = UINT32_MAX;

	for (u = cpu->first_user; u < cpu->end_user; u++)
		if (s->tasks[s->users[u]].gpu_priority >= level)
			lowest = s->tasks[s->users[u]].priority;
	for (entry = cpu->begin; entry < cpu->end && s->tasks[entry].priority >= lowest; entry++) {
		const struct rta_task *h = &s->tasks[entry];
		int64_t late = h->eta ? s->epsilon + s->poll : 0;
		int64_t amount = h->cpu_time + h->misc + h->pure + 2 * late;

		rta_push(s, amount, h, rta_jitter(h, amount - late));
	}
}

int64_t rta_kthread_busy(struct rta *s, const struct rta_task *t)
{
	const struct rta_cpu *cpu = &s->cpu[t->cpu];
	u32 level = t->eta ? t->gpu_priority : UINT32_MAX, entry, c;
	int64_t constant = t->cpu_time + t->misc + t->pure + (t->eta ? s->epsilon + s->poll : 0);

	for (entry = cpu->begin; entry < cpu->end && s->tasks[entry].priority >= t->priority; entry++) {
		const struct rta_task *h = &s->tasks[entry];

		if (h == t)
			continue;
		rta_push(s, h->cpu_time + h->misc + h->pure + (h->eta ? 3 * s->epsilon + 2 * s->poll : 0), h, 0);
		if (h->eta && h->gpu_priority < level)
			level = h->gpu_priority;
	}
	if (t->cpu == THREAD_CPU) {
		constant += 2 * s->alpha;
		thread(s, t);
	}
	if (level == UINT32_MAX)
		return constant;
	for (c = 0; c < s->cpus; c++)
		if (c != t->cpu)
			owners_on(s, &s->cpu[c], level);
	return constant + s->epsilon;
}
