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
#define WAYS 200		/* for each of the most states, on average */
#define DEEP (1ULL << 30)	/* bytes of states that are still to be followed, at most */

/* The origin of a state: the previous state, and the choices, as the digits of one number. */
struct origin {
	u32 before;
	u64 chosen;
};

struct explorer {
	struct chooser chooser;	/* first member */
	struct sim *sim;
	struct state_map map;
	struct gpurt_exploration *result;
	const u64 *limit;
	u64 *worst;
	u32 *worst_at;		/* by task and measure: the origin of the step in which that was seen; U32_MAX: none */
	struct gpurt_sim_stats *stats;
	/* choices of the step */
	u32 digits, at;
	bool overflow, full;
	u64 digit[CHOICES], base[CHOICES];
	/* states seen, and the way to each */
	struct state_set seen;
	struct origin *origins;
	u32 origin_count;
	u64 origin_room;
	/* states to follow, each its origin and its memory */
	u8 *stack;
	u64 depth, stack_room;
	size_t frame;
	u8 *here, *first;	/* the state that is followed, and the first of all */
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

/* The choices as one number, which replay() reads: the first choice is its lowest digit. */
static u64 encoded(const struct explorer *e)
{
	u64 sum = 0;
	u32 i;

	for (i = e->digits; i--;)
		sum = sum * e->base[i] + e->digit[i];
	return sum;
}

/* A step that reads its choices off a number. */
static u64 replay(struct chooser *chooser, u64 n)
{
	struct explorer *e = (struct explorer *)chooser;
	u64 digit = e->digit[0] % n;

	e->digit[0] /= n;
	return digit;
}

/* Whether a job may be released now.  Best effort has one at a time: else its jobs would pile up for ever. */
static bool releasable(const struct sim *s, const struct job_task *t)
{
	return t->next_release <= s->now && (t->task->priority || !t->queued);
}

/* Whether a task must be released as soon as it may be. */
static bool due(const struct explorer *e, const struct job_task *t)
{
	return ((e->result->flags & GPURT_EXPLORE_PERIODIC) && t->job) || t->latest <= e->sim->now;
}

/* Free threads may begin with these jobs of this instant before other jobs of this instant come. */
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

/* When something happens or can be chosen next. */
static u64 next_instant(const struct sim *s)
{
	const struct job_task *t;
	u64 next = sim_next(s);

	if (s->config->yield.on && next <= s->now)
		return s->now;	/* what takes no time there is not over yet */
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

/* Notes what a step has shown of task or measure @i.  Returns whether it is more than before. */
static bool noted(struct explorer *e, u32 i, u64 taken, u32 *late)
{
	if (taken > e->limit[i])
		*late = i + 1;
	if (taken <= e->worst[i])
		return false;
	e->worst[i] = taken;
	e->worst_at[i] = e->origin_count;	/* which this step gets */
	return true;
}

/* Notes the longest times of a step.  Returns whether one is longer than before; *@late: 1 + what is beyond its limit. */
static bool look(struct explorer *e, u32 *late)
{
	const struct sim *s = e->sim;
	bool longer = false;
	u32 i;

	*late = 0;
	for (i = 0; i < s->count; i++) {
		const struct job_task *t = &s->tasks[i];
		u64 pending = t->queued ? s->now - t->backlog[t->head] : 0, taken = e->stats[i].worst;

		if (t->task->priority && e->stats[i].dropped)
			e->full = true;
		if (pending > e->limit[i] && pending > taken)
			taken = pending;
		longer |= noted(e, i, taken, late);
	}
	for (i = 0; i < MEASURES * s->config->chain_count; i++)
		longer |= noted(e, s->count + i, s->config->chains[i / MEASURES].longest[i % MEASURES], late);
	return longer;
}

/* Releases at this instant, and time up to the next. */
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

static bool grow(void **memory, size_t size, u64 *room, u64 needed)
{
	u64 wanted = *room ? 2 * *room : 256;
	void *more;

	if (needed < *room)
		return true;
	more = realloc(*memory, size * wanted);
	if (!more)
		return false;
	*memory = more;
	*room = wanted;
	return true;
}

static bool remember(struct explorer *e, u32 before)
{
	if (e->origin_count == U32_MAX ||
	    !grow((void **)&e->origins, sizeof(*e->origins), &e->origin_room, e->origin_count))
		return false;
	e->origins[e->origin_count++] = (struct origin){ .before = before, .chosen = encoded(e) };
	return true;
}

/* Puts the state on top of the stack. */
static bool push(struct explorer *e, u32 origin)
{
	u8 *frame;

	if (!grow((void **)&e->stack, e->frame, &e->stack_room, e->depth))
		return false;
	frame = e->stack + e->depth++ * e->frame;
	memcpy(frame, &origin, sizeof(origin));
	state_save(&e->map, frame + sizeof(u64));
	return true;
}

/* Arrives at what a step led to: a schedule that is not followed further, a state seen before, or one to follow. */
static int arrive(struct explorer *e, u32 origin)
{
	u32 late;
	bool longer = look(e, &late);
	int fresh = late ? 0 : state_add(&e->seen, &e->map, e->sim);

	e->result->steps++;
	if (fresh < 0 || ((fresh || longer) && !remember(e, origin)))
		return -GPURT_SIM_ENOMEM;
	if (late && !e->result->late)
		e->result->late = late;
	return fresh && !push(e, e->origin_count - 1) ? -GPURT_SIM_ENOMEM : 0;
}

/* Follows the state on top of the stack in all ways. */
static int follow(struct explorer *e)
{
	const u8 *top = e->stack + --e->depth * e->frame;
	u32 origin;
	int err;

	memcpy(&origin, top, sizeof(origin));
	memcpy(e->here, top + sizeof(u64), e->map.size);	/* what is pushed takes its place */
	e->digits = 0;
	e->at = 0;
	do {
		state_restore(&e->map, e->here);
		step(e);
		err = e->overflow ? -GPURT_SIM_EINVAL : arrive(e, origin);
		if (!err && e->full)
			err = -GPURT_SIM_EFULL;
		e->result->states = e->seen.count;
		if (err || (e->result->late && (e->result->flags & GPURT_EXPLORE_STOP)))
			return err;
		/* One state may have any number of ways, and all may lead to states that were seen. */
		if (e->depth * e->frame > DEEP || e->seen.count > e->result->most_states ||
		    e->result->steps / WAYS > e->result->most_states)
			return -GPURT_SIM_ETIME;
	} while (choose_next(e));
	return 0;
}

static int search(struct explorer *e)
{
	int err;

	if (state_add(&e->seen, &e->map, e->sim) < 0 || !remember(e, U32_MAX) || !push(e, 0))
		return -GPURT_SIM_ENOMEM;
	while (e->depth) {
		err = follow(e);
		if (err || (e->result->late && (e->result->flags & GPURT_EXPLORE_STOP)))
			return err;
	}
	return 0;
}

/* Goes the way to the worst response of task @show once more, and records it. */
static int show_worst(struct explorer *e, u32 show, struct gpurt_sim_event *events, u64 room, u64 *used)
{
	u32 at, n, count = 0, *way;

	*used = 0;
	if (e->worst_at[show] == U32_MAX)
		return 0;
	for (at = e->worst_at[show]; at; at = e->origins[at].before)
		count++;
	way = malloc((count + 1) * sizeof(*way));
	if (!way)
		return -GPURT_SIM_ENOMEM;
	for (at = e->worst_at[show], n = count; at; at = e->origins[at].before)
		way[--n] = at;
	state_restore(&e->map, e->first);
	e->chooser.choose = replay;
	e->sim->events = events;
	e->sim->room = events ? room : 0;
	for (at = 0; at < count; at++) {
		e->digit[0] = e->origins[way[at]].chosen;
		step(e);
	}
	*used = e->sim->used;
	free(way);
	return 0;
}

static bool set_up(struct explorer *e, u32 count, u32 shown)
{
	u32 i;

	e->stats = calloc(count + 1, sizeof(*e->stats));
	e->worst_at = malloc((shown + 1) * sizeof(*e->worst_at));
	if (!e->stats || !e->worst_at)
		return false;
	for (i = 0; i < shown; i++) {
		e->worst[i] = 0;
		e->worst_at[i] = U32_MAX;
	}
	return true;
}

/* Every task may be released from now on, and is within the longest time between two releases. */
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
	e->frame = sizeof(u64) + e->map.size;
	e->here = malloc(e->map.size);
	e->first = malloc(e->map.size);
	if (!e->here || !e->first)
		return false;
	sim_settle(e->sim);
	state_save(&e->map, e->first);
	return true;
}

static void tear_down(struct explorer *e)
{
	sim_free(e->sim);
	state_map_free(&e->map);
	state_set_free(&e->seen);
	free(e->stats);
	free(e->worst_at);
	free(e->origins);
	free(e->stack);
	free(e->here);
	free(e->first);
}

int gpurt_explore(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		  const struct gpurt_sim_segment *segments, const u64 *limit, struct gpurt_exploration *x, u64 *worst,
		  u32 show, struct gpurt_sim_event *events, u64 room, u64 *used)
{
	struct explorer e = { .chooser.choose = choose, .result = x, .limit = limit, .worst = worst };
	u32 shown = count + MEASURES * config->chain_count;
	int err = -GPURT_SIM_ENOMEM;

	x->states = x->steps = x->late = 0;
	if (!sim_valid(config, tasks, count, segments) || config->cross != GPURT_FACTOR_ONE || config->sporadic)
		return -GPURT_SIM_EINVAL;
	if (set_up(&e, count, shown))
		e.sim = sim_new(config, tasks, count, segments, e.stats);
	if (e.sim && begin(&e))
		err = search(&e);
	if (!err && show < shown)
		err = show_worst(&e, show, events, room, used);
	tear_down(&e);
	return err;
}
