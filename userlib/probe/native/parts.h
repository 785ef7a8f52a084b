/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parts of the probe.  Each runs in a process of its own and writes its findings as records (emit.h). */
#ifndef PROBE_PARTS_H
#define PROBE_PARTS_H

struct options {
	unsigned int calls, seconds;
};

int part_stop(const struct options *options);
int part_strangers(const struct options *options);
int part_yield(const struct options *options);

/* part_strangers.c: one call of this user for the channels of @others processes, or of their compute groups only. */
void strangers_run(int others, bool compute_only);

#endif
