// SPDX-License-Identifier: GPL-2.0 OR MIT
// A kernel that stays on SMs FIRST to FIRST + COUNT - 1 and doubles numbers there: gpurt_sm FIRST COUNT
// Without arguments, on the SMs that `gpurt run` gives its task.
//
//	nvcc -I../include gpurt_sm.cu -o gpurt_sm            on a GPU
//	g++ -x c++ -I../include -I../../tests/sm gpurt_sm.cu -o gpurt_sm	on 8 simulated SMs
//
// Compile the kernel for as many threads as half an SM holds.  ptxas -v says whether two blocks fit (docs/rtgpu.md).
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "gpurt_sm.h"

static const unsigned int BLOCKS = 100, ITEMS = 256;	// logical blocks, and numbers in each

#ifdef __CUDACC__
static const unsigned int THREADS = 512;	// half of an SM of compute capability 7.5

__global__ void __launch_bounds__(THREADS)
kernel(struct gpurt_sm_range range, struct gpurt_sm_control *control, float *numbers)
{
	gpurt_sm_run(range, control, [=](unsigned int block) {
		for (unsigned int i = threadIdx.x; i < ITEMS; i += blockDim.x)
			numbers[block * ITEMS + i] *= 2;
	});
}

// Doubles the numbers on the SMs.  Returns 0 or an error.
static int twice(struct gpurt_sm_range range, std::vector<float> &numbers, struct gpurt_sm_report *report)
{
	size_t bytes = numbers.size() * sizeof(float);
	struct gpurt_sm_control *control = nullptr;
	float *there = nullptr;
	int sms = 0, err;

	err = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
	if (!err)
		err = cudaMalloc(&there, bytes);
	if (!err)
		err = cudaMalloc(&control, sizeof(*control));
	if (!err)
		err = cudaMemcpy(there, numbers.data(), bytes, cudaMemcpyHostToDevice);
	if (!err)
		err = gpurt_sm_launch(range, BLOCKS, 20000, GPURT_SM_FAIL,
				      [&](struct gpurt_sm_range on, struct gpurt_sm_control *state) -> int {
			int wrong = cudaMemcpy(control, state, sizeof(*state), cudaMemcpyHostToDevice);

			if (wrong)
				return wrong;
			kernel<<<2 * sms, THREADS>>>(on, control, there);
			wrong = cudaGetLastError();
			return wrong ? wrong : cudaMemcpy(state, control, sizeof(*state), cudaMemcpyDeviceToHost);
		}, report);
	if (!err)
		err = cudaMemcpy(numbers.data(), there, bytes, cudaMemcpyDeviceToHost);
	cudaFree(control);
	cudaFree(there);
	return err;
}
#else
static int twice(struct gpurt_sm_range range, std::vector<float> &numbers, struct gpurt_sm_report *report)
{
	const unsigned int sms = 8, threads = 4;
	gpurt_sm_machine machine(sms, threads, 1);

	return gpurt_sm_launch(range, BLOCKS, 20000, GPURT_SM_FAIL,
			       [&](struct gpurt_sm_range on, struct gpurt_sm_control *control) {
		machine.launch(2 * sms, [&] {
			gpurt_sm_run(on, control, [&](unsigned int block) {
				for (unsigned int i = machine.thread(); i < ITEMS; i += threads)
					numbers[block * ITEMS + i] *= 2;
			});
		});
		return 0;
	}, report);
}
#endif

// A number of SMs, or UINT_MAX.
static unsigned int number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end && value <= GPURT_SM_MOST ? (unsigned int)value : ~0U;
}

// Whether there is a range, in the arguments or else in the environment.
static bool range_of(int argc, char **argv, struct gpurt_sm_range *range)
{
	if (argc == 1)
		return !gpurt_sm_given(range);
	range->first = argc == 3 ? number(argv[1]) : ~0U;
	range->count = argc == 3 ? number(argv[2]) : ~0U;
	return range->first != ~0U && range->count != ~0U && range->count;
}

int main(int argc, char **argv)
{
	std::vector<float> numbers(BLOCKS * ITEMS, 1);
	struct gpurt_sm_report report;
	struct gpurt_sm_range range;
	int err;

	if (!range_of(argc, argv, &range)) {
		fprintf(stderr, "usage: gpurt_sm FIRST COUNT: numbers of SMs up to %d, COUNT at least 1; or let gpurt run set"
			" GPURT_SM_FIRST and GPURT_SM_COUNT\n", GPURT_SM_MOST);
		return 2;
	}
	err = twice(range, numbers, &report);
	if (err == -EAGAIN)
		fprintf(stderr, "gpurt_sm: no block came to SMs %u to %u in %u launches\n", range.first,
			range.first + range.count - 1, report.launches);
	else if (err)
		fprintf(stderr, "gpurt_sm: error %d\n", err);
	if (err)
		return 1;
	for (float each : numbers)
		if (each != 2) {
			fprintf(stderr, "gpurt_sm: a number is %g instead of 2\n", each);
			return 1;
		}
	printf("%zu numbers doubled once on SMs %u to %u, in launch %u\n", numbers.size(), range.first,
	       range.first + range.count - 1, report.launches);
	return 0;
}
