/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Guarantees that no group stays off the GPU.  A thread puts groups back after two seconds.  A signal handler puts them
 * back when the part's time is up or the part is told to end.  If the process dies, the driver destroys its groups.
 */
#ifndef PROBE_GUARD_H
#define PROBE_GUARD_H

#include <stddef.h>

#include "rm_control.h"

/* From now on, puts the groups back and ends the process after @limit_s seconds, on SIGTERM and on SIGINT. */
void guard_start(unsigned int limit_s);
/* The groups to put back, instead of the ones before. */
void guard_watch(const struct rm_tsg *tsgs, size_t count);
/* Called before a group goes off, and after it is on again. */
void guard_off(void);
void guard_on(void);
/* How often the thread has put the groups back. */
unsigned int guard_fired(void);

#endif
