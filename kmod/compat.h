/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernel releases, here and nowhere else.  Each names the release that made it.
 */
#ifndef GPURT_COMPAT_H
#define GPURT_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "gpurt needs Linux 5.10 or newer"
#endif

/* 6.13 added hrtimer_setup(), 6.15 removed hrtimer_init(). */
static inline void compat_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
					clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

#endif
