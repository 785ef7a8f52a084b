// SPDX-License-Identifier: GPL-2.0
/*
 * Links between tasks: ends that release jobs, and the stimuli that jobs of chains reflect.  A job reads at its start
 * all values written until then, also at the same instant; so it reads when time passes (analysis/chains/observed.py).
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define CHAIN_NEVER U64_MAX

static const struct carried nothing = { CHAIN_NEVER, CHAIN_NEVER };

bool sim_link(struct sim *s)
{
	const struct gpurt_sim_config *config = s->config;
	u32 c, i, l;

	for (l = 0; l < config->link_count; l++)
		s->tasks[config->links[l].to].triggered = true;
	for (c = 0; c < config->chain_count; c++)
		s->station_count += config->chains[c].count;
	s->tokens = calloc(config->link_count ? config->link_count : 1, sizeof(*s->tokens));
	s->stations = calloc(s->station_count ? s->station_count : 1, sizeof(*s->stations));
	if (!s->tokens || !s->stations)
		return false;
	for (i = 0; i < s->station_count; i++) {
		struct station *st = &s->stations[i];

		st->task = config->chain_tasks[i];
		st->job = st->out = nothing;
		st->started = st->first = CHAIN_NEVER;
		for (l = 0; i && l < config->link_count; l++)
			st->triggered |= config->links[l].from == st[-1].task && config->links[l].to == st->task;
		st->awaited = s->tasks[st->task].triggered && !st->triggered;
	}
	return true;
}

static bool all_ended(const struct sim *s, u32 task)
{
	u32 l;

	for (l = 0; l < s->config->link_count; l++)
		if (s->config->links[l].to == task && !s->tokens[l])
			return false;
	return true;
}

static bool release_if_due(struct sim *s, u32 task)
{
	u32 l;

	if (!all_ended(s, task))
		return false;
	for (l = 0; l < s->config->link_count; l++)
		s->tokens[l] -= s->config->links[l].to == task;
	sim_release(s, &s->tasks[task]);
	return true;
}

void sim_trigger(struct sim *s, const struct job_task *t)
{
	const struct gpurt_sim_link *links = s->config->links;
	u32 l, from = (u32)(t - s->tasks);

	for (l = 0; l < s->config->link_count; l++) {
		if (links[l].from != from)
			continue;
		s->tokens[l]++;
		if (s->tasks[links[l].to].task->cpu == t->task->cpu)
			release_if_due(s, links[l].to);
	}
}

bool sim_release_triggered(struct sim *s)
{
	bool any = false;
	u32 l;

	for (l = 0; l < s->config->link_count; l++)
		any |= release_if_due(s, s->config->links[l].to);
	if (any)
		sim_serve(s);
	return any;
}

static void put(struct station *st, const struct carried *job)
{
	if (st->queued == BACKLOG) {
		st->head = (st->head + 1) % BACKLOG;
		st->queued--;
	}
	st->queue[(st->head + st->queued++) % BACKLOG] = *job;
}

static struct carried take(struct station *st)
{
	struct carried job = st->queued ? st->queue[st->head] : nothing;

	st->head = (st->head + !!st->queued) % BACKLOG;
	st->queued -= !!st->queued;
	return job;
}

/* The job of @t starts: it reads the output of the previous task's last job, or begins with a stimulus. */
static void begin(const struct sim *s, const struct job_task *t, const struct gpurt_sim_chain *c, struct station *st,
		  bool first)
{
	if (st->first == CHAIN_NEVER && st->awaited)
		st->first = s->now;
	if (first) {
		st->job.since = c->event ? t->backlog[t->head] : st->started;
		st->job.origin = c->ages ? s->now : CHAIN_NEVER;
		st->started = c->event ? CHAIN_NEVER : s->now;
	} else if (st->triggered) {
		st->job = take(st - 1);
	} else {
		st->job = st[-1].out;
		st[-1].out.since = CHAIN_NEVER;
	}
}

static void note(struct gpurt_sim_chain *c, u32 measure, u64 time)
{
	if (time > c->longest[measure])
		c->longest[measure] = time;
}

/* Whether each task of the chain that waits for more than its producer had begun by @by; @st: the last station. */
static bool all_began(const struct gpurt_sim_chain *c, const struct station *st, u64 by)
{
	u32 n;

	for (n = 0; n < c->count; n++)
		if (st[-(int)n].awaited && st[-(int)n].first > by)
			return false;
	return true;
}

/* A job of the last task ends.  Its station keeps the input that this output reflects, up to the next output. */
static void end_chain(const struct sim *s, struct gpurt_sim_chain *c, struct station *st)
{
	if (st->job.since != CHAIN_NEVER && all_began(c, st, st->job.since))
		note(c, GPURT_SIM_REACTION, s->now - st->job.since);
	if (st->out.origin != CHAIN_NEVER)
		note(c, GPURT_SIM_AGE, s->now - st->out.origin);
	if (st->job.origin != CHAIN_NEVER)
		note(c, GPURT_SIM_AGE_AT_OUTPUT, s->now - st->job.origin);
	st->out.origin = st->job.origin;
}

static void end(const struct sim *s, struct gpurt_sim_chain *c, struct station *st, bool last)
{
	if (last) {
		end_chain(s, c, st);
	} else if (st[1].triggered) {
		put(st, &st->job);
	} else {
		st->out.since = st->job.since < st->out.since ? st->job.since : st->out.since;
		st->out.origin = st->job.origin;
	}
	st->job = nothing;
}

static void at_stations(struct sim *s, const struct job_task *t, bool over)
{
	struct station *st = s->stations;
	u32 i, n, task = (u32)(t - s->tasks);

	for (i = 0; i < s->config->chain_count; i++) {
		for (n = 0; n < s->config->chains[i].count; n++, st++) {
			if (st->task == task && over)
				end(s, &s->config->chains[i], st, n + 1 == s->config->chains[i].count);
			else if (st->task == task)
				begin(s, t, &s->config->chains[i], st, !n);
		}
	}
}

void sim_chain_passes(struct sim *s)
{
	struct job_task *t;

	for (t = s->tasks; s->station_count && t < s->tasks + s->count; t++) {
		if (t->begun != BEGINS && (t->begun || s->cpus[t->task->cpu].running != t))
			continue;
		at_stations(s, t, false);
		t->begun = BEGUN;
	}
}

void sim_chain_ends(struct sim *s, struct job_task *t)
{
	if (t->begun != BEGUN)
		at_stations(s, t, false);
	at_stations(s, t, true);
	t->begun = UNBEGUN;
}

static u64 age(u64 time, const struct sim *s, const struct gpurt_sim_chain *c)
{
	return time == CHAIN_NEVER ? CHAIN_NEVER : s->now - time > c->limit ? c->limit + 1 : s->now - time;
}

/* The earliest stimulus that is not reflected yet; @st: the first station of the chain. */
static u64 oldest(const struct sim *s, const struct gpurt_sim_chain *c, const struct station *st)
{
	const struct job_task *t = &s->tasks[st->task];
	u64 found = c->event && t->queued ? t->backlog[t->head] : st->started, k;
	const struct station *end = st + c->count;

	for (; st < end; st++) {
		found = st->job.since < found ? st->job.since : found;
		found = st->out.since < found ? st->out.since : found;
		for (k = 0; k < st->queued; k++)
			if (st->queue[(st->head + k) % BACKLOG].since < found)
				found = st->queue[(st->head + k) % BACKLOG].since;
	}
	return found;
}

static void strip_carried(struct carried *job, const struct sim *s, const struct gpurt_sim_chain *c)
{
	job->since = age(job->since, s, c);
	job->origin = age(job->origin, s, c);
}

void sim_strip_chains(struct sim *s)
{
	struct station *st = s->stations;
	u32 i, n;

	for (i = 0; i < s->config->chain_count; i++) {
		const struct gpurt_sim_chain *c = &s->config->chains[i];
		u64 since = oldest(s, c, st);

		for (n = 0; n < c->count; n++, st++) {
			struct carried queue[BACKLOG] = { 0 };
			u64 k;

			strip_carried(&st->job, s, c);
			strip_carried(&st->out, s, c);
			st->started = age(st->started, s, c);
			/* All later stimuli come after the stimulus that is already reflected. */
			st->first = st->first != CHAIN_NEVER && st->first <= since ? 0 : age(st->first, s, c);
			for (k = 0; k < st->queued; k++) {
				queue[k] = st->queue[(st->head + k) % BACKLOG];
				strip_carried(&queue[k], s, c);
			}
			memcpy(st->queue, queue, sizeof(queue));
			st->head = 0;
		}
	}
}
