// SPDX-License-Identifier: GPL-2.0
/*
 * A libcuda.so.1 for the probe's tests.  It allocates one group as the real one does.  A kernel is a thread, which
 * stands still while the group is off.  Results are never wrong, and times mean nothing.
 *
 * It shares struct beat with the probe, which the probe's own kernels write.  NVIDIA's numbers and layouts are stated
 * again here on purpose (fake.h).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "../../../userlib/probe/native/kernels.h"
#include "fake.h"

extern atomic_int fake_off;
static atomic_int running;

struct launch {
	struct beat *beat;
	uint64_t duration, least, uncounted;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Most waits end so soon.  Only what lasts longer is a gap. */
#define NAP_NS 1000000u

/* Threads that read the clock all the time would take each CPU for themselves. */
static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 20000 }, NULL);
}

static void *run(void *argument)
{
	struct launch *l = argument;
	uint64_t start = now(), last = start, t;

	l->beat->start = start;
	l->beat->started = 1;
	do {
		while (fake_off)
			nap();
		t = now();
		if (t - last > l->least + NAP_NS) {
			start += (t - last) & l->uncounted;
			if (l->beat->gaps < GAPS_MAX) {
				l->beat->gap[l->beat->gaps][0] = last;
				l->beat->gap[l->beat->gaps++][1] = t;
			}
		}
		l->beat->now = last = t;
		nap();
	} while (t - start < l->duration);
	l->beat->end = t;
	l->beat->resolution = 1;
	running--;
	free(l);
	return NULL;
}

static void allocate(int fd, uint32_t parent, uint32_t handle, uint32_t class, uint32_t engine)
{
	uint32_t params[64] = { 0 };
	struct fake_alloc call = { .client = 1, .parent = parent, .object = handle, .class = class,
				   .params = (uintptr_t)params, .size = 20 };

	params[class == FAKE_TSG ? 3 : 32] = engine;
	ioctl(fd, FAKE_ALLOC, &call);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	allocate(fd, 0, 1, 0x41, 0);
	allocate(fd, 1, 2, FAKE_DEVICE, 0);
	allocate(fd, 2, 3, FAKE_SUBDEVICE, 0);
	allocate(fd, 2, 4, FAKE_TSG, 1);
	allocate(fd, 4, 5, 0xc86f, 1);
	allocate(fd, 4, 6, 0xc86f, 1);
	allocate(fd, 5, 7, 0xcbc0, 0);
	allocate(fd, 2, 8, FAKE_TSG, 1);	/* freed at once, with its channel: nothing of it may be switched */
	allocate(fd, 8, 9, 0xc86f, 1);
	ioctl(fd, FAKE_FREE, &(struct fake_free){ .client = 1, .object = 8 });
	*context = &running;
	return device;
}

int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
		   unsigned int bz, unsigned int shared, void *stream, void **arguments, void **extra)
{
	struct launch *l = calloc(1, sizeof(*l));
	pthread_t thread;
	int work = f != (void *)1;

	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
	l->beat = *(struct beat **)arguments[work ? 2 : 0];
	l->duration = work ? 20000000 : *(uint64_t *)arguments[1];
	l->least = *(uint64_t *)arguments[work ? 3 : 2];
	l->uncounted = work ? 0 : *(uint64_t *)arguments[3];
	running++;
	pthread_create(&thread, NULL, run, l);
	return pthread_detach(thread);
}

int cuCtxSynchronize(void)
{
	while (running)
		nap();
	return 0;
}

int cuStreamSynchronize(void *stream)
{
	(void)stream;
	return cuCtxSynchronize();
}

int cuStreamQuery(void *stream)
{
	(void)stream;
	return running ? CU_NOT_READY : 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)module;
	*function = (void *)(uintptr_t)(strcmp(name, "clock_kernel") ? 2 : 1);
	return 0;
}

int cuMemHostAlloc(void **host, size_t bytes, unsigned int flags)
{
	*host = calloc(1, bytes);
	return flags == 77;
}

int cuMemAlloc_v2(uint64_t *device, size_t bytes)
{
	*device = (uintptr_t)calloc(1, bytes);
	return 0;
}

int cuMemAllocManaged(uint64_t *device, size_t bytes, unsigned int flags)
{
	return flags != 1 || cuMemAlloc_v2(device, bytes);
}

int cuMemHostGetDevicePointer_v2(uint64_t *device, void *host, unsigned int flags)
{
	*device = (uintptr_t)host;
	return (int)flags;
}

int cuMemcpyDtoH_v2(void *host, uint64_t device, size_t bytes)
{
	memcpy(host, (void *)(uintptr_t)device, bytes);
	return 0;
}

int cuMemcpyDtoHAsync_v2(void *host, uint64_t device, size_t bytes, void *stream)
{
	(void)stream;
	return cuMemcpyDtoH_v2(host, device, bytes);
}

#define FIRST_IS(name, type, value) int name(type *out, ...) { *out = (value); return 0; }
FIRST_IS(cuDriverGetVersion, int, 12040)
FIRST_IS(cuDeviceGetCount, int, 1)
FIRST_IS(cuDeviceGet, int, 0)
FIRST_IS(cuDeviceGetAttribute, int, 2)
FIRST_IS(cuOccupancyMaxActiveBlocksPerMultiprocessor, int, 1)
FIRST_IS(cuModuleLoadData, void *, NULL)
FIRST_IS(cuStreamCreateWithPriority, void *, NULL)
FIRST_IS(cuCtxCreate_v2, void *, NULL)

#define OK(name) int name(void) { return 0; }
OK(cuInit)
OK(cuCtxSetCurrent)
OK(cuCtxDestroy_v2)
OK(cuMemsetD32_v2)

int cuDeviceGetName(char *name, int length, int device)
{
	strncpy(name, "NVIDIA Fake", (size_t)length);
	return device;
}

int cuGetErrorName(int result, const char **name)
{
	*name = "CUDA_ERROR";
	return result < 0;
}
