/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A thread that keeps the GPU full until it is stopped, with at most two launches outstanding. */
#ifndef PROBE_BUSY_H
#define PROBE_BUSY_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels.h"

/* A long kernel: a block ends often, the kernel seldom. */
#define BUSY_LONG_WAVES 8
#define BUSY_LONG_NS 2000000u

struct busy {
	const struct kernels *kernels;
	struct mapped_beat beat;
	cu_object streams[2];
	pthread_t thread;
	atomic_bool stop;
	atomic_uint launches;
};

/*
 * Launches into two streams, which may be the same one.  Returns when a kernel runs.  A launch has BUSY_LONG_WAVES times
 * as many blocks as fit, so that they run wave after wave, for BUSY_LONG_NS each.
 */
void busy_start(struct busy *busy, const struct kernels *kernels, cu_object first, cu_object second);
void busy_stop(struct busy *busy);

#endif
