// SPDX-License-Identifier: GPL-2.0
/* Scenes of hardware.c on a clock that moves only when a call sleeps; prints what came of each, for test_preload_hardware.py. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long clock_now = 1000000000;

static int virtual_clock(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){ clock_now / 1000000000, clock_now % 1000000000 };
	clock_now++;	/* so that a thread that spends its time awake gets on */
	return 0;
}

static int virtual_sleep(const struct timespec *t)
{
	clock_now = t->tv_sec * 1000000000ll + t->tv_nsec;
	return 0;
}

/* A thread that waits for a futex sleeps until its time is over: nobody else is there to wake it. */
static long virtual_syscall(long number, ...)
{
	long a[6];
	va_list list;
	int i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number != SYS_futex)
		return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return (int)a[1] == FUTEX_WAIT_BITSET ? virtual_sleep((const void *)a[3]) : 0;
}

#define clock_gettime virtual_clock
#define clock_nanosleep(clock, flags, t, left) virtual_sleep(t)
#define syscall virtual_syscall
#include "hardware.c"

#define MS 1000000ll

static void show(const char *what, long long value)
{
	printf("%s %lld\n", what, value);
}

static long long since(long long begun)
{
	return (clock_now - begun) / 1000;
}

static struct hardware *fresh(const char *path, int groups)
{
	struct hardware *h;
	uint32_t i;

	hardware_make(path, 1000);
	setenv("FAKE_HARDWARE", path, 1);
	h = (void *)mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR), 0);
	for (i = 1; i <= (uint32_t)groups; i++)
		hardware_add(h, i);
	return h;
}

/* A short kernel of group 1 that comes when the others have executed for a while, at the worst of many phases. */
static long long delay(struct hardware *h, int others, uint64_t slice_us)
{
	long long begun, worst = 0;
	uint64_t number;
	int i;

	for (i = 2; i < 2 + others; i++) {
		if (slice_us)
			hardware_set_slice(h, (uint32_t)i, slice_us);
		hardware_submit(h, (uint32_t)i, 1000000 * MS);
	}
	for (i = 0; i < 1000; i++) {
		clock_now += 10 * MS + i * 3000;
		begun = clock_now;
		number = hardware_submit(h, 1, 50000);
		hardware_wait(h, 1, number);
		worst = later(worst, since(begun));
	}
	return worst;
}

static void calls(const char *path)
{
	struct fake_channels off = { .off = 1, .count = 1, .clients = { 1 }, .channels = { COMPUTE } };
	struct hardware *h = fresh(path, 2);
	long long begun, executed;

	hardware_submit(h, 1, 1000 * MS);
	clock_now += 10 * MS;
	begun = clock_now;
	executed = hardware_executed(h, 1);
	hardware_switch(h, &off);
	show("off_returns", since(begun));
	show("off_executes_on", (hardware_executed(h, 1) - executed) / 1000);
	begun = clock_now;
	occupy(h, 5 * MS);
	off.off = 0;
	hardware_switch(h, &off);
	show("on_behind_another_call", since(begun));
	off.clients[0] = 77;
	show("stale", hardware_switch(h, &off));
}

int main(int argc, char **argv)
{
	struct hardware *h = fresh(argv[argc - 1], 2);
	uint64_t number;
	long long begun;

	show("beside_1", delay(h, 1, 0));
	show("beside_1_at_2us", delay(fresh(argv[1], 5), 1, 2));
	show("beside_4_at_2us", delay(fresh(argv[1], 5), 4, 2));
	show("beside_4_at_500us", delay(fresh(argv[1], 5), 4, 500));
	h = fresh(argv[1], 1);
	hardware_set_slice(h, 1, 2);
	begun = clock_now;
	number = hardware_submit(h, 1, 30 * MS);
	hardware_wait(h, 1, number);
	show("alone_at_2us", since(begun));
	h = fresh(argv[1], 2);
	hardware_set_slice(h, 1, 10);
	hardware_set_slice(h, 2, 10);
	hardware_submit(h, 1, 1000 * MS);
	hardware_submit(h, 2, 1000 * MS);
	clock_now += 100 * MS;
	show("turns_at_10us", hardware_executed(h, 1) / 1000 + hardware_executed(h, 2) / 1000);
	calls(argv[1]);
	return 0;
}
