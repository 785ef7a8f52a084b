/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The scheduler decides which clients may be on the runlist of one GPU.
 *
 * Clients of one group own the GPU together (group.h).  Statements about a client in a queue, or about the runner, hold
 * for the entry of its group.  A client without a group is its own entry.
 *
 * A host (the kernel module, the emulator, the simulator) reports what clients do; the scheduler answers through struct
 * gpurt_sched_ops.  At any time the runlist image is one of two: everyone, time-sliced (runner == NULL), or one client
 * alone (runner); both include the exempt.  Every decision costs the same however many clients there are.  So what
 * holds for all best-effort clients is reported once, with a NULL client, and never client by client.
 *
 * What the policies select:
 *   timesliced     everyone, always
 *   segment        the real-time client in a segment with the highest priority; among equals the one that
 *                  came to that priority first (an equal never preempts); if there is none, everyone
 *   lock-priority  the client that began first keeps the GPU until its segment ends, best effort included (for
 *                  lock_bound at most: then it is demoted); then the highest priority, then first come
 *   lock-fifo      likewise; then first come
 *   boosted        as segment; and threads are raised at the instants that boost.h names
 *   job            the runnable real-time client with TSGs and the highest priority; if none, everyone
 *
 * The caller serialises all calls for one gpurt_sched and passes a clock that never runs backwards.
 * Nothing here locks, allocates, or reads a clock.
 */
#ifndef GPURT_CORE_SCHED_H
#define GPURT_CORE_SCHED_H

#include "env.h"
#include "../uapi/gpurt.h"
#include "boost.h"
#include "budget.h"
#include "group.h"
#include "queue.h"

#define GPURT_LOCK_BOUND_NS	1000000000ULL	/* gpurt_sched.lock_bound, unless the host says otherwise */

enum gpurt_demoted {
	GPURT_NOT_DEMOTED,
	GPURT_DEMOTED_SEGMENT,
	GPURT_DEMOTED_JOB,
};

struct gpurt_sched_client {
	struct gpurt_sched_client *entry;	/* its entry in the queues: itself, or its group's on this GPU */
	struct gpurt_group_gpu *group;	/* for the entry of a group; NULL: it is a client */
	u32 depth;			/* open segments, nested ones counted; hosts read it at any time */
	bool moving;			/* is becoming a member, hence in no queue */
	u32 tsgs;
	u8 own;				/* 0..99, the task's own priority */
	u8 hint;			/* 1..99 asked for by this segment; 0: none */
	u8 set;				/* by the control plane; GPURT_PRIORITY_OWN: none */
	u8 level;			/* in the queues: derived from these three and from demoted */
	bool runnable;			/* policy `job`: the task is ready to run */
	bool exempt;
	u8 demoted;			/* enum gpurt_demoted: in what its budget or lock_bound was used up */
	bool granted;			/* has been told of the GPU in this segment or job */
	u32 owed;			/* GPURT_EVENT_GRANT or RESUME, not yet told (grants.h); 0: none */
	u64 stamp;			/* equals in a segment are in order of stamps */
	struct list_head in_segments;	/* of gpurt_sched.segments; a member: of gpurt_group_gpu.inside */
	struct list_head in_order;	/* of gpurt_sched.order; a member: of gpurt_group.members */
	struct list_head in_jobs;	/* of gpurt_sched.jobs; a member: of gpurt_group_gpu.working */
	struct gpurt_budget *budget;	/* NULL: none */
	struct gpurt_boost boost;
	u64 segments;			/* begun so far */
	u64 preemptions;
	u64 overruns;
	u64 held_ns;			/* time as the runner; of a member: before it joined */
	u64 joined_ns;			/* of a member: held_ns of its entry when it joined */
};

struct gpurt_sched;

/* A group on one GPU. */
struct gpurt_group_gpu {
	struct gpurt_sched_client core;		/* its entry */
	struct gpurt_group *group;
	struct gpurt_sched *sched;
	u32 members;
	bool unsettled;				/* gpurt_group_settle() is due */
	struct list_head in_group;		/* of gpurt_group.gpus */
	struct list_head in_sched;		/* of gpurt_sched.groups */
	struct list_head inside;		/* members in a segment here */
	struct list_head working;		/* members with a job here */
};

struct gpurt_sched_ops {
	/* Make the runlist @only's (NULL: everyone's), plus the exempt. */
	void (*commit)(struct gpurt_sched *s, struct gpurt_sched_client *only, u32 cause, u64 now);
	/*
	 * enum gpurt_event happened to @c.  @c NULL and PREEMPT: everyone but the new runner and the exempt is off the
	 * runlist now; @c NULL and RESUME: everyone is on it.
	 */
	void (*event)(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 event, u64 now);
	/*
	 * From now on the thread of @c must execute at @level (boost.h); 0 is its own priority.  NULL: the host cannot
	 * do that, and policy `boosted` is refused.
	 */
	void (*raise)(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now);
	/*
	 * The key of a group changed as a whole: gpurt_group_settle() is due on each other GPU of it.  NULL: the host
	 * has no groups.
	 */
	void (*regroup)(struct gpurt_sched *s, struct gpurt_group *group, u64 now);
};

struct gpurt_sched {
	const struct gpurt_sched_ops *ops;
	void *host;			/* the host's own */
	const u64 *stamps;		/* the host's counter of tenures; NULL: no group has been on this GPU */
	u32 policy;
	struct gpurt_sched_client *runner;
	bool updating;			/* policy `boosted`: an update is not over (gpurt_boost_over()) */
	u64 since;			/* the runner's time has been charged up to here */
	u64 runner_since;		/* since when it is the runner */
	u64 lock_bound;			/* ns that best effort may hold a lock; 0: for ever.  The host sets it */
	u64 deadline;			/* call gpurt_tick() then; U64_MAX: no need */
	bool behind;			/* clients of spent budgets must still be demoted: a tick is due */
	struct gpurt_budget *payer;	/* pays for the present update; NULL: no budget does */
	u64 asked;			/* when the scheduler asked for that update */
	/* A demoted client is in none of these: it runs when everyone does. */
	struct gpurt_queue segments;	/* clients in a segment, by level */
	struct gpurt_queue jobs;	/* runnable clients with TSGs, by level */
	struct list_head order;		/* clients in a segment, in order of arrival */
	struct list_head groups;	/* groups in a segment, demoted ones too */
};

void gpurt_sched_init(struct gpurt_sched *s, const struct gpurt_sched_ops *ops, void *host, u64 now);
int gpurt_set_policy(struct gpurt_sched *s, u32 policy, u64 now);
void gpurt_uncharged(struct gpurt_sched *s, u64 now);
void gpurt_updated(struct gpurt_sched *s, u64 now, u64 theta);
void gpurt_tick(struct gpurt_sched *s, u64 now);

void gpurt_sched_client_init(struct gpurt_sched_client *c);
void gpurt_gone(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
int gpurt_begin(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, u32 hint, u64 now);
int gpurt_end(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
int gpurt_job(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 own, bool runnable, u64 now);
int gpurt_set_priority(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 priority, u64 now);
int gpurt_set_budget(struct gpurt_sched *s, struct gpurt_budget *b, u64 limit, u64 period, u32 action, u64 now);
void gpurt_join_budget(struct gpurt_sched *s, struct gpurt_sched_client *c, struct gpurt_budget *b, u64 now);
void gpurt_set_exempt(struct gpurt_sched *s, struct gpurt_sched_client *c, bool exempt, u64 now);
void gpurt_killed(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
void gpurt_set_tsgs(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 count, u64 now);
void gpurt_tsg_opened(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
void gpurt_tsg_closed(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);

void gpurt_group_gpu_init(struct gpurt_group_gpu *g, struct gpurt_group *group, struct gpurt_sched *s);
int gpurt_group_refusal(const struct gpurt_group_gpu *g, const struct gpurt_sched_client *c, bool moved);
int gpurt_group_add(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u32 own, u64 now);
int gpurt_group_move(struct gpurt_group_gpu *g, struct gpurt_sched_client *c, u64 now);
int gpurt_group_set_level(struct gpurt_group_gpu *g, u32 level, u64 now);
void gpurt_group_settle(struct gpurt_group_gpu *g, u64 now);

u32 gpurt_begin_level(u32 set, u32 own, u32 hint);
u32 gpurt_client_begin_level(const struct gpurt_sched_client *c, u32 own, u32 hint);
u32 gpurt_client_level(const struct gpurt_sched_client *c);
u64 gpurt_client_held(const struct gpurt_sched_client *c);
bool gpurt_policy_locks(u32 policy);
bool gpurt_is_spanned(const struct gpurt_sched *s);
bool gpurt_on_runlist(const struct gpurt_sched *s, const struct gpurt_sched_client *c);
u32 gpurt_state_of(const struct gpurt_sched *s, const struct gpurt_sched_client *c);

#endif
