/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A client: one open descriptor on one GPU.  What the scheduler knows about it is struct gpurt_sched_client, what
 * the driver knows about it is its context.
 */
#ifndef GPURT_CLIENT_H
#define GPURT_CLIENT_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "boost.h"
#include "bus.h"
#include "core/policy.h"
#include "gpu.h"
#include "owner.h"
#include "waiters.h"

struct gpurt_file;
struct gpurt_group;
struct gpurt_process;
struct pid;

struct gpurt_client {
	/* Written with the gate held, down to the blank line. */
	struct gpurt_sched_client core;
	u64 granted_at;
	u64 attempt;			/* number of the last commit that was to make it alone; 0: none was */
	struct gpurt_group *group;	/* whose budget it is under */
	u32 owed;			/* GPURT_EVENT_GRANT or RESUME, to be told once updates succeed again */
	bool gone;			/* the scheduler has forgotten it */
	bool killed;			/* its last segment was ended for it */

	bool pins;			/* the driver's module stays loaded for it */
	bool ended;			/* gpurt_client_gone() was called; with gpurt_file.lock held */
	bool waits;			/* it counts in gpurt_runlist.leaving */
	struct kref ref;		/* the descriptor's, and while it is listed the list's */
	struct gpurt_gpu *gpu;
	struct gpurt_file *file;
	void *ctx;			/* the driver's context */
	struct list_head node;		/* of gpurt_gpu.clients */
	struct gpurt_process *process;
	struct list_head by_process;	/* of gpurt_process.clients */
	struct list_head leaving;	/* of gpurt_gpu.leaving */
	bool listed;			/* with gpurt_gpu.clients_lock held */
	u64 id;
	struct pid *tgid;
	kuid_t uid;
	char comm[GPURT_COMM_LEN];

	atomic_t tsgs;			/* as the driver told; core.tsgs follows */
	bool kill;			/* the driver told that it killed the client's work; killed follows */
	struct kthread_work news;	/* has the GPU's thread take that over, */
	struct work_struct slow_news;	/* or, for best effort, a worker */

	struct gpurt_waiters waiters;		/* for grants and completions */
	struct gpurt_waiters orders;		/* the call that waits for the agent's next order */
	struct kthread_work poll_wake;		/* has the GPU's thread wake poll() */
	struct kthread_work take_off;		/* has it take the client off the GPU */
	struct gpurt_urgent urgent;
	struct gpurt_looked looked;
	struct gpurt_boosted boost;
	struct gpurt_copier copier;
	u64 marks;				/* core/marks.c; several threads may use it at once */
	atomic_t marks_lost;			/* that readers were not told of, and do not know */
	atomic_t ordering;			/* 1: there is such a call */
	atomic_t completions;
	int seen;			/* completions that GPURT_IOC_WAIT has reported */
	bool polled;			/* written with gpurt_file.lock held */
	struct llist_node dead;
};

static inline struct gpurt_client *gpurt_client_of(struct gpurt_sched_client *c)
{
	return container_of(c, struct gpurt_client, core);
}

/* gpurt_boost_queues_at(), of which other policies do not pay for the call. */
static inline u32 gpurt_client_queues_at(const struct gpurt_client *client, u32 level)
{
	if (likely(READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED))
		return level;
	return gpurt_boost_queues_at(client, level);
}

/*
 * At which level a caller queues that need not be a thread of the client's process: not above the caller's priority.
 * Else a caller that is kept from its CPU would keep everyone waiting who is less urgent than the client.
 */
static inline u32 gpurt_client_caller_level(const struct gpurt_client *client)
{
	return gpurt_client_queues_at(client, min_t(u32, READ_ONCE(client->core.level), current->rt_priority));
}

struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file);
void gpurt_client_take_off(struct gpurt_client *client);
void gpurt_client_gone(struct gpurt_client *client, bool process);
void gpurt_client_put(struct gpurt_client *client);

int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 form, u32 *state);
int gpurt_client_end(struct gpurt_client *client);
int gpurt_client_without_segment(const struct gpurt_client *client);
void gpurt_client_hear(struct gpurt_client *client);
int gpurt_client_agent(struct gpurt_client *client, struct gpurt_agent *agent);
int gpurt_client_priority(struct gpurt_client *client, u32 priority);
bool gpurt_client_granted(const struct gpurt_client *client);

u64 gpurt_clients_newest(void);
void gpurt_clients_reap(struct gpurt_gpu *gpu);
void gpurt_clients_drain(struct gpurt_gpu *gpu);
void gpurt_clients_stop(void);

/* Between the first two no client of any GPU is freed.  The caller may sleep. */
int gpurt_clients_read(void);
void gpurt_clients_done(int token);
bool gpurt_clients_reading(void);
#define gpurt_for_each_client(client, gpu) \
	list_for_each_entry_rcu(client, &(gpu)->clients, node, gpurt_clients_reading())

#endif
