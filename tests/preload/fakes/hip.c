// SPDX-License-Identifier: GPL-2.0
/*
 * A minimal libamdhip64.so over the fake GPU: kernels of N blocks run N microseconds.  As in the real one, a device's
 * queue is made when a stream is first used (hip_device.cpp of ROCm 6.2).  Devices are those GPUs of the topology that
 * the process may use, in the order of HIP_VISIBLE_DEVICES.  Numbers in HIP_VISIBLE_DEVICES count the GPUs that
 * ROCR_VISIBLE_DEVICES leaves.
 */
#define _GNU_SOURCE
#include <link.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "wire.h"

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 8
#define FAILED 999

struct create_queue {
	uint64_t ring, write_pointer, read_pointer, doorbell;
	uint32_t ring_size, gpu, type, percentage, priority, queue;
	uint64_t eop, eop_size, save;
	uint32_t save_size, stack_size;
};
struct update_queue { uint64_t ring; uint32_t queue, ring_size, percentage, priority; };
struct cu_mask { uint32_t queue, bits; uint64_t address; };
struct allocate { uint64_t address, size, handle, offset; uint32_t gpu, flags; };
struct map { uint64_t handle, gpus; uint32_t count, done; };
struct dim { unsigned int x, y, z; };

struct device {
	uint32_t id, queue;
	unsigned int location;
	int ready, bound;
	uint64_t last;
};

static int fd = -1, current;
static __thread int last_error;
static struct device devices[DEVICES];
static unsigned int device_count;
static uint64_t next_address = 0x70000000;
static struct create_queue own;	/* the queue that the test made last */

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"

static unsigned int location_of(unsigned int node)
{
	unsigned int location = 0;
	char path[96], name[64];
	unsigned long long value;
	FILE *file;

	snprintf(path, sizeof(path), NODES "/%u/properties", node);
	file = fopen(path, "r");
	while (file && fscanf(file, "%63s %llu", name, &value) == 2)
		if (!strcmp(name, "location_id"))
			location = (unsigned int)value;
	if (file)
		fclose(file);
	return location;
}

static unsigned int read_topology(struct device *all)
{
	unsigned int node, count = 0, id;
	char path[96];
	FILE *file;

	for (node = 0; count < DEVICES; node++) {
		snprintf(path, sizeof(path), NODES "/%u/gpu_id", node);
		file = fopen(path, "r");
		if (!file)
			break;
		if (fscanf(file, "%u", &id) == 1 && id)
			all[count++] = (struct device){ .id = id, .location = location_of(node) };
		fclose(file);
	}
	return count;
}

#define AQL_RING (1u << 27)	/* GFX8's rings appear twice in the address space */

static uint64_t memory(uint32_t gpu, uint64_t size, uint32_t flags)
{
	struct allocate a = { .address = next_address, .size = size, .gpu = gpu, .flags = 2 | flags };
	struct map m = { .gpus = (uintptr_t)&gpu, .count = 1 };

	next_address += 0x100000;
	if (ioctl(fd, _IOWR('K', 0x16, struct allocate), &a) < 0)
		return 0;
	m.handle = a.handle;
	return ioctl(fd, _IOWR('K', 0x18, struct map), &m) < 0 ? 0 : a.address;
}

static int make_queue(struct device *d, struct create_queue *c)
{
	struct { uint32_t node, gpu; } vm = { .gpu = d->id };

	if (!d->bound && ioctl(fd, _IOW('K', 0x15, uint64_t), &vm) < 0)
		return FAILED;
	d->bound = 1;
	c->gpu = d->id;
	c->ring_size = 4096;
	c->ring = memory(d->id, c->ring_size, c->type == 2 && getenv("FAKE_GFX8") ? AQL_RING : 0);
	c->write_pointer = memory(d->id, 4096, 0);
	c->read_pointer = memory(d->id, 4096, 0);
	return ioctl(fd, _IOWR('K', 0x02, struct create_queue), c) < 0 ? FAILED : 0;
}

/* The current device, with its queue. */
static struct device *device(void)
{
	struct create_queue c = { .type = 2, .percentage = 100, .priority = 7, .save = 0x1000 };
	struct device *d = &devices[current];

	if (!d->ready && !make_queue(d, &c)) {
		d->queue = c.queue;
		d->ready = 1;
	}
	return d->ready ? d : NULL;
}

static struct fake_request about(uint32_t type, const struct device *d, uint64_t value)
{
	return (struct fake_request){ .type = type, .cookie = fake_cookie(fd), .handle = d->queue, .value = value };
}

static int wait_for_all(void)
{
	struct device *d = device();
	struct fake_request q;
	struct fake_answer a;

	if (!d)
		return FAILED;
	q = about(FAKE_WAIT, d, d->last);
	return d->last && (fake_ask(&q, &a) || a.result < 0) ? FAILED : 0;
}

static int submit(uint64_t us)
{
	struct device *d = device();
	struct fake_request q;
	struct fake_answer a;

	if (!d)
		return FAILED;
	q = about(FAKE_SUBMIT, d, us * 1000);
	if (fake_ask(&q, &a) || a.result < 0)
		return FAILED;
	d->last = a.value;
	return 0;
}

static int change(uint32_t percentage)
{
	struct update_queue u = {
		.ring = own.ring, .queue = own.queue, .ring_size = own.ring_size, .percentage = percentage, .priority = 7,
	};

	return ioctl(fd, _IOW('K', 0x07, struct update_queue), &u) < 0 ? FAILED : 0;
}

/* Makes the descriptor another one of the same process. */
static int reopen(void)
{
	int old = fd;

	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	close(old);
	return fd < 0 ? FAILED : 0;
}

struct userq { uint32_t words[6]; uint64_t more[6]; };

/* Makes a user queue of a node with so many us of work, or frees (0) or closes (-1) the one that was made last. */
static int user_queue(const char *node, int us)
{
	static int dri = -1;
	static struct userq q;
	struct fake_request work = { .type = FAKE_SUBMIT, .value = (uint64_t)us * 1000 };
	struct fake_answer a;

	if (us < 0)
		return close(dri);
	if (!us) {
		q = (struct userq){ .words = { 2, q.words[0] } };
		return ioctl(dri, _IOWR('d', 0x56, struct userq), &q) < 0 ? FAILED : 0;
	}
	dri = open(node, O_RDWR | O_CLOEXEC);
	q = (struct userq){ .words = { 1 } };
	if (dri < 0 || ioctl(dri, _IOWR('d', 0x56, struct userq), &q) < 0)
		return FAILED;
	work.cookie = fake_cookie(dri);
	work.handle = q.words[0];
	return fake_ask(&work, &a) || a.result < 0 ? FAILED : 0;
}

/* Makes a context, in which own queues are made from now on; `use` and the rest stay in the process's. */
static int context(int apart)
{
	if (apart)
		fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	devices[current].ready = devices[current].bound = 0;	/* its queue is another context's */
	return fd < 0 || ioctl(fd, _IO('K', 0x27)) < 0 ? FAILED : 0;
}

static void *destroy(void *number)
{
	return (void *)(intptr_t)ioctl(fd, _IOWR('K', 0x03, uint64_t), number);
}

/* One thread destroys a queue.  Before its call returns, this one makes a queue that gets the same number. */
static int swap(void)
{
	uint64_t old = own.queue, number;
	pthread_t thread;
	void *failed;

	pthread_create(&thread, NULL, destroy, &old);
	for (;;) {
		own.percentage = 100;
		if (make_queue(&devices[current], &own))
			return FAILED;
		if (own.queue == (uint32_t)old)
			break;
		number = own.queue;
		destroy(&number);
	}
	pthread_join(thread, &failed);
	return failed ? FAILED : 0;
}

/* Calls of the driver that a test asks for. */
EXPORT int fakeOwn(const char *what, int value)
{
	int words[] = { value, value };
	struct cu_mask mask = { .queue = own.queue, .bits = 64, .address = (uintptr_t)words };
	uint64_t number = own.queue;

	if (!strcmp(what, "queue") || !strcmp(what, "bare-queue")) {
		own = (struct create_queue){ .percentage = (uint32_t)value, .priority = 7, .save = *what == 'b' ? 0 : 4096 };
		return make_queue(&devices[current], &own);
	}
	if (!strcmp(what, "percentage"))
		return change((uint32_t)value);
	if (!strcmp(what, "mask"))
		return ioctl(fd, _IOW('K', 0x1a, struct cu_mask), &mask) < 0 ? FAILED : 0;
	if (!strcmp(what, "destroy"))
		return destroy(&number) ? FAILED : 0;
	if (!strcmp(what, "swap"))
		return swap();
	if (!strcmp(what, "userq"))
		return user_queue("/dev/dri/renderD128", value);
	if (!strcmp(what, "card-userq"))
		return user_queue("/dev/dri/card0", value);
	if (!strcmp(what, "context"))	/* 1: on a descriptor of its own; 0: on the one that has made queues */
		return context(value);
	return !strcmp(what, "reopen") ? reopen() : 64;
}

/* Leaves what a variable names, in its order; it is a digit for each device, with commas between. */
static unsigned int choose(struct device *all, unsigned int count, const char *visible)
{
	struct device was[DEVICES];
	unsigned int i = 0;

	if (!visible)
		return count;
	memcpy(was, all, sizeof(was));
	for (; *visible >= '0' && (unsigned int)(*visible - '0') < count && i < DEVICES; visible += 1 + (visible[1] == ','))
		all[i++] = was[*visible - '0'];
	return i;
}

/* FAKE_FUNCTION_0=1: as before ROCm 7, partitions of a GPU have its address (hip_device_runtime.cpp). */
EXPORT int hipDeviceGetPCIBusId(char *text, int size, int device)
{
	const unsigned int at = device >= 0 && (unsigned int)device < device_count ? devices[device].location : 0;

	if (!at)
		return 101;
	snprintf(text, (size_t)size, "0000:%02x:%02x.%x", at >> 8, at >> 3 & 31, getenv("FAKE_FUNCTION_0") ? 0 : at & 7);
	return 0;
}

EXPORT int hipInit(unsigned int flags)
{
	struct device all[DEVICES];
	unsigned int count = read_topology(all), i;

	(void)flags;
	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	count = choose(all, count, getenv("ROCR_VISIBLE_DEVICES"));
	device_count = choose(all, count, getenv("HIP_VISIBLE_DEVICES"));
	for (i = 0; i < device_count; i++)
		devices[i] = all[i];
	return fd < 0 || !device_count ? FAILED : 0;
}

EXPORT int hipGetDevice(int *device) { *device = current; return 0; }
EXPORT int hipSetDevice(int device)
{
	if (device < 0 || (unsigned int)device >= device_count)
		return 101;
	current = device;
	return 0;
}

EXPORT int hipLaunchKernel(const void *f, struct dim grid, struct dim block, void **params, size_t shared, void *stream)
{
	(void)f, (void)block, (void)params, (void)shared, (void)stream;
	return submit(grid.x);
}
#define WORK(name) EXPORT int name(void) { return submit(100000); }
WORK(hipDrvMemcpy3D)
WORK(hipExtModuleLaunchKernel)
WORK(hipGraphLaunch)
WORK(hipLaunchByPtr)
WORK(hipLaunchCooperativeKernel)
WORK(hipLaunchKernelExC)
WORK(hipLaunchKernel_spt)
WORK(hipMemcpy2DAsync)
WORK(hipMemcpyPeer)
WORK(hipMemcpyToSymbolAsync)
WORK(hipMemsetD32Async)
WORK(hipStreamWriteValue64)
WORK(hipNewerThanTheTable)

/* A function of this library.  Not by dlsym(), which the preload library wraps: then it would answer for us. */
static void *own_function(const char *name)
{
	struct link_map *library = dlopen("libamdhip64.so", RTLD_NOW | RTLD_NOLOAD);
	const ElfW(Sym) *symbols = NULL, *s;
	const char *strings = NULL;
	const ElfW(Dyn) *d;

	for (d = library->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		if (d->d_tag == DT_STRTAB)
			strings = (const void *)d->d_un.d_ptr;
	}
	for (s = symbols; (const char *)s < strings; s++)	/* the linker puts strings behind symbols */
		if (s->st_shndx && !strcmp(strings + s->st_name, name))
			return (char *)library->l_addr + s->st_value;
	return NULL;
}

/* As hipGetProcAddress() of ROCm 6.2: a symbol of that name, whatever the version and the flags. */
EXPORT int hipGetProcAddress(const char *name, void **found, int version, uint64_t flags, void *status)
{
	(void)version, (void)flags, (void)status;
	*found = own_function(name);
	return *found ? 0 : 1;
}

/* As ihipMemcpy() of ROCm 6.2: nothing to copy is nothing to wait for. */
EXPORT int hipMemcpyWithStream(void *to, const void *from, size_t size, int kind, void *stream)
{
	(void)to, (void)from, (void)stream;
	if (!size)
		return 0;
	return submit(size) ? FAILED : kind == 2 ? wait_for_all() : 0;
}

#define PER_THREAD ((void *)2)

/* As hipStreamIsCapturing() of ROCm 6.2: the default stream of a thread has a queue from now on. */
EXPORT int hipStreamIsCapturing(void *stream, int *status)
{
	*status = 0;
	return stream == PER_THREAD && !device() ? FAILED : 0;
}

/* As in ROCm 6.2, a query of any stream except the default one ends a capture of another thread, which is under way here. */
static int captures_ended;

EXPORT int hipStreamEndCapture(void) { return captures_ended ? 901 : 0; }
EXPORT int hipStreamQuery(void *stream)
{
	struct device *d = device();
	struct fake_request q;
	struct fake_answer a;

	captures_ended |= stream != NULL;
	if (!d)
		return FAILED;
	q = about(FAKE_DONE, d, d->last);
	if (fake_ask(&q, &a) || a.result < 0)
		return FAILED;
	last_error = a.value ? last_error : 600;
	return a.value ? 0 : 600;
}
EXPORT int hipPeekAtLastError(void) { return last_error; }
EXPORT int hipGetLastError(void)
{
	int was = last_error;

	last_error = 0;
	return was;
}
EXPORT int hipStreamSynchronize(void *stream) { (void)stream; return wait_for_all(); }
EXPORT int hipDeviceSynchronize(void) { return wait_for_all(); }
EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
	(void)to, (void)from, (void)kind;
	return submit(size) ? FAILED : wait_for_all();
}
