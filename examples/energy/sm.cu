// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A periodic task whose kernel keeps to the SMs that sBEET grants (gpurt_sm.h): units are numbers of SMs.
 *
 *	gpurt serve --policy sbeet --energy-file FILE --mechanism sm-centric
 *	nvcc sm.cu -lgpurt -o sm               on a GPU; kernels of two programs are side by side under MPS only
 *	g++ -x c++ -I../../tests/sm sm.cu -lgpurt -o sm    on 8 SMs that exist in this process only
 *	./sm TASK PERIOD_US JOBS [START_NS]
 *
 * Tried on such a machine, and on one GPU, an H200 (docs/hardware).
 */
#include <gpurt_sm.h>

#include "jobs.h"

static const unsigned int BLOCKS = 64;	// logical blocks; each counts how often it was executed

#ifdef __CUDACC__
static const unsigned int THREADS = 512;	// half of an SM of compute capability 7.5

__global__ void __launch_bounds__(THREADS)
count(struct gpurt_sm_range range, struct gpurt_sm_control *control, unsigned int *times)
{
	gpurt_sm_run(range, control, [=](unsigned int block) {
		if (!threadIdx.x)
			times[block]++;
	});
}

/* Control and results are in memory that both see, so that nothing is copied. */
static int work(struct gpurt_sm_range range, unsigned int *times, struct gpurt_sm_report *report)
{
	struct gpurt_sm_control *there;
	unsigned int *seen;
	int sms = 0, device = 0, err = cudaGetDevice(&device);

	if (!err)
		err = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
	if (!err)
		err = cudaMallocManaged(&there, sizeof(*there));
	if (!err)
		err = cudaMallocManaged(&seen, BLOCKS * sizeof(*seen));
	if (err)
		return err;
	memset(seen, 0, BLOCKS * sizeof(*seen));
	err = gpurt_sm_launch(range, BLOCKS, 20000, GPURT_SM_FAIL,
			      [&](struct gpurt_sm_range on, struct gpurt_sm_control *control) -> int {
		*there = *control;
		count<<<2 * sms, THREADS>>>(on, there, seen);
		int wrong = cudaGetLastError();

		if (!wrong)
			wrong = cudaDeviceSynchronize();
		*control = *there;
		return wrong;
	}, report);
	memcpy(times, seen, BLOCKS * sizeof(*seen));
	cudaFree(seen);
	cudaFree(there);
	return err;
}

/* The context. */
static int prepare(void)
{
	return cudaFree(NULL);
}
#else
static int prepare(void)
{
	return 0;
}

static int work(struct gpurt_sm_range range, unsigned int *times, struct gpurt_sm_report *report)
{
	gpurt_sm_machine machine(8, 4, 1);

	return gpurt_sm_launch(range, BLOCKS, 20000, GPURT_SM_FAIL,
			       [&](struct gpurt_sm_range on, struct gpurt_sm_control *control) {
		machine.launch(2 * machine.sms, [&] {
			gpurt_sm_run(on, control, [&](unsigned int block) {
				if (!machine.thread())
					times[block]++;
			});
		});
		return 0;
	}, report);
}
#endif

static int execute(const struct gpurt_job_wait *grant)
{
	struct gpurt_sm_range range = { grant->first, grant->units };
	unsigned int times[BLOCKS] = { 0 }, i;
	struct gpurt_sm_report report;
	int err = work(range, times, &report);

	for (i = 0; i < BLOCKS && !err; i++)
		if (times[i] != 1)
			err = -ERANGE;
	if (!err) {
		printf("executed once on SMs %u to %u, in launch %u\n", range.first, range.first + range.count - 1,
		       report.launches);
		return 0;
	}
	if (err == -EAGAIN)
		fprintf(stderr, "sm: no block came to SMs %u to %u in %u launches\n", range.first,
			range.first + range.count - 1, report.launches);
	else
		fprintf(stderr, "sm: error %d\n", err);
	return JOBS_GPU_FAILED;
}

int main(int argc, char **argv)
{
	return jobs_main(argc, argv, prepare, execute);
}
