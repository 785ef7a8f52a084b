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

/* A decision to be taken with the gate held.  It lives on the caller's stack. */
struct gpurt_update {
	/* Called with the gate held: must not allocate, sleep, or take a lock that sleeps under PREEMPT_RT. */
	int (*decide)(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
	u32 level;			/* 0..99: its place in the queue of those that wait, see core/gate.h */
	struct gpurt_client *client;	/* the client that it is about; NULL: none */
	bool own;			/* a call of the client itself causes it */
	bool rests;			/* best effort: comes after a rest, if it has kept the GPU's thread busy */
	bool in_thread;			/* calls an operation of the driver that sleeps where commit() does */
	bool last;			/* taken although the GPU is dying */
	int ret;			/* what decide() returned */
	int power_err;			/* -EIO or -EAGAIN: the GPU is not powered; 0: it is, or need not be */
	bool fault;			/* afterwards: the runlist is not what it should be */
	/* The gate's own. */
	struct gpurt_turn turn;
	struct task_struct *task;
	bool off;			/* the caller is an owner's thread, and its CPU executes others, or may */
	bool handed;			/* it was the first when the gate was opened last */
	bool told;			/* the caller was killed, and the driver knows */
	bool done;			/* the GPU's thread has carried it out */
};

void gpurt_gate_init(struct gpurt_gate *gate);
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u);
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u);

#endif
