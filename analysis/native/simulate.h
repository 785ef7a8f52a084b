/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Discrete-event simulation of a taskset in virtual time, over the shipping core: kmod/core/policy.c decides
 * and kmod/core/vgpu.c is the GPU.  What is simulated, and where the costs fall, is in docs/simulator.md.
 */
#ifndef GPURT_SIMULATE_H
#define GPURT_SIMULATE_H

#include "../../kmod/core/env.h"

enum gpurt_sim_execution {
	GPURT_SIM_WORST,
	GPURT_SIM_BEST,
	GPURT_SIM_RANDOM,		/* uniform between best and worst, a draw a segment and job */
};

enum gpurt_sim_kind {
	GPURT_SIM_RELEASE,
	GPURT_SIM_COMPLETE,
	GPURT_SIM_CPU,			/* a task executed on a CPU for `duration` */
	GPURT_SIM_UPDATE,		/* likewise, updating the runlist */
	GPURT_SIM_GPU,			/* the GPU executed a task's TSG */
	GPURT_SIM_BEGIN,
	GPURT_SIM_GRANT,
	GPURT_SIM_PREEMPT,
	GPURT_SIM_RESUME,
	GPURT_SIM_END,
	GPURT_SIM_COMMIT,
};

/* What the functions return, negated. */
enum gpurt_sim_error {
	GPURT_SIM_EINVAL = 1,
	GPURT_SIM_ENOMEM,
	GPURT_SIM_ETIME,		/* gave up after max_events */
};

struct gpurt_sim_segment {
	u64 cpu_worst, cpu_best;	/* C, or G^m of a GPU segment */
	u64 gpu_worst, gpu_best;	/* G^e */
	u32 gpu;			/* is a GPU segment */
	u32 pad;
};

struct gpurt_sim_task {
	u32 cpu;
	u32 priority;			/* 0: best effort */
	u32 gpu_priority;
	u32 busy;
	u64 period, deadline, offset;
	u32 first, count;		/* its segments */
};

struct gpurt_sim_config {
	u32 policy;			/* enum gpurt_policy */
	u32 cpus;
	u32 execution;			/* enum gpurt_sim_execution */
	u32 copy_engine;
	u32 job_cpu;			/* policy `job`: where the kernel thread runs */
	u32 sporadic;			/* releases are later than the period by up to a tenth of it */
	u32 boost;			/* policies lock-*: who holds the GPU executes above every priority of its CPU */
	u32 pad;
	u64 alpha, theta, slice;
	u64 poll;			/* policy `job`: polling period; 0: notified at once */
	u64 horizon;			/* jobs are released before that */
	u64 seed;
	u64 max_events;			/* gives up after so many steps */
};

struct gpurt_sim_stats {
	u64 jobs;			/* released */
	u64 finished;
	u64 misses;
	u64 worst;			/* response time; of an unfinished job, what it has taken so far */
	u64 worst_release;
	u64 sum;			/* of the finished jobs' response times */
};

struct gpurt_sim_event {
	u64 time, duration;
	u32 kind;
	int32_t task;			/* -1: none, or everyone */
	int32_t cpu;
	u32 job;
};

/*
 * Simulates once.  @stats: one a task.  @events: room for @room events, may be NULL; *@used is how many there
 * were, which may be more than there was room for.  Returns 0 or -enum gpurt_sim_error.
 */
int gpurt_simulate(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats,
		   struct gpurt_sim_event *events, u64 room, u64 *used);

/*
 * Simulates @runs times with random offsets, the first time with those given, and keeps the worst of each
 * task.  What is random follows from config->seed and @from alone, so that runs @from.. can be continued.
 */
int gpurt_simulate_offsets(const struct gpurt_sim_config *config, struct gpurt_sim_task *tasks, u32 count,
			   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *worst, u64 from, u64 runs);

#endif
