/* SPDX-License-Identifier: GPL-2.0 */
/* One decision about a GPU at a time, and the update of its runlist: what each file offers. */
#ifndef GPURT_DECIDE_H
#define GPURT_DECIDE_H

#include "state/gpu.h"

struct gpurt_client;
struct gpurt_seat;

/* gate.c.  The gate: decisions about one GPU are taken one at a time, in order of priority on the GPU. */
enum {
	GPURT_UPDATE_OWN	= 1 << 0,	/* caused by a call of the client itself */
	GPURT_UPDATE_RESTS	= 1 << 1,	/* best effort: rests first if it has kept the GPU's thread busy */
	GPURT_UPDATE_IN_THREAD	= 1 << 2,	/* calls a driver's operation that sleeps if commit() does */
	GPURT_UPDATE_LAST	= 1 << 3,	/* taken even if the GPU is dying */
	GPURT_UPDATE_TOLD	= 1 << 4,	/* the gate's own: the caller was killed, and the driver knows */
};

/* The state of the thread that wants the decision. */
enum gpurt_caller {
	GPURT_CALLER_SLEEPS,	/* sleeps, is about to sleep, or has the gate */
	GPURT_CALLER_OFF,	/* the same, of the owner's thread: its CPU may execute others */
	GPURT_CALLER_SPINS,	/* keeps its CPU, and sees at once that it has the gate */
	GPURT_CALLER_HANDED,	/* was the first in the queue when the gate last opened */
	GPURT_CALLER_DONE,	/* the GPU's thread has carried out its update */
};

/* A decision to be taken with the gate held.  It lives on the caller's stack. */
struct gpurt_update {
	/* Called with the gate held: must not allocate, sleep, or take a lock that sleeps under PREEMPT_RT. */
	int (*decide)(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
	u32 level;			/* 0..99: its place in the queue of waiters, see core/queue.h */
	struct gpurt_client *client;	/* the client that the decision is for; NULL: none */
	u32 flags;			/* GPURT_UPDATE_... */
	int ret;			/* what decide() returned */
	int power_err;			/* -EIO or -EAGAIN: the GPU is not powered; 0: powered, or need not be */
	bool fault;			/* out: the runlist is not what it should be */
	/* The gate's own. */
	struct gpurt_turn turn;
	struct task_struct *task;
	enum gpurt_caller caller;	/* of @task; with the lock of the gate held, until it has the gate */
};

void gpurt_gate_init(struct gpurt_gate *gate);
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u);
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u);

/* driver.c.  Drivers' calls into the module, except decisions; drv/drv.h describes them. */
void gpurt_driver_init(struct gpurt_gpu *gpu);
void gpurt_driver_stop(struct gpurt_gpu *gpu);

/* job.c.  How policy `job` notices that the state of a task has changed. */
void gpurt_job_find_tracepoints(void);
bool gpurt_job_can_notify(void);

void gpurt_job_init(struct gpurt_gpu *gpu);
void gpurt_job_start(struct gpurt_gpu *gpu, const char **why);
void gpurt_job_stop(struct gpurt_gpu *gpu);

void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change);
void gpurt_job_join(struct gpurt_client *client);
void gpurt_job_leave(struct gpurt_client *client);
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu);

/* runlist.c.  The runlist of one GPU: carries out the updates that the scheduler (core/sched.c) asks for. */
void gpurt_runlist_init(struct gpurt_gpu *gpu);
void gpurt_runlist_conclude(struct gpurt_gpu *gpu);
void gpurt_runlist_look(struct gpurt_gpu *gpu);
bool gpurt_runlist_is_held(const struct gpurt_gpu *gpu);
bool gpurt_runlist_is_off(const struct gpurt_client *client);
bool gpurt_client_granted(const struct gpurt_client *client);
void gpurt_grants_settle(struct gpurt_gpu *gpu, struct gpurt_client *client, u64 now);
u64 gpurt_stuck_limit(const struct gpurt_gpu *gpu);
void gpurt_stuck_arm(struct gpurt_gpu *gpu);

/* Called with the gate held: decide() functions of the updates that updates.c requests. */
int gpurt_runlist_tick(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
int gpurt_runlist_renew(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
int gpurt_runlist_give_all(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);

/* stuck.c.  Notices that the owner of a GPU waits for a program that waits for the GPU. */
void gpurt_stuck_init(struct gpurt_gpu *gpu);
void gpurt_stuck_stop(struct gpurt_gpu *gpu);
void gpurt_stuck_died(struct gpurt_client *client);

/* updates.c.  Updates of the runlist that no caller asks for. */
void gpurt_updates_init(struct gpurt_gpu *gpu);
void gpurt_updates_seat(struct gpurt_seat *seat);
void gpurt_updates_drain(struct gpurt_gpu *gpu);
void gpurt_updates_stop(struct gpurt_gpu *gpu);
void gpurt_updates_refresh(struct gpurt_gpu *gpu);

#endif
