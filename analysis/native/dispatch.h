/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Discrete-event simulation of how AMD's GPUs deal thread blocks to compute units.  The readable form, and what is
 * modelled, is analysis/papers/dispatch.py; tests hold both equal, to the nanosecond.
 */
#ifndef GPURT_DISPATCH_H
#define GPURT_DISPATCH_H

#include "../../kmod/core/env.h"

enum {
	GPURT_DISPATCH_ENGINES = 8,	/* shader engines */
	GPURT_DISPATCH_UNITS = 32,	/* compute units of an engine */
	GPURT_DISPATCH_STREAMS = 4,	/* each on an ACE of its own */
};

/* Errors of gpurt_dispatch(), which returns them negated. */
enum gpurt_dispatch_error {
	GPURT_DISPATCH_EINVAL = 1,
	GPURT_DISPATCH_ENOMEM,
	GPURT_DISPATCH_ETIME,		/* gave up after most_starts */
};

struct gpurt_dispatch_config {
	u32 engines;
	u32 threads;			/* that a compute unit executes at once */
	u32 cut_ahead;			/* whether a block that fits may start before one that does not */
	u32 launches;			/* ends when stream 0 has finished so many kernels */
	u64 seed;
	u64 most_starts;
	u32 room;			/* response times that are kept of each stream */
	u32 units[8];			/* compute units of each engine */
	u32 pad;
};

/* Times in ns. */
struct gpurt_dispatch_stream {
	u32 blocks, threads;
	u64 shortest, longest;		/* how long a block executes */
	u64 gap, offset;
	u32 allowed[8];			/* bit i: compute unit i of that engine */
};

/*
 * Simulates.  @times: room for config->room response times of each stream.  @finished: kernels of each stream, which can
 * be more than there is room for.  Returns 0 or -enum gpurt_dispatch_error.
 */
int gpurt_dispatch(const struct gpurt_dispatch_config *config, const struct gpurt_dispatch_stream *streams, u32 count,
		   u64 *times, u32 *finished);

#endif
