// SPDX-License-Identifier: GPL-2.0
/* A minimal libamdhip64.so over the fake GPU: one queue a process, kernels of N blocks run N microseconds. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "wire.h"

#define EXPORT __attribute__((visibility("default")))

struct create_queue {
	uint64_t ring, write_pointer, read_pointer, doorbell;
	uint32_t ring_size, gpu, type, percentage, priority, queue;
	uint64_t eop, eop_size, save;
	uint32_t save_size, stack_size;
};
struct dim { unsigned int x, y, z; };

static int fd = -1;
static uint32_t queue;
static uint64_t last;

static struct fake_request about(uint32_t type, uint64_t value)
{
	return (struct fake_request){ .type = type, .cookie = fake_cookie(fd), .handle = queue, .value = value };
}

static int wait_for_all(void)
{
	struct fake_request q = about(FAKE_WAIT, last);
	struct fake_answer a;

	return last && (fake_ask(&q, &a) || a.result < 0) ? 999 : 0;
}

static int submit(uint64_t us)
{
	struct fake_request q = about(FAKE_SUBMIT, us * 1000);
	struct fake_answer a;

	if (fake_ask(&q, &a) || a.result < 0)
		return 999;
	last = a.value;
	return 0;
}

EXPORT int hipInit(unsigned int flags)
{
	struct create_queue c = { .ring = 0x7000, .ring_size = 4096, .gpu = 4711, .percentage = 100, .priority = 7 };

	(void)flags;
	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, _IOWR('K', 0x02, struct create_queue), &c) < 0)
		return 999;
	queue = c.queue;
	return 0;
}

EXPORT int hipGetDevice(int *device) { *device = 0; return 0; }
EXPORT int hipLaunchKernel(const void *f, struct dim grid, struct dim block, void **params, size_t shared, void *stream)
{
	(void)f, (void)block, (void)params, (void)shared, (void)stream;
	return submit(grid.x);
}
EXPORT int hipStreamSynchronize(void *stream) { (void)stream; return wait_for_all(); }
EXPORT int hipDeviceSynchronize(void) { return wait_for_all(); }
EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
	(void)to, (void)from, (void)kind;
	return submit(size) ? 999 : wait_for_all();
}
