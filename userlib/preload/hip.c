// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * HIP's runtime: a shared library.  Programs link to its symbols, or look them up by name: by dlsym() or by
 * hipGetProcAddress().
 *
 * The table hip.table says what each function does.  This file defines the kinds of that table that launches.h lacks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hip_layouts.h"
#include "preload.h"
#include "launches.h"

#define FAILURE 500			/* hipErrorNotFound */
#define DEVICE_TO_HOST 2
#define STREAM_LEGACY ((const void *)1)
#define STREAM_PER_THREAD ((const void *)2)

/* From the first call on the library stays loaded, because the addresses are kept. */
static void *driver_symbol(const char *name)
{
	static const char *const names[] = { "libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so.7" };
	void *library = NULL, *found = NULL;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
		library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	if (library) {
		found = real_dlsym(library, name);
		dlclose(library);
	}
	return found;
}

static int current_device(void)
{
	int device = 0;

	ASK(hipGetDevice, (int *));
	if (hipGetDevice)
		hipGetDevice(&device);
	return device;
}

/* A process has one context on each device, so the device identifies the context. */
static const void *context_of(int device)
{
	return (const void *)(uintptr_t)(device + 1);
}

static bool is_captured(const void *stream)
{
	int status = 0;

	ASK(hipStreamIsCapturing, (const void *, int *));
	return stream && hipStreamIsCapturing && !hipStreamIsCapturing(stream, &status) && status;
}

/*
 * HIP makes a device's queue when its default stream is first used (NullStream() in hip_device.cpp, ROCm 6.2).  So before
 * the first launch the process has no queue there, and nothing says which GPU the device is.  A query of the stream
 * makes the queue.  The program does not get to see that the query failed, for example because the stream is busy.
 *
 * The query of the default stream touches no capture.  A query of the thread's default stream would end all captures of
 * other threads in global mode (StreamCaptureOngoing() in hip_stream.cpp, ROCm 5.7 to 7.0).  The queue of that stream
 * exists once is_captured() has asked (isValid(), getStreamPerThread()).
 */
static void make_queue(int device)
{
	static atomic_uint made;
	unsigned int bit = 1u << (device & 31);
	int pending;

	ASK(hipStreamQuery, (const void *));
	ASK(hipPeekAtLastError, (void));
	ASK(hipGetLastError, (void));
	if (device < 0 || device >= 32 || atomic_fetch_or(&made, bit) & bit)
		return;
	if (!hipStreamQuery || !hipPeekAtLastError || !hipGetLastError)
		return;
	pending = hipPeekAtLastError();
	if (hipStreamQuery(DEFAULT_STREAM) && !pending)
		hipGetLastError();
}

static struct place here(const void *stream, bool per_thread)
{
	int device = current_device();
	struct place place = { .context = context_of(device) };

	ASK(hipDeviceGetPCIBusId, (char *, int, int));
	if (!stream && per_thread)
		stream = STREAM_PER_THREAD;
	if (stream == STREAM_LEGACY)
		stream = DEFAULT_STREAM;
	place.stream = stream;
	place.captured = is_captured(stream);
	if (stream == DEFAULT_STREAM)
		make_queue(device);
	place.gpu = numbers_of_device(device, hipDeviceGetPCIBusId);
	if (stream == STREAM_PER_THREAD) {
		place.stream = DEFAULT_STREAM;
		place.thread = syscall(SYS_gettid);
	}
	return place;
}

static void *stream_of_launch(const struct hip_launch_config *config)
{
	return config ? config->stream : NULL;
}

/* A copy of nothing returns at once.  Copies in other directions can return before they are done. */
#define COPY_SIZE(name, per_thread, stream, params, args)			\
	COPY_IF(name, per_thread, stream, size, params, args)
#define COPY_KIND(name, per_thread, stream, params, args)			\
	COPY_IF(name, per_thread, stream, size && kind == DEVICE_TO_HOST, params, args)
#define COPY_KIND_2D(name, per_thread, stream, params, args)			\
	COPY_IF(name, per_thread, stream, width && height && kind == DEVICE_TO_HOST, params, args)

/* Gives work to the stream, and records events before and after it. */
#define WORK_TIMED(name, per_thread, stream, params, args)			\
REAL(name, params, args)								\
{										\
	void *launch;								\
	struct place place;							\
	int result;								\
										\
	place = here(stream, per_thread);					\
	launch = segments_launch(&place);					\
	segments_forget_event(start);						\
	segments_forget_event(stop);						\
	REAL_LAUNCH(launch, name, args);					\
	return result;								\
}

#define WORK_MANY(name, per_thread, stream, params, args)			\
	WORK_OF(hip_launch_params, name, per_thread, params, args)
#define WORK_MANY_FUNCTIONS(name, per_thread, stream, params, args)		\
	WORK_OF(hip_function_launch_params, name, per_thread, params, args)

/* Gives work to a stream that an earlier call named.  Only a wait for the device ends it. */
#define WORK_SOMEWHERE(name, per_thread, unused, params, args)			\
REAL(name, params, args)								\
{										\
	static const char somewhere[32];					\
	struct place place;							\
	int result;								\
										\
	place = here(NULL, per_thread);						\
	place.stream = &somewhere[(uintptr_t)place.context % sizeof(somewhere)]; \
	REAL_LAUNCH(segments_launch(&place), name, args);			\
	return result;								\
}

#define WAIT_CURRENT(name, per_thread, stream, params, args)			\
	WAIT(name, segments_snapshot_context(context_of(current_device())), params, args)

/* Makes a stream that is ordered with the legacy default stream. */
#define MAKE_BLOCKING(name, per_thread, stream, params, args)			\
	AFTER(name, made_stream(here(*(void **)made, false), false), params, args)

/* The library's own look-up. */
#define LOOK_UP(symbol, per_thread, stream, params, args)			\
REAL(symbol, params, args)								\
{										\
	const void *caller = inside.caller;					\
	int result;								\
										\
	result = real_##symbol args;						\
	if (!result && found && *(void **)found)				\
		*(void **)found = looked_up(name, *(void **)found, caller); \
	return result;								\
}

static void *looked_up(const char *name, void *real, const void *caller);

#include "hip.entries.h"

/* The functions of other libraries begin with hip, too. */
static bool is_hips(const char *name, const void *real)
{
	return name[3] >= 'A' && name[3] <= 'Z' && driver_symbol(name) == real;
}

/* The length of a symbol without the ending of its form for the per-thread default stream. */
static size_t base_length(const char *symbol)
{
	const char *ending = strstr(symbol, "_spt");

	return ending ? (size_t)(ending - symbol) : strlen(symbol);
}

void *hip_wrapper(const char *name, void *real, const void *caller)
{
	void *wrapper = entry_wrapper(&driver, entries, COUNT(entries), name, real, caller);

	if (wrapper || name_listed(passing, COUNT(passing), name, base_length(name)) || !is_hips(name, real))
		return wrapper;
	return passed(name, real);
}

/*
 * For hipGetProcAddress().  Only the address of @real tells which form of the function it is, because releases
 * interpret versions and flags differently.  If @real is another interposer's, the name decides.
 */
static void *looked_up(const char *name, void *real, const void *caller)
{
	size_t i, length = base_length(name);
	void *wrapper;

	for (i = 0; i < COUNT(entries); i++) {
		if (strncmp(entries[i].name, name, length) || base_length(entries[i].name) != length)
			continue;
		if (entries[i].wrapper == real || entries[i].first == real || driver_symbol(entries[i].name) == real)
			return entry_wraps(&driver, &entries[i], real, caller);
	}
	wrapper = same_library(real, driver_symbol("hipInit")) ? NULL :
		  entry_wrapper(&driver, entries, COUNT(entries), name, real, caller);
	if (wrapper)
		return wrapper;
	return name_listed(passing, COUNT(passing), name, length) ? real : passed(name, real);
}
