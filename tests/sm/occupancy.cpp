// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that fit on an SM at once, as NVIDIA's occupancy calculator says.  Each line of standard input: major and minor
 * version, threads and shared bytes of an SM; threads, registers of a thread, and shared bytes of a block.
 */
#include <cstdio>

#include "cuda_occupancy.h"

int main()
{
	int major, minor, sm_threads, threads, registers;
	unsigned long sm_shared, shared;

	while (scanf("%d %d %d %lu %d %d %lu", &major, &minor, &sm_threads, &sm_shared, &threads, &registers, &shared) == 7) {
		cudaOccDeviceProp device{};
		cudaOccFuncAttributes kernel{};
		cudaOccDeviceState state{};
		cudaOccResult result{};

		device.computeMajor = major;
		device.computeMinor = minor;
		device.maxThreadsPerBlock = 1024;
		device.maxThreadsPerMultiprocessor = sm_threads;
		device.regsPerBlock = major == 6 && minor == 2 ? 32768 : 65536;
		device.regsPerMultiprocessor = 65536;
		device.warpSize = 32;
		device.sharedMemPerBlock = 48 * 1024;
		device.sharedMemPerMultiprocessor = sm_shared;
		device.sharedMemPerBlockOptin = major == 6 ? 0 : sm_shared - (major > 7 ? 1024 : 0);
		device.reservedSharedMemPerBlock = major > 7 ? 1024 : 0;
		device.numSms = 1;
		kernel.maxThreadsPerBlock = threads;
		kernel.numRegs = registers;
		kernel.maxDynamicSharedSizeBytes = sm_shared;
		kernel.shmemLimitConfig = major == 6 ? FUNC_SHMEM_LIMIT_DEFAULT : FUNC_SHMEM_LIMIT_OPTIN;
		state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
		if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared) !=
		    CUDA_OCC_SUCCESS)
			printf("error\n");
		else
			printf("%d\n", result.activeBlocksPerMultiprocessor);
	}
	return 0;
}
