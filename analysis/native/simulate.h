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

/* The pending job that a thread of several tasks serves next (docs/readings/threads.md). */
enum gpurt_sim_order {
	GPURT_SIM_FIFO,			/* in the order of releases */
	GPURT_SIM_PRIORITY,		/* the job of least rank */
	GPURT_SIM_ROS2,			/* the least rank in a set, filled with all pending jobs when it is empty */
	GPURT_SIM_LIVE_TIMERS,		/* as ROS2, but timers are in no set, and go first */
	GPURT_SIM_ORDER_COUNT,
};

/* The most jobs of one task that can be pending at once; further jobs are dropped. */
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
	GPURT_SIM_EFULL,		/* more jobs of a task are pending than an exploration can store */
};

struct gpurt_sim_segment {
	u64 cpu_worst, cpu_best;	/* C, or G^m of a GPU segment */
	u64 gpu_worst, gpu_best;	/* G^e */
	u32 gpu;			/* whether it is a GPU segment */
	u32 resource;			/* the resource that a CPU segment holds, from 1 on; 0: none */
	u32 fork;			/* the task starts its workers here, inside if `gpu`, and sleeps until all are done */
	u32 ready;			/* begin by yield: number of times that its group becomes ready; 0: once */
};

struct gpurt_sim_task {
	u32 cpu;
	u32 priority;			/* 0: best effort */
	u32 gpu_priority;
	u32 busy;
	u32 form;			/* policy `boosted`: when the task is raised, enum gpurt_form */
	u32 part;			/* the part of the GPU that it uses, among the config's parts */
	u32 level;			/* of its TSG, enum gpurt_interleave_level */
	u32 shared;			/* tasks of one number share their first task's TSG; 0: own TSG */
	u32 process;			/* tasks of one number are threads of one process, with the first's client and TSG */
	u32 by_deadline;		/* the shared TSG's work is in the order of absolute deadlines, not of GPU priorities */
	u32 intensity;			/* of its kernels, enum gpurt_intensity */
	u32 conflict;			/* thousandths: the factor by which others of that intensity in its part slow them */
	u32 thread;			/* one thread serves tasks of one number, which is at most the count; 0: own thread */
	u32 order;			/* of that thread, enum gpurt_sim_order */
	u32 rank;			/* its place in the thread's order, 0 first */
	u32 turns;			/* begin by turns: its process takes turns */
	u32 timer;			/* it skips releases while a job waits to be served */
	u32 parent;			/* the task whose worker it is, from 1 on; 0: it has releases of its own */
	u32 group;			/* tasks of one number, which is at most the count, own the GPU as a group; 0: no group */
	u64 slice;			/* of its TSG; 0: the part's */
	u64 period, deadline, offset;	/* offset: the first release, as late as it may be */
	u64 max_period;			/* the longest time between two arrivals; 0: unknown */
	u64 jitter;			/* the longest time from a job's arrival to its release */
	u32 first, count;		/* its segments */
};

enum gpurt_sim_protocol {
	GPURT_SIM_INHERITANCE,		/* its holder executes at the priority of the most urgent task that waits for it */
	GPURT_SIM_CEILING,		/* its holder executes at the priority of the most urgent task that uses it */
	GPURT_SIM_SPIN,			/* tasks wait in turn, busily; neither they nor its holder are preempted */
	GPURT_SIM_PROTOCOL_COUNT,
};

/* A resource that one task at a time can hold. */
struct gpurt_sim_resource {
	u32 protocol;			/* enum gpurt_sim_protocol */
	u32 ceiling;
};

/* The end of each job of @from releases a job of @to.  If several release a task, it waits for each one's next end. */
struct gpurt_sim_link {
	u32 from, to;
};

/* The times of a chain (docs/readings/chains.md). */
enum gpurt_sim_measure { GPURT_SIM_REACTION, GPURT_SIM_AGE, GPURT_SIM_AGE_AT_OUTPUT, GPURT_SIM_MEASURES };

/* A chain of tasks: each reads what its predecessor has written; over a triggered link, the predecessor releases it. */
struct gpurt_sim_chain {
	u32 count;			/* number of its tasks: the next entries of the config's chain_tasks */
	u32 event;			/* a stimulus releases the first task; otherwise this samples it */
	u32 ages;			/* whether ages are measured */
	u64 limit;			/* an exploration does not distinguish longer times */
	u64 longest[GPURT_SIM_MEASURES];	/* result: raised to the longest times seen */
};

/* A part of the GPU, scheduled as a GPU of its own: its own owner and its own update lock. */
struct gpurt_sim_part {
	u32 policy;			/* enum gpurt_policy */
	u32 copy_engine;
	u64 alpha, theta, slice;
};

/* Begin by yield (sim_yield.c): the longest times, ns. */
struct gpurt_sim_yield {
	u32 on;				/* whether work is launched at once, and others are taken off later */
	u64 lazy;			/* the time that the host waits before it orders others off */
	u64 decision;			/* from a packet, or from when a timer is due, until the host has decided */
	u64 wake;			/* from an order until its agent makes the call */
	u64 call;			/* one call, from the end of the previous call */
	u64 stall;			/* the time for which a call stops all execution; bounds are for 0 */
};

struct gpurt_sim_config {
	const struct gpurt_sim_part *parts;
	const struct gpurt_sim_resource *resources;
	const struct gpurt_sim_link *links;
	struct gpurt_sim_chain *chains;
	const u32 *chain_tasks;
	u32 resource_count, link_count, chain_count;
	u32 part_count;			/* at least 1; a GPU that is not divided is one part */
	u32 cross;			/* thousandths: the factor by which memory-intensive kernels of parts slow each other */
	u32 cpus;
	u32 execution;			/* enum gpurt_sim_execution */
	u32 job_cpu;			/* policy `job`: the CPU of the kernel thread */
	u32 sporadic;			/* periods are drawn, up to max_period or a tenth longer; jitter is drawn, too */
	u32 boost;			/* policies lock-*: the holder executes above every priority of its CPU */
	u64 poll;			/* policy `job`: polling period; 0: notified at once */
	struct gpurt_sim_yield yield;
	u64 latency;			/* the longest CPU time of a wake-up, before the thread goes on */
	u64 horizon;			/* jobs are released before this time */
	u64 seed;
	u64 max_events;			/* gives up after this many steps */
};

struct gpurt_sim_stats {
	u64 jobs;			/* released */
	u64 finished;
	u64 misses;
	u64 dropped;			/* released while GPURT_SIM_BACKLOG jobs were pending; they are misses, too */
	u64 worst;			/* response time; of an unfinished job, the time since its release */
	u64 worst_release;
	u64 sum;			/* of the finished jobs' response times */
};

struct gpurt_sim_event {
	u64 time, duration;
	u32 kind;
	int32_t task;			/* -1: none, or all */
	int32_t where;			/* the CPU; for GPU and COMMIT the part; -1: neither */
	u32 job;
};

/*
 * Simulates once.  @stats: one entry for each task.  @events: room for @room events, or NULL.  Writes the number of
 * events to *@used; it can exceed @room.  Returns 0 or -enum gpurt_sim_error.
 */
int gpurt_simulate(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats,
		   struct gpurt_sim_event *events, u64 room, u64 *used);

/*
 * Simulates @runs times with random offsets, run 0 with the given ones, and keeps the worst result of each task.
 * Random choices in a run follow only from config->seed and the run's number, so runs can be continued from @from.
 */
int gpurt_simulate_offsets(const struct gpurt_sim_config *config, struct gpurt_sim_task *tasks, u32 count,
			   const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *worst, u64 from, u64 runs);

#endif
