/* SPDX-License-Identifier: GPL-2.0 */
/* What drivers ask of the module, beside decisions; drv/drv.h describes it. */
#ifndef GPURT_DRIVER_H
#define GPURT_DRIVER_H

#include <linux/hrtimer.h>
#include <linux/kthread.h>

struct gpurt_client;
struct gpurt_gpu;
struct pid;

/* A call of the driver by the GPU's thread. */
struct gpurt_callback {
	struct hrtimer timer;
	struct kthread_work work;
};

void gpurt_news_init(struct gpurt_client *client);
void gpurt_news_stop(struct gpurt_client *client);
void gpurt_driver_init(struct gpurt_gpu *gpu);
void gpurt_driver_stop(struct gpurt_gpu *gpu);

#endif
