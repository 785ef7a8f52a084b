// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Asynchronous copies while the compute groups, or all groups, are off: whether they end, and end correctly. */
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "kernels.h"
#include "methods.h"
#include "parts.h"

#define WORDS (64u << 20)
#define BYTES (WORDS * (size_t)4)
#define COPY_REPEATS 5

struct copy {
	cu_object stream;
	cu_pointer device;
	uint32_t *in, *out;
	uint64_t alone_ns;
};

static void begin(struct copy *copy, bool inward)
{
	if (inward)
		cuda_need(cu.copy_in_async(copy->device, copy->in, BYTES, copy->stream), "cuMemcpyHtoDAsync");
	else
		cuda_need(cu.copy_out_async(copy->out, copy->device, BYTES, copy->stream), "cuMemcpyDtoHAsync");
}

/* Returns 1 if the copy ended within @limit_ns. */
static unsigned int ends_within(struct copy *copy, uint64_t limit_ns)
{
	uint64_t begun = now_ns();

	do {
		if (cu.stream_query(copy->stream) != CU_NOT_READY)
			return 1;
	} while (now_ns() - begun < limit_ns);
	return 0;
}

static uint64_t alone(struct copy *copy, bool inward)
{
	uint64_t begun = now_ns();

	begin(copy, inward);
	cuda_need(cu.stream_synchronize(copy->stream), "copy");
	return now_ns() - begun;
}

static void fill(struct copy *copy, uint32_t seed)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		copy->in[i] = (uint32_t)i * 2654435761u + seed;
	memset(copy->out, 0, BYTES);
}

static unsigned int whole(struct copy *copy)
{
	if (cu.stream_synchronize(copy->stream))
		return 0;
	return !memcmp(copy->in, copy->out, BYTES);
}

static void tell(const char *groups, bool inward, const unsigned int *seen, const struct copy *copy, int status)
{
	emit_open("copies");
	emit_text("groups", groups);
	emit_text("direction", inward ? "to the GPU" : "from the GPU");
	emit_number("bytes", (long long)BYTES);
	emit_number("alone_ns", (long long)copy->alone_ns);
	emit_number("off_status", status);
	emit_number("tried", COPY_REPEATS);
	emit_number("caught_under_way", seen[0]);
	emit_number("ended_while_off", seen[1]);
	emit_number("whole", seen[2]);
	emit_close();
}

static void try_copies(struct copy *copy, const struct groups *groups, const char *name, bool inward)
{
	unsigned int i, seen[3] = { 0 };
	int status = 0;

	copy->alone_ns = alone(copy, inward);
	for (i = 0; i < COPY_REPEATS; i++) {
		fill(copy, i);
		/* The data is compared after a copy in both directions.  The other direction is undisturbed. */
		if (!inward)
			alone(copy, true);
		begin(copy, inward);
		sleep_ns(copy->alone_ns / 8);
		status = groups_off(groups, method_channels);
		if (!ends_within(copy, 0)) {
			seen[0]++;
			seen[1] += ends_within(copy, copy->alone_ns * 3 + 20000000);
		}
		groups_on(groups, method_channels);
		cuda_need(cu.stream_synchronize(copy->stream), "copy after preemption");
		if (inward)
			alone(copy, false);
		seen[2] += whole(copy);
	}
	tell(name, inward, seen, copy, status);
}

int part_copies(const struct options *options)
{
	struct copy copy;
	struct groups groups;
	struct kernels kernels;
	int inward, all;

	(void)options;
	cuda_open();
	kernels_load(&kernels);
	copy.stream = cuda_stream();
	launch_clock(&kernels, copy.stream, 1, beat_new(), 1000000, 20000);
	cuda_need(cu.host_alloc((void **)&copy.in, BYTES, 0), "cuMemHostAlloc");
	cuda_need(cu.host_alloc((void **)&copy.out, BYTES, 0), "cuMemHostAlloc");
	cuda_need(cu.memory_alloc(&copy.device, BYTES), "cuMemAlloc");
	fill(&copy, 0);
	alone(&copy, true);
	alone(&copy, false);
	for (all = 0; all < 2; all++) {
		if (groups_find(&groups, !all))
			return 1;
		for (inward = 0; inward < 2; inward++)
			try_copies(&copy, &groups, all ? "all" : "compute", inward);
	}
	return 0;
}
