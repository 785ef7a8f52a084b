/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Kernels that stay on given SMs, for tasks that own SMs (docs/rtgpu.md).  CUDA or HIP; in tests, coroutines stand for
 * the GPU (tests/sm/gpurt_sm_host.h).
 *
 * A kernel's work is divided into logical blocks 0 to total - 1.  The launch has two blocks for each SM of the GPU.  A
 * block that finds itself on an SM of the range stays there and takes logical blocks until none is left; every other block
 * leaves.  One of the two blocks on an SM takes logical blocks from the front and the other one from the back.  So the
 * two halves of the work interleave on each SM.
 *
 *	__global__ void scale(struct gpurt_sm_range range, struct gpurt_sm_control *control, float *data)
 *	{
 *		gpurt_sm_run(range, control, [=](unsigned int block) {
 *			data[block * blockDim.x + threadIdx.x] *= 2;
 *		});
 *	}
 *
 *	err = gpurt_sm_launch(range, total, hold_ns, GPURT_SM_FAIL,
 *			      [&](struct gpurt_sm_range range, struct gpurt_sm_control *control) {
 *		copy *control to the device; scale<<<2 * SMs of the GPU, threads>>>(range, it, data); wait; copy it back;
 *		return 0, or an error
 *	}, &report);
 *
 * Wherever the GPU's dispatcher puts blocks, each logical block is executed exactly once, or no block is executed and
 * gpurt_sm_launch() says so.  It launches again if no block landed in the range, GPURT_SM_LAUNCHES times at most.  The
 * paper's algorithm gives work to blocks by their index.  It is right only if exactly one block of each half lands on
 * each SM.
 *
 * Threads: half of what an SM holds (1024 where it holds 2048, 768 of 1536, 512 of 1024), so that two blocks fit and a
 * third does not.  ptxas -v says whether registers and shared memory leave room for two (docs/rtgpu.md).  Any SM may
 * execute the kernel's code outside of gpurt_sm_run(): it must not store into memory.
 *
 * hold_ns: the longest time that a block outside of the range keeps its place, so that the dispatcher puts later blocks
 * of the launch elsewhere.  It delays other tasks' kernels by as much.  0, or HIP: the block leaves at once.
 *
 * All threads of a block call gpurt_sm_run(), and all of them call the body, which may use __syncthreads().  A block
 * reads its SM once, but a preempted context may continue on other SMs.  So all tasks need one context (threads of one
 * process, or MPS).  AMD GPUs have CU masks: use GPURT_SM_ALL.
 */
#ifndef GPURT_SM_H
#define GPURT_SM_H

#ifndef __cplusplus
#error "gpurt_sm.h is C++"
#endif

#include <errno.h>
#include <stdlib.h>

#define GPURT_SM_ALL (~0U)	/* as a range's count: every SM */
#define GPURT_SM_MOST 512	/* the most SMs in a range */
#define GPURT_SM_LAUNCHES 4
#define GPURT_SM_TOTAL (1U << 31)	/* the most logical blocks */

/* SMs by their physical numbers, as %smid counts.  A range may also contain numbers that no SM has. */
struct gpurt_sm_range {
	unsigned int first, count;
};

/* In device memory, one for each launch.  gpurt_sm_launch() fills it in. */
struct gpurt_sm_control {
	unsigned long long taken;		/* logical blocks: low half from the front, high half from the back */
	unsigned int done;
	unsigned int total;
	unsigned int seated;			/* blocks that stay */
	unsigned int hold;			/* ns */
	unsigned int seats[GPURT_SM_MOST];	/* blocks that arrived on each SM of the range */
};

#define GPURT_SM_NONE (~0U)

#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define GPURT_SM_DEVICE __device__ inline

GPURT_SM_DEVICE bool gpurt_sm_leads(void)
{
	return !(threadIdx.x | threadIdx.y | threadIdx.z);
}

GPURT_SM_DEVICE void gpurt_sm_barrier(void)
{
	__syncthreads();
}

GPURT_SM_DEVICE unsigned int gpurt_sm_add(unsigned int *counter, unsigned int amount)
{
	return atomicAdd(counter, amount);
}

GPURT_SM_DEVICE unsigned long long gpurt_sm_add(unsigned long long *counter, unsigned long long amount)
{
	return atomicAdd(counter, amount);
}

GPURT_SM_DEVICE unsigned int *gpurt_sm_next(void)
{
	__shared__ unsigned int next;

	return &next;
}

#ifdef __HIP__
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define GPURT_SM_RDNA
#elif __clang_major__ < 19	/* Older ones define no macro of the generation, later ones deprecate this macro. */
#if __AMDGCN_WAVEFRONT_SIZE == 32
#define GPURT_SM_RDNA
#endif
#endif

/* GCN and CDNA: CU, shader array and shader engine from HW_ID.  RDNA: WGP, shader array and engine from HW_ID1. */
GPURT_SM_DEVICE unsigned int gpurt_sm_id(void)
{
#ifdef GPURT_SM_RDNA
	unsigned int id = __builtin_amdgcn_s_getreg((20 << 11) | (10 << 6) | 23);

	return (id & 15) | ((id >> 6) & 1) << 4 | ((id >> 8) & 7) << 5;
#elif defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#error "several chiplets number their CUs alike: use CU masks instead of gpurt_sm.h"
#else
	return __builtin_amdgcn_s_getreg((7 << 11) | (8 << 6) | 4);
#endif
}

GPURT_SM_DEVICE void gpurt_sm_hold(struct gpurt_sm_control *, unsigned int)
{
}
#else
GPURT_SM_DEVICE unsigned int gpurt_sm_id(void)
{
	unsigned int id;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
	return id;
}

GPURT_SM_DEVICE unsigned long long gpurt_sm_clock(void)
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

GPURT_SM_DEVICE void gpurt_sm_hold(struct gpurt_sm_control *control, unsigned int wanted)
{
	unsigned long long start = gpurt_sm_clock();

	while (*(volatile unsigned int *)&control->seated < wanted && gpurt_sm_clock() - start < control->hold)
		;
}
#endif
#else
#include "gpurt_sm_host.h"
#define GPURT_SM_DEVICE inline
#endif

/* Where the block takes logical blocks: 0 from the front, 1 from the back, GPURT_SM_NONE nowhere. */
GPURT_SM_DEVICE unsigned int gpurt_sm_seat(struct gpurt_sm_range range, struct gpurt_sm_control *control)
{
	unsigned int at, seat;

	if (range.count == GPURT_SM_ALL)
		return gpurt_sm_add(&control->seated, 1U) & 1;
	at = gpurt_sm_id() - range.first;
	if (at >= range.count) {
		gpurt_sm_hold(control, 2 * range.count);
		return GPURT_SM_NONE;
	}
	seat = gpurt_sm_add(&control->seats[at], 1U);
	if (seat > 1)		/* bounds assume two blocks on an SM */
		return GPURT_SM_NONE;
	gpurt_sm_add(&control->seated, 1U);
	return seat;
}

/* The next logical block.  One word counts both ends, so that no block is taken twice or left out where they meet. */
GPURT_SM_DEVICE unsigned int gpurt_sm_take(struct gpurt_sm_control *control, unsigned int half)
{
	unsigned long long old = gpurt_sm_add(&control->taken, half ? 1ULL << 32 : 1ULL);
	unsigned int front = (unsigned int)old, back = (unsigned int)(old >> 32);

	if ((unsigned long long)front + back >= control->total)
		return GPURT_SM_NONE;
	return half ? control->total - 1 - back : front;
}

/* The whole kernel: calls body(logical block) for each logical block that this block takes. */
template <class Body>
GPURT_SM_DEVICE void gpurt_sm_run(struct gpurt_sm_range range, struct gpurt_sm_control *control, const Body &body)
{
	unsigned int *next = gpurt_sm_next(), half = GPURT_SM_NONE, block;

	if (gpurt_sm_leads())
		half = gpurt_sm_seat(range, control);
	for (;;) {
		if (gpurt_sm_leads())
			*next = half == GPURT_SM_NONE ? GPURT_SM_NONE : gpurt_sm_take(control, half);
		gpurt_sm_barrier();
		block = *next;
		if (block != GPURT_SM_NONE)
			body(block);
		gpurt_sm_barrier();	/* all threads have read *next, and have finished the body */
		if (block == GPURT_SM_NONE)
			return;
		if (gpurt_sm_leads())
			gpurt_sm_add(&control->done, 1U);
	}
}

/* The number in environment variable @name; GPURT_SM_NONE: the variable is unset, or has no number in range. */
inline unsigned int gpurt_sm_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (!text || *text < '0' || *text > '9')
		return GPURT_SM_NONE;
	value = strtoul(text, &end, 10);
	return *end || value > 65535 ? GPURT_SM_NONE : (unsigned int)value;
}

/*
 * The SMs that `gpurt run` has given this program, for its task's partition (docs/rtgpu.md).  Returns -ENOENT if it
 * gave the program no SMs, -EINVAL if GPURT_SM_FIRST and GPURT_SM_COUNT are no range.
 */
inline int gpurt_sm_given(struct gpurt_sm_range *range)
{
	if (!getenv("GPURT_SM_FIRST") && !getenv("GPURT_SM_COUNT"))
		return -ENOENT;
	range->first = gpurt_sm_number("GPURT_SM_FIRST");
	range->count = gpurt_sm_number("GPURT_SM_COUNT");
	return range->first == GPURT_SM_NONE || !range->count || range->count > GPURT_SM_MOST ? -EINVAL : 0;
}

/* What happens to a kernel without a block in the range. */
enum gpurt_sm_otherwise {
	GPURT_SM_FAIL,		/* -EAGAIN; nothing was executed */
	GPURT_SM_ANYWHERE,	/* any SM executes it, also other tasks' SMs; no bound holds */
};

struct gpurt_sm_report {
	unsigned int launches;
	bool isolated;		/* no logical block was executed outside of the range */
};

/*
 * Executes logical blocks 0 to @total - 1 in @range.  The function @launch(range, control) launches the kernel, waits
 * for it, and returns 0 or an error; this error is the result.  -EINVAL: the range is empty or too large, or there are
 * too many blocks.  -EIO: the kernel ended before its work, and some logical blocks were begun.  @report: NULL, or
 * where to write what happened.
 */
template <class Launch>
int gpurt_sm_launch(struct gpurt_sm_range range, unsigned int total, unsigned int hold_ns,
		    enum gpurt_sm_otherwise otherwise, const Launch &launch, struct gpurt_sm_report *report)
{
	struct gpurt_sm_report mine = { 0, true };
	struct gpurt_sm_control control;
	int err = 0;

	if (!report)
		report = &mine;
	*report = mine;
	if (!range.count || (range.count > GPURT_SM_MOST && range.count != GPURT_SM_ALL) || total > GPURT_SM_TOTAL)
		return -EINVAL;
	control = gpurt_sm_control();
	control.total = total;
	control.hold = hold_ns;
	while (control.done < total) {
		if (control.taken)
			return -EIO;
		if (report->launches >= GPURT_SM_LAUNCHES) {
			if (otherwise != GPURT_SM_ANYWHERE || range.count == GPURT_SM_ALL)
				return -EAGAIN;
			range = { 0, GPURT_SM_ALL };
			report->isolated = false;
		}
		report->launches++;
		err = launch(range, &control);
		if (err)
			return err;
	}
	return 0;
}

#endif /* GPURT_SM_H */
