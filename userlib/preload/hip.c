// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The HIP runtime: a shared library.  Programs link to its symbols or look them up by name. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"
#include "launches.h"

#define FAILURE 500			/* hipErrorNotFound */
#define DEVICE_TO_HOST 2
#define STREAM_PER_THREAD ((const void *)2)

struct dim { unsigned int x, y, z; };

static void *library_symbol(const char *name)
{
	static const char *const names[] = { "libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so.7" };
	void *library = NULL, *found = NULL;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
		library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		found = real_dlsym(library, name);
		dlclose(library);
	}
	return found ? found : real_dlsym(RTLD_NEXT, name);
}

static int current_device(void)
{
	static int (*hipGetDevice)(int *);
	int device = 0;

	if (!hipGetDevice)
		hipGetDevice = (__typeof__(hipGetDevice))library_symbol("hipGetDevice");
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
	static int (*hipStreamIsCapturing)(const void *, int *);
	int status = 0;

	if (!hipStreamIsCapturing)
		hipStreamIsCapturing = (__typeof__(hipStreamIsCapturing))library_symbol("hipStreamIsCapturing");
	return stream && hipStreamIsCapturing && !hipStreamIsCapturing(stream, &status) && status;
}

/*
 * HIP makes a device's queue when a default stream is first used (NullStream() in hip_device.cpp, ROCm 6.2), so before
 * the first launch the process has no queue there, and nothing says which GPU the device is.  A query of the stream
 * makes the queue.
 */
static void make_queue(int device, const void *stream)
{
	static atomic_uint made[2];
	static int (*hipStreamQuery)(const void *);
	unsigned int bit = 1u << (device & 31);

	if (device < 0 || device >= 32 || atomic_fetch_or(&made[stream != DEFAULT_STREAM], bit) & bit)
		return;
	if (!hipStreamQuery)
		hipStreamQuery = (__typeof__(hipStreamQuery))library_symbol("hipStreamQuery");
	if (hipStreamQuery)
		hipStreamQuery(stream);
}

static struct place here(const void *stream, bool per_thread)
{
	int device = current_device();
	struct place place = { .context = context_of(device), .stream = stream, .captured = is_captured(stream) };

	if (!place.captured && (stream == DEFAULT_STREAM || stream == STREAM_PER_THREAD))
		make_queue(device, stream);
	place.gpu = agent_gpu_of(device);
	if (stream == STREAM_PER_THREAD || (!stream && per_thread)) {
		place.stream = DEFAULT_STREAM;
		place.thread = syscall(SYS_gettid);
	}
	return place;
}

WORK(hipLaunchKernel, false, stream,
       (const void *f, struct dim grid, struct dim block, void **params, size_t shared, void *stream),
       (f, grid, block, params, shared, stream))
WORK(hipModuleLaunchKernel, false, stream,
       (void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
	unsigned int shared, void *stream, void **params, void **extra),
       (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
WORK(hipGraphLaunch, false, stream, (void *graph, void *stream), (graph, stream))
WORK(hipMemcpyAsync, false, stream, (void *to, const void *from, size_t size, int kind, void *stream),
       (to, from, size, kind, stream))
WORK(hipMemcpyHtoDAsync, false, stream, (void *to, void *from, size_t size, void *stream), (to, from, size, stream))
WORK(hipMemcpyDtoHAsync, false, stream, (void *to, void *from, size_t size, void *stream), (to, from, size, stream))
WORK(hipMemsetAsync, false, stream, (void *to, int value, size_t size, void *stream), (to, value, size, stream))
WORK(hipMemset, false, NULL, (void *to, int value, size_t size), (to, value, size))
WORK(hipMemcpyHtoD, false, NULL, (void *to, void *from, size_t size), (to, from, size))
COPY(hipMemcpyDtoH, false, NULL, (void *to, void *from, size_t size), (to, from, size))
WAIT_STREAM(hipStreamSynchronize, false, stream, (void *stream), (stream))
WAIT_STREAM(hipStreamQuery, false, stream, (void *stream), (stream))
WAIT_EVENT(hipEventSynchronize, false, NULL, (void *event), (event))
WAIT_EVENT(hipEventQuery, false, NULL, (void *event), (event))
RECORD(hipEventRecord, false, stream, (void *event, void *stream), (event, stream))
AFTER_EVENT(hipStreamWaitEvent, false, stream, (void *stream, void *event, unsigned int flags), (stream, event, flags))
FORGET_EVENT(hipEventDestroy, false, NULL, (void *event), (event))
MAKE_STREAM(hipStreamCreateWithFlags, false, NULL, (void **made, unsigned int flags), (made, flags))
MAKE_STREAM(hipStreamCreateWithPriority, false, NULL, (void **made, unsigned int flags, int priority), (made, flags, priority))

REAL(hipMemcpy, (void *to, const void *from, size_t size, int kind))
{
	struct snapshot *snapshot;
	struct place place;
	int result;

	FIND_REAL(hipMemcpy);
	place = here(NULL, false);
	segments_launch(&place);
	snapshot = segments_snapshot(&place);
	result = real_hipMemcpy(to, from, size, kind);
	/* Copies in other directions can return before they are done. */
	segments_synchronised(snapshot, !result && kind == DEVICE_TO_HOST);
	return result;
}

WAIT(hipDeviceSynchronize, segments_snapshot_context(context_of(current_device())), (void), ())

static const struct entry_point entries[] = {
	ENTRY(hipLaunchKernel), ENTRY(hipModuleLaunchKernel), ENTRY(hipGraphLaunch), ENTRY(hipMemcpyAsync),
	ENTRY(hipMemcpyHtoDAsync), ENTRY(hipMemcpyDtoHAsync), ENTRY(hipMemsetAsync), ENTRY(hipMemset),
	ENTRY(hipMemcpyHtoD), ENTRY(hipMemcpy), ENTRY(hipMemcpyDtoH), ENTRY(hipStreamSynchronize), ENTRY(hipStreamQuery),
	ENTRY(hipEventSynchronize), ENTRY(hipEventQuery), ENTRY(hipEventRecord), ENTRY(hipStreamWaitEvent),
	ENTRY(hipEventDestroy), ENTRY(hipStreamCreateWithFlags), ENTRY(hipStreamCreateWithPriority),
	ENTRY(hipDeviceSynchronize),
};

void *hip_wrapper(const char *name, void *real)
{
	void *wrapper = entry_wrapper(entries, sizeof(entries) / sizeof(entries[0]), name, real);

	if (!wrapper &&
	    (!strncmp(name, "hipLaunch", 9) || !strncmp(name, "hipMemcpy", 9) || !strncmp(name, "hipModuleLaunch", 15)))
		return passed(name, real);
	return wrapper;
}
