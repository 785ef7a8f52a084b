// SPDX-License-Identifier: GPL-2.0
/*
 * compat: calls the device as a 32-bit program does, which an x86-64 process may do by interrupt 0x80.  Prints "done" when
 * all calls answered as they do to others; else says which one did not.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IOCTL 54	/* of i386 */

static int fd;

static long call(unsigned int code, void *argument)
{
	long ret = -ENOSYS;

#ifdef __x86_64__
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(IOCTL), "b"((long)fd), "c"((long)code), "d"(argument)
			 : "memory", "r8", "r9", "r10", "r11");
#endif
	return (int)ret;
}

static void expect(const char *what, long got, long wanted)
{
	if (got == wanted)
		return;
	printf("%s: %ld, not %ld\n", what, got, wanted);
	fflush(stdout);
	_exit(1);
}

int main(void)
{
	union {
		__u32 size;
		struct gpurt_query query;
		struct gpurt_begin begin;
		struct gpurt_end end;
		struct gpurt_wait wait;
		struct gpurt_job_mark mark;
		char bytes[2 * GPURT_MAX_STRUCT];
	} *a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	static const __u32 sizes[] = { 0, 4, sizeof(struct gpurt_begin) - 1, GPURT_MAX_STRUCT + 1, 0xffffffff };
	static const int refusals[] = { -EINVAL, -EINVAL, -EINVAL, -E2BIG, -E2BIG };
	unsigned int i;

	fd = open("/dev/gpurt", O_RDWR);
	if (fd < 0 || a == MAP_FAILED)
		return errno;
	a->query = (struct gpurt_query){ .size = sizeof(a->query) };
	expect("query", call(GPURT_IOC_QUERY, a), 0);
	expect("version", a->query.version, GPURT_VERSION);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		memset(a, 0, sizeof(*a));
		a->size = sizes[i];
		expect("a size", call(GPURT_IOC_BEGIN, a), refusals[i]);
	}
	memset(a, 0, sizeof(*a));
	a->size = GPURT_MAX_STRUCT;
	a->begin.priority = 10;
	a->bytes[GPURT_MAX_STRUCT - 1] = 1;
	expect("bytes of a later release", call(GPURT_IOC_BEGIN, a), -E2BIG);
	a->bytes[GPURT_MAX_STRUCT - 1] = 0;
	expect("begin", call(GPURT_IOC_BEGIN, a), 0);
	expect("state", a->begin.state, GPURT_STATE_RUNNING);
	a->wait = (struct gpurt_wait){ .size = sizeof(a->wait), .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
	expect("wait", call(GPURT_IOC_WAIT, a), 0);
	expect("a time beyond 32 bits", a->wait.completed_ns >> 32 != 0, 1);
	a->end = (struct gpurt_end){ .size = sizeof(a->end) };
	expect("end", call(GPURT_IOC_END, a), 0);
	expect("no segment", call(GPURT_IOC_END, a), -ENOENT);
	a->mark = (struct gpurt_job_mark){ .size = sizeof(a->mark), .release_ns = ~0ULL, .task = "task" };
	expect("a release to come", call(GPURT_IOC_JOB_MARK, a), -EINVAL);
	expect("no pointer", call(GPURT_IOC_QUERY, NULL), -EFAULT);
	expect("no call", call(_IO('X', 250), a), -ENOTTY);
	puts("done");
	return 0;
}
