// SPDX-License-Identifier: GPL-2.0
/*
 * Depth-first search over states of the simulator.  A state is a copy of the simulator's memory, restored to the same
 * addresses, so that pointers stay valid.  Two states are the same if their memory is equal after explore_state.c has
 * removed the traces of time and counters.
 */
#include <stdlib.h>
#include <string.h>

#include "explore_state.h"

#define MEASURES GPURT_SIM_MEASURES
#define CHOICES 64		/* in one step */
#define WAYS 200		/* the most ways a state, on average */
#define DEEP (1ULL << 30)	/* the most bytes of states that are still to be followed */

struct explorer {
	struct chooser chooser;	/* first member */
	struct sim *sim;
	struct state_map map;
	struct gpurt_exploration *result;
	const u64 *limit;
	u64 *worst;
	struct gpurt_sim_stats *stats;
	/* choices of the step */
	u32 digits, at;
	bool overflow, full;
	u64 digit[CHOICES], base[CHOICES];
	struct state_set seen;
	/* states to follow */
	u8 *stack;
	u64 depth, room;
	u8 *here;		/* the state from which the search follows ways */
};

static u64 choose(struct chooser *chooser, u64 n)
{
	struct explorer *e = (struct explorer *)chooser;

	if (e->at == CHOICES) {
		e->overflow = true;
		return 0;
	}
	if (e->at == e->digits) {
		e->digit[e->digits] = 0;
		e->base[e->digits++] = n;
	}
	return e->digit[e->at++];
}

/* The next combination of choices; false after the last. */
static bool choose_next(struct explorer *e)
{
	e->at = 0;
	while (e->digits && e->digit[e->digits - 1] + 1 == e->base[e->digits - 1])
		e->digits--;
	if (!e->digits)
		return false;
	e->digit[e->digits - 1]++;
	return true;
}

/* Whether a job may be released now.  Best effort has one job at a time: otherwise its jobs would pile up for ever. */
static bool releasable(const struct sim *s, const struct job_task *t)
{
	return t->next_release <= s->now && (t->task->priority || !t->queued);
}

/* Whether a task must be released as soon as it may be. */
static bool due(const struct explorer *e, const struct job_task *t)
{
	return ((e->result->flags & GPURT_EXPLORE_PERIODIC) && t->job) || t->latest <= e->sim->now;
}

/* Free threads may begin with jobs already released at this instant, before others are released at it. */
static bool release_first(struct explorer *e)
{
	struct sim *s = e->sim;
	struct job_task *t;
	bool any = false;

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		while (t->task->thread && releasable(s, t) && s->chooser->choose(s->chooser, 2)) {
			sim_release(s, t);
			sim_serve(s);
			any = true;
		}
	}
	return any;
}

static void release_some(struct explorer *e)
{
	struct sim *s = e->sim;
	struct job_task *t;
	bool any = release_first(e);

	for (t = s->tasks; t < s->tasks + s->count; t++) {
		while (releasable(s, t) && (due(e, t) || s->chooser->choose(s->chooser, 2))) {
			sim_release(s, t);
			any = true;
		}
	}
	sim_serve(s);
	if (any)
		sim_settle(s);
}

/* The time of the next event or choice. */
static u64 next_instant(const struct sim *s)
{
	const struct job_task *t;
	u64 next = sim_next(s);

	if (s->config->yield.on && next <= s->now)
		return s->now;	/* activities without duration are not over yet there */
	if (s->next_poll < next)
		next = s->next_poll;
	for (t = s->tasks; t < s->tasks + s->count; t++) {
		if (releasable(s, t))
			return s->now + 1;
		if (t->next_release > s->now && t->next_release < next)
			next = t->next_release;
	}
	return next;
}

/* Records the longest time of task or measure @i; *@late: 1 + the last of those that exceed their limits. */
static void note(struct explorer *e, u32 i, u64 taken, u32 *late)
{
	if (taken > e->limit[i])
		*late = i + 1;
	if (taken > e->worst[i])
		e->worst[i] = taken;
}

/* Records the longest times of a step.  Returns 1 + the task or measure that exceeds its limit; 0: none does. */
static u32 look(struct explorer *e)
{
	const struct sim *s = e->sim;
	u32 i, late = 0;

	for (i = 0; i < s->count; i++) {
		const struct job_task *t = &s->tasks[i];
		u64 pending = t->queued ? s->now - t->backlog[t->head] : 0, taken = e->stats[i].worst;

		if (t->task->priority && e->stats[i].dropped)
			e->full = true;
		if (pending > e->limit[i] && pending > taken)
			taken = pending;
		note(e, i, taken, &late);
	}
	for (i = 0; i < MEASURES * s->config->chain_count; i++)
		note(e, s->count + i, s->config->chains[i / MEASURES].longest[i % MEASURES], &late);
	return late;
}

/* Releases jobs at this instant, and lets time pass up to the next one. */
static void step(struct explorer *e)
{
	u32 c;

	memset(e->stats, 0, e->sim->count * sizeof(*e->stats));
	for (c = 0; c < e->sim->config->chain_count; c++)
		memset(e->sim->config->chains[c].longest, 0, sizeof(e->sim->config->chains[c].longest));
	release_some(e);
	sim_look(e->sim);
	sim_pass(e->sim, next_instant(e->sim));
}

/* Puts the state on top of the stack. */
static bool push(struct explorer *e)
{
	u8 *more;

	if (e->depth == e->room) {
		e->room = e->room ? 2 * e->room : 256;
		more = realloc(e->stack, e->room * e->map.size);
		if (!more)
			return false;
		e->stack = more;
	}
	state_save(&e->map, e->stack + e->depth++ * e->map.size);
	return true;
}

/* Handles the state after a step: its schedule is not followed further, it was seen before, or it is to be followed. */
static int arrive(struct explorer *e)
{
	u32 late = look(e);
	int fresh = late ? 0 : state_add(&e->seen, &e->map, e->sim);

	e->result->steps++;
	if (late && !e->result->late)
		e->result->late = late;
	return fresh < 0 || (fresh && !push(e)) ? -GPURT_SIM_ENOMEM : 0;
}

/* Follows all ways from the state on top of the stack. */
static int follow(struct explorer *e)
{
	int err;

	memcpy(e->here, e->stack + --e->depth * e->map.size, e->map.size);	/* pushed states take its place */
	e->digits = 0;
	e->at = 0;
	do {
		state_restore(&e->map, e->here);
		step(e);
		err = e->overflow ? -GPURT_SIM_EINVAL : arrive(e);
		if (!err && e->full)
			err = -GPURT_SIM_EFULL;
		e->result->states = e->seen.count;
		if (err || (e->result->late && (e->result->flags & GPURT_EXPLORE_STOP)))
			return err;
		/* A state may have any number of ways, and all may lead to states seen before. */
		if (e->depth * e->map.size > DEEP || e->seen.count > e->result->most_states ||
		    e->result->steps / WAYS > e->result->most_states)
			return -GPURT_SIM_ETIME;
	} while (choose_next(e));
	return 0;
}

static int search(struct explorer *e)
{
	int err;

	if (state_add(&e->seen, &e->map, e->sim) < 0 || !push(e))
		return -GPURT_SIM_ENOMEM;
	while (e->depth) {
		err = follow(e);
		if (err || (e->result->late && (e->result->flags & GPURT_EXPLORE_STOP)))
			return err;
	}
	return 0;
}

/* Every task may be released from now on, and its longest time between two releases starts now. */
static bool begin(struct explorer *e)
{
	struct job_task *t;

	for (t = e->sim->tasks; t < e->sim->tasks + e->sim->count; t++) {
		t->next_release = t->triggered || t->task->parent ? U64_MAX : 0;
		t->arrival = -(int64_t)t->task->jitter;
		if (t->task->max_period)
			t->latest = t->task->max_period + t->task->jitter;
	}
	e->sim->chooser = &e->chooser;
	if (!state_map_init(&e->map, e->sim) || !state_set_init(&e->seen, &e->map))
		return false;
	e->here = malloc(e->map.size);
	if (!e->here)
		return false;
	sim_settle(e->sim);
	return true;
}

static void tear_down(struct explorer *e)
{
	sim_free(e->sim);
	state_map_free(&e->map);
	state_set_free(&e->seen);
	free(e->stats);
	free(e->stack);
	free(e->here);
}

int gpurt_explore(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		  const struct gpurt_sim_segment *segments, const u64 *limit, struct gpurt_exploration *x, u64 *worst)
{
	struct explorer e = { .chooser.choose = choose, .result = x, .limit = limit, .worst = worst };
	int err = -GPURT_SIM_ENOMEM;

	x->states = x->steps = x->late = 0;
	if (!sim_valid(config, tasks, count, segments) || config->cross != GPURT_FACTOR_ONE || config->sporadic)
		return -GPURT_SIM_EINVAL;
	memset(worst, 0, (count + MEASURES * config->chain_count) * sizeof(*worst));
	e.stats = calloc(count + 1, sizeof(*e.stats));
	if (e.stats)
		e.sim = sim_new(config, tasks, count, segments, e.stats);
	if (e.sim && begin(&e))
		err = search(&e);
	tear_down(&e);
	return err;
}
