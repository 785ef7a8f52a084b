/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* gpurt_measure.h on NVIDIA's GPUs: streams on some SMs by green contexts.  An H200 executed it (docs/hardware). */
#ifndef GPURT_MEASURE_CUDA_H
#define GPURT_MEASURE_CUDA_H

#include <cuda.h>

#define GPURT_MEASURE_MECHANISM "green-contexts"
#define GPURT_MEASURE_GROUPS 512

typedef CUstream gpurt_measure_stream;
typedef CUevent gpurt_measure_event;

/* SMs of a GPU.  Without a green context: all SMs. */
struct gpurt_measure_place {
	CUcontext context;
	CUgreenCtx green;
};

class gpurt_measure_gpu {
public:
	unsigned int least, step, most, all;

	/* Splits the first GPU once: contexts of separate splits overlap. */
	gpurt_measure_gpu() : groups_(GPURT_MEASURE_GROUPS)
	{
		CUdevResource whole, one, rest;
		unsigned int count = 1;

		need(cuInit(0), "cuInit");
		need(cuDeviceGet(&device_, 0), "cuDeviceGet");
		need(cuDevicePrimaryCtxRetain(&primary_, device_), "cuDevicePrimaryCtxRetain");
		need(cuCtxSetCurrent(primary_), "cuCtxSetCurrent");
		need(cuDeviceGetDevResource(device_, &whole, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
		/* the driver rounds a group of one SM up to the smallest group that the device has */
		need(cuDevSmResourceSplitByCount(&one, &count, &whole, &rest, 0, 1), "cuDevSmResourceSplitByCount");
		least = step = one.sm.smCount;
		count = GPURT_MEASURE_GROUPS;
		need(cuDevSmResourceSplitByCount(groups_.data(), &count, &whole, &rest, 0, step),
		     "cuDevSmResourceSplitByCount");
		most = count * step;
		all = whole.sm.smCount;
	}

	/* Throws unless the context has exactly @count SMs. */
	gpurt_measure_place place(unsigned int first, unsigned int count)
	{
		gpurt_measure_place found = { primary_, nullptr };
		CUdevResourceDesc description;
		CUdevResource given;

		if (count == all && count != most)
			return found;
		need(cuDevResourceGenerateDesc(&description, groups_.data() + first / step, count / step),
		     "cuDevResourceGenerateDesc");
		need(cuGreenCtxCreate(&found.green, description, device_, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
		need(cuGreenCtxGetDevResource(found.green, &given, CU_DEV_RESOURCE_TYPE_SM), "cuGreenCtxGetDevResource");
		need(cuCtxFromGreenCtx(&found.context, found.green), "cuCtxFromGreenCtx");
		if (given.sm.smCount != count)
			throw std::runtime_error("the driver gave " + std::to_string(given.sm.smCount) + " SMs instead of " +
						 std::to_string(count));
		return found;
	}

	gpurt_measure_stream stream(const gpurt_measure_place &place)
	{
		CUstream made;

		enter(place);
		if (place.green)
			need(cuGreenCtxStreamCreate(&made, place.green, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate");
		else
			need(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
		return made;
	}

	gpurt_measure_event event()
	{
		CUevent made;

		need(cuEventCreate(&made, CU_EVENT_DEFAULT), "cuEventCreate");
		return made;
	}

	void enter(const gpurt_measure_place &place) { need(cuCtxSetCurrent(place.context), "cuCtxSetCurrent"); }
	void record(CUevent event, CUstream stream) { need(cuEventRecord(event, stream), "cuEventRecord"); }
	void follow(CUstream stream, CUevent event) { need(cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent"); }
	void await(CUevent event) { need(cuEventSynchronize(event), "cuEventSynchronize"); }
	void drain(CUstream stream) { need(cuStreamSynchronize(stream), "cuStreamSynchronize"); }

	unsigned long long between(CUevent from, CUevent to)
	{
		float ms;

		need(cuEventElapsedTime(&ms, from, to), "cuEventElapsedTime");
		return (unsigned long long)((double)ms * 1e6 + 0.5);
	}

private:
	static void need(CUresult result, const char *what)
	{
		const char *name = nullptr;

		if (result)
			throw std::runtime_error(std::string(what) + ": " +
						 (cuGetErrorName(result, &name) || !name ? "unknown error" : name));
	}

	CUdevice device_;
	CUcontext primary_;
	std::vector<CUdevResource> groups_;
};

#endif /* GPURT_MEASURE_CUDA_H */
