/* SPDX-License-Identifier: GPL-2.0 */
/* What wakes calls that wait. */
#ifndef GPURT_WAKE_H
#define GPURT_WAKE_H

#include <linux/ktime.h>

struct gpurt_client;
struct kthread_work;

int gpurt_doze(ktime_t *until);
void gpurt_wait_wake(struct gpurt_client *client);
void gpurt_wait_wake_poll(struct kthread_work *work);

#endif
