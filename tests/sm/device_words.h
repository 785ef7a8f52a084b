/* SPDX-License-Identifier: GPL-2.0 */
/* The words of CUDA and HIP that gpurt_sm.h uses, for clang without the headers of either (-nocudainc, -nogpuinc). */
#ifndef DEVICE_WORDS_H
#define DEVICE_WORDS_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))

struct device_position {
	unsigned int x, y, z;
};

__device__ inline device_position device_thread()
{
#ifdef __HIP__
	return { (unsigned int)__builtin_amdgcn_workitem_id_x(), (unsigned int)__builtin_amdgcn_workitem_id_y(),
		 (unsigned int)__builtin_amdgcn_workitem_id_z() };
#else
	return { (unsigned int)__nvvm_read_ptx_sreg_tid_x(), (unsigned int)__nvvm_read_ptx_sreg_tid_y(),
		 (unsigned int)__nvvm_read_ptx_sreg_tid_z() };
#endif
}

#define threadIdx (device_thread())

#ifdef __HIP__
__device__ inline void __syncthreads() { __builtin_amdgcn_s_barrier(); }
#endif

template <class Number>
__device__ inline Number atomicAdd(Number *counter, Number amount)
{
	return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

#endif
