/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/burn: execution that takes time in a kernel whose time is virtual.  There every instruction takes none; a
 * process "executes" by asking for it here, and is preempted while it does like one that really executes.
 */
#ifndef BURN_H
#define BURN_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Nobody is preempted in between: whatever happens must happen at a multiple of it. */
#define BURN_GRAIN_NS	1000

#define BURN_RUN	_IOW('b', 0, __u64)	/* execute for so many ns */
#define BURN_SPIN	_IOW('b', 1, __u64)	/* execute until that descriptor has something to read */

#endif
