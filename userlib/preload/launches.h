/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Wrappers of a library's entry points, by what a function does.  Each macro defines the function that a program finds, and
 * a slot for the real function.  The slot is filled when the program looks the function up by name, or on first use.
 *
 * All have the same parameters: the symbol, whether its default stream is that of the thread, the stream, the
 * parameters and the arguments.  A function gives work to that stream or waits for it (NULL: the default stream).
 * Macros read parameters by these names: stream, event, context, made (where the new stream goes), flags.  wrappers.py
 * writes the wrappers from a table.
 *
 * The real function of a wrapper is the next one in the order of libraries: the driver's, or the function of another
 * interposer behind this library, which calls the driver's.
 *
 * A file that includes this header defines FAILURE, what a wrapper returns if there is no real function, and:
 *	void *driver_symbol(const char *name)			the driver's own function
 *	struct place here(const void *stream, bool per_thread)	the place that a call of this thread gives work to
 */
#ifndef GPURT_PRELOAD_LAUNCHES_H
#define GPURT_PRELOAD_LAUNCHES_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Defines a function that calls the driver's own, past all wrappers. */
#define ASK(name, params)							\
	static int (*name) params;						\
	name = name ? name : (__typeof__(name))driver_symbol(#name)

static void *driver_symbol(const char *name);
/* The real function for a program that is linked to the name. */
static void *next_symbol(const char *name);

struct entry_point {
	const char *name;	/* the symbol */
	/*
	 * For look-ups that select a variant: the name without a suffix, the flag, and the versions.  The library that
	 * is asked answers with this function from version @since on, but not from @until on.
	 */
	const char *base;
	bool per_thread;
	int since, until;
	void *wrapper;		/* this library's */
	void *first;		/* the loader's choice: this library's, or that of an interposer before it */
	void **real;
};

/* The slot of the wrapper that this thread is in, and an address in the code that called the last wrapper. */
static _Thread_local struct { void *slot; const void *caller; } inside __attribute__((tls_model("initial-exec")));

/*
 * Another interposer may take this wrapper for the driver's function.  Then it calls the wrapper while the wrapper
 * waits for its real function, and the wrapper calls the driver.
 */
#define REAL(name, params, args)						\
	static int (*real_##name) params;					\
	static int wrapped_##name params;					\
	PRELOAD_EXPORT int name params;						\
	extern __attribute__((alias(#name), visibility("hidden"))) int own_##name params; \
	PRELOAD_EXPORT int name params						\
	{									\
		static __typeof__(real_##name) last;				\
		void *outer = inside.slot;					\
		int result;							\
										\
		if (outer == &real_##name) {					\
			last = last ? last : (__typeof__(last))driver_symbol(#name); \
			return last ? last args : FAILURE;			\
		}								\
		if (!real_##name)						\
			real_##name = (__typeof__(last))next_symbol(#name);	\
		if (!real_##name)						\
			return FAILURE;						\
		inside.slot = &real_##name;					\
		inside.caller = __builtin_return_address(0);			\
		result = wrapped_##name args;					\
		inside.slot = outer;						\
		return result;							\
	}									\
	static int wrapped_##name params

/* Does @before, then makes the real call. */
#define BEFORE(name, before, params, args)					\
REAL(name, params, args)							\
{										\
	before;									\
	return real_##name args;						\
}

/* Makes the real call; if that succeeds, does @after. */
#define AFTER(name, after, params, args)					\
REAL(name, params, args)							\
{										\
	int result;								\
										\
	result = real_##name args;						\
	if (!result)								\
		after;								\
	return result;								\
}

/* The launches of one call: at most one for each device. */
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

/* The real call of a launch, which is under way until the call returns or its thread is cancelled inside it. */
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
	STREAM_WORK(name, per_thread, stream, params, args, false)
/* The same for work that is one kernel. */
#define KERNEL(name, per_thread, stream, params, args)				\
	STREAM_WORK(name, per_thread, stream, params, args, true)
#define STREAM_WORK(name, per_thread, stream, params, args, is_kernel)		\
REAL(name, params, args)							\
{										\
	struct place place;							\
	int result;								\
										\
	place = here(stream, per_thread);					\
	place.kernel = is_kernel;						\
	REAL_LAUNCH(segments_launch(&place), name, args);			\
	return result;								\
}

/* Gives work to a stream if the parameters say so. */
#define INSTANTIATE(name, per_thread, unused, params, args)			\
REAL(name, params, args)							\
{										\
	const struct instantiate_params *instantiate = instantiation;		\
	struct place place;							\
	int result;								\
										\
	if (!instantiate || !(instantiate->flags & INSTANTIATE_UPLOAD))		\
		return real_##name args;					\
	place = here(instantiate->stream, per_thread);				\
	REAL_LAUNCH(segments_launch(&place), name, args);			\
	return result;								\
}

/* Gives work to several streams, of several devices, each named in a @structure. */
#define WORK_OF(structure, name, per_thread, params, args)			\
REAL(name, params, args)							\
{										\
	const struct structure *all = launches;					\
	struct launch_list list = { 0 };					\
	struct place place;							\
	int result, i;								\
										\
	for (i = 0; i < (int)number; i++) {					\
		place = here(all[i].stream, per_thread);			\
		launch_one_more(&list, &place);					\
	}									\
	REAL_LAUNCHES(&list, name, args);					\
	return result;								\
}

/* Is ordered in the stream, but is no GPU work that the program must wait for. */
#define TURN(name, per_thread, stream, params, args)				\
	BEFORE(name, take_turn(here(stream, per_thread)), params, args)

static inline void take_turn(struct place place)
{
	segments_turn(&place);
}

/* Gives work to the stream and, if @waits, waits for it. */
#define COPY_IF(name, per_thread, stream, waits, params, args)			\
REAL(name, params, args)							\
{										\
	struct snapshot *snapshot;						\
	void *launch;								\
	struct place place;							\
	int result;								\
										\
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

/* Waits for the work of snapshot @taken, or returns whether that work is done. */
#define WAIT(name, taken, params, args)						\
REAL(name, params, args)							\
{										\
	struct snapshot *snapshot;						\
	int result;								\
										\
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
REAL(name, params, args)							\
{										\
	struct place place;							\
	int result;								\
										\
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
	AFTER(name, wait_event(here(stream, per_thread), event), params, args)

static inline void wait_event(struct place place, const void *event)
{
	segments_wait_event(&place, event);
}

/* Makes a graph record the event whenever it is launched. */
#define GRAPH_EVENT(name, per_thread, stream, params, args) BEFORE(name, segments_graph_event(event), params, args)

/* Makes or changes a node of a graph. */
#define GRAPH_NODE(name, per_thread, stream, params, args)			\
REAL(name, params, args)							\
{										\
	const struct graph_node *made = node;					\
										\
	if (made && made->type == RECORDS_EVENT)				\
		segments_graph_event(made->event);				\
	return real_##name args;						\
}

#define DESTROY_EVENT(name, per_thread, stream, params, args) BEFORE(name, segments_destroy_event(event), params, args)

/* Records the event with work that the library does not know. */
#define FORGET_EVENT(name, per_thread, stream, params, args) BEFORE(name, segments_forget_event(event), params, args)

#define MAKE_STREAM(name, per_thread, stream, params, args)			\
	AFTER(name, made_stream(here(*(void **)made, false), flags & 1), params, args)

static inline void made_stream(struct place place, bool nonblocking)
{
	segments_stream(&place, nonblocking);
}

/* The driver's own functions, and the names of some that this library does not wrap. */
struct driver {
	void *(*symbol)(const char *name);
	const char *const *names;
	size_t count;
};

/* Whether both functions are of one library. */
static inline bool same_library(const void *a, const void *b)
{
	Dl_info of_a, of_b;

	return a && b && dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

/* The type of the symbol at the address.  A program's PLT entry for another library's function has STT_NOTYPE. */
static inline unsigned int symbol_type(const void *address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info of;

	if (!dladdr1(address, &of, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx == SHN_UNDEF)
		return STT_NOTYPE;
	return ELF64_ST_TYPE(symbol->st_info);
}

/* Programs that look up all of the driver's functions keep the addresses in variables of the same names. */
static inline bool is_variable(const void *address)
{
	return symbol_type(address) == STT_OBJECT;
}

/* The library that has the address, or NULL. */
static inline struct link_map *library_of(const void *address)
{
	struct link_map *map = NULL;
	Dl_info of;

	return dladdr1(address, &of, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Whether the address is in the program, or in a library that it was started with before this one. */
static inline bool comes_before(const void *address)
{
	const struct link_map *its = library_of(address), *map = library_of((const void *)comes_before);

	while (its && map && map != its)
		map = map->l_prev;
	return its && map && its != library_of((const void *)comes_before);
}

/* Whether the library with the code at @caller also has the function. */
static inline bool has_too(const void *caller, const char *name)
{
	struct link_map *map = library_of(caller);
	void *library = map ? dlopen(*map->l_name ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD) : NULL, *own = NULL;

	if (library) {
		own = real_dlsym(library, name);
		dlclose(library);
	}
	return same_library(own, caller) && symbol_type(own) == STT_FUNC;
}

/* Whether interposers find the driver by RTLD_NEXT.  They do not if the program opened its library with RTLD_LOCAL. */
static inline bool is_next(const struct driver *driver)
{
	void *function;
	size_t i;

	for (i = 0; i < driver->count; i++) {
		function = driver->symbol(driver->names[i]);
		if (function && real_dlsym(RTLD_NEXT, driver->names[i]) == function)
			return true;
	}
	return false;
}

/*
 * Returns the real function for a wrapper if a look-up has @found, or NULL.  It is the next library's if @found is the
 * driver's and the next library's function calls the driver's.
 */
static inline void *chained(const struct driver *driver, const char *name, void *found)
{
	void *next = real_dlsym(RTLD_NEXT, name);

	if (!next || next == found || is_variable(next) || (found && !same_library(found, driver->symbol(name))))
		return found;
	if (!found || is_next(driver))
		return next;
	preload_say_once("another preloaded library's %s is passed by: the program opened the driver's library for itself "
			 "(RTLD_LOCAL), so that library does not find it", name);
	return found;
}

/*
 * Returns the first of the entry's wrappers in the order of libraries; its calls reach what a look-up has @found.
 * @caller: an address in the code that looks up.  If that code is another interposer's, returns this library's wrapper,
 * because earlier ones have been called already.  An earlier interposer that looks up its own function gets that.
 */
static inline void *entry_wraps(const struct driver *driver, const struct entry_point *entry, void *found, const void *caller)
{
	if (comes_before(found) || is_variable(found))
		return found;
	if (found != entry->wrapper)
		*entry->real = chained(driver, entry->name, found);
	return entry->first == entry->wrapper || is_variable(entry->first) || has_too(caller, entry->name) ? entry->wrapper :
		entry->first;
}

/* The same for the symbol @name, or NULL if it has no wrapper. */
static inline void *entry_wrapper(const struct driver *driver, const struct entry_point *entries, size_t count,
				  const char *name, void *found, const void *caller)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(entries[i].name, name))
			return entry_wraps(driver, &entries[i], found, caller);
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
	{ #name, base, per_thread, since, until, (void *)own_##name, (void *)name, (void **)&real_##name }
#define ENTRY(name) ENTRY_OF(name, NULL, false, 0, 0)

#endif
