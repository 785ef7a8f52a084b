// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A periodic task whose jobs execute on as many SMs of an NVIDIA GPU as sBEET grants, in green contexts (CUDA 12.4 or
 * newer, without MPS).
 *
 *	gpurt serve --policy sbeet --energy-file FILE --mechanism green-contexts
 *	nvcc green.cu -lgpurt -lcuda -o green
 *	./green TASK PERIOD_US JOBS [START_NS]
 *
 * The file's `granularity` is what the device has, and `limit` no more than all its groups have: on an H200 8, and 120 of 132
 * SMs, for SMs are taken from parts of the GPU.  Contexts of two processes take turns on the whole GPU, so jobs that are to
 * share one are threads of one process.
 *
 * One GPU has executed it, an H200 (docs/hardware).
 */
#include <cuda.h>

#include "jobs.h"

#define MOST_GPUS 16
#define MOST_GROUPS 512

struct place {
	CUcontext context;
	CUstream stream;
};

struct gpu {
	CUdevice device;
	unsigned int step, groups;		/* SMs of a group, and how many groups one split has */
	CUdevResource group[MOST_GROUPS];
	struct place place[2 * MOST_GROUPS];	/* by the grant's partition; made when it is first granted */
};

static struct gpu gpus[MOST_GPUS];

static int need(CUresult result, const char *what)
{
	const char *name = NULL;

	if (!result)
		return 0;
	if (cuGetErrorName(result, &name) || !name)
		name = "unknown error";
	fprintf(stderr, "green: %s: %s\n", what, name);
	return JOBS_GPU_FAILED;
}

static int refuse(const char *why)
{
	fprintf(stderr, "green: %s\n", why);
	return JOBS_GPU_FAILED;
}

/* Splits the GPU's SMs, once: contexts of separate splits overlap. */
static int divide(struct gpu *gpu, unsigned int ordinal)
{
	CUdevResource whole, least, rest;
	unsigned int one = 1;
	CUcontext primary;
	int err = need(cuInit(0), "cuInit");

	if (!err)
		err = need(cuDeviceGet(&gpu->device, (int)ordinal), "cuDeviceGet");
	if (!err)
		err = need(cuDevicePrimaryCtxRetain(&primary, gpu->device), "cuDevicePrimaryCtxRetain");
	if (!err)
		err = need(cuCtxSetCurrent(primary), "cuCtxSetCurrent");
	if (!err)
		err = need(cuDeviceGetDevResource(gpu->device, &whole, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
	/* the driver rounds a group of one SM up to the least that the device has */
	if (!err)
		err = need(cuDevSmResourceSplitByCount(&least, &one, &whole, &rest, 0, 1), "cuDevSmResourceSplitByCount");
	if (err)
		return err;
	gpu->step = least.sm.smCount;
	gpu->groups = MOST_GROUPS;
	return need(cuDevSmResourceSplitByCount(gpu->group, &gpu->groups, &whole, &rest, 0, gpu->step),
		    "cuDevSmResourceSplitByCount");
}

/* The green context of a grant's SMs. */
static int make(struct gpu *gpu, const struct gpurt_job_wait *grant, struct place *place)
{
	unsigned int first = grant->first / gpu->step, count = grant->units / gpu->step;
	CUdevResourceDesc description;
	CUgreenCtx green;
	CUstream stream;
	int err;

	if (grant->first % gpu->step || grant->units % gpu->step || !count)
		return refuse("the granularity in the host's file is not that of the GPU's green contexts");
	if (first + count > gpu->groups)
		return refuse("the limit in the host's file is above the SMs that all groups of the GPU have");
	err = need(cuDevResourceGenerateDesc(&description, gpu->group + first, count), "cuDevResourceGenerateDesc");
	if (!err)
		err = need(cuGreenCtxCreate(&green, description, gpu->device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
	if (!err)
		err = need(cuCtxFromGreenCtx(&place->context, green), "cuCtxFromGreenCtx");
	if (!err)
		err = need(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate");
	if (!err)
		place->stream = stream;
	return err;
}

#ifdef __CUDACC__
#include <vector>

static const unsigned int BLOCKS = 1024, THREADS = 256, WORDS = 16;

/* Each block marks the SM on which it executes. */
__global__ void mark(unsigned int *seen)
{
	unsigned int sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	if (!threadIdx.x && sm < WORDS * 32)
		atomicOr(seen + sm / 32, 1u << sm % 32);
}

/* The program's own kernel stands here.  This one counts the SMs that it got. */
static int work(CUstream stream, const struct gpurt_job_wait *grant)
{
	std::vector<unsigned int> seen(WORDS);
	unsigned int *there, count = 0;
	size_t bytes = WORDS * sizeof(*there);
	cudaError_t err = cudaMallocAsync(&there, bytes, stream);

	if (!err)
		err = cudaMemsetAsync(there, 0, bytes, stream);
	if (!err) {
		mark<<<BLOCKS, THREADS, 0, stream>>>(there);
		err = cudaGetLastError();
	}
	if (!err)
		err = cudaMemcpyAsync(seen.data(), there, bytes, cudaMemcpyDeviceToHost, stream);
	if (!err)
		err = cudaFreeAsync(there, stream);
	if (!err)
		err = cudaStreamSynchronize(stream);
	if (err)
		return refuse(cudaGetErrorString(err));
	for (unsigned int word : seen)
		for (; word; word &= word - 1)
			count++;
	printf("executed on %u SMs\n", count);
	return count <= grant->units ? 0 : refuse("the kernel was on more SMs than were granted");
}
#else
/* Compiled without nvcc there is no kernel: the contexts alone. */
static int work(CUstream stream, const struct gpurt_job_wait *)
{
	return need(cuStreamSynchronize(stream), "cuStreamSynchronize");
}
#endif

static int execute(const struct gpurt_job_wait *grant)
{
	struct gpu *gpu;
	struct place *place;
	int err = 0;

	if (grant->gpu >= MOST_GPUS || grant->partition >= 2 * MOST_GROUPS)
		return refuse("the host has more GPUs or partitions than this program");
	gpu = gpus + grant->gpu;
	if (!gpu->step)
		err = divide(gpu, grant->gpu);
	place = gpu->place + grant->partition;
	if (!err && !place->stream)
		err = make(gpu, grant, place);
	if (!err)
		err = need(cuCtxSetCurrent(place->context), "cuCtxSetCurrent");
	return err ? err : work(place->stream, grant);
}

static int prepare(void)
{
	return divide(gpus, 0);
}

int main(int argc, char **argv)
{
	return jobs_main(argc, argv, prepare, execute);
}
