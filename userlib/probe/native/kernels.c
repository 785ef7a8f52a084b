// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <string.h>

#include "kernels.h"

/* Plain PTX of an old version, which every driver takes.  Pascal (sm_60) is the first GPU that preempts compute. */
#define HEAD ".version 6.0\n.target sm_60\n.address_size 64\n"

/*
 * One thread of the kernel reads the clock and writes the beat.  It writes at most every 500 ns, because more writes
 * would only queue on the bus and arrive late.  The number 8192 below is GAPS_MAX.
 */
#define BEAT_REGISTERS \
	"	.reg .pred p, writer;\n" \
	"	.reg .b32 n;\n" \
	"	.reg .b64 base, now, last, wrote, least, d, count, res, addr, d2;\n"

#define BEAT_START \
	"	ld.param.u64 base, [beat];\n" \
	"	cvta.to.global.u64 base, base;\n" \
	"	ld.param.u64 least, [least_gap];\n" \
	"	mov.u32 n, 0;\n" \
	"	mov.u64 count, 0;\n" \
	"	mov.u64 wrote, 0;\n" \
	"	mov.u64 res, 0xffffffffffff;\n" \
	"	mov.u64 last, %globaltimer;\n" \
	"	mov.u64 now, last;\n" \
	"	@!writer bra STARTED;\n" \
	"	st.volatile.global.u64 [base+16], last;\n" \
	"	st.volatile.global.u32 [base+36], 1;\n" \
	"STARTED:\n"

#define BEAT_STEP \
	"	add.u64 count, count, 1;\n" \
	"	sub.u64 d, now, last;\n" \
	"	setp.eq.u64 p, d, 0;\n" \
	"	@p bra QUIET;\n" \
	"	min.u64 res, res, d;\n" \
	"	setp.lt.u64 p, d, least;\n" \
	"	@p bra NOGAP;\n" \
	"	setp.ge.u32 p, n, 8192;\n" \
	"	@p bra NOGAP;\n" \
	"	mul.wide.u32 addr, n, 16;\n" \
	"	add.u64 addr, addr, base;\n" \
	"	st.volatile.global.u64 [addr+64], last;\n" \
	"	st.volatile.global.u64 [addr+72], now;\n" \
	"	add.u32 n, n, 1;\n" \
	"	st.volatile.global.u32 [base+32], n;\n" \
	"NOGAP:\n" \
	"	sub.u64 d2, now, wrote;\n" \
	"	setp.lt.u64 p, d2, 500;\n" \
	"	@p bra QUIET;\n" \
	"	mov.u64 wrote, now;\n" \
	"	st.volatile.global.u64 [base], now;\n" \
	"	st.volatile.global.u64 [base+8], count;\n" \
	"QUIET:\n" \
	"	mov.u64 last, now;\n"

#define BEAT_END \
	"	@!writer bra DONE;\n" \
	"	st.volatile.global.u64 [base+8], count;\n" \
	"	st.volatile.global.u64 [base+40], res;\n" \
	"	st.volatile.global.u64 [base+24], now;\n" \
	"DONE:\n" \
	"	ret;\n}\n"

#define WRITER \
	"	mov.u32 tid, %tid.x;\n" \
	"	mov.u32 cta, %ctaid.x;\n" \
	"	or.b32 t, tid, cta;\n" \
	"	setp.eq.u32 writer, t, 0;\n"

static const char clock_ptx[] = HEAD
	".visible .entry clock_kernel(.param .u64 beat, .param .u64 duration, .param .u64 least_gap, .param .u64 uncounted)"
	"\n{\n"
	BEAT_REGISTERS
	"	.reg .b32 tid, cta, t;\n"
	"	.reg .b64 start, length, mask;\n"
	WRITER
	BEAT_START
	"	mov.u64 start, last;\n"
	"	ld.param.u64 length, [duration];\n"
	"	ld.param.u64 mask, [uncounted];\n"
	"LOOP:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	sub.u64 d, now, last;\n"
	"	setp.lt.u64 p, d, least;\n"
	"	@p bra EXECUTED;\n"
	"	and.b64 d, d, mask;\n"
	"	add.u64 start, start, d;\n"
	"EXECUTED:\n"
	"	@!writer bra PASSED;\n"
	BEAT_STEP
	"PASSED:\n"
	"	mov.u64 last, now;\n"
	"	sub.u64 d, now, start;\n"
	"	setp.lt.u64 p, d, length;\n"
	"	@p bra LOOP;\n"
	BEAT_END;

#define EACH(X) \
	X(0, 1) X(1, 2) X(2, 3) X(3, 4) X(4, 5) X(5, 6) X(6, 7) X(7, 8) \
	X(8, 9) X(9, 10) X(10, 11) X(11, 12) X(12, 13) X(13, 14) X(14, 15) X(15, 0)
#define SEED(i, next) "	mad.lo.u32 a" #i ", seed, 2654435761, " #i ";\n"
#define STEP(i, next) \
	"	mad.lo.u32 a" #i ", a" #i ", 1664525, 1013904223;\n" \
	"	xor.b32 a" #i ", a" #i ", a" #next ";\n"
#define FOLD(i, next) "	xor.b32 t, t, a" #i ";\n"

static const char work_ptx[] = HEAD
	".visible .entry work_kernel(.param .u64 out, .param .u32 rounds, .param .u64 beat, .param .u64 least_gap)\n{\n"
	BEAT_REGISTERS
	"	.reg .pred more, quarter;\n"
	"	.reg .b32 a<16>;\n"
	"	.reg .b32 tid, cta, t, seed, i, end, mine, other, m;\n"
	"	.reg .b64 sums, sum, word;\n"
	"	.shared .align 4 .b32 tile[256];\n"
	WRITER
	BEAT_START
	"	ld.param.u64 sums, [out];\n"
	"	cvta.to.global.u64 sums, sums;\n"
	"	ld.param.u32 end, [rounds];\n"
	"	mad.lo.u32 seed, cta, 256, tid;\n"
	EACH(SEED)
	"	and.b32 t, tid, 63;\n"
	"	mul.wide.u32 sum, t, 4;\n"
	"	add.u64 sum, sum, sums;\n"
	"	mov.u32 mine, tile;\n"
	"	add.u32 t, tid, 1;\n"
	"	and.b32 t, t, 255;\n"
	"	mad.lo.u32 other, t, 4, mine;\n"
	"	mad.lo.u32 mine, tid, 4, mine;\n"
	"	mov.u32 i, 0;\n"
	"LOOP:\n"
	EACH(STEP)
	"	st.shared.u32 [mine], a0;\n"
	"	bar.sync 0;\n"
	"	ld.shared.u32 t, [other];\n"
	"	add.u32 a1, a1, t;\n"
	"	bar.sync 0;\n"
	"	and.b32 m, i, 15;\n"
	"	setp.ne.u32 quarter, m, 0;\n"
	"	@!quarter red.global.add.u32 [sum], a2;\n"
	"	@!writer bra PASSED;\n"
	"	mov.u64 now, %globaltimer;\n"
	BEAT_STEP
	"PASSED:\n"
	"	add.u32 i, i, 1;\n"
	"	setp.lt.u32 more, i, end;\n"
	"	@more bra LOOP;\n"
	"	mov.u32 t, 0;\n"
	EACH(FOLD)
	"	mul.wide.u32 word, seed, 4;\n"
	"	add.u64 word, word, sums;\n"
	"	st.global.u32 [word+256], t;\n"
	BEAT_END;

const char *const kernel_texts[KERNEL_TEXTS] = { clock_ptx, work_ptx };

static cu_object load(const char *text, const char *name)
{
	cu_object module, function;

	cuda_need(cu.module_load(&module, text), "cuModuleLoadData");
	cuda_need(cu.module_function(&function, module, name), name);
	return function;
}

static unsigned int blocks_of(cu_object function, unsigned int shared)
{
	int each = 0;

	cuda_need(cu.occupancy(&each, function, WORK_THREADS, shared), "cuOccupancyMaxActiveBlocksPerMultiprocessor");
	return (unsigned int)(each * cu.sm_count);
}

void kernels_load(struct kernels *kernels)
{
	kernels->clock = load(clock_ptx, "clock_kernel");
	kernels->work = load(work_ptx, "work_kernel");
	kernels->clock_blocks = blocks_of(kernels->clock, 0);
	kernels->work_blocks = blocks_of(kernels->work, 0);
}

unsigned int work_blocks_with(const struct kernels *k, unsigned int shared)
{
	return blocks_of(k->work, shared);
}

struct mapped_beat beat_new(void)
{
	struct mapped_beat beat;

	beat.host = cuda_mapped(sizeof(*beat.host), &beat.device);
	return beat;
}

void beat_clear(struct mapped_beat beat)
{
	memset((void *)beat.host, 0, offsetof(struct beat, gap));
}

void wait_launched(struct mapped_beat beat, cu_object stream)
{
	while (!beat.host->started && cu.stream_query(stream) == CU_NOT_READY)
		;
}

/* @uncounted: all bits set where the gaps do not count for the duration, else 0. */
static void launch(const struct kernels *k, cu_object stream, unsigned int blocks, struct mapped_beat beat,
		   uint64_t duration_ns, uint64_t least_gap_ns, uint64_t uncounted)
{
	void *arguments[] = { &beat.device, &duration_ns, &least_gap_ns, &uncounted };
	/* A single block runs with one thread, so that the context to be switched is as small as possible. */
	unsigned int threads = blocks == 1 ? 1 : WORK_THREADS;

	cuda_need(cu.launch(k->clock, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL), "clock_kernel");
}

void launch_clock(const struct kernels *k, cu_object stream, unsigned int blocks, struct mapped_beat beat,
		  uint64_t duration_ns, uint64_t least_gap_ns)
{
	launch(k, stream, blocks, beat, duration_ns, least_gap_ns, 0);
}

void launch_load(const struct kernels *k, cu_object stream, unsigned int blocks, struct mapped_beat beat,
		 uint64_t executed_ns)
{
	launch(k, stream, blocks, beat, executed_ns, LOAD_GAP_NS, UINT64_MAX);
}

void launch_work(const struct kernels *k, cu_object stream, unsigned int blocks, cu_pointer out,
		 unsigned int rounds, unsigned int shared, struct mapped_beat beat, uint64_t least_gap_ns)
{
	void *arguments[] = { &out, &rounds, &beat.device, &least_gap_ns };

	cuda_need(cu.launch(k->work, blocks, 1, 1, WORK_THREADS, 1, 1, shared, stream, arguments, NULL), "work_kernel");
}
