// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Compares the results of kernels that were preempted thousands of times with those of an undisturbed run. */
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "kernels.h"
#include "methods.h"
#include "parts.h"

#define LAUNCH_NS 40000000u	/* length of an undisturbed launch */
#define METHOD_NS 27000000000u
#define LEAST_GAP_NS 20000u

struct work {
	struct kernels kernels;
	struct groups groups;
	struct mapped_beat beat;
	cu_object stream;
	cu_pointer out;
	unsigned int rounds, words;
	uint32_t *expected, *got;
};

struct outcome {
	unsigned int preemptions, launches, wrong_launches, gaps;
	uint64_t wrong_words, undisturbed_ns;
	int status;
};

static void start(struct work *work)
{
	cuda_need(cu.set_words(work->out, 0, work->words), "cuMemsetD32");
	cuda_need(cu.synchronize(), "cuCtxSynchronize");
	beat_clear(work->beat);
	launch_work(&work->kernels, work->stream, work->kernels.work_blocks, work->out, work->rounds, 0, work->beat,
		    LEAST_GAP_NS);
}

static void finish(struct work *work, uint32_t *words)
{
	cuda_need(cu.stream_synchronize(work->stream), "work_kernel");
	cuda_need(cu.copy_out(words, work->out, work->words * sizeof(*words)), "cuMemcpyDtoH");
}

static uint64_t undisturbed(struct work *work, uint32_t *words)
{
	uint64_t begun;

	start(work);
	begun = now_ns();
	finish(work, words);
	return now_ns() - begun;
}

static int prepare(struct work *work)
{
	uint64_t length;

	cuda_open();
	kernels_load(&work->kernels);
	work->beat = beat_new();
	work->stream = cuda_stream();
	work->words = WORK_SUMS + work->kernels.work_blocks * WORK_THREADS;
	work->expected = calloc(work->words, sizeof(uint32_t));
	work->got = calloc(work->words, sizeof(uint32_t));
	if (!work->expected || !work->got)
		return -1;
	cuda_need(cu.memory_alloc(&work->out, work->words * sizeof(uint32_t)), "cuMemAlloc");
	/* The very first run is slow for other reasons, so the second is measured. */
	work->rounds = 2000;
	undisturbed(work, work->expected);
	length = undisturbed(work, work->expected);
	work->rounds = (unsigned int)(2000.0 * LAUNCH_NS / (double)(length ? length : 1));
	return groups_find(&work->groups, true);
}

/* Preempts one launch again and again, with random pauses, so that each preemption meets another instruction. */
static void disturb(struct work *work, const struct method *method, unsigned int wanted, struct outcome *outcome)
{
	static uint32_t dice = 1;
	uint64_t until;

	start(work);
	wait_launched(work->beat, work->stream);
	while (outcome->preemptions < wanted && cu.stream_query(work->stream) == CU_NOT_READY) {
		outcome->status = groups_off(&work->groups, method);
		groups_on(&work->groups, method);
		if (outcome->status)
			break;
		outcome->preemptions += cu.stream_query(work->stream) == CU_NOT_READY;
		dice = dice * 1664525 + 1013904223;
		until = now_ns() + (dice >> 16);	/* up to 65 us */
		while (now_ns() < until)
			;
	}
	finish(work, work->got);
	outcome->gaps += work->beat.host->gaps;
	outcome->launches++;
}

static void compare(const struct work *work, struct outcome *outcome)
{
	uint64_t wrong = 0;
	unsigned int i;

	for (i = 0; i < work->words; i++)
		wrong += work->got[i] != work->expected[i];
	outcome->wrong_words += wrong;
	outcome->wrong_launches += wrong != 0;
}

static void tell(const struct work *work, const struct method *method, const struct outcome *outcome)
{
	emit_open("intact");
	emit_text("method", method->name);
	emit_number("status", outcome->status);
	emit_number("preemptions", outcome->preemptions);
	emit_number("gaps_seen_by_kernel", outcome->gaps);
	emit_number("launches", outcome->launches);
	emit_number("wrong_launches", outcome->wrong_launches);
	emit_number("wrong_words", (long long)outcome->wrong_words);
	emit_number("words_a_launch", work->words);
	emit_number("undisturbed_ns", (long long)outcome->undisturbed_ns);
	emit_number("guard_fired", guard_fired());
	emit_close();
}

/* Returns how many preemptions there were. */
static unsigned int try_method(struct work *work, const struct method *method, unsigned int wanted)
{
	struct outcome outcome = { .status = 0 };
	uint64_t begun = now_ns();

	outcome.undisturbed_ns = undisturbed(work, work->got);
	compare(work, &outcome);
	if (outcome.wrong_words) {
		emit_error("intact", "two undisturbed runs differ: nothing can be told from disturbed ones");
		return 0;
	}
	while (outcome.preemptions < wanted && !outcome.status && now_ns() - begun < METHOD_NS) {
		disturb(work, method, wanted, &outcome);
		compare(work, &outcome);
	}
	tell(work, method, &outcome);
	return outcome.preemptions;
}

int part_intact(const struct options *options)
{
	struct work work = { .rounds = 0 };
	unsigned int done;

	if (prepare(&work))
		return 1;
	undisturbed(&work, work.expected);
	/* Half of the preemptions by each method.  The second makes up for what the first did not reach. */
	done = try_method(&work, method_channels, options->preemptions / 2);
	try_method(&work, method_schedule, options->preemptions - done);
	return 0;
}
