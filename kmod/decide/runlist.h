/* SPDX-License-Identifier: GPL-2.0 */
/* The runlist of one GPU: carries out the updates that the scheduler (core/sched.c) asks for. */
#ifndef GPURT_RUNLIST_H
#define GPURT_RUNLIST_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;
struct gpurt_update;

void gpurt_runlist_init(struct gpurt_gpu *gpu);
void gpurt_runlist_prepare(struct gpurt_gpu *gpu, u64 now);
void gpurt_runlist_carry_out(struct gpurt_gpu *gpu);
void gpurt_runlist_set_timer(struct gpurt_gpu *gpu);
void gpurt_runlist_look(struct gpurt_gpu *gpu);
void gpurt_runlist_replay(struct gpurt_gpu *gpu);
bool gpurt_runlist_is_held(const struct gpurt_gpu *gpu);
bool gpurt_runlist_is_off(const struct gpurt_client *client);
bool gpurt_client_granted(const struct gpurt_client *client);

/* Called with the gate held: the decide() functions of the updates that updates.c requests. */
int gpurt_runlist_tick(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
int gpurt_runlist_renew(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
int gpurt_runlist_give_all(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);

#endif
