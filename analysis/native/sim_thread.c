// SPDX-License-Identifier: GPL-2.0
/* Threads that serve jobs of several tasks, one at a time, and the pending job that each serves next. */
#include "sim.h"

/* A thread's tasks have its number.  The thread serves the job of its task that is `served`, if there is one. */
#define for_each_served(s, number, t)							\
	for (t = (s)->tasks; t < (s)->tasks + (s)->count; t++)				\
		if (t->task->thread == (number))

/* Whether @t's job is served before @best's; @best may be NULL. */
static bool goes_before(const struct job_task *t, const struct job_task *best, bool by_release)
{
	if (!best)
		return true;
	return by_release ? t->backlog[t->head] < best->backlog[best->head] : t->task->rank < best->task->rank;
}

/* Whether the task's order keeps pending jobs in a set, which the thread fills when it is empty. */
static bool has_set(const struct job_task *t)
{
	return t->task->order == GPURT_SIM_ROS2 || (t->task->order == GPURT_SIM_LIVE_TIMERS && !t->task->timer);
}

/* The first pending job outside the set of a thread, or of a thread without a set. */
static struct job_task *first_outside(struct sim *s, u32 number)
{
	struct job_task *best = NULL, *t;

	for_each_served(s, number, t)
		if (t->queued && !has_set(t) && goes_before(t, best, t->task->order == GPURT_SIM_FIFO))
			best = t;
	return best;
}

static struct job_task *first_in_set(struct sim *s, u32 number)
{
	struct job_task *best = NULL, *t;

	for_each_served(s, number, t)
		if (t->polled && goes_before(t, best, false))
			best = t;
	return best;
}

static struct job_task *next_of(struct sim *s, u32 number)
{
	struct job_task *best = first_outside(s, number), *t;

	if (!best)
		best = first_in_set(s, number);
	if (best)
		return best;
	for_each_served(s, number, t)
		t->polled = t->queued && has_set(t);
	return first_in_set(s, number);
}

/* The thread is free, and begins its next job.  Returns the task that it serves then; NULL: none. */
static struct job_task *serve(struct sim *s, u32 number)
{
	struct job_task *t = next_of(s, number);

	if (!t)
		return NULL;
	t->polled = false;
	t->served = true;
	sim_start_job(s, t);
	return t;
}

static bool is_free(struct sim *s, u32 number)
{
	const struct job_task *t;

	for_each_served(s, number, t)
		if (t->served)
			return false;
	return true;
}

bool sim_skipped(const struct job_task *t)
{
	return t->task->timer && t->queued > t->served;
}

void sim_serve(struct sim *s)
{
	struct job_task *t;

	if (!s->serving)
		return;
	for (t = s->tasks; t < s->tasks + s->count; t++)
		if (t->task->thread && t->queued && is_free(s, t->task->thread))
			serve(s, t->task->thread);
}

void sim_served(struct sim *s, struct job_task *t)
{
	struct cpu *cpu = &s->cpus[t->task->cpu];
	struct job_task *next;
	bool running = cpu->running == t;

	t->served = false;
	next = serve(s, t->task->thread);
	if (!next || !next->served || !running)
		return;
	/* One thread: it keeps its CPU, and its place among threads of equal priority, and does not wake up. */
	next->waking = 0;
	next->ready_since = t->ready_since;
	sim_switch_to(s, cpu, next);
}
