/* SPDX-License-Identifier: GPL-2.0 */
/* A client from begin to end: what each file offers. */
#ifndef GPURT_CLIENTS_ROOM_H
#define GPURT_CLIENTS_ROOM_H

#include <linux/kernel.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "core/budget.h"
#include "state/boost.h"
#include "state/team.h"

/* client.c.  Clients come and go, and decisions are taken for them. */
struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file);
void gpurt_client_destroy(struct gpurt_client *client);
void gpurt_client_take_off(struct gpurt_client *client);
void gpurt_client_gone(struct gpurt_client *client, bool process);
void gpurt_client_reap(struct gpurt_gpu *gpu);
void gpurt_client_disband(struct gpurt_gpu *gpu);
void gpurt_client_drain(struct gpurt_gpu *gpu);

/* decisions.c.  Decisions for a client. */
int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 form, u32 *state);
int gpurt_client_end(struct gpurt_client *client);
int gpurt_client_agent(struct gpurt_client *client, struct gpurt_agent *agent);
int gpurt_client_priority(struct gpurt_client *client, u32 priority);

/* files.c.  The clients of a descriptor. */
bool gpurt_file_is_alive(const struct gpurt_file *file);
struct gpurt_client *gpurt_file_client(struct gpurt_file *file, u32 index);
void gpurt_file_gone(struct gpurt_file *file, bool process);

/* wait.c.  Calls that wait. */
int gpurt_wait_for(struct gpurt_client *client, struct gpurt_wait *w);
int gpurt_wait_for_order(struct gpurt_client *client, struct gpurt_order *o);
void gpurt_wait_polled(struct gpurt_client *client);

/* news.c.  Drivers' news of clients reach the scheduler. */
void gpurt_client_hear(struct gpurt_client *client);
void gpurt_news_init(struct gpurt_client *client);
void gpurt_news_stop(struct gpurt_client *client);

/* aftermath.c.  What follows an update. */
void gpurt_aftermath_init(struct gpurt_gpu *gpu);

/* policy.c.  A GPU's policy, and the way in which policy `job` notices.  The policies' decisions are core/sched.c. */
#define GPURT_POLICY_SPANNED \
	"a group is in segments on several GPUs, which no lock policy can have; try again later"

int gpurt_policy_check(void);
const char *gpurt_policy_words(void);
void gpurt_policy_init(struct gpurt_gpu *gpu);
void gpurt_policy_stop(struct gpurt_gpu *gpu);
int gpurt_policy_may(struct gpurt_gpu *gpu, u32 policy);
int gpurt_policy_set(struct gpurt_gpu *gpu, u32 policy, u32 notice, u64 poll_ns, const char **why);

/* exempt.c.  Clients whose TSGs stay on every runlist, by the administrator's rules. */
void gpurt_exempt_apply(struct gpurt_client *client);
void gpurt_exempt_tell(struct gpurt_gpu *gpu);
bool gpurt_exempt_matches(const struct gpurt_client *client);

/* budgets.c.  A budget's clients: those of a process and its descendants, or of a cgroup and the cgroups below it. */
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

/* The allowance's budget on that GPU; NULL if @allowance is NULL. */
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

/* group.c.  Descriptors join groups, and their clients take their seats. */
int gpurt_group_check(struct gpurt_file *file, const char *name, u32 index, u32 *entering);
int gpurt_group_join(struct gpurt_file *file, const struct gpurt_group_join *asked, u32 own);
int gpurt_group_moved(struct gpurt_file *file, const char *name);
int gpurt_group_first(struct gpurt_client *client, u32 own, u32 right);
int gpurt_group_seat(struct gpurt_client *client, u32 own, bool moved);
void gpurt_group_left(struct gpurt_client *client, u64 now);
void gpurt_group_parted(struct gpurt_client *client);
void gpurt_group_leveled(struct gpurt_client *client);

/* bus.c.  The bus between memory and a GPU: which client may copy now.  The decisions are core/bus.c's. */
int gpurt_bus_begin(struct gpurt_client *client, u32 own, struct gpurt_copy *copy);
int gpurt_bus_go_on(struct gpurt_client *client, struct gpurt_copy *copy);
int gpurt_bus_end(struct gpurt_client *client, const struct gpurt_copy *copy);
void gpurt_bus_relevel(struct gpurt_client *client);
void gpurt_bus_take_off(struct gpurt_client *client);
void gpurt_bus_leave(struct gpurt_client *client);

void gpurt_bus_start(struct gpurt_gpu *gpu);
void gpurt_bus_stop(struct gpurt_gpu *gpu);

#endif
