/* SPDX-License-Identifier: GPL-2.0 */
/* The gate: decisions about one GPU are taken one at a time, in order of priority on the GPU. */
#ifndef GPURT_GATE_H
#define GPURT_GATE_H

#include <linux/types.h>

#include "core/gate.h"

struct gpurt_client;
struct gpurt_gate;
struct gpurt_gpu;
struct task_struct;

enum {
	GPURT_UPDATE_OWN	= 1 << 0,	/* a call of the client itself causes it */
	GPURT_UPDATE_RESTS	= 1 << 1,	/* best effort: after a rest, if it has kept the GPU's thread busy */
	GPURT_UPDATE_IN_THREAD	= 1 << 2,	/* calls an operation of the driver that sleeps where commit() does */
	GPURT_UPDATE_LAST	= 1 << 3,	/* taken although the GPU is dying */
	GPURT_UPDATE_TOLD	= 1 << 4,	/* the gate's own: the caller was killed, and the driver knows */
};

/* Where the thread is that wants the decision. */
enum gpurt_caller {
	GPURT_CALLER_SLEEPS,	/* or is about to, or has the gate */
	GPURT_CALLER_OFF,	/* the same, and it is the owner's: its CPU executes others, or may */
	GPURT_CALLER_SPINS,	/* it keeps its CPU, and sees at once that it is handed the gate */
	GPURT_CALLER_HANDED,	/* it was the first when the gate was opened last */
	GPURT_CALLER_DONE,	/* the GPU's thread has carried out what it handed over */
};

/* A decision to be taken with the gate held.  It lives on the caller's stack. */
struct gpurt_update {
	/* Called with the gate held: must not allocate, sleep, or take a lock that sleeps under PREEMPT_RT. */
	int (*decide)(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
	u32 level;			/* 0..99: its place in the queue of those that wait, see core/gate.h */
	struct gpurt_client *client;	/* the client that it is about; NULL: none */
	u32 flags;			/* GPURT_UPDATE_... */
	int ret;			/* what decide() returned */
	int power_err;			/* -EIO or -EAGAIN: the GPU is not powered; 0: it is, or need not be */
	bool fault;			/* afterwards: the runlist is not what it should be */
	/* The gate's own. */
	struct gpurt_turn turn;
	struct task_struct *task;
	enum gpurt_caller caller;	/* of @task; with the lock of the gate held, until it has the gate */
};

void gpurt_gate_init(struct gpurt_gate *gate);
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u);
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u);

#endif
