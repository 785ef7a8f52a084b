// SPDX-License-Identifier: GPL-2.0
/* How AMD's GPUs deal thread blocks to compute units: analysis/papers/dispatch.py, compiled. */
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "random.h"

#define ENGINES	GPURT_DISPATCH_ENGINES
#define UNITS	GPURT_DISPATCH_UNITS
#define STREAMS	GPURT_DISPATCH_STREAMS
#define DISPATCH_NEVER	(~0ULL)

/* The end of a block.  Blocks that end at the same time do so in the order in which they started. */
struct end {
	u64 time, start;
	u32 slot, engine, unit;
};

struct kernel {
	u64 launched, due;		/* due: DISPATCH_NEVER while a kernel is launched */
	u32 next, running, waiting;	/* blocks: to deal, that execute, and in slots */
	u32 active[ENGINES], actives;	/* engines with a compute unit of the mask */
	bool live;
};

struct dispatch {
	const struct gpurt_dispatch_config *config;
	const struct gpurt_dispatch_stream *streams;
	u32 count;
	u64 *times;
	u32 *finished;
	u32 free[ENGINES][UNITS];
	bool staged[ENGINES][STREAMS];
	u32 pointer[ENGINES];
	struct kernel kernels[STREAMS];
	u64 now, starts, seed;
	struct end *heap;
	u32 used;
};

static bool earlier(const struct end *a, const struct end *b)
{
	return a->time != b->time ? a->time < b->time : a->start < b->start;
}

static void push(struct dispatch *d, struct end end)
{
	u32 at = d->used++;

	while (at && earlier(&end, &d->heap[(at - 1) / 2])) {
		d->heap[at] = d->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	d->heap[at] = end;
}

static struct end pop(struct dispatch *d)
{
	struct end first = d->heap[0], last = d->heap[--d->used];
	u32 at = 0, child;

	while ((child = 2 * at + 1) < d->used) {
		if (child + 1 < d->used && earlier(&d->heap[child + 1], &d->heap[child]))
			child++;
		if (!earlier(&d->heap[child], &last))
			break;
		d->heap[at] = d->heap[child];
		at = child;
	}
	d->heap[at] = last;
	return first;
}

/* The compute unit with the most free threads, if the slot's block fits there, or UNITS. */
static u32 fit(const struct dispatch *d, u32 engine, u32 slot)
{
	u32 allowed = d->streams[slot].allowed[engine], best = UNITS, most = 0, unit;

	for (; allowed; allowed &= allowed - 1) {
		unit = (u32)__builtin_ctz(allowed);
		if (d->free[engine][unit] > most) {
			most = d->free[engine][unit];
			best = unit;
		}
	}
	return most >= d->streams[slot].threads ? best : UNITS;
}

static void start(struct dispatch *d, u32 engine, u32 slot, u32 unit)
{
	const struct gpurt_dispatch_stream *s = &d->streams[slot];
	struct end end = { .start = d->starts++, .slot = slot, .engine = engine, .unit = unit };

	d->staged[engine][slot] = false;
	d->pointer[engine] = (slot + 1) % d->count;
	d->free[engine][unit] -= s->threads;
	d->kernels[slot].waiting--;
	d->kernels[slot].running++;
	end.time = d->now + random_integer(&d->seed, s->shortest, s->longest);
	push(d, end);
}

/* Starts one block of the engine.  Returns whether it could. */
static bool start_one(struct dispatch *d, u32 engine)
{
	u32 i, slot, unit;

	for (i = 0; i < d->count; i++) {
		slot = (d->pointer[engine] + i) % d->count;
		if (!d->staged[engine][slot])
			continue;
		unit = fit(d, engine, slot);
		if (unit < UNITS) {
			start(d, engine, slot, unit);
			return true;
		}
		if (!d->config->cut_ahead)
			break;
	}
	return false;
}

/* Each ACE deals blocks until the engine whose turn it is has not yet taken its previous block. */
static bool stage(struct dispatch *d)
{
	bool any = false;
	u32 slot, engine;

	for (slot = 0; slot < d->count; slot++) {
		struct kernel *k = &d->kernels[slot];

		while (k->live && k->next < d->streams[slot].blocks) {
			engine = k->active[k->next % k->actives];
			if (d->staged[engine][slot])
				break;
			d->staged[engine][slot] = true;
			k->waiting++;
			k->next++;
			any = true;
		}
	}
	return any;
}

static void dispatch(struct dispatch *d)
{
	u32 engine;
	bool again;

	stage(d);
	do {
		for (engine = 0; engine < d->config->engines; engine++)
			while (start_one(d, engine))
				;
		again = stage(d);
	} while (again);
}

static void launch(struct dispatch *d)
{
	u32 slot;

	for (slot = 0; slot < d->count; slot++) {
		struct kernel *k = &d->kernels[slot];

		if (k->due <= d->now) {
			k->due = DISPATCH_NEVER;
			k->next = 0;
			k->launched = d->now;
			k->live = true;
		}
	}
}

static void end_block(struct dispatch *d)
{
	struct end end = pop(d);
	struct kernel *k = &d->kernels[end.slot];
	const struct gpurt_dispatch_stream *s = &d->streams[end.slot];

	d->free[end.engine][end.unit] += s->threads;
	if (--k->running || k->waiting || k->next < s->blocks)
		return;
	if (d->finished[end.slot] < d->config->room)
		d->times[(u64)end.slot * d->config->room + d->finished[end.slot]] = d->now - k->launched;
	d->finished[end.slot]++;
	k->live = false;
	k->due = d->now + s->gap;
}

static u64 next_event(const struct dispatch *d)
{
	u64 next = d->used ? d->heap[0].time : DISPATCH_NEVER;
	u32 slot;

	for (slot = 0; slot < d->count; slot++)
		if (d->kernels[slot].due < next)
			next = d->kernels[slot].due;
	return next;
}

static int run(struct dispatch *d)
{
	while (d->finished[0] < d->config->launches) {
		if (d->starts > d->config->most_starts)
			return -GPURT_DISPATCH_ETIME;
		launch(d);
		dispatch(d);
		d->now = next_event(d);
		while (d->used && d->heap[0].time == d->now)
			end_block(d);
	}
	return 0;
}

/* Returns whether everything has a place and each block fits somewhere. */
static bool set_up(struct dispatch *d)
{
	const struct gpurt_dispatch_config *c = d->config;
	u32 engine, slot, unit;

	if (!d->count || d->count > STREAMS || !c->engines || c->engines > ENGINES)
		return false;
	for (engine = 0; engine < c->engines; engine++) {
		if (c->units[engine] > UNITS)
			return false;
		for (unit = 0; unit < c->units[engine]; unit++)
			d->free[engine][unit] = c->threads;
	}
	for (slot = 0; slot < d->count; slot++) {
		const struct gpurt_dispatch_stream *s = &d->streams[slot];
		struct kernel *k = &d->kernels[slot];

		k->due = s->offset;
		for (engine = 0; engine < c->engines; engine++) {
			if ((u64)s->allowed[engine] >> c->units[engine])
				return false;
			if (s->allowed[engine])
				k->active[k->actives++] = engine;
		}
		if (!k->actives || !s->blocks || !s->threads || s->threads > c->threads || !s->shortest ||
		    s->shortest > s->longest)
			return false;
	}
	return true;
}

int gpurt_dispatch(const struct gpurt_dispatch_config *config, const struct gpurt_dispatch_stream *streams, u32 count,
		   u64 *times, u32 *finished)
{
	struct dispatch d = { .config = config, .streams = streams, .count = count, .times = times, .finished = finished,
			      .seed = config->seed };
	int err;

	if (!set_up(&d))
		return -GPURT_DISPATCH_EINVAL;
	memset(finished, 0, count * sizeof(*finished));
	d.heap = malloc((u64)ENGINES * UNITS * config->threads * sizeof(*d.heap));	/* a block has a thread at least */
	if (!d.heap)
		return -GPURT_DISPATCH_ENOMEM;
	err = run(&d);
	free(d.heap);
	return err;
}
