/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Discrete-event simulation of a taskset in virtual time, with the core that ships: kmod/core/sched.c decides and
 * kmod/core/vgpu.c is the GPU.  The page docs/simulator.md says what is simulated and where costs are charged.
 */
#ifndef GPURT_SIMULATE_H
#define GPURT_SIMULATE_H

#include "../../kmod/core/env.h"

enum gpurt_sim_execution {
	GPURT_SIM_WORST,
	GPURT_SIM_BEST,
	GPURT_SIM_RANDOM,		/* uniform between best and worst, drawn for each segment and job */
};

/* The pending job that a thread which serves several tasks serves next (docs/readings/threads.md). */
enum gpurt_sim_order {
	GPURT_SIM_FIFO,			/* as they were released */
	GPURT_SIM_PRIORITY,		/* the least rank */
	GPURT_SIM_ROS2,			/* the least rank of a set of what was pending when the set was empty */
	GPURT_SIM_LIVE_TIMERS,		/* likewise; timers are in no set, and go first */
	GPURT_SIM_ORDER_COUNT,
};

/* Jobs of one task that can be pending at once; further ones are dropped. */
enum gpurt_sim_limit { GPURT_SIM_BACKLOG = 32 };

enum gpurt_sim_kind {
	GPURT_SIM_RELEASE,
	GPURT_SIM_COMPLETE,
	GPURT_SIM_CPU,			/* a task executed on a CPU for `duration` */
	GPURT_SIM_UPDATE,		/* a task updated the runlist on a CPU for `duration` */
	GPURT_SIM_GPU,			/* the GPU executed a task's TSG */
	GPURT_SIM_BEGIN,
	GPURT_SIM_GRANT,
	GPURT_SIM_PREEMPT,
	GPURT_SIM_RESUME,
	GPURT_SIM_END,
	GPURT_SIM_COMMIT,
};

/* Errors of the functions, which return them negated. */
enum gpurt_sim_error {
	GPURT_SIM_EINVAL = 1,
	GPURT_SIM_ENOMEM,
	GPURT_SIM_ETIME,		/* gave up after max_events */
	GPURT_SIM_EFULL,		/* more jobs of a task are pending than an exploration has room for */
};

struct gpurt_sim_segment {
	u64 cpu_worst, cpu_best;	/* C, or G^m of a GPU segment */
	u64 gpu_worst, gpu_best;	/* G^e */
	u32 gpu;			/* whether it is a GPU segment */
	u32 resource;			/* which one a CPU segment holds, from 1 on; 0: none */
	u32 fork;			/* the task starts its workers here, inside if `gpu`, and sleeps until all are done */
	u32 ready;			/* begin by yield: how often its group becomes ready; 0: once */
};

struct gpurt_sim_task {
	u32 cpu;
	u32 priority;			/* 0: best effort */
	u32 gpu_priority;
	u32 busy;
	u32 form;			/* policy `boosted`: when it is raised, enum gpurt_form */
	u32 part;			/* which of the config's parts of the GPU it uses */
	u32 level;			/* of its TSG, enum gpurt_interleave_level */
	u32 shared;			/* tasks of one number share the TSG of the first of them; 0: it has its own */
	u32 process;			/* tasks of one number are threads of one process, with the first one's client and TSG */
	u32 by_deadline;		/* the shared TSG's work is in the order of absolute deadlines, not of GPU priorities */
	u32 intensity;			/* of its kernels, enum gpurt_intensity */
	u32 conflict;			/* thousandths: by what others of that intensity in its part slow them down */
	u32 thread;			/* tasks of one number, up to that of tasks, are served by one thread; 0: by its own */
	u32 order;			/* of that thread, enum gpurt_sim_order */
	u32 rank;			/* its place in the thread's order, 0 first */
	u32 turns;			/* begin by turns: its process takes some */
	u32 timer;			/* it skips releases while a job waits to be served */
	u32 parent;			/* the task whose worker it is, from 1 on; 0: it has releases of its own */
	u32 group;			/* tasks of one number, up to that of tasks, own the GPU as a group; 0: it is in none */
	u64 slice;			/* of its TSG; 0: the part's */
	u64 period, deadline, offset;	/* offset: of the first release, which is as late as it may be */
	u64 max_period;			/* arrivals are so far apart at most; 0: nothing says */
	u64 jitter;			/* how much later than its arrival a job may be released */
	u32 first, count;		/* its segments */
};

enum gpurt_sim_protocol {
	GPURT_SIM_INHERITANCE,		/* its holder executes at the priority of the most urgent task that waits for it */
	GPURT_SIM_CEILING,		/* its holder executes at the priority of the most urgent task that uses it */
	GPURT_SIM_SPIN,			/* tasks wait in turn, busily; neither they nor its holder are preempted */
	GPURT_SIM_PROTOCOL_COUNT,
};

/* Something that one task at a time can hold. */
struct gpurt_sim_resource {
	u32 protocol;			/* enum gpurt_sim_protocol */
	u32 ceiling;
};

/* The end of each job of @from releases one of @to.  A task that several release waits for the next end of each. */
struct gpurt_sim_link {
	u32 from, to;
};

/* The times of a chain (docs/readings/chains.md). */
enum gpurt_sim_measure { GPURT_SIM_REACTION, GPURT_SIM_AGE, GPURT_SIM_AGE_AT_OUTPUT, GPURT_SIM_MEASURES };

/* A chain of tasks: each reads what its predecessor has written; over a triggered link, the predecessor releases it. */
struct gpurt_sim_chain {
	u32 count;			/* its tasks: the next ones of the config's chain_tasks */
	u32 event;			/* a stimulus releases the first task, which else samples it */
	u32 ages;			/* whether ages are looked at */
	u64 limit;			/* an exploration does not tell longer times apart */
	u64 longest[GPURT_SIM_MEASURES];	/* result: raised to what is seen */
};

/* A part of the GPU, scheduled as a GPU of its own: its own owner and its own update lock. */
struct gpurt_sim_part {
	u32 policy;			/* enum gpurt_policy */
	u32 copy_engine;
	u64 alpha, theta, slice;
};

/* Begin by yield (sim_yield.c): the longest times, ns. */
struct gpurt_sim_yield {
	u32 on;				/* whether work is launched at once, and others go off later */
	u64 lazy;			/* how long the host waits before it orders others off */
	u64 decision;			/* from a packet, or from when a timer is due, until the host has decided */
	u64 wake;			/* from an order until its agent makes the call */
	u64 call;			/* one call, from when the one before it is over */
	u64 stall;			/* how long a call stops whatever executes; bounds are for 0 */
};

struct gpurt_sim_config {
	const struct gpurt_sim_part *parts;
	const struct gpurt_sim_resource *resources;
	const struct gpurt_sim_link *links;
	struct gpurt_sim_chain *chains;
	const u32 *chain_tasks;
	u32 resource_count, link_count, chain_count;
	u32 part_count;			/* at least 1; a GPU that is not divided is one part */
	u32 cross;			/* thousandths: by what memory-intensive kernels of parts slow each other */
	u32 cpus;
	u32 execution;			/* enum gpurt_sim_execution */
	u32 job_cpu;			/* policy `job`: where the kernel thread runs */
	u32 sporadic;			/* arrivals come later than the period, as far as max_period or a tenth more; jitter is drawn */
	u32 boost;			/* policies lock-*: the holder executes above every priority of its CPU */
	u64 poll;			/* policy `job`: polling period; 0: notified at once */
	struct gpurt_sim_yield yield;
	u64 latency;			/* what a wake-up takes of the CPU at most, before the thread goes on */
	u64 horizon;			/* jobs are released before this time */
	u64 seed;
	u64 max_events;			/* gives up after so many steps */
};

struct gpurt_sim_stats {
	u64 jobs;			/* released */
	u64 finished;
	u64 misses;
	u64 dropped;			/* released while as many were pending as there is room for; they are misses, too */
	u64 worst;			/* response time; of an unfinished job, the time since its release */
	u64 worst_release;
	u64 sum;			/* of the finished jobs' response times */
};

struct gpurt_sim_event {
	u64 time, duration;
	u32 kind;
	int32_t task;			/* -1: none, or all */
	int32_t where;			/* the CPU; of GPU and COMMIT the part; -1: neither */
	u32 job;
};

/*
 * Simulates once.  The array @stats has one for each task, and @events is room for @room events, or NULL.  Writes to
 * *@used how many events there were, which can be more than @room.  Returns 0 or -enum gpurt_sim_error.
 */
int gpurt_simulate(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats,
		   struct gpurt_sim_event *events, u64 room, u64 *used);

/*
 * Simulates @runs times with random offsets, run 0 with those given, and keeps the worst of each task.  Random choices
 * in a run follow from config->seed and the run's number alone.  So runs can be continued from @from.
 */
int gpurt_simulate_offsets(const struct gpurt_sim_config *config, struct gpurt_sim_task *tasks, u32 count,
			   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *worst, u64 from, u64 runs);

#endif
