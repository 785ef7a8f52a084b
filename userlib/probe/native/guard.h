/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Nothing that the probe takes off the GPU stays off: a thread puts it back after two seconds, a signal handler does
 * when the part's time is up or somebody ends it, and what dies takes its groups with it.
 */
#ifndef PROBE_GUARD_H
#define PROBE_GUARD_H

#include <stddef.h>

#include "rm_control.h"

/* Ends the process after @limit_s seconds, and on SIGTERM and SIGINT, with everything put back. */
void guard_start(unsigned int limit_s);
/* Whom it watches over from now on. */
void guard_watch(const struct rm_tsg *tsgs, size_t count);
/* Around every stretch in which a group is off. */
void guard_off(void);
void guard_on(void);
/* How often the thread had to step in. */
unsigned int guard_fired(void);

#endif
