/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The two kernels that the probe runs, and the beat: what a kernel writes into host memory while it runs. */
#ifndef PROBE_KERNELS_H
#define PROBE_KERNELS_H

#include "cuda_driver.h"

#define GAPS_MAX 8192

/*
 * One thread of a kernel writes this into host memory.  A gap is a pair of successive readings of the GPU's clock that
 * are further apart than the launch's least gap.  The kernel did not run between them.
 */
struct beat {
	volatile uint64_t now, count, start, end;
	volatile uint32_t gaps, started;
	volatile uint64_t resolution;
	uint64_t pad[2];
	volatile uint64_t gap[GAPS_MAX][2];
};
_Static_assert(offsetof(struct beat, gaps) == 32 && offsetof(struct beat, resolution) == 40 &&
	       offsetof(struct beat, gap) == 64, "as the kernels write it");

struct mapped_beat {
	struct beat *host;
	cu_pointer device;
};

/* The urgent kernel. */
#define CRITICAL_KERNEL_NS 50000u

#define WORK_THREADS 256
#define WORK_SUMS 64

/* The kernels, and how many of their blocks of 256 threads the GPU holds at once. */
struct kernels {
	cu_object clock, work;
	unsigned int clock_blocks, work_blocks;
};

/* The PTX of the kernels, as the driver gets it. */
#define KERNEL_TEXTS 2
extern const char *const kernel_texts[KERNEL_TEXTS];

void kernels_load(struct kernels *kernels);
struct mapped_beat beat_new(void);
/* Clears what the last launch wrote. */
void beat_clear(struct mapped_beat beat);

/* Waits until a kernel of the stream writes its beat, or has ended. */
void wait_launched(struct mapped_beat beat, cu_object stream);

/* Every block reads the clock for @duration_ns.  Block 0 writes the beat. */
void launch_clock(const struct kernels *k, cu_object stream, unsigned int blocks, struct mapped_beat beat,
		  uint64_t duration_ns, uint64_t least_gap_ns);
/* Far below the time of a switch between processes, and far above the time between two readings of the GPU's clock. */
#define LOAD_GAP_NS 20000u
/* The same, but every block executes for @executed_ns: a gap of LOAD_GAP_NS and more does not count. */
void launch_load(const struct kernels *k, cu_object stream, unsigned int blocks, struct mapped_beat beat,
		 uint64_t executed_ns);
/*
 * Runs @rounds of integer arithmetic in 16 registers of each thread, with exchanges through shared memory and atomic
 * additions.  Writes to @out WORK_SUMS words of sums, then a word from each thread.  The result depends only on @rounds
 * and @blocks.  Each block gets @shared bytes of shared memory besides, which it does not use.
 */
void launch_work(const struct kernels *k, cu_object stream, unsigned int blocks, cu_pointer out,
		 unsigned int rounds, unsigned int shared, struct mapped_beat beat, uint64_t least_gap_ns);
/* How many blocks of the work kernel the GPU holds at once if each has @shared bytes of shared memory besides. */
unsigned int work_blocks_with(const struct kernels *k, unsigned int shared);

#endif
