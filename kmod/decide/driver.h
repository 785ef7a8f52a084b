/* SPDX-License-Identifier: GPL-2.0 */
/* Drivers' calls into the module, except decisions; drv/drv.h describes them. */
#ifndef GPURT_DRIVER_H
#define GPURT_DRIVER_H

struct gpurt_gpu;

void gpurt_driver_init(struct gpurt_gpu *gpu);
void gpurt_driver_stop(struct gpurt_gpu *gpu);

#endif
