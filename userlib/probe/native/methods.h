/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ways of taking a process's groups off the GPU and of putting them back, and the guard that no group stays off.  A
 * thread puts groups back after two seconds.  A signal handler puts them back when the part's time is up or the part is
 * told to end.  If the process dies, the driver destroys its groups.
 */
#ifndef PROBE_METHODS_H
#define PROBE_METHODS_H

#include "rm_control.h"

/* From now on, puts the groups back and ends the process after @limit_s seconds, on SIGTERM and on SIGINT. */
void guard_start(unsigned int limit_s);

#define GROUPS_MAX 32

struct groups {
	struct rm_tsg tsg[GROUPS_MAX];
	size_t count;
};

struct method {
	const char *name;
	int (*off)(const struct rm_tsg *tsg);
	int (*on)(const struct rm_tsg *tsg);
};

#define METHODS 2
extern const struct method methods[METHODS];
/* GPFIFO_SCHEDULE off with PREEMPT, and FIFO_DISABLE_CHANNELS: the methods that an agent has. */
extern const struct method *const method_schedule, *const method_channels;

/* Switch all groups and return the first status that is not 0.  The guard is armed from off to on. */
int groups_off(const struct groups *groups, const struct method *method);
int groups_on(const struct groups *groups, const struct method *method);
/* Finds the process's groups and gives them to the guard.  If there are none, writes an error record, returns -1. */
int groups_find(struct groups *groups, bool compute_only);

#endif
