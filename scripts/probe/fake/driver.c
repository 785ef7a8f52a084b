// SPDX-License-Identifier: GPL-2.0
/*
 * A driver to try the probe on where there is none: tests link it in with -Dsyscall=fake_syscall.  It takes every
 * ioctl of NVIDIA's, keeps whether the group is on, and lets root alone do what needs CAP_SYS_NICE.
 */
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../rm.h"

/* Read by fake/cuda.c; in memory of this process only, so that other callers' calls change nothing here. */
atomic_int fake_off;

static uint32_t control(struct rm_control *call)
{
	const struct rm_disable_channels *channels = (const void *)(uintptr_t)call->params;
	uint8_t *bytes = (uint8_t *)(uintptr_t)call->params;

	switch (call->cmd) {
	case A06C_GPFIFO_SCHEDULE:
		if (call->size != 3)
			return 0x3a;
		fake_off = !bytes[0];
		return 0;
	case SUB_DISABLE_CHANNELS:
		if (call->size != sizeof(*channels) || channels->count != 2)
			return 0x3a;
		fake_off = channels->disable;
		return 0;
	case A06C_GET_TIMESLICE:
		*(uint64_t *)bytes = 2000;
		return 0;
	case A06C_SET_INTERLEAVE:
	case A06C_MAKE_REALTIME:
	case A06F_RESTART_RUNLIST:
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
	if ((uint32_t)a[1] == RM_CONTROL)
		((struct rm_control *)a[2])->status = control((struct rm_control *)a[2]);
	return 0;
}
