// SPDX-License-Identifier: GPL-2.0
/*
 * A driver for the probe's tests, which compile the probe with -Dsyscall=fake_syscall.  It knows the probe's requests
 * and controls, and refuses all others.  It remembers whether the group is on.  FAKE_RELEASE: the release
 * whose sizes and statuses it has, as MAJOR.MINOR; 575.51 if it is not set.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

/* Read by cuda.c.  Each process has its own, so calls of other processes change nothing here. */
atomic_int fake_off;

/* The controls that it knows, with the sizes of their parameters. */
static const struct {
	uint32_t cmd, size;
} known[] = {
	{ FAKE_SCHEDULE, 0 }, { FAKE_SET_TIMESLICE, 8 }, { FAKE_GET_TIMESLICE, 8 }, { FAKE_PREEMPT, 8 },
	{ FAKE_DISABLE_CHANNELS, sizeof(struct fake_channels) },
};

/* 1000 * MAJOR + MINOR. */
static long release(void)
{
	const char *text = getenv("FAKE_RELEASE") ? getenv("FAKE_RELEASE") : "575.51";
	char *minor;
	long major = strtol(text, &minor, 10);

	return 1000 * major + (*minor ? strtol(minor + 1, NULL, 10) : 0);
}

/* GPFIFO_SCHEDULE has a third byte since 575.51.02: ctrla06fgpfifo.h. */
static uint32_t size_of(size_t control)
{
	return known[control].size ? known[control].size : release() < 575051 ? 2 : 3;
}

/* INVALID_ARGUMENT since 535.161.07 and 550.40.53 (rmapi/control.c), INVALID_PARAM_STRUCT before (rs_resource.c). */
static uint32_t wrong_size(void)
{
	return release() > 550040 || (release() >= 535161 && release() < 536000) ? 0x1f : 0x3a;
}

static uint32_t refusal(const struct fake_control *call)
{
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].cmd != call->cmd)
			continue;
		if (size_of(i) != call->size)
			return wrong_size();
		return 0;
	}
	return 0x24;	/* INVALID_COMMAND */
}

static uint32_t control(struct fake_control *call)
{
	const struct fake_channels *channels = (const void *)(uintptr_t)call->params;
	uint8_t *bytes = (uint8_t *)(uintptr_t)call->params;
	uint32_t status = refusal(call);

	if (status)
		return status;
	if (call->cmd == FAKE_SCHEDULE)
		fake_off = !bytes[0];
	/* With wait it disables the group and enables it: kernel_channel_group_api.c, 615.71.09. */
	if (call->cmd == FAKE_PREEMPT && bytes[0])
		fake_off = 0;
	if (call->cmd == FAKE_DISABLE_CHANNELS && channels->count != 2)
		return 0x1f;	/* INVALID_ARGUMENT */
	if (call->cmd == FAKE_DISABLE_CHANNELS)
		fake_off = channels->disable;
	if (call->cmd == FAKE_GET_TIMESLICE)
		*(uint64_t *)bytes = 2000;
	return 0;
}

long fake_syscall(long number, ...)
{
	long a[4];
	va_list list;
	int i;

	va_start(list, number);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number != SYS_ioctl || (a[1] >> 8 & 0xff) != 'F')
		return syscall(number, a[0], a[1], a[2], a[3]);
	if ((uint32_t)a[1] == FAKE_CONTROL) {
		((struct fake_control *)a[2])->status = control((struct fake_control *)a[2]);
	} else if ((uint32_t)a[1] != FAKE_ALLOC && (uint32_t)a[1] != FAKE_FREE) {
		errno = ENOTTY;
		return -1;
	}
	return 0;
}
