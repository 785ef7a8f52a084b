/* SPDX-License-Identifier: GPL-2.0 */
/* Updates of the runlist that no caller asks for, and what follows an update. */
#ifndef GPURT_UPDATES_H
#define GPURT_UPDATES_H

struct gpurt_gpu;
struct gpurt_seat;

void gpurt_updates_init(struct gpurt_gpu *gpu);
void gpurt_updates_seat(struct gpurt_seat *seat);
void gpurt_updates_drain(struct gpurt_gpu *gpu);
void gpurt_updates_stop(struct gpurt_gpu *gpu);
void gpurt_updates_refresh(struct gpurt_gpu *gpu);

#endif
