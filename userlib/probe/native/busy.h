/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A thread that keeps the GPU full for as long as it is wanted, with never more than two launches to wait for. */
#ifndef PROBE_BUSY_H
#define PROBE_BUSY_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels.h"

struct busy {
	const struct kernels *kernels;
	struct mapped_beat beat;
	/* Blocks and length of one launch; more blocks than fit run one wave after the other. */
	unsigned int blocks;
	uint64_t length_ns;
	cu_object streams[2];
	cu_object context;	/* that the streams and the kernels are of */
	pthread_t thread;
	atomic_bool stop;
	atomic_uint launches;
};

/* Returns once a kernel runs; priority as CUDA has it, lower is more urgent. */
void busy_start(struct busy *busy, const struct kernels *kernels, unsigned int blocks, uint64_t length_ns,
		int priority);
/* The same into two streams of @context. */
void busy_start_on(struct busy *busy, const struct kernels *kernels, unsigned int blocks, uint64_t length_ns,
		   cu_object context, cu_object first, cu_object second);
void busy_stop(struct busy *busy);

#endif
