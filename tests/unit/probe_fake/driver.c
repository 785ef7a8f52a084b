// SPDX-License-Identifier: GPL-2.0
/*
 * A driver for the probe's tests, which compile the probe with -Dsyscall=fake_syscall.  It accepts every ioctl of
 * NVIDIA's type, remembers whether the group is on, and allows what needs CAP_SYS_NICE to root only.
 */
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

/* Read by cuda.c.  Each process has its own, so calls of other processes change nothing here. */
atomic_int fake_off;

static uint32_t control(struct fake_control *call)
{
	const struct fake_channels *channels = (const void *)(uintptr_t)call->params;
	uint8_t *bytes = (uint8_t *)(uintptr_t)call->params;

	switch (call->cmd) {
	case FAKE_SCHEDULE:
		if (call->size != 3)
			return 0x3a;
		fake_off = !bytes[0];
		return 0;
	case FAKE_DISABLE_CHANNELS:
		if (call->size != sizeof(*channels) || channels->count != 2)
			return 0x3a;
		fake_off = channels->disable;
		return 0;
	case FAKE_GET_TIMESLICE:
		*(uint64_t *)bytes = 2000;
		return 0;
	case FAKE_SET_INTERLEAVE:
	case FAKE_MAKE_REALTIME:
	case FAKE_RESTART_RUNLIST:
		return geteuid() ? 0x1b : 0;
	}
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
	if ((uint32_t)a[1] == FAKE_CONTROL)
		((struct fake_control *)a[2])->status = control((struct fake_control *)a[2]);
	return 0;
}
