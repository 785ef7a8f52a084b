// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The CUDA driver API.  A program reaches it by linking to it, by dlsym(), or by cuGetProcAddress().  The CUDA runtime,
 * which is usually linked into the program, uses cuGetProcAddress().
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"
#include "launches.h"

#define FAILURE 500			/* CUDA_ERROR_NOT_FOUND */
#define STREAM_LEGACY ((const void *)1)
#define STREAM_PER_THREAD ((const void *)2)
#define WANTS_PER_THREAD 2		/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

typedef unsigned long long pointer;

static atomic_uint captures;		/* streams that are being captured into graphs */

static void *library_symbol(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *found = NULL;

	if (library) {
		found = real_dlsym(library, name);
		dlclose(library);
	}
	return found ? found : real_dlsym(RTLD_NEXT, name);
}

#define ASK(name, params)							\
	static int (*name) params;						\
	if (!name)								\
		name = (__typeof__(name))library_symbol(#name)

static const void *current_context(void)
{
	const void *context = NULL;

	ASK(cuCtxGetCurrent, (const void **));
	if (cuCtxGetCurrent)
		cuCtxGetCurrent(&context);
	return context;
}

/*
 * The host's number of a CUDA device.  The driver numbers GPUs in the order of their PCI addresses.  If the process
 * uses one managed GPU only, the device is that GPU, whatever its CUDA ordinal.
 */
static unsigned int gpu_of_device(int device)
{
	unsigned int gpus[GPURT_MAX_GPUS], n;

	preload_lock();
	n = agent_gpus(gpus, GPURT_MAX_GPUS);
	preload_unlock();
	return n == 1 ? gpus[0] : device < 0 ? 0 : (unsigned int)device;
}

static unsigned int current_gpu(void)
{
	int device = 0;

	ASK(cuCtxGetDevice, (int *));
	if (cuCtxGetDevice)
		cuCtxGetDevice(&device);
	return gpu_of_device(device);
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
	struct place place = { .context = current_context(), .stream = stream, .captured = is_captured(stream) };

	place.gpu = current_gpu();
	if (stream == STREAM_PER_THREAD || (!stream && per_thread)) {
		place.stream = DEFAULT_STREAM;
		place.thread = syscall(SYS_gettid);
	} else if (stream == STREAM_LEGACY) {
		place.stream = DEFAULT_STREAM;
	}
	return place;
}

#define BOTH_LAUNCH(name, params, args)						\
	LAUNCH(name, false, stream, params, args)				\
	LAUNCH(name##_ptsz, true, stream, params, args)
#define BOTH_COPY(name, params, args)						\
	COPY(name, false, params, args)						\
	COPY(name##_ptds, true, params, args)

BOTH_LAUNCH(cuLaunchKernel,
	    (void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	     unsigned int bz, unsigned int shared, void *stream, void **params, void **extra),
	    (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
BOTH_LAUNCH(cuLaunchCooperativeKernel,
	    (void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	     unsigned int bz, unsigned int shared, void *stream, void **params),
	    (f, gx, gy, gz, bx, by, bz, shared, stream, params))
BOTH_LAUNCH(cuGraphLaunch, (void *graph, void *stream), (graph, stream))
BOTH_LAUNCH(cuMemcpyAsync, (pointer to, pointer from, size_t size, void *stream), (to, from, size, stream))
BOTH_LAUNCH(cuMemcpyHtoDAsync_v2, (pointer to, const void *from, size_t size, void *stream), (to, from, size, stream))
BOTH_LAUNCH(cuMemcpyDtoHAsync_v2, (void *to, pointer from, size_t size, void *stream), (to, from, size, stream))
BOTH_LAUNCH(cuMemcpyDtoDAsync_v2, (pointer to, pointer from, size_t size, void *stream), (to, from, size, stream))
BOTH_LAUNCH(cuMemcpy2DAsync_v2, (const void *copy, void *stream), (copy, stream))
BOTH_LAUNCH(cuMemcpy3DAsync_v2, (const void *copy, void *stream), (copy, stream))
BOTH_LAUNCH(cuMemcpyPeerAsync, (pointer to, void *toc, pointer from, void *fromc, size_t size, void *stream),
	    (to, toc, from, fromc, size, stream))
BOTH_LAUNCH(cuMemsetD8Async, (pointer to, unsigned char value, size_t size, void *stream), (to, value, size, stream))
BOTH_LAUNCH(cuMemsetD16Async, (pointer to, unsigned short value, size_t size, void *stream), (to, value, size, stream))
BOTH_LAUNCH(cuMemsetD32Async, (pointer to, unsigned int value, size_t size, void *stream), (to, value, size, stream))

BOTH_COPY(cuMemcpyDtoH_v2, (void *to, pointer from, size_t size), (to, from, size))

/* These functions can return before the device has the data, so their work counts as not done. */
#define BOTH_START(name, params, args)						\
	LAUNCH(name, false, NULL, params, args)					\
	LAUNCH(name##_ptds, true, NULL, params, args)
BOTH_START(cuMemcpy, (pointer to, pointer from, size_t size), (to, from, size))
BOTH_START(cuMemcpyHtoD_v2, (pointer to, const void *from, size_t size), (to, from, size))
BOTH_START(cuMemcpyDtoD_v2, (pointer to, pointer from, size_t size), (to, from, size))
BOTH_START(cuMemcpy2D_v2, (const void *copy), (copy))
BOTH_START(cuMemcpy3D_v2, (const void *copy), (copy))
BOTH_START(cuMemsetD8_v2, (pointer to, unsigned char value, size_t size), (to, value, size))
BOTH_START(cuMemsetD16_v2, (pointer to, unsigned short value, size_t size), (to, value, size))
BOTH_START(cuMemsetD32_v2, (pointer to, unsigned int value, size_t size), (to, value, size))

/* The stream is in the configuration. */
struct launch_config { unsigned int grid[3], block[3], shared; void *stream; };
LAUNCH(cuLaunchKernelEx, false, ((const struct launch_config *)config)->stream,
       (const void *config, void *f, void **params, void **extra), (config, f, params, extra))
LAUNCH(cuLaunchKernelEx_ptsz, true, ((const struct launch_config *)config)->stream,
       (const void *config, void *f, void **params, void **extra), (config, f, params, extra))

WAIT_STREAM(cuStreamSynchronize, false)
WAIT_STREAM(cuStreamSynchronize_ptsz, true)
WAIT_STREAM(cuStreamQuery, false)
WAIT_STREAM(cuStreamQuery_ptsz, true)
WAIT_EVENT(cuEventSynchronize)
WAIT_EVENT(cuEventQuery)
RECORD(cuEventRecord, false, (void *event, void *stream), (event, stream))
RECORD(cuEventRecord_ptsz, true, (void *event, void *stream), (event, stream))
RECORD(cuEventRecordWithFlags, false, (void *event, void *stream, unsigned int flags), (event, stream, flags))
RECORD(cuEventRecordWithFlags_ptsz, true, (void *event, void *stream, unsigned int flags), (event, stream, flags))
STREAM_WAITS(cuStreamWaitEvent, false)
STREAM_WAITS(cuStreamWaitEvent_ptsz, true)
FORGET_EVENT(cuEventDestroy_v2)
MAKE_STREAM(cuStreamCreate, (void **stream, unsigned int flags), (stream, flags))
MAKE_STREAM(cuStreamCreateWithPriority, (void **stream, unsigned int flags, int priority), (stream, flags, priority))

WAIT_CONTEXT(cuCtxSynchronize, current_context(), (void), ())
WAIT_CONTEXT(cuCtxSynchronize_v2, context ? context : current_context(), (void *context), (context))
WAIT_CONTEXT(cuCtxDestroy_v2, context, (void *context), (context))

#define BEGIN_CAPTURE(name, params, args)					\
REAL(name, params)								\
{										\
	int result;								\
										\
	FIND_REAL(name);							\
	result = real_##name args;						\
	if (!result)								\
		atomic_fetch_add(&captures, 1);					\
	return result;								\
}

#define END_CAPTURE(name)							\
REAL(name, (void *stream, void **graph))					\
{										\
	int result;								\
										\
	FIND_REAL(name);							\
	result = real_##name(stream, graph);					\
	if (!result && atomic_load(&captures))					\
		atomic_fetch_sub(&captures, 1);					\
	return result;								\
}

BEGIN_CAPTURE(cuStreamBeginCapture, (void *stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, (void *stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, (void *stream, int mode), (stream, mode))
END_CAPTURE(cuStreamEndCapture)
END_CAPTURE(cuStreamEndCapture_ptsz)

static void *proc_address(const char *name, void *real, int version, bool per_thread);

REAL(cuGetProcAddress, (const char *name, void **found, int version, uint64_t flags))
{
	int result;

	FIND_REAL(cuGetProcAddress);
	result = real_cuGetProcAddress(name, found, version, flags);
	if (!result && found && *found)
		*found = proc_address(name, *found, version, flags & WANTS_PER_THREAD);
	return result;
}

REAL(cuGetProcAddress_v2, (const char *name, void **found, int version, uint64_t flags, int *status))
{
	int result;

	FIND_REAL(cuGetProcAddress_v2);
	result = real_cuGetProcAddress_v2(name, found, version, flags, status);
	if (!result && found && *found)
		*found = proc_address(name, *found, version, flags & WANTS_PER_THREAD);
	return result;
}

/*
 * cuGetProcAddress() answers with the newest form of a function that the asked version has.  The versions are those of
 * the types PFN_name_vVERSION in cudaTypedefs.h of CUDA 12.9 and 13.5.  What is newer than those headers can have another
 * form, so it is unknown here.
 */
#define CUDA_NEWEST 13050
#define UNTIL (CUDA_NEWEST + 1)
/* The form for the per-thread default stream has version 7000 if the function is older than that. */
#define PER_THREAD(since) ((since) > 7000 ? (since) : 7000)
#define FORMS(name, suffix, base, since, until)					\
	ENTRY_OF(name, base, false, since, until), ENTRY_OF(name##suffix, base, true, PER_THREAD(since), until)
#define BOTH(name, since) FORMS(name, _ptsz, #name, since, UNTIL)
#define BOTH_OF(name, base, since) FORMS(name, _ptsz, base, since, UNTIL)
#define BOTH_DS(name, base, since) FORMS(name, _ptds, base, since, UNTIL)
/* There is one form for both default streams. */
#define ALWAYS(name, base, since, until)					\
	ENTRY_OF(name, base, false, since, until), ENTRY_OF(name, base, true, since, until)

static const struct entry_point entries[] = {
	BOTH(cuLaunchKernel, 4000), BOTH(cuLaunchKernelEx, 11060), BOTH(cuLaunchCooperativeKernel, 9000),
	BOTH(cuGraphLaunch, 10000),
	BOTH(cuMemcpyAsync, 4000), BOTH_OF(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020),
	BOTH_OF(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020), BOTH_OF(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020),
	BOTH_OF(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020), BOTH_OF(cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020),
	BOTH(cuMemcpyPeerAsync, 4000),
	BOTH(cuMemsetD8Async, 3020), BOTH(cuMemsetD16Async, 3020), BOTH(cuMemsetD32Async, 3020),
	BOTH_DS(cuMemcpy, "cuMemcpy", 4000), BOTH_DS(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020),
	BOTH_DS(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020), BOTH_DS(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020),
	BOTH_DS(cuMemcpy2D_v2, "cuMemcpy2D", 3020), BOTH_DS(cuMemcpy3D_v2, "cuMemcpy3D", 3020),
	BOTH_DS(cuMemsetD8_v2, "cuMemsetD8", 3020), BOTH_DS(cuMemsetD16_v2, "cuMemsetD16", 3020),
	BOTH_DS(cuMemsetD32_v2, "cuMemsetD32", 3020),
	BOTH(cuStreamSynchronize, 2000), BOTH(cuStreamQuery, 2000), BOTH(cuEventRecord, 2000),
	BOTH(cuEventRecordWithFlags, 11010), BOTH(cuStreamWaitEvent, 3020),
	FORMS(cuStreamBeginCapture, _ptsz, "cuStreamBeginCapture", 10000, 10010),
	BOTH_OF(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010), BOTH(cuStreamEndCapture, 10000),
	ALWAYS(cuEventSynchronize, "cuEventSynchronize", 2000, UNTIL), ALWAYS(cuEventQuery, "cuEventQuery", 2000, UNTIL),
	ALWAYS(cuEventDestroy_v2, "cuEventDestroy", 4000, UNTIL), ALWAYS(cuStreamCreate, "cuStreamCreate", 2000, UNTIL),
	ALWAYS(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, UNTIL),
	ALWAYS(cuCtxSynchronize, "cuCtxSynchronize", 2000, 13000),
	ALWAYS(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, UNTIL),
	ALWAYS(cuCtxDestroy_v2, "cuCtxDestroy", 4000, UNTIL),
	ALWAYS(cuGetProcAddress, "cuGetProcAddress", 11030, 12000),
	ALWAYS(cuGetProcAddress_v2, "cuGetProcAddress", 12000, UNTIL),
};

/* Counts a function that this library does not replace, if it gives work to the GPU. */
static void note_unhooked(const char *name)
{
	static const char *const working[] = {
		"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGetProcAddress",
	};
	size_t i;

	for (i = 0; i < sizeof(working) / sizeof(working[0]); i++)
		if (!strncmp(name, working[i], strlen(working[i])))
			preload_count(COUNT_UNHOOKED);
}

void *cuda_wrapper(const char *name, void *real)
{
	void *wrapper = entry_wrapper(entries, sizeof(entries) / sizeof(entries[0]), name, real);

	if (!wrapper)
		note_unhooked(name);
	return wrapper;
}

/*
 * Like cuda_wrapper(), for cuGetProcAddress(): its @name has no suffix, and flags and version say which form it found.
 * A form that is not known gets no wrapper, because its parameters may be others.
 */
static void *proc_address(const char *name, void *real, int version, bool per_thread)
{
	size_t i;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (!entries[i].base || strcmp(entries[i].base, name) || entries[i].per_thread != per_thread ||
		    version < entries[i].since || version >= entries[i].until)
			continue;
		if (entries[i].wrapper != real)		/* the library may have found the wrapper itself */
			*entries[i].real = real;
		return entries[i].wrapper;
	}
	note_unhooked(name);
	return real;
}
