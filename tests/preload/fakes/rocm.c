// SPDX-License-Identifier: GPL-2.0
/*
 * A libamdhip64.so over the real ROCr (libhsa-runtime64) and the real libhsakmt, which talk to the fake /dev/kfd.  They make
 * and change the queues.  The work is submitted to the fake GPU beside them, because it executes no packets.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "wire.h"

#define EXPORT __attribute__((visibility("default")))
#define FAILED 999
#define DEVICES 8
#define GPU_AGENT 1
#define INFO_NODE 16
#define INFO_DEVICE 17
#define PM4 1	/* HSA_QUEUE_COMPUTE */

struct agent { uint64_t handle; };
struct resource { uint64_t queue; void *doorbell, *write, *read, *reason; };
struct dim { unsigned int x, y, z; };

static struct {
	int (*hsa_init)(void);
	int (*hsa_iterate_agents)(int (*)(struct agent, void *), void *);
	int (*hsa_agent_get_info)(struct agent, int, void *);
	int (*hsa_queue_create)(struct agent, uint32_t, uint32_t, void *, void *, uint32_t, uint32_t, void **);
	int (*hsa_queue_destroy)(void *);
	int (*hsa_amd_queue_cu_set_mask)(void *, uint32_t, const uint32_t *);
	int (*hsa_amd_queue_set_priority)(void *, int);
	int (*hsaKmtCreateQueue)(uint32_t, int, uint32_t, int, void *, uint64_t, void *, struct resource *);
	int (*hsaKmtUpdateQueue)(uint64_t, uint32_t, int, void *, uint64_t, void *);
	int (*hsaKmtSetQueueCUMask)(uint64_t, uint32_t, uint32_t *);
	int (*hsaKmtDestroyQueue)(uint64_t);
	int (*hsaKmtAllocMemory)(uint32_t, uint64_t, uint32_t, void **);
	int (*hsaKmtMapMemoryToGPU)(void *, uint64_t, uint64_t *);
} api;

static struct device { struct agent agent; uint32_t node; void *queue; uint64_t last; } devices[DEVICES];
static unsigned int device_count;
static int current, kfd = -1;
static struct resource own;
static void *ring, *runtimes;	/* an own queue: libhsakmt's, or ROCr's where that has libhsakmt inside (ROCm 6.4) */

#define RING 4096
/* HsaMemFlags: memory of the host that the GPU may execute from. */
#define HOST_MEMORY (1u << 6 | 1u << 12)

static int found(struct agent agent, void *data)
{
	struct device *d = &devices[device_count];
	int type = -1;

	(void)data;
	if (!api.hsa_agent_get_info(agent, INFO_DEVICE, &type) && type == GPU_AGENT && device_count < DEVICES) {
		d->agent = agent;
		api.hsa_agent_get_info(agent, INFO_NODE, &d->node);
		device_count++;
	}
	return 0;
}

static struct device *device(void)
{
	struct device *d = &devices[current];

	if (!d->queue && api.hsa_queue_create(d->agent, 4096, 0, NULL, NULL, ~0u, ~0u, &d->queue))
		return NULL;
	return d;
}

static int ask(uint32_t type, uint64_t value, struct fake_answer *a)
{
	/* ROCr hides the queue's number.  The process's first queue executes the work. */
	struct fake_request q = { .type = type, .cookie = fake_cookie(kfd), .handle = ~0u, .value = value };

	return !device() || fake_ask(&q, a) || a->result < 0 ? FAILED : 0;
}

static int submit(uint64_t us)
{
	struct fake_answer a;

	if (ask(FAKE_SUBMIT, us * 1000, &a))
		return FAILED;
	devices[current].last = a.value;
	return 0;
}

static int make_queue(uint32_t percentage)
{
	uint64_t address;

	if (api.hsaKmtAllocMemory(0, RING, HOST_MEMORY, &ring) || api.hsaKmtMapMemoryToGPU(ring, RING, &address))
		return FAILED;
	memset(&own, 0, sizeof(own));
	return api.hsaKmtCreateQueue(devices[current].node, PM4, percentage, 0, ring, RING, NULL, &own);
}

/* Calls that a test asks for, without libhsakmt. */
static int by_runtime(const char *what, int value)
{
	uint32_t mask = (uint32_t)value;

	if (!strcmp(what, "queue"))
		return api.hsa_queue_create(devices[current].agent, 4096, 0, NULL, NULL, ~0u, ~0u, &runtimes);
	if (!strcmp(what, "priority"))
		return api.hsa_amd_queue_set_priority(runtimes, value);
	if (!strcmp(what, "mask"))
		return api.hsa_amd_queue_cu_set_mask(runtimes, 32, &mask);
	return !strcmp(what, "destroy") ? api.hsa_queue_destroy(runtimes) : 64;
}

/* Calls of libhsakmt and ROCr that a test asks for. */
EXPORT int fakeOwn(const char *what, int value)
{
	uint32_t mask[2] = { (uint32_t)value, 0 };

	if (!api.hsaKmtCreateQueue && strcmp(what, "runtime-mask"))
		return by_runtime(what, value);
	if (!strcmp(what, "queue"))
		return make_queue((uint32_t)value);
	if (!strcmp(what, "percentage"))
		return api.hsaKmtUpdateQueue(own.queue, (uint32_t)value, 0, ring, RING, NULL);
	if (!strcmp(what, "mask"))
		return api.hsaKmtSetQueueCUMask(own.queue, 32, mask);
	if (!strcmp(what, "runtime-mask"))
		return api.hsa_amd_queue_cu_set_mask(device()->queue, 64, mask);
	return !strcmp(what, "destroy") ? api.hsaKmtDestroyQueue(own.queue) : 64;
}

EXPORT int hipInit(unsigned int flags)
{
	void *runtime = dlopen("libhsa-runtime64.so.1", RTLD_NOW), *thunk = dlopen("libhsakmt.so.1", RTLD_NOW);

	(void)flags;
	if (!runtime) {
		fprintf(stderr, "%s\n", dlerror());
		return FAILED;
	}
#define FIND(library, name) api.name = (__typeof__(api.name))dlsym(library, #name)
	FIND(runtime, hsa_init);
	FIND(runtime, hsa_iterate_agents);
	FIND(runtime, hsa_agent_get_info);
	FIND(runtime, hsa_queue_create);
	FIND(runtime, hsa_queue_destroy);
	FIND(runtime, hsa_amd_queue_cu_set_mask);
	FIND(runtime, hsa_amd_queue_set_priority);
	if (thunk) {
		FIND(thunk, hsaKmtCreateQueue);
		FIND(thunk, hsaKmtUpdateQueue);
		FIND(thunk, hsaKmtSetQueueCUMask);
		FIND(thunk, hsaKmtDestroyQueue);
		FIND(thunk, hsaKmtAllocMemory);
		FIND(thunk, hsaKmtMapMemoryToGPU);
	}
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	return kfd < 0 || api.hsa_init() || api.hsa_iterate_agents(found, NULL) || !device_count ? FAILED : 0;
}

EXPORT int hipGetDevice(int *device) { *device = current; return 0; }
EXPORT int hipSetDevice(int device) { current = device; return 0; }
EXPORT int hipLaunchKernel(const void *f, struct dim grid, struct dim block, void **params, size_t shared, void *stream)
{
	(void)f, (void)block, (void)params, (void)shared, (void)stream;
	return submit(grid.x);
}

EXPORT int hipStreamQuery(void *stream)
{
	struct fake_answer a;

	(void)stream;
	return ask(FAKE_DONE, devices[current].last, &a) ? FAILED : a.value ? 0 : 600;
}

EXPORT int hipDeviceSynchronize(void)
{
	struct fake_answer a;

	return !device() || (devices[current].last && ask(FAKE_WAIT, devices[current].last, &a)) ? FAILED : 0;
}
