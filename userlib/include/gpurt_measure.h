/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A program that measures its kernels on 1, 2, ... SMs or CUs, for `gpurt measure kernels` (docs/rtgpu.md, "Measured
 * times").  CUDA (green contexts, 12.4 or newer, without MPS): an H200 has executed it (docs/hardware).  HIP (CU
 * masks): no GPU has executed it.
 *
 *	static void scale(gpurt_measure_stream stream)
 *	{
 *		kernel<<<blocks, threads, 0, stream>>>(data);
 *	}
 *
 *	int main(int argc, char **argv)
 *	{
 *		return gpurt_measure_main(argc, argv, { { "scale", scale } });
 *	}
 *
 * Link with -lcuda, or with hipcc.  The function only launches the kernel; the stream's context is current.  Two
 * threads may call the function at once.  A first call is not measured.
 *
 *	./program list				units LEAST STEP MOST ALL, mechanism NAME, and kernel NAME for each
 *	./program run KERNEL UNITS RUNS alone
 *	./program run KERNEL UNITS RUNS twice		two launches at once on the same units, until both are over
 *	./program run KERNEL UNITS RUNS same OTHER	while OTHER executes again and again on the same units
 *	./program run KERNEL UNITS RUNS apart OTHER	on the units that are left
 *
 * A run prints a line for each launch: its time by the GPU's own events, ns.  Partitions have LEAST to MOST units, in
 * steps of STEP.  ALL is the whole GPU, which can be measured, too.  Exit codes: 0; 2 wrong usage; 5 the GPU fails.
 */
#ifndef GPURT_MEASURE_H
#define GPURT_MEASURE_H

#ifndef __cplusplus
#error "gpurt_measure.h is C++"
#endif

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#include "gpurt_measure_hip.h"
#else
#include "gpurt_measure_cuda.h"
#endif

#define GPURT_MEASURE_WARM 3		/* launches before those that count */
#define GPURT_MEASURE_BATCH 4		/* launches of OTHER that are queued at once; a batch is always queued */
#define GPURT_MEASURE_PATIENCE 60	/* s, until OTHER must have executed */

struct gpurt_measure_kernel {
	const char *name;
	void (*launch)(gpurt_measure_stream stream);
};

/* A thread that launches a kernel again and again, on the measured kernel's units or on others, until destruction. */
class gpurt_measure_beside {
public:
	gpurt_measure_beside(gpurt_measure_gpu &gpu, gpurt_measure_place &place, const gpurt_measure_kernel &kernel)
		: thread_([this, &gpu, &place, &kernel] { loop(gpu, place, kernel); })
	{
	}

	/* Waits until the kernel executes.  Throws if it cannot execute. */
	void await()
	{
		auto due = std::chrono::steady_clock::now() + std::chrono::seconds(GPURT_MEASURE_PATIENCE);

		while (!started_ && !failed_) {
			if (std::chrono::steady_clock::now() > due)
				throw std::runtime_error("the kernel beside does not execute");
			std::this_thread::sleep_for(std::chrono::microseconds(100));
		}
		check();
	}

	/* Throws if the kernel no longer executes: the measurement is invalid then. */
	void check() const
	{
		if (failed_)
			throw std::runtime_error("the kernel beside has failed");
	}

	~gpurt_measure_beside()
	{
		stop_ = true;
		thread_.join();
	}

private:
	void loop(gpurt_measure_gpu &gpu, gpurt_measure_place &place, const gpurt_measure_kernel &kernel)
	{
		try {
			gpurt_measure_stream stream = gpu.stream(place);
			gpurt_measure_event ends[2] = { gpu.event(), gpu.event() };

			gpu.enter(place);
			for (unsigned int at = 0; !stop_; at++) {
				for (int i = 0; i < GPURT_MEASURE_BATCH; i++)
					kernel.launch(stream);
				gpu.record(ends[at & 1], stream);
				if (at) {	/* the previous batch is over, this one is queued */
					gpu.await(ends[~at & 1]);
					started_ = true;
				}
			}
			gpu.drain(stream);
		} catch (const std::exception &) {
			failed_ = true;
		}
	}

	std::atomic<bool> stop_{ false }, started_{ false }, failed_{ false };
	std::thread thread_;	/* the last member: it uses the others */
};

/* The time from the start of one launch, or of two concurrent launches, until all are over, ns. */
inline unsigned long long gpurt_measure_once(gpurt_measure_gpu &gpu, const gpurt_measure_kernel &kernel,
					     const std::vector<gpurt_measure_stream> &streams,
					     std::vector<gpurt_measure_event> &events)
{
	unsigned long long longest = 0;
	size_t i;

	gpu.record(events[0], streams[0]);
	for (i = 1; i < streams.size(); i++)
		gpu.follow(streams[i], events[0]);
	for (i = 0; i < streams.size(); i++)
		kernel.launch(streams[i]);
	for (i = 0; i < streams.size(); i++)
		gpu.record(events[i + 1], streams[i]);
	for (i = 0; i < streams.size(); i++) {
		unsigned long long time;

		gpu.await(events[i + 1]);
		time = gpu.between(events[0], events[i + 1]);
		if (time > longest)
			longest = time;
	}
	return longest;
}

inline void gpurt_measure_run(gpurt_measure_gpu &gpu, const gpurt_measure_kernel &kernel, unsigned int units,
			      unsigned int runs, const std::string &how, const gpurt_measure_kernel *other)
{
	gpurt_measure_place here = gpu.place(0, units), there = here;
	std::vector<gpurt_measure_stream> streams;
	std::vector<gpurt_measure_event> events;
	unsigned int i;

	if (how == "apart")
		there = gpu.place(units, gpu.most - units);
	gpu.enter(here);
	for (i = 0; i < (how == "twice" ? 2U : 1U); i++)
		streams.push_back(gpu.stream(here));
	for (i = 0; i <= streams.size(); i++)
		events.push_back(gpu.event());
	for (i = 0; i < GPURT_MEASURE_WARM; i++)
		gpurt_measure_once(gpu, kernel, streams, events);
	if (!other) {
		for (i = 0; i < runs; i++)
			printf("%llu\n", gpurt_measure_once(gpu, kernel, streams, events));
		return;
	}
	gpurt_measure_beside beside(gpu, there, *other);

	beside.await();
	for (i = 0; i < runs; i++)
		printf("%llu\n", gpurt_measure_once(gpu, kernel, streams, events));
	beside.check();
}

inline unsigned int gpurt_measure_number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return *text >= '1' && *text <= '9' && !*end && value <= 1000000 ? (unsigned int)value : 0;
}

inline const gpurt_measure_kernel *gpurt_measure_find(const std::vector<gpurt_measure_kernel> &kernels, const char *name)
{
	for (const gpurt_measure_kernel &one : kernels)
		if (!strcmp(one.name, name))
			return &one;
	return nullptr;
}

/* Why a run is not possible; NULL if it is. */
inline const char *gpurt_measure_refusal(const gpurt_measure_gpu &gpu, unsigned int units, const std::string &how)
{
	bool part = units >= gpu.least && units <= gpu.most && !(units % gpu.step);

	if (!part && units != gpu.all)
		return "no partition of this GPU has so many units";
	if (how == "apart" && (!part || gpu.most - units < gpu.least))
		return "no units are left for the kernel beside";
	return nullptr;
}

/* The program.  Returns its exit code. */
inline int gpurt_measure_main(int argc, char **argv, const std::vector<gpurt_measure_kernel> &kernels)
{
	std::string how = argc > 5 ? argv[5] : "";
	bool beside = how == "same" || how == "apart", alone = how == "alone" || how == "twice";
	bool list = argc == 2 && !strcmp(argv[1], "list"), run = argc > 5 && !strcmp(argv[1], "run");
	const gpurt_measure_kernel *kernel = run ? gpurt_measure_find(kernels, argv[2]) : nullptr, *other = nullptr;
	unsigned int units = run ? gpurt_measure_number(argv[3]) : 0, runs = run ? gpurt_measure_number(argv[4]) : 0;

	if (run && beside && argc == 7)
		other = gpurt_measure_find(kernels, argv[6]);
	run = run && kernel && units && runs && (beside ? other != nullptr : alone && argc == 6);
	if (!list && !run) {
		fprintf(stderr, "usage: %s list | run KERNEL UNITS RUNS alone|twice|same OTHER|apart OTHER\n", argv[0]);
		return 2;
	}
	try {
		gpurt_measure_gpu gpu;
		const char *refusal = list ? nullptr : gpurt_measure_refusal(gpu, units, how);

		if (refusal) {
			fprintf(stderr, "%s: %u units: %s\n", argv[0], units, refusal);
			return 2;
		}
		if (list) {
			printf("units %u %u %u %u\nmechanism %s\n", gpu.least, gpu.step, gpu.most, gpu.all,
			       GPURT_MEASURE_MECHANISM);
			for (const gpurt_measure_kernel &one : kernels)
				printf("kernel %s\n", one.name);
		} else {
			gpurt_measure_run(gpu, *kernel, units, runs, how, other);
		}
	} catch (const std::exception &error) {
		fprintf(stderr, "%s: %s\n", argv[0], error.what());
		return 5;
	}
	return 0;
}

#endif /* GPURT_MEASURE_H */
