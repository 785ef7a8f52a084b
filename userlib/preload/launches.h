/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Wrappers of a library's entry points, by what a function does.  Each macro defines the function that a program finds, and
 * a slot for the real function.  The slot is filled when the program looks the function up by name, or on first use.
 *
 * All have the same parameters: the symbol, whether its default stream is that of the thread, the stream, the
 * parameters and the arguments.  A function gives work to that stream or waits for it (NULL: the default stream).  A
 * parameter that a macro reads has one of these names: stream, event, context, made (where the new stream goes), flags.
 * wrappers.py writes them from a table.
 *
 * A file that includes this header defines FAILURE, what a wrapper returns if there is no real function, and:
 *	void *library_symbol(const char *name)			the real function
 *	struct place here(const void *stream, bool per_thread)	the place that a call of this thread gives work to
 */
#ifndef GPURT_PRELOAD_LAUNCHES_H
#define GPURT_PRELOAD_LAUNCHES_H

#include <pthread.h>
#include <string.h>

struct entry_point {
	const char *name;	/* the symbol */
	/*
	 * For look-ups that select a variant: the name without a suffix, the flag, and the versions.  The library that
	 * is asked answers with this function from version @since on, but not from @until on.
	 */
	const char *base;
	bool per_thread;
	int since, until;
	void *wrapper;
	void **real;
};

#define REAL(name, params)							\
	static int (*real_##name) params;					\
	PRELOAD_EXPORT int name params;						\
	PRELOAD_EXPORT int name params

#define FIND_REAL(name)								\
	do {									\
		if (!real_##name)						\
			real_##name = (__typeof__(real_##name))library_symbol(#name); \
		if (!real_##name)						\
			return FAILURE;						\
	} while (0)

/* The launches of one call: one a device at most. */
struct launch_list {
	unsigned int number;
	void *launches[GPURT_MAX_GPUS];
};

static inline void launch_one_more(struct launch_list *list, const struct place *place)
{
	if (list->number < GPURT_MAX_GPUS)
		list->launches[list->number++] = segments_launch(place);
}

static inline void launched_all(void *launches)
{
	struct launch_list *list = launches;

	while (list->number)
		segments_launched(list->launches[--list->number]);
}

/* The real call of a launch, which is under way until the call returns or its thread is cancelled in there. */
#define REAL_CALL(over, launch, name, args)					\
	do {									\
		pthread_cleanup_push(over, launch);				\
		result = real_##name args;					\
		pthread_cleanup_pop(1);						\
	} while (0)
#define REAL_LAUNCH(launch, name, args) REAL_CALL(segments_launched, launch, name, args)
#define REAL_LAUNCHES(list, name, args) REAL_CALL(launched_all, list, name, args)

/* Gives work to the stream and returns at once. */
#define WORK(name, per_thread, stream, params, args)				\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	REAL_LAUNCH(segments_launch(&place), name, args);			\
	return result;								\
}

/* Takes its turn in the stream, but gives the GPU no work that anything waits for by itself. */
#define TURN(name, per_thread, stream, params, args)				\
REAL(name, params)								\
{										\
	struct place place;							\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	segments_turn(&place);							\
	return real_##name args;						\
}

/* Gives work to the stream and, if @waits, waits for it. */
#define COPY_IF(name, per_thread, stream, waits, params, args)			\
REAL(name, params)								\
{										\
	struct snapshot *snapshot;						\
	void *launch;								\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	launch = segments_launch(&place);					\
	snapshot = !place.captured && (waits) ? segments_snapshot(&place) : NULL; \
	pthread_cleanup_push(segments_launched, launch);			\
	result = real_##name args;						\
	pthread_cleanup_pop(!snapshot);						\
	segments_copied(launch, snapshot, !result);				\
	return result;								\
}

#define COPY(name, per_thread, stream, params, args)				\
	COPY_IF(name, per_thread, stream, true, params, args)

/* Waits for what @taken holds, or returns whether it is done. */
#define WAIT(name, taken, params, args)						\
REAL(name, params)								\
{										\
	struct snapshot *snapshot;						\
	int result;								\
										\
	FIND_REAL(name);							\
	snapshot = taken;							\
	result = real_##name args;						\
	segments_synchronised(snapshot, !result);				\
	return result;								\
}

#define WAIT_STREAM(name, per_thread, stream, params, args)			\
	WAIT(name, stream_snapshot(here(stream, per_thread)), params, args)
#define WAIT_EVENT(name, per_thread, stream, params, args) WAIT(name, segments_snapshot_event(event), params, args)

static inline struct snapshot *stream_snapshot(struct place place)
{
	return segments_snapshot(&place);
}

/*
 * Notes what the event covers before the real call records it.  Work that another thread launches in between then
 * counts as not covered.  @by_graph: whether a node of a graph records the event, too.
 */
#define RECORD_WITH(by_graph, name, per_thread, stream, params, args)		\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	if (by_graph)								\
		segments_graph_event(event);					\
	segments_record(event, &place);						\
	result = real_##name args;						\
	if (result)								\
		segments_forget_event(event);					\
	return result;								\
}

#define RECORD(...) RECORD_WITH(false, __VA_ARGS__)
/* If the stream is captured and the flag is set, a node of the graph records the event. */
#define RECORD_FLAGS(...) RECORD_WITH(place.captured && flags & RECORD_EXTERNAL, __VA_ARGS__)

/* The stream's later work waits for the event. */
#define AFTER_EVENT(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	result = real_##name args;						\
	if (!result)								\
		segments_wait_event(&place, event);				\
	return result;								\
}

/* Makes a graph record the event whenever it is launched. */
#define GRAPH_EVENT(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	FIND_REAL(name);							\
	segments_graph_event(event);						\
	return real_##name args;						\
}

/* Makes or changes a node of a graph. */
#define GRAPH_NODE(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	const struct graph_node *made = node;					\
										\
	FIND_REAL(name);							\
	if (made && made->type == RECORDS_EVENT)				\
		segments_graph_event(made->event);				\
	return real_##name args;						\
}

#define DESTROY_EVENT(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	FIND_REAL(name);							\
	segments_destroy_event(event);						\
	return real_##name args;						\
}

/* Records the event with work that is not known here. */
#define FORGET_EVENT(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	FIND_REAL(name);							\
	segments_forget_event(event);						\
	return real_##name args;						\
}

#define MAKE_STREAM(name, per_thread, stream, params, args)			\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	result = real_##name args;						\
	if (!result) {								\
		place = here(*(void **)made, false);				\
		segments_stream(&place, flags & 1);				\
	}									\
	return result;								\
}

/* Returns the wrapper of the symbol @name and stores the @real function for it, or returns NULL if there is none. */
static inline void *entry_wrapper(const struct entry_point *entries, size_t count, const char *name, void *real)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(entries[i].name, name))
			continue;
		if (entries[i].wrapper != real)		/* the look-up may have found the wrapper itself */
			*entries[i].real = real;
		return entries[i].wrapper;
	}
	return NULL;
}

/* Whether the first @length characters of @name are one of the names. */
static inline bool name_listed(const char *const *names, size_t count, const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strncmp(names[i], name, length) && !names[i][length])
			return true;
	return false;
}

#define ENTRY_OF(name, base, per_thread, since, until)				\
	{ #name, base, per_thread, since, until, (void *)name, (void **)&real_##name }
#define ENTRY(name) ENTRY_OF(name, NULL, false, 0, 0)

#endif
