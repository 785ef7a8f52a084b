/* SPDX-License-Identifier: GPL-2.0 */
/* Wakes calls that wait. */
#ifndef GPURT_WAKE_H
#define GPURT_WAKE_H

#include <linux/ktime.h>
#include <linux/types.h>

struct gpurt_client;
struct gpurt_wait;
struct kthread_work;

/* For how long a call waits. */
struct gpurt_patience {
	ktime_t until;
	bool endless;
};

void gpurt_patience_start(struct gpurt_patience *p, u64 timeout_ns);
u64 gpurt_patience_left(const struct gpurt_patience *p);
int gpurt_doze(const struct gpurt_patience *p);
int gpurt_wait_work(struct gpurt_client *client, struct gpurt_wait *w);
void gpurt_wait_wake(struct gpurt_client *client);
void gpurt_wait_wake_poll(struct kthread_work *work);

#endif
