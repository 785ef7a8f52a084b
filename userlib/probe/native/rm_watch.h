/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The RM objects that this process has allocated, and the controls that libcuda has called, seen in the process's own
 * ioctls.
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
	uint32_t client, parent, handle, class, size, engine;
	uint32_t id;	/* of a device, a GPU instance or a compute instance: which one it is */
	bool live;
};

/* A time-slice group with what is needed to act on it. */
struct rm_tsg {
	int fd;
	uint32_t client, handle, subdevice, engine, size;
	int gpu_instance;	/* on a GPU that is divided (MIG): its id, otherwise -1 */
	bool compute;
	uint32_t channel_count, channels[RM_CHANNELS_MAX];
};

/* How often libcuda called a control with this size and got this status. */
struct rm_seen {
	uint32_t cmd, size, status, count;
};

/* Each copies at most @max entries to @out and returns how many it copied. */
size_t rm_objects(struct rm_object *out, size_t max);
size_t rm_tsgs(struct rm_tsg *out, size_t max);
size_t rm_controls_seen(struct rm_seen *out, size_t max);
/* The groups with channels that compute runs on.  With @compute_only false, the groups of copy engines too. */
size_t rm_targets(struct rm_tsg *out, size_t max, bool compute_only);

#endif
