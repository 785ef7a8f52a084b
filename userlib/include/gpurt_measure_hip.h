/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* gpurt_measure.h on AMD's GPUs: streams on some CUs by CU masks (docs/cu-masks.md).  Compiled; no GPU executed it. */
#ifndef GPURT_MEASURE_HIP_H
#define GPURT_MEASURE_HIP_H

#include <hip/hip_runtime.h>

#define GPURT_MEASURE_MECHANISM "cu-masks"

typedef hipStream_t gpurt_measure_stream;
typedef hipEvent_t gpurt_measure_event;

/* CUs of a GPU, by the bits of a mask. */
struct gpurt_measure_place {
	std::vector<uint32_t> mask;
};

class gpurt_measure_gpu {
public:
	unsigned int least, step, most, all;

	/* RDNA: HIP counts pairs of CUs, and a mask must have both CUs of a pair. */
	gpurt_measure_gpu()
	{
		hipDeviceProp_t about;

		need(hipSetDevice(0), "hipSetDevice");
		need(hipGetDeviceProperties(&about, 0), "hipGetDeviceProperties");
		step = !strncmp(about.gcnArchName, "gfx1", 4) ? 2 : 1;
		least = step;
		most = all = step * (unsigned int)about.multiProcessorCount;
	}

	gpurt_measure_place place(unsigned int first, unsigned int count)
	{
		gpurt_measure_place found;

		found.mask.assign((all + 31) / 32, 0);
		for (unsigned int bit = first; bit < first + count; bit++)
			found.mask[bit / 32] |= 1U << bit % 32;
		return found;
	}

	gpurt_measure_stream stream(const gpurt_measure_place &place)
	{
		hipStream_t made;

		need(hipExtStreamCreateWithCUMask(&made, (uint32_t)place.mask.size(), place.mask.data()),
		     "hipExtStreamCreateWithCUMask");
		return made;
	}

	gpurt_measure_event event()
	{
		hipEvent_t made;

		need(hipEventCreate(&made), "hipEventCreate");
		return made;
	}

	void enter(const gpurt_measure_place &) { need(hipSetDevice(0), "hipSetDevice"); }
	void record(hipEvent_t event, hipStream_t stream) { need(hipEventRecord(event, stream), "hipEventRecord"); }
	void follow(hipStream_t stream, hipEvent_t event) { need(hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent"); }
	void await(hipEvent_t event) { need(hipEventSynchronize(event), "hipEventSynchronize"); }
	void drain(hipStream_t stream) { need(hipStreamSynchronize(stream), "hipStreamSynchronize"); }

	unsigned long long between(hipEvent_t from, hipEvent_t to)
	{
		float ms;

		need(hipEventElapsedTime(&ms, from, to), "hipEventElapsedTime");
		return (unsigned long long)((double)ms * 1e6 + 0.5);
	}

private:
	static void need(hipError_t result, const char *what)
	{
		if (result)
			throw std::runtime_error(std::string(what) + ": " + hipGetErrorName(result));
	}
};

#endif /* GPURT_MEASURE_HIP_H */
