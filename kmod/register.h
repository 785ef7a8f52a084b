/* SPDX-License-Identifier: GPL-2.0 */
/* The GPUs that drivers have registered, by number.  drv/drv.h has what drivers call. */
#ifndef GPURT_REGISTER_H
#define GPURT_REGISTER_H

#include <linux/types.h>

struct gpurt_gpu;

struct gpurt_gpu *gpurt_gpu_get(u32 index);
u32 gpurt_gpu_count(void);

#endif
