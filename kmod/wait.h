/* SPDX-License-Identifier: GPL-2.0 */
/* Calls that wait, and what wakes them. */
#ifndef GPURT_WAIT_H
#define GPURT_WAIT_H

#include <linux/ktime.h>

#include "uapi/gpurt.h"

struct gpurt_client;
struct kthread_work;

int gpurt_doze(ktime_t *until);
int gpurt_wait_for(struct gpurt_client *client, struct gpurt_wait *w);
int gpurt_wait_for_order(struct gpurt_client *client, struct gpurt_order *o);
void gpurt_wait_wake(struct gpurt_client *client);
void gpurt_wait_wake_poll(struct kthread_work *work);
void gpurt_wait_polled(struct gpurt_client *client);

#endif
