/* SPDX-License-Identifier: GPL-2.0 */
/* The administrator's budgets, and the clients that are under each. */
#ifndef GPURT_BUDGETS_H
#define GPURT_BUDGETS_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

#include "core/budget.h"

struct gpurt_client;
struct gpurt_seat;
struct pid;

/* A budget's clients: of a process and those that it made, or of a cgroup and those below it. */
struct gpurt_allowance {
	struct kref ref;
	struct rcu_head rcu;		/* gpurt_allowance_describe() */
	/* With the lock of budgets.c held, down to the blank line. */
	struct list_head node;
	bool listed;
	u32 attr;			/* GPURT_A_PID or GPURT_A_CGROUP */
	struct pid *pid;
	char path[GPURT_CGROUP_LEN];

	struct gpurt_budget budget[GPURT_MAX_GPUS];	/* with that GPU's gate held */
};

/* Its budget on that GPU; NULL: there is none, for there is no allowance. */
static inline struct gpurt_budget *gpurt_allowance_budget(struct gpurt_allowance *allowance, u32 index)
{
	return allowance ? &allowance->budget[index] : NULL;
}

int gpurt_allowance_get(u32 attr, const char *path, struct pid *pid, bool make, struct gpurt_allowance **allowance,
			const char **why);
void gpurt_allowance_settle(struct gpurt_allowance *allowance);
void gpurt_allowance_put(struct gpurt_allowance *allowance);
void gpurt_allowance_describe(struct gpurt_client *client, u64 *limit, u64 *period, u32 *action);
void gpurt_allowance_apply(struct gpurt_client *client);
void gpurt_allowance_leave(struct gpurt_client *client);
struct gpurt_allowance *gpurt_allowance_of(struct gpurt_client *client);
bool gpurt_allowance_bars(struct gpurt_seat *seat, const struct gpurt_allowance *allowance, struct gpurt_client *but);
void gpurt_allowance_share(struct gpurt_seat *seat, u64 now);
void gpurt_allowances_forget_gpu(u32 index);
void gpurt_allowances_clear(void);

#endif
