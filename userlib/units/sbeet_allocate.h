/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Inside sbeet: algorithms 2 and 3 for one decision. */
#ifndef GPURT_CORE_SBEET_ALLOCATE_H
#define GPURT_CORE_SBEET_ALLOCATE_H

#include "sbeet.h"

/* A sum of uW ns; a kernel whose active units draw less than idle ones makes a negative one.  128 bits hold any sum. */
typedef __int128 energy_t;

/* The work of one decision. */
struct work {
	const struct gpurt_sbeet_tables *t;
	struct gpurt_sbeet_state *s;
	const struct gpurt_sbeet_future *job;
	u64 now;
	u32 gpu;		/* the GPU that candidates are for */
	u32 coming;		/* jobs in the window */
	bool complete;		/* the window holds all coming jobs */
	bool overflow;		/* a window of this decision was not complete */
};

/* The outcome for a number of units; 0 units: the job waits, or the energy is infinite. */
struct choice {
	u32 units;
	bool ok;
	energy_t energy;
};

static inline const struct gpurt_sbeet_kernel *kernel_of(const struct gpurt_sbeet_tables *t, u32 task, u32 gpu)
{
	return &t->kernel[task * t->gpus + gpu];
}

struct choice sbeet_exactly(struct work *w, u32 gpu, u32 units);
struct choice sbeet_on_gpu(struct work *w, u32 gpu);
struct choice sbeet_later(const struct work *w, u32 gpu);

#endif
