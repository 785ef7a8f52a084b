/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures that the simulator's files share: a simulation, its CPUs, parts of the GPU, and tasks, each with its
 * current job.
 */
#ifndef GPURT_SIM_H
#define GPURT_SIM_H

#include "../../kmod/core/queue.h"
#include "../../kmod/core/sched.h"
#include "../../kmod/core/vgpu.h"
#include "../../kmod/core/whole.h"
#include "simulate.h"

#define BACKLOG GPURT_SIM_BACKLOG

/* The activity of a task.  From EXECUTING on, the task wants its CPU. */
enum step {
	IDLE,			/* no job */
	ASLEEP_LOCK,		/* waits for the update lock */
	ASLEEP_GRANT,		/* policies lock-*: waits for the GPU */
	ASLEEP_GPU,		/* sleeps while its pure GPU segment executes */
	ASLEEP_RESOURCE,	/* waits for a resource */
	ASLEEP_JOIN,		/* waits for its workers */
	EXECUTING,		/* executes C or G^m */
	REQUESTING,		/* is about to begin or end a segment */
	HANDED,			/* was handed the update lock */
	UPDATING,		/* holds the update lock; not preempted */
	SPINNING,		/* waits busily while its pure GPU segment executes */
	WANTING,		/* is about to take a resource */
	FORKING,		/* is about to start its workers */
	SPINNING_RESOURCE,	/* waits busily for a resource; not preempted */
	SPINNING_LOCK,		/* policy `boosted`: waits busily for the update lock */
};

/* A part of the GPU: a scheduler, a virtual GPU and an update lock. */
struct part {
	struct gpurt_sched sched;	/* first member: the callbacks cast it to the part */
	struct gpurt_vgpu vgpu;
	const struct gpurt_sim_part *config;
	struct sim *sim;
	u64 next;			/* time of the virtual GPU's next event, unless `changed` */
	bool changed;
	struct gpurt_turns turns;	/* the update lock, and the tasks that wait for it */
	bool committed;
	/* begin by yield */
	struct job_task *owner;		/* the task that is to be alone on the GPU */
	u64 lazy_until;			/* the owner shares the GPU until then; U64_MAX: it does not share it */
	u64 tickets;			/* number of calls that agents have made */
	struct job_task *turn;		/* the task whose turn it is, of the tasks that take turns */
	bool turn_on;			/* `turn` may be on */
	u64 turn_until;			/* `turn` is passed on then, unless a task owns the GPU; U64_MAX: not on yet */
	struct job_task *on_gpu;
	struct job_task *caller;	/* of the latest begin or end */
	u64 gpu_since;
};

/* Tasks that own the GPU together (kmod/core/group.h). */
struct team {
	struct gpurt_group group;
	struct gpurt_group_gpu gpu;
	struct gpurt_vgpu_ctx ctx;
};

/* The input of a job in a chain: the earliest stimulus that no earlier job reflects, and the first task's start. */
struct carried {
	u64 since, origin;
};

/* A task in a chain. */
struct station {
	u64 task;
	u64 triggered;		/* the previous task's jobs release its jobs, and are their input one by one */
	u64 started;		/* of the first task: when its last job started */
	u64 awaited;		/* other tasks than the previous one release its jobs */
	u64 first;		/* when its first job started, if `awaited` */
	struct carried job;	/* the job that has started */
	struct carried out;	/* the last job that has ended */
	u64 head, queued;	/* jobs that have ended, and whose consumers have not started */
	struct carried queue[BACKLOG];
};

/* The state of the order to a process. */
enum order { NO_ORDER, SENT, QUEUED, CALLING, ANSWERED };

/* A process under begin by yield.  Times are U64_MAX where no event is due. */
struct yielding {
	bool off;		/* its group is off */
	bool posted;		/* it has posted to the host that it is in a segment */
	bool renewed;		/* it has posted since the host last read */
	bool free;		/* it began without asking */
	bool waits;		/* it waits until it is alone */
	bool known;		/* the host knows of a segment */
	bool takes_off;		/* the order takes it off; else puts it on */
	enum order order;
	u64 ticket;		/* QUEUED: smaller is earlier */
	u64 held;		/* length of the work that waits until the group is on */
	u64 rest;		/* rest of G^e, after the kernel that was launched last */
	u64 kernels;		/* number of kernels that follow that one */
	u64 read;		/* when the host reads its posts */
	u64 at, gap;		/* the order's next step, and the launch of the next kernel */
};

/* Whether the first job of a task has started: at this instant, or before. */
enum begun { UNBEGUN, BEGINS, BEGUN };

struct job_task {
	const struct gpurt_sim_task *task;
	struct part *part;
	const struct gpurt_sim_segment *segments;
	struct gpurt_sim_stats *stats;
	enum step step;
	enum begun begun;
	bool triggered;		/* ends of other tasks release its jobs */
	bool in_segment;	/* between begin and end */
	bool gpu_done;
	bool wanted;		/* policy `job`: whether the kernel thread has noticed its job */
	u32 at;			/* index of its present segment */
	u64 left;		/* EXECUTING: CPU time that it still needs, ns */
	u64 waking;		/* rest of its wake-up, which takes CPU time, ns */
	u64 until;		/* UPDATING: when the update is done */
	u64 ready_since;	/* smaller is earlier; orders tasks of equal priority */
	struct gpurt_turn turn;	/* its wait for the update lock, until it is UPDATING */
	bool holds;		/* it holds the resource of its segment */
	u64 asked;		/* when it requested the resource; smaller is earlier */
	u64 next_release;
	u64 latest;		/* the latest release of its next job; U64_MAX: unknown */
	int64_t arrival;	/* the earliest arrival of next_release's job; negative if the first job is late */
	u64 backlog[BACKLOG];
	u32 queued, head;
	bool polled;		/* its job is in the set of the thread that serves it */
	bool served;		/* the thread that serves it and others executes its job */
	u32 job;
	u32 workers;		/* ASLEEP_JOIN: number of workers that are not done */
	struct gpurt_sched_client client, *as;	/* as: its own, or its process's first thread's */
	struct job_task *opener;	/* the task that began the client's segment, for the trace */
	struct gpurt_vgpu_ctx ctx;
	struct gpurt_vgpu_tsg tsg;
	struct gpurt_vgpu_tsg *on;	/* the TSG that it uses: its own or a shared one */
	struct gpurt_vgpu_work work;
	struct yielding yield;
};

#define STALE 0			/* any time that has come */

struct cpu {
	struct job_task *running;
	u64 since;		/* when `running` began to run */
	bool updating;		/* `running` makes an update */
	u64 from;		/* the rest of `running`'s work is as of this time */
	u64 next;		/* `running`'s next event; STALE: a task has changed since it was chosen */
	struct job_task **own;	/* its tasks, in the order of the taskset */
	u32 count;
	u64 thread_until;	/* the kernel thread has the CPU until then */
};

struct sim;

/* Chooses one of several possible events: a number below @n, which is at least 2. */
struct chooser {
	u64 (*choose)(struct chooser *chooser, u64 n);
};

struct sim {
	const struct gpurt_sim_config *config;
	struct chooser *chooser;	/* explore.c; NULL: draws at random, and ties have one order */
	struct job_task **own;		/* the array into which cpu.own points */
	struct part *parts;
	struct gpurt_whole whole;	/* the GPU of the parts, if they slow each other down */
	struct job_task *tasks;
	struct team *teams;		/* by the number of the group */
	u64 stamps;			/* stamps of the teams' tenures so far */
	u64 *tokens;			/* by link: number of ends that have not released a job yet */
	struct station *stations;	/* of all chains */
	u32 station_count;
	struct cpu *cpus;
	u32 count;
	u64 now;
	u64 cpu_next;			/* the earliest cpu.next, after all events of an instant */
	u64 order;
	u64 open;			/* number of jobs that are not over */
	bool lazy;			/* parts and CPUs are at the time of their last event, not at `now` */
	u64 random;
	u64 next_poll;			/* when the kernel thread looks next; U64_MAX: never */
	bool jobs;			/* a part has policy `job` */
	bool serving;			/* a thread serves several tasks */
	bool gpu_news;			/* the GPU has changed: a task may have to be woken */
	struct gpurt_sim_event *events;
	u64 room, used;
};

/* simulate.c */
/* A simulation at time 0; NULL without memory.  @stats and all that the config points to must outlive it. */
struct sim *sim_new(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		    const struct gpurt_sim_segment *segments, struct gpurt_sim_stats *stats);
void sim_free(struct sim *s);
bool sim_valid(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
	       const struct gpurt_sim_segment *segments);
u64 sim_draw(struct sim *s);
/* A number below @n, drawn or chosen. */
u64 sim_below(struct sim *s, u64 n);
/* Stores an event if there is room.  @t NULL: it concerns all tasks.  @where: as in struct gpurt_sim_event. */
void sim_record(struct sim *s, u32 kind, const struct job_task *t, int where, u64 time, u64 duration);
/* The order of work in the TSG on the GPU of @p may have changed. */
void sim_reordered(struct part *p, const struct gpurt_vgpu_tsg *tsg, u64 when);

/* sim_task.c: the activities of a task */
void sim_start_job(struct sim *s, struct job_task *t);
/* Starts a job by a thread that has just ended one: it does not wake up for this one. */
void sim_go_on(struct sim *s, struct job_task *t);
/* Carries out the next activity that takes no time, for a task that has its CPU.  Returns false if there is none. */
bool sim_act(struct sim *s, struct job_task *t);
/* Wakes the tasks whose wait for the GPU is over.  Returns whether there were any. */
bool sim_wake(struct sim *s);
/* Call after a scheduling decision: a task that sleeps for the GPU may own it now, and another may be boosted. */
void sim_decided(struct sim *s);

/* sim_resource.c: resources that one task at a time can hold */
/* Takes the resource of the task's segment.  Returns false if it waits. */
bool sim_take(struct sim *s, struct job_task *t);
/* The segment is over.  Returns the task that has the resource now; NULL: none. */
struct job_task *sim_give(struct sim *s, struct job_task *t);
/* Whether the task spins for a resource, or holds one for which others spin: nothing preempts it. */
bool sim_unpreempted(const struct sim *s, const struct job_task *t);
/* The priority that a task has from the resource that it holds. */
u32 sim_inherited(const struct sim *s, const struct job_task *t);

/* sim_chain.c: links between tasks */
bool sim_link(struct sim *s);	/* false without memory */
/* A job of @t is over: releases, on its own CPU, the jobs that waited for it last. */
void sim_trigger(struct sim *s, const struct job_task *t);
/*
 * Releases such jobs on other CPUs, after all other events of this instant: they do not preempt a job that completes at
 * it.  Returns whether there were any.
 */
bool sim_release_triggered(struct sim *s);
/* Time passes: jobs that have started read.  Call at the instant of the start. */
void sim_chain_passes(struct sim *s);
/* The job of @t is over, and has written. */
void sim_chain_ends(struct sim *s, struct job_task *t);
/* Replaces times by ages, for an exploration. */
void sim_strip_chains(struct sim *s);

/* sim_yield.c: begin by yield */
void sim_yield_init(struct job_task *t);
void sim_yield_begin(struct sim *s, struct job_task *t);
void sim_yield_end(struct sim *s, struct job_task *t);
void sim_yield_launch(struct sim *s, struct job_task *t, u64 duration);
bool sim_yield_goes_on(struct sim *s, struct job_task *t, u64 when);
u64 sim_yield_next(const struct sim *s);
void sim_yield_happen(struct sim *s);

/* sim_thread.c: threads that serve several tasks */
/* Whether a job of @t that is released now is skipped: a late timer has only one job to be served. */
bool sim_skipped(const struct job_task *t);
/* Threads that are free begin a job that has been released. */
void sim_serve(struct sim *s);
/* The job of @t is over: its thread goes on with its next job. */
void sim_served(struct sim *s, struct job_task *t);

/* sim_run.c: which task has each CPU, and the passing of time */
void sim_switch_to(struct sim *s, struct cpu *cpu, struct job_task *t);
/* Brings the task that has the CPU to the present.  Call before another task changes its activity. */
void sim_bring(struct sim *s, struct cpu *cpu);
/* The time of the next event, except releases; U64_MAX: there is none. */
u64 sim_next(const struct sim *s);
/* Lets time pass until @next.  A job that is released then does not preempt a job that completes then. */
void sim_pass(struct sim *s, u64 next);
void sim_release(struct sim *s, struct job_task *t);
/* Carries out all events of this instant. */
void sim_settle(struct sim *s);
/* Policy `job`: the kernel thread looks, if it is time to. */
void sim_look(struct sim *s);
/* Runs until all jobs have completed.  Returns 0 or -GPURT_SIM_ETIME. */
int sim_run(struct sim *s);

#endif
