/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The RM objects that this process has allocated, seen in the process's own ioctls.
 *
 * The driver compares the descriptor of a call with the descriptor that the RM client was made on.  So every object
 * here keeps the descriptor that it was allocated through.  Calls go through that descriptor or a duplicate of it.
 */
#ifndef PROBE_RM_WATCH_H
#define PROBE_RM_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../nvidia/rm.h"

/* An object that this process has allocated. */
struct rm_object {
	int fd;
	uint32_t client, parent, handle, class, engine;
	bool live;
};

/* A time-slice group with what is needed to act on it. */
struct rm_tsg {
	int fd;
	uint32_t client, handle, subdevice;
	bool compute;
	uint32_t channel_count, channels[RM_CHANNELS_MAX];
};

/*
 * Copies at most @max groups with channels that compute runs on to @out.  With @compute_only false, also the groups of
 * copy engines.  Returns how many.
 */
size_t rm_targets(struct rm_tsg *out, size_t max, bool compute_only);

#endif
