// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Automatic segments.  A segment begins with the first work after idle and ends when the program has waited for
 * everything that it launched on that GPU.
 *
 * One counter numbers every launch.  Each stream has a number up to which its launches are known to be done.  A stream
 * is idle if its last launch has at most that number and no launch is under way.  A launch is under way from before the
 * real call until after it, and gets a new number then.  So a wait by another thread that may have missed the work does
 * not end the segment.
 *
 * A wait for a stream or an event can prove that work of other streams is done as well.  Its proof is the cover: pairs
 * of a stream and a number.  The legacy default stream is ordered after all blocking streams of its context, and they
 * after it.  A stream that waits for an event takes over the event's cover.
 *
 * Work that is not known to be done counts as not done.  So a segment can last longer than it must, but never shorter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../handle.h"
#include "mutex.h"
#include "preload.h"

#define COVER 64
#define BUCKETS 1024	/* of events, by handle */

struct entry { struct stream *stream; uint64_t number; };

struct cover {
	unsigned int size;
	struct entry entries[COVER];
};

struct stream {
	struct stream *next;
	struct place place;
	bool nonblocking;
	unsigned int underway;	/* launches whose real call is not over */
	uint64_t launched, done;
	struct cover cover;
};

struct event {
	struct event *next;
	const void *handle;
	bool of_graph;		/* a graph records it, too: it covers nothing */
	struct cover cover;
};

struct snapshot {
	/* If @number is not 0: all work of @context up to @number. */
	const void *context;
	uint64_t number;
	/* Otherwise only this. */
	struct cover cover;
};

static pthread_mutex_t lock;
static struct stream *streams;
static struct event *events[BUCKETS];
static uint64_t number;
static bool open_segment[GPURT_MAX_GPUS];
/* The only stream of a segment that began beside others; NULL: the segment did not. */
static const struct stream *beside[GPURT_MAX_GPUS];
static atomic_bool explicit;	/* the program marks its segments itself */

void segments_lock(void)
{
	preload_enter();
	mutex_take(&lock);
}

void segments_unlock(void)
{
	mutex_release(&lock);
	preload_leave();
}

static bool enabled(void)
{
	const char *value = getenv("GPURT_AUTO");

	return !explicit && (!value || strcmp(value, "0"));
}

static bool idle(const struct stream *s)
{
	return !s->underway && s->launched <= s->done;
}

/* A stream has a context of its own.  The context that is current where the program uses the stream can be another. */
static bool same(const struct place *a, const struct place *b)
{
	return a->stream == b->stream && a->thread == b->thread &&
	       (a->stream != DEFAULT_STREAM || a->context == b->context);
}

static struct stream *stream_of(const struct place *place, bool make)
{
	struct stream *s;

	for (s = streams; s; s = s->next)
		if (same(&s->place, place))
			return s;
	s = make ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	s->place = *place;
	/*
	 * A stream whose creation was not seen may be non-blocking, so nothing is concluded from its order.  The legacy
	 * default stream is not ordered with itself.
	 */
	s->nonblocking = !place->thread;
	s->next = streams;
	streams = s;
	return s;
}

static void cover_add(struct cover *cover, struct stream *s, uint64_t upto)
{
	unsigned int i, kept = 0;

	for (i = 0; i < cover->size; i++) {
		if (cover->entries[i].stream == s) {
			if (cover->entries[i].number < upto)
				cover->entries[i].number = upto;
			return;
		}
	}
	for (i = 0; i < cover->size; i++)	/* drop entries that are done */
		if (cover->entries[i].number > cover->entries[i].stream->done)
			cover->entries[kept++] = cover->entries[i];
	cover->size = kept;
	if (kept < COVER)
		cover->entries[cover->size++] = (struct entry){ s, upto };
}

static void cover_join(struct cover *cover, const struct cover *other)
{
	unsigned int i;

	for (i = 0; i < other->size; i++)
		cover_add(cover, other->entries[i].stream, other->entries[i].number);
}

static bool legacy(const struct place *place)
{
	return place->stream == DEFAULT_STREAM && !place->thread;
}

/* Adds to a stream's cover what the order between the legacy default stream and blocking streams proves. */
static void order(struct stream *s)
{
	struct stream *other;

	for (other = streams; other; other = other->next) {
		if (other == s || other->place.context != s->place.context)
			continue;
		if ((legacy(&s->place) && !other->nonblocking) || (!s->nonblocking && legacy(&other->place))) {
			cover_join(&s->cover, &other->cover);
			if (!idle(other))
				cover_add(&s->cover, other, other->launched);
		}
	}
}

/* Most programs spin when they synchronise; the others lose nothing by form `owner`. */
static unsigned int form(void)
{
	return getenv("GPURT_FORM") ? 0 : GPURT_BEGIN_OWNER;
}

/*
 * How long others may delay a segment that began beside them is known only while it has the kernels of one stream.
 * Before any other work, a begin with that purpose takes the others off.
 */
static void stand_alone(unsigned int gpu)
{
	beside[gpu] = NULL;
	if (!gpurt_begin_on(NULL, gpu, form(), 0))
		gpurt_end_on(NULL, gpu, 0);
}

static void begin(unsigned int gpu, const struct stream *s, bool kernel)
{
	bool yields = kernel;

	if (open_segment[gpu]) {
		if (beside[gpu] && (beside[gpu] != s || !kernel))
			stand_alone(gpu);
		return;
	}
	if (!agent_begins_freely(gpu, form(), &yields)) {
		yields = false;
		if (gpurt_begin_on(NULL, gpu, form() | GPURT_BEGIN_YIELD, 0))
			return;
	}
	beside[gpu] = yields ? s : NULL;
	open_segment[gpu] = true;
	preload_count(COUNT_SEGMENTS);
}

static void end(unsigned int gpu)
{
	open_segment[gpu] = false;
	gpurt_end_on(NULL, gpu, 0);
}

/* Whether a host manages this process's TSGs on that GPU.  If not, segments are useless there. */
static bool managed(unsigned int gpu)
{
	unsigned int gpus[GPURT_MAX_GPUS], n, i;

	preload_lock();
	n = agent_gpus(gpus, GPURT_MAX_GPUS);
	preload_unlock();
	for (i = 0; i < n; i++)
		if (gpus[i] == gpu)
			return true;
	return false;
}

void *segments_launch(const struct place *place)
{
	struct stream *s;

	if (place->captured || place->gpu >= GPURT_MAX_GPUS)
		return NULL;
	segments_lock();
	preload_count(COUNT_LAUNCHES);
	s = enabled() && managed(place->gpu) ? stream_of(place, true) : NULL;
	if (s) {
		order(s);
		s->launched = ++number;
		s->underway++;
		begin(s->place.gpu, s, place->kernel);
	}
	segments_unlock();
	return s;
}

void segments_launched(void *launch)
{
	struct stream *s = launch;

	if (!s)
		return;
	segments_lock();
	s->underway--;
	s->launched = ++number;
	segments_unlock();
}

void segments_turn(const struct place *place)
{
	struct stream *s;

	if (place->captured)
		return;
	segments_lock();
	s = stream_of(place, false);
	if (s && !idle(s))
		s->launched = ++number;
	segments_unlock();
}

void segments_stream(const struct place *place, bool nonblocking)
{
	struct stream *s;

	segments_lock();
	s = stream_of(place, false);
	if (s && !idle(s))	/* a destroyed stream had this handle: a wait for its context ends its work */
		s->place.stream = s;
	s = stream_of(place, true);
	if (s) {
		s->place = *place;
		s->nonblocking = nonblocking;
	}
	segments_unlock();
}

struct snapshot *segments_snapshot(const struct place *place)
{
	struct snapshot *made = calloc(1, sizeof(*made));
	struct stream *s;

	segments_lock();
	s = stream_of(place, false);
	if (made && s) {
		made->cover = s->cover;
		cover_add(&made->cover, s, s->launched);
	}
	segments_unlock();
	return made;
}

struct snapshot *segments_snapshot_context(const void *context)
{
	struct snapshot *made = calloc(1, sizeof(*made));

	segments_lock();
	if (made) {
		made->context = context;
		made->number = number;
	}
	segments_unlock();
	return made;
}

static struct event **bucket(const void *handle)
{
	return &events[((uintptr_t)handle >> 4) % BUCKETS];
}

static struct event *event_of(const void *handle, bool make)
{
	struct event *e;

	for (e = *bucket(handle); e; e = e->next)
		if (e->handle == handle)
			return e;
	e = make ? calloc(1, sizeof(*e)) : NULL;
	if (!e)
		return NULL;
	e->handle = handle;
	e->next = *bucket(handle);
	*bucket(handle) = e;
	return e;
}

struct snapshot *segments_snapshot_event(const void *event)
{
	struct snapshot *made = calloc(1, sizeof(*made));
	struct event *e;

	segments_lock();
	e = event_of(event, false);
	if (made && e)
		made->cover = e->cover;
	segments_unlock();
	return made;
}

/* Ends the segment on each GPU that has no outstanding work. */
static void finish(void)
{
	bool busy[GPURT_MAX_GPUS] = { false };
	const struct stream *s;
	unsigned int gpu;

	for (s = streams; s; s = s->next)
		if (!idle(s))
			busy[s->place.gpu] = true;
	for (gpu = 0; gpu < GPURT_MAX_GPUS; gpu++)
		if (open_segment[gpu] && !busy[gpu])
			end(gpu);
}

static void done_upto(struct stream *s, uint64_t upto)
{
	if (s->done < upto)
		s->done = upto;
}

void segments_synchronised(struct snapshot *snapshot, bool done)
{
	struct stream *s;
	unsigned int i;

	if (!snapshot)
		return;
	segments_lock();
	if (done) {
		for (i = 0; i < snapshot->cover.size; i++)
			done_upto(snapshot->cover.entries[i].stream, snapshot->cover.entries[i].number);
		for (s = streams; s && snapshot->number; s = s->next)
			if (s->place.context == snapshot->context)
				done_upto(s, snapshot->number);
		finish();
	}
	segments_unlock();
	free(snapshot);
}

/* The number from before the real call stays: later work of the stream may be under way. */
void segments_copied(void *launch, struct snapshot *snapshot, bool done)
{
	struct stream *s = launch;

	if (!snapshot)
		return;
	if (!done)
		segments_launched(launch);
	if (done && s) {
		segments_lock();
		s->underway--;
		segments_unlock();
	}
	segments_synchronised(snapshot, done);
}

void segments_record(const void *event, const struct place *place)
{
	struct stream *s;
	struct event *e;

	if (place->captured)
		return;
	segments_lock();
	e = event_of(event, true);
	s = stream_of(place, false);
	if (e) {
		e->cover.size = 0;
		if (s && !e->of_graph) {
			order(s);
			cover_join(&e->cover, &s->cover);
			cover_add(&e->cover, s, s->launched);
		}
	}
	segments_unlock();
}

void segments_wait_event(const struct place *place, const void *event)
{
	struct stream *s;
	struct event *e;

	if (place->captured)
		return;
	segments_lock();
	e = event_of(event, false);
	s = e ? stream_of(place, true) : NULL;
	if (s)
		cover_join(&s->cover, &e->cover);
	segments_unlock();
}

void segments_forget_event(const void *event)
{
	struct event *e;

	segments_lock();
	e = event_of(event, false);
	if (e)
		e->cover.size = 0;
	segments_unlock();
}

void segments_graph_event(const void *event)
{
	struct event *e;

	segments_lock();
	e = event_of(event, true);
	if (e) {
		e->of_graph = true;
		e->cover.size = 0;
	}
	segments_unlock();
}

void segments_destroy_event(const void *event)
{
	struct event **link, *e;

	segments_lock();
	for (link = bucket(event); (e = *link) != NULL; link = &e->next) {
		if (e->handle == event) {
			*link = e->next;
			free(e);
			break;
		}
	}
	segments_unlock();
}

/* The program marks its segments itself: ends the automatic ones and begins no more. */
void segments_explicit(void)
{
	unsigned int gpu;
	bool first;

	segments_lock();
	first = !explicit;
	for (gpu = 0; first && gpu < GPURT_MAX_GPUS; gpu++)
		if (open_segment[gpu])
			end(gpu);
	explicit = true;
	segments_unlock();
	if (first)
		agent_explicit();
}

bool segments_automatic(void)
{
	return enabled();
}

/* There is no work yet.  In a child: the parent's work and segments are not the child's. */
void segments_begin(void)
{
	streams = NULL;
	memset(events, 0, sizeof(events));
	memset(open_segment, 0, sizeof(open_segment));
	memset(beside, 0, sizeof(beside));
	mutex_begins(&lock);
}
