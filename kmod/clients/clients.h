/* SPDX-License-Identifier: GPL-2.0 */
/* A client from begin to end: what each file offers. */
#ifndef GPURT_CLIENTS_ROOM_H
#define GPURT_CLIENTS_ROOM_H

#include <linux/kernel.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "core/boost.h"
#include "core/budget.h"
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
bool gpurt_groups_possible(void);
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

/*
 * boost.c.  Policy `boosted`: threads of clients are raised and lowered.  core/boost.c decides when, and reports it
 * through gpurt_sched_ops.raise.
 */
const char *gpurt_boost_why_not(void);

int gpurt_boost_init(struct gpurt_client *client);
void gpurt_boost_destroy(struct gpurt_client *client);
void gpurt_boost_wanted(struct gpurt_client *client, u32 level);
void gpurt_boost_look(struct gpurt_client *client);
void gpurt_boost_bar(struct gpurt_client *client);
void gpurt_boost_stop(struct gpurt_client *client);

/*
 * These change members of struct gpurt_boosted with its lock held.  Before they release the lock, they change the
 * thread.
 */
void gpurt_boost_settle(struct gpurt_client *client);
void gpurt_boost_have_looked(struct gpurt_client *client);
void gpurt_boost_flush(struct gpurt_client *client);

/* The form of its open segment.  The administrator may since have put it into a group that raises all. */
static inline u32 gpurt_boost_form_now(const struct gpurt_client *client)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	return seat && seat->team->core.all ? GPURT_FORM_OWNER : client->boost.form;
}

int gpurt_boost_load(void);
void gpurt_boost_unload(void);

/* boost_calls.c.  Policy `boosted`: how a client's thread raises and lowers itself in its calls. */
int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised);
bool gpurt_boost_ends(struct gpurt_client *client);
int gpurt_boost_copies(struct gpurt_client *client, u32 own, u32 level);
void gpurt_boost_copied(struct gpurt_client *client);
int gpurt_boost_may_keep(u32 own, u32 *right);
void gpurt_boost_keeps(struct gpurt_client *client, u32 right);
u32 gpurt_boost_queues_at(const struct gpurt_client *client, u32 level);
void gpurt_boost_returns(struct gpurt_client *client, bool raised);

/* At the gate, by and for a thread that is raised while its client owns the GPU. */
bool gpurt_boost_is_owners(const struct gpurt_client *client);
bool gpurt_boost_spins(const struct gpurt_client *client);
void gpurt_boost_waits(struct gpurt_client *client);
void gpurt_boost_handed(struct gpurt_client *client);
bool gpurt_boost_passed(struct gpurt_client *client);

/* Form fence. */
void gpurt_boost_works(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_worked(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_submits(struct gpurt_client *client);
void gpurt_boost_completed(struct gpurt_client *client);

/* The form of a begin with these flags: in a group that raises all threads it is `owner`, whatever they state. */
static inline u32 gpurt_boost_form_of(const struct gpurt_client *client, u32 flags)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	return seat && seat->team->core.all ? GPURT_FORM_OWNER : gpurt_boost_stated(flags);
}

/* Calls gpurt_boost_queues_at() only under policy `boosted`. */
static inline u32 gpurt_client_queues_at(const struct gpurt_client *client, u32 level)
{
	if (likely(READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED))
		return level;
	return gpurt_boost_queues_at(client, level);
}

/*
 * The level at which a caller of any process queues: not above the caller's priority.  Otherwise a preempted caller
 * would keep all callers waiting that are less urgent than the client.
 */
static inline u32 gpurt_client_caller_level(const struct gpurt_client *client)
{
	return gpurt_client_queues_at(client, min_t(u32, gpurt_level_now(client), current->rt_priority));
}

#endif
