/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Algorithm 1 of RTGPU as printed (docs/readings/rtgpu.md, "RTGPU"): pinned, self-interleaving, work by the index of the block.
 * It is wrong, which tests/sm/test_sm_host.py shows.  gpurt_sm.h is what gpurt offers instead.
 */
#ifndef ALGORITHM1_H
#define ALGORITHM1_H

/* @block, @thread, @threads: blockIdx.x, threadIdx.x, blockDim.x.  @first to @last: the SMs.  @half: physical SMs, M. */
template <class Item>
void algorithm1(unsigned int block, unsigned int thread, unsigned int threads, unsigned int first, unsigned int last,
		unsigned int half, unsigned int items, const Item &item)
{
	unsigned int sm = gpurt_sm_id(), step = threads * (last - first + 1), i;

	if (sm < first || sm > last)
		return;
	thread += (sm - first) * threads;
	if (block < half)
		for (i = thread; i < items / 2; i += step)
			item(i);
	else
		for (i = thread + items / 2; i < items; i += step)
			item(i);
}

#endif
