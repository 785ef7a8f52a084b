/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that a patched driver knows, and those that are clients of its GPU. */
#ifndef GPURT_DRV_PORT_PROCESSES_H
#define GPURT_DRV_PORT_PROCESSES_H

#include <linux/list.h>
#include <linux/rtmutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "../base/processes.h"
#include "drv.h"

struct port_processes {
	struct rt_mutex lock;		/* for changes, down to the blank line; the tree is read under RCU */
	struct gpurt_processes tree;
	struct list_head all;
	struct list_head news;		/* of port_process.news: some of their clients have not been told yet */
	u32 rules;			/* how often the rules have changed */

	struct work_struct telling;
	raw_spinlock_t only_lock;	/* what follows */
	struct port_client *only;	/* the client that the last commit() isolates; NULL: everyone */
	struct list_head killed;	/* of port_process.killed */
};

void port_processes_init(struct port_processes *all);
void port_processes_stop(struct port_processes *all);
void port_processes_tsgs(struct port_processes *all, struct pid *tgid, int change);
void port_processes_killed(struct port_processes *all, struct pid *tgid);
bool port_processes_is_exempt(struct port_processes *all, struct pid *tgid);
void port_processes_exemptions(struct port_processes *all);

struct port_client *port_client_make(struct port_processes *all, struct pid *tgid, struct gpurt_client *client);
void port_client_free(struct port_processes *all, struct port_client *c);
struct port_client *port_group_make(void);
void port_group_free(struct port_processes *all, struct port_client *group);
void port_client_alone(struct port_processes *all, struct port_client *c);

#endif
