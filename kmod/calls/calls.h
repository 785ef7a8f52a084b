/* SPDX-License-Identifier: GPL-2.0 */
/* Entry points: what each file offers. */
#ifndef GPURT_CALLS_ROOM_H
#define GPURT_CALLS_ROOM_H

#include "state/netlink_family.h"

struct file;
struct gpurt_gpu;

/* chardev.c.  /dev/gpurt. */
int gpurt_chardev_start(void);
void gpurt_chardev_stop(void);

/* ioctl.c */
long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

/* cpu.c.  The CPU of the GPUs' threads. */
extern int gpurt_thread_cpu;	/* -1: any */

int gpurt_cpu_start(void);
void gpurt_cpu_stop(void);
int gpurt_cpu_came(unsigned int cpu);
void gpurt_cpu_bind(struct gpurt_gpu *gpu);

/* netlink.c.  The control plane: generic netlink family "gpurt". */
int gpurt_netlink_start(void);
void gpurt_netlink_stop(void);

/* netlink_get.c, netlink_set.c: what netlink.c calls. */
int gpurt_nl_get(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_rules(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_set(struct sk_buff *skb, struct genl_info *info);

#endif
