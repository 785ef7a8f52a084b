/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The ways of taking a process's compute groups off the GPU and of letting them back. */
#ifndef PROBE_METHODS_H
#define PROBE_METHODS_H

#include "rm_control.h"

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

#define METHODS 4
extern const struct method methods[METHODS];
/* GPFIFO_SCHEDULE off with PREEMPT, and FIFO_DISABLE_CHANNELS: what a backend would choose from. */
extern const struct method *const method_schedule, *const method_channels;

/* The first status that is not 0; the guard watches from off to on. */
int groups_off(const struct groups *groups, const struct method *method);
int groups_on(const struct groups *groups, const struct method *method);
/* Finds them and hands them to the guard; -1, with a line, where none was seen. */
int groups_find(struct groups *groups, bool compute_only);

#endif
