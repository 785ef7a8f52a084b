// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The CUDA driver API.  A program reaches it by linking to it, by dlsym(), or by cuGetProcAddress().  The CUDA runtime,
 * which is usually linked into the program, uses cuGetProcAddress().
 *
 * The table cuda.table says what each function does.  This file defines the kinds of that table that launches.h lacks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_layouts.h"
#include "preload.h"
#include "launches.h"

#define FAILURE 500			/* CUDA_ERROR_NOT_FOUND */
#define STREAM_LEGACY ((const void *)1)
#define STREAM_PER_THREAD ((const void *)2)
#define WANTS_PER_THREAD 2		/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

static atomic_uint captures;		/* streams that are being captured into graphs */

/* From the first call on the library stays loaded, because the addresses are kept. */
static void *driver_symbol(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE), *found = NULL;

	if (library) {
		found = real_dlsym(library, name);
		dlclose(library);
	}
	return found;
}

static const void *current_context(void)
{
	const void *context = NULL;

	ASK(cuCtxGetCurrent, (const void **));
	if (cuCtxGetCurrent)
		cuCtxGetCurrent(&context);
	return context;
}

static unsigned int current_gpu(void)
{
	int device = 0;

	ASK(cuCtxGetDevice, (int *));
	ASK(cuDeviceGetPCIBusId, (char *, int, int));
	if (cuCtxGetDevice)
		cuCtxGetDevice(&device);
	mps_look(device, cuDeviceGetPCIBusId);
	return numbers_of_device(device, cuDeviceGetPCIBusId);
}

static bool is_captured(const void *stream)
{
	int status = 0;

	ASK(cuStreamIsCapturing, (const void *, int *));
	if (!atomic_load(&captures) || !cuStreamIsCapturing)
		return false;
	return !cuStreamIsCapturing(stream, &status) && status;
}

static struct place here(const void *stream, bool per_thread)
{
	struct place place = { .context = current_context(), .gpu = current_gpu() };

	if (!stream && per_thread)
		stream = STREAM_PER_THREAD;
	place.stream = stream;
	place.captured = is_captured(stream);
	if (stream == STREAM_PER_THREAD) {
		place.stream = DEFAULT_STREAM;
		place.thread = syscall(SYS_gettid);
	} else if (stream == STREAM_LEGACY) {
		place.stream = DEFAULT_STREAM;
	}
	return place;
}

/* Returns the stream of the configuration.  The launch may also record an event, in the middle of its work. */
static void *stream_of_launch(const struct launch_config *config)
{
	uint32_t i;

	for (i = 0; config && i < config->number; i++)
		if (config->attributes[i].id == PROGRAMMATIC_EVENT || config->attributes[i].id == LAUNCH_COMPLETION_EVENT)
			segments_forget_event(config->attributes[i].value.event);
	return config ? config->stream : NULL;
}

#define WORK_MANY(name, per_thread, stream, params, args) WORK_OF(launch_params, name, per_thread, params, args)

#define WAIT_CURRENT(name, per_thread, stream, params, args)			\
	WAIT(name, segments_snapshot_context(current_context()), params, args)
#define WAIT_CONTEXT(name, per_thread, stream, params, args)			\
	WAIT(name, segments_snapshot_context(context ? context : current_context()), params, args)
/* Waits for all work of the device's primary context. */
#define WAIT_PRIMARY(name, per_thread, stream, params, args)			\
	WAIT(name, segments_snapshot_context(primary_context((int)device)), params, args)

/* Returns the device's primary context, or NULL if it has none. */
static const void *primary_context(int device)
{
	const void *context = NULL;
	unsigned int flags;
	int active = 0;

	ASK(cuDevicePrimaryCtxGetState, (int, unsigned int *, int *));
	ASK(cuDevicePrimaryCtxRetain, (const void **, int));
	ASK(cuDevicePrimaryCtxRelease_v2, (int));
	if (!cuDevicePrimaryCtxGetState || !cuDevicePrimaryCtxRetain || !cuDevicePrimaryCtxRelease_v2 ||
	    cuDevicePrimaryCtxGetState(device, &flags, &active) || !active || cuDevicePrimaryCtxRetain(&context, device))
		return NULL;
	cuDevicePrimaryCtxRelease_v2(device);
	return context;
}

/* A green context's stream belongs to the primary context: a wait for that context waits for the stream, too. */
static struct place of_green_stream(void *stream)
{
	struct place place = here(stream, false);
	const void *context, *green;

	ASK(cuStreamGetCtx_v2, (void *, const void **, const void **));
	if (cuStreamGetCtx_v2 && !cuStreamGetCtx_v2(stream, &context, &green))
		place.context = context;
	return place;
}

#define MAKE_GREEN_STREAM(name, per_thread, stream, params, args)		\
	AFTER(name, made_stream(of_green_stream(*(void **)made), flags & 1), params, args)

#define BEGIN_CAPTURE(name, per_thread, stream, params, args) AFTER(name, atomic_fetch_add(&captures, 1), params, args)
#define END_CAPTURE(name, per_thread, stream, params, args) AFTER(name, end_capture(), params, args)

static void end_capture(void)
{
	if (atomic_load(&captures))
		atomic_fetch_sub(&captures, 1);
}

static void *proc_address(const char *name, void *real, int version, bool per_thread, const void *caller);

/* The library's own look-up. */
#define LOOK_UP(symbol, per_thread, stream, params, args)			\
REAL(symbol, params, args)								\
{										\
	const void *caller = inside.caller;					\
	int result;								\
										\
	result = real_##symbol args;						\
	if (!result && found && *(void **)found)						\
		*(void **)found = proc_address(name, *(void **)found, (int)version, options & WANTS_PER_THREAD, caller); \
	return result;								\
}

#include "cuda.entries.h"

/* The length of a symbol without the ending that says which form it is: _v2, _ptsz, _ptds. */
static size_t base_length(const char *symbol)
{
	const char *ending = strchr(symbol, '_');

	return ending ? (size_t)(ending - symbol) : strlen(symbol);
}

/* The functions of other libraries begin with cu, too. */
static bool is_drivers(const char *name, const void *real)
{
	return name[2] >= 'A' && name[2] <= 'Z' && driver_symbol(name) == real;
}

void *cuda_wrapper(const char *name, void *real, const void *caller)
{
	void *wrapper = entry_wrapper(&driver, entries, COUNT(entries), name, real, caller);

	if (wrapper || name_listed(passing, COUNT(passing), name, base_length(name)) || !is_drivers(name, real))
		return wrapper;
	return passed(name, real);
}

/*
 * Like cuda_wrapper(), for cuGetProcAddress(): its @name has no suffix, and flags and version say which form it found.
 * A form that is not known gets no wrapper, because its parameters may be others.
 */
static void *proc_address(const char *name, void *real, int version, bool per_thread, const void *caller)
{
	size_t i;

	for (i = 0; i < COUNT(entries); i++) {
		if (!entries[i].base || strcmp(entries[i].base, name) || entries[i].per_thread != per_thread ||
		    version < entries[i].since || version >= entries[i].until)
			continue;
		return entry_wraps(&driver, &entries[i], real, caller);
	}
	return name_listed(passing, COUNT(passing), name, strlen(name)) ? real : passed(name, real);
}
