/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers and arguments for hammer.c: mostly sensible, sometimes not. */
#ifndef NONSENSE_H
#define NONSENSE_H

#include <stdint.h>
#include <string.h>

#include <gpurt.h>

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dULL >> 11;
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(draw() % n);
}

/* Numbers at which things break, or any. */
static uint64_t odd(void)
{
	static const uint64_t values[] = { 0, 1, 2, 3, 99, 100, 255, 4095, 4096, 65535, 65536, 0x7fffffff, 0x80000000,
					   0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff };

	return below(4) ? values[below(sizeof(values) / sizeof(*values))] : draw();
}

/* Usually @usual below so many, sometimes odd. */
static uint64_t about(unsigned int usual)
{
	return below(20) ? below(usual) : odd();
}

/* Usually the first GPU, for there may be no other. */
static uint32_t some_gpu(void)
{
	return below(4) ? 0 : (uint32_t)about(2);
}

union argument {
	struct gpurt_query query;
	struct gpurt_begin begin;
	struct gpurt_end end;
	struct gpurt_wait wait;
	struct gpurt_tsg tsg;
	struct gpurt_submit submit;
	struct gpurt_tsg_shape shape;
	struct gpurt_agent agent;
	struct gpurt_order order;
	struct gpurt_copy copy;
	struct gpurt_group_join join;
	struct gpurt_job_mark job_mark;
	uint32_t size;
	unsigned char bytes[8192];
};

/* A structure that is nearly right; which call. */
static unsigned long fill(union argument *a)
{
	memset(a, 0, sizeof(*a));
	switch (below(13)) {
	case 0:
		a->query = (struct gpurt_query){ .size = sizeof(a->query), .gpu = some_gpu() };
		return GPURT_IOC_QUERY;
	case 1:
		a->begin = (struct gpurt_begin){ .size = sizeof(a->begin), .gpu = some_gpu(),
						 .flags = (uint32_t)about(GPURT_BEGIN_FLAGS), .priority = (uint32_t)about(100) };
		return GPURT_IOC_BEGIN;
	case 2:
		a->end = (struct gpurt_end){ .size = sizeof(a->end), .gpu = some_gpu(),
					     .flags = (uint32_t)about(2) };
		return GPURT_IOC_END;
	case 3:
		a->wait = (struct gpurt_wait){ .size = sizeof(a->wait), .gpu = some_gpu(),
					       .what = (uint32_t)about(3), .tsg = (uint32_t)about(6),
					       .work = about(10), .timeout_ns = about(1000000) };
		return GPURT_IOC_WAIT;
	case 4:
		a->tsg = (struct gpurt_tsg){ .size = sizeof(a->tsg), .gpu = some_gpu() };
		return GPURT_IOC_TSG_OPEN;
	case 5:
		a->tsg = (struct gpurt_tsg){ .size = sizeof(a->tsg), .gpu = some_gpu(),
					     .tsg = (uint32_t)about(6) };
		return GPURT_IOC_TSG_CLOSE;
	case 6:
		a->agent = (struct gpurt_agent){ .size = sizeof(a->agent), .gpu = some_gpu(),
						 .tier = (uint32_t)about(GPURT_TIER_COUNT),
						 .tsgs = (uint32_t)about(3), .driver = "hammer" };
		return GPURT_IOC_AGENT;
	case 7:
		a->order = (struct gpurt_order){ .size = sizeof(a->order), .gpu = some_gpu(),
						 .answered = about(200), .result = below(4) ? 0 : -(int)about(5),
						 .timeout_ns = about(1000000) };
		return GPURT_IOC_ORDER;
	case 8:
		a->copy = (struct gpurt_copy){ .size = sizeof(a->copy), .gpu = some_gpu(),
					       .what = (uint32_t)about(GPURT_COPY_COUNT) };
		if (a->copy.what == GPURT_COPY_BEGIN)
			a->copy.priority = (uint32_t)about(100);
		if (a->copy.what != GPURT_COPY_END)
			a->copy.timeout_ns = about(1000000);
		return GPURT_IOC_COPY;
	case 9:
		a->job_mark = (struct gpurt_job_mark){ .size = sizeof(a->job_mark), .gpu = some_gpu(),
						       .what = (uint32_t)about(GPURT_MARK_COUNT), .job = about(100),
						       .release_ns = about(1000000), .task = "hammer" };
		return GPURT_IOC_JOB_MARK;
	case 10:
		a->shape = (struct gpurt_tsg_shape){ .size = sizeof(a->shape), .gpu = some_gpu(),
						     .tsg = (uint32_t)about(6), .level = (uint32_t)about(3),
						     .slice_ns = below(2) ? 0 : about(5000000) };
		return GPURT_IOC_TSG_SHAPE;
	case 11:
		a->join = (struct gpurt_group_join){ .size = sizeof(a->join), .flags = below(20) ? below(2) : (uint32_t)odd() };
		a->join.name[0] = (char)(below(20) ? 'a' + below(6) : below(256));
		return GPURT_IOC_GROUP_JOIN;
	}
	a->submit = (struct gpurt_submit){ .size = sizeof(a->submit), .gpu = some_gpu(),
					   .tsg = (uint32_t)about(6), .engine = (uint32_t)about(2),
					   .flags = (uint32_t)about(GPURT_SUBMIT_FLAGS), .duration_ns = about(1000000),
					   .conflict = below(2) ? 0 : (uint32_t)about(4000) };
	return GPURT_IOC_SUBMIT;
}

#endif
