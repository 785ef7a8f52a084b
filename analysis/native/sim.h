/* SPDX-License-Identifier: GPL-2.0 */
/* What the simulator's files share: a simulation, its CPUs, and its tasks with the job each of them has at hand. */
#ifndef GPURT_SIM_H
#define GPURT_SIM_H

#include "../../kmod/core/gate.h"
#include "../../kmod/core/policy.h"
#include "../../kmod/core/vgpu.h"
#include "simulate.h"

#define BACKLOG 32	/* jobs of one task that may wait for the one before them */

/* What a task does.  From EXECUTING on it wants its CPU. */
enum step {
	IDLE,			/* no job */
	ASLEEP_LOCK,		/* waits for the update lock */
	ASLEEP_GRANT,		/* policies lock-*: waits for the GPU */
	ASLEEP_GPU,		/* its pure GPU segment executes */
	EXECUTING,		/* C or G^m */
	REQUESTING,		/* is about to begin or end a segment */
	HANDED,			/* has been given the update lock */
	UPDATING,		/* holds it: not preemptible */
	SPINNING,		/* like ASLEEP_GPU, busy-waiting */
};

struct job_task {
	const struct gpurt_sim_task *task;
	const struct gpurt_sim_segment *segments;
	struct gpurt_sim_stats *stats;
	enum step step;
	bool in_segment;	/* between begin and end */
	bool gpu_done;
	bool wanted;		/* what the kernel thread has last been told */
	u32 at;			/* segment */
	u64 left;		/* of EXECUTING */
	u64 until;		/* of UPDATING */
	u64 ready_since;	/* order among equals */
	struct gpurt_turn turn;	/* its wait for the update lock, up to UPDATING */
	u64 next_release;
	u64 backlog[BACKLOG];
	u32 queued, head;
	u32 job;
	struct gpurt_sched_client client;
	struct gpurt_vgpu_ctx ctx;
	struct gpurt_vgpu_tsg tsg;
	struct gpurt_vgpu_work work;
};

struct cpu {
	struct job_task *running;
	u64 since;		/* it runs */
	bool updating;		/* what runs is an update */
	bool stale;		/* a task of it has changed since `running` was chosen */
	struct job_task **own;	/* its tasks, in their order */
	u32 count;
	u64 thread_until;	/* the kernel thread has the CPU until then */
};

struct sim {
	struct gpurt_sched sched;	/* first: the callbacks find the simulation by it */
	struct gpurt_vgpu vgpu;
	const struct gpurt_sim_config *config;
	struct job_task *tasks;
	struct cpu *cpus;
	u32 count;
	u64 now;
	u64 order;
	u64 random;
	u64 next_poll;
	struct gpurt_turns turns;	/* the update lock, and those who wait for it */
	bool committed;
	bool gpu_news;			/* someone may have to be woken */
	struct job_task *on_gpu;
	u64 gpu_since;
	struct gpurt_sim_event *events;
	u64 room, used;
};

/* simulate.c */
u64 sim_draw(struct sim *s);
/* Keeps an event, if there is room; @t NULL: of everyone, @cpu -1: of none. */
void sim_record(struct sim *s, u32 kind, const struct job_task *t, int cpu, u64 time, u64 duration);

/* sim_task.c: what a task does */
void sim_start_job(struct sim *s, struct job_task *t);
/* Does what takes no time for a task that has its CPU; false if there is nothing such. */
bool sim_act(struct sim *s, struct job_task *t);
/* Wakes those whose wait on the GPU side is over; whether there were any. */
bool sim_wake(struct sim *s);
/* The scheduler has decided: who sleeps for the GPU may have it, and boosting may have moved. */
void sim_decided(struct sim *s);

/* sim_run.c: who has the CPUs, and time */
void sim_switch_to(struct sim *s, struct cpu *cpu, struct job_task *t);
/* Until all jobs have completed; 0 or -GPURT_SIM_ETIME. */
int sim_run(struct sim *s);

#endif
