/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Wrappers of a library's entry points.  Each macro defines the function that a program finds, and a slot for the real
 * function.  The slot is filled when the program looks the function up by name, or on first use.
 *
 * A file that includes this header defines FAILURE, what a wrapper returns if there is no real function, and:
 *	void *library_symbol(const char *name)			the real function
 *	struct place here(const void *stream, bool per_thread)	the place that a call of this thread gives work to
 */
#ifndef GPURT_PRELOAD_LAUNCHES_H
#define GPURT_PRELOAD_LAUNCHES_H

#include <string.h>

struct entry_point {
	const char *name;	/* the symbol */
	/*
	 * For look-ups that select a variant: the name without a suffix, the flag, and the versions for which the
	 * library that is asked answers with this function: from @since on, but not from @until on.
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

/* Gives work to @stream and returns at once. */
#define LAUNCH(name, per_thread, stream, params, args)				\
REAL(name, params)								\
{										\
	struct place place;							\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	segments_launch(&place);						\
	return real_##name args;						\
}

/* Gives work to the default stream and waits for it. */
#define COPY(name, per_thread, params, args)					\
REAL(name, params)								\
{										\
	struct snapshot *snapshot;						\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(NULL, per_thread);						\
	segments_launch(&place);						\
	snapshot = segments_snapshot(&place);					\
	result = real_##name args;						\
	segments_synchronised(snapshot, !result);				\
	return result;								\
}

/* Waits for @stream, or returns whether it is done. */
#define WAIT_STREAM(name, per_thread)						\
REAL(name, (void *stream))							\
{										\
	struct snapshot *snapshot;						\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	snapshot = segments_snapshot(&place);					\
	result = real_##name(stream);						\
	segments_synchronised(snapshot, !result);				\
	return result;								\
}

/* Waits for all work of @context. */
#define WAIT_CONTEXT(name, context, params, args)				\
REAL(name, params)								\
{										\
	struct snapshot *snapshot;						\
	int result;								\
										\
	FIND_REAL(name);							\
	snapshot = segments_snapshot_context(context);				\
	result = real_##name args;						\
	segments_synchronised(snapshot, !result);				\
	return result;								\
}

#define WAIT_EVENT(name)							\
REAL(name, (void *event))							\
{										\
	struct snapshot *snapshot;						\
	int result;								\
										\
	FIND_REAL(name);							\
	snapshot = segments_snapshot_event(event);				\
	result = real_##name(event);						\
	segments_synchronised(snapshot, !result);				\
	return result;								\
}

/*
 * Notes what the event covers before the real call records it.  Work that another thread launches in between then
 * counts as not covered.
 */
#define RECORD(name, per_thread, params, args)					\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	segments_record(event, &place);						\
	result = real_##name args;						\
	if (result)								\
		segments_forget_event(event);					\
	return result;								\
}

#define STREAM_WAITS(name, per_thread)						\
REAL(name, (void *stream, void *event, unsigned int flags))			\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	place = here(stream, per_thread);					\
	result = real_##name(stream, event, flags);				\
	if (!result)								\
		segments_wait_event(&place, event);				\
	return result;								\
}

#define FORGET_EVENT(name)							\
REAL(name, (void *event))							\
{										\
	FIND_REAL(name);							\
	segments_forget_event(event);						\
	return real_##name(event);						\
}

#define MAKE_STREAM(name, params, args)						\
REAL(name, params)								\
{										\
	struct place place;							\
	int result;								\
										\
	FIND_REAL(name);							\
	result = real_##name args;						\
	if (!result) {								\
		place = here(*stream, false);					\
		segments_stream(&place, flags & 1);				\
	}									\
	return result;								\
}

/* Returns the wrapper of the symbol @name and stores the @real function for it, or returns NULL if there is none. */
static inline void *entry_wrapper(const struct entry_point *entries, size_t count, const char *name, void *real)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(entries[i].name, name) || entries[i].wrapper == real)
			continue;
		*entries[i].real = real;
		return entries[i].wrapper;
	}
	return NULL;
}

#define ENTRY_OF(name, base, per_thread, since, until)				\
	{ #name, base, per_thread, since, until, (void *)name, (void **)&real_##name }
#define ENTRY(name) ENTRY_OF(name, NULL, false, 0, 0)

#endif
