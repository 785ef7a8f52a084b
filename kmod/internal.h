/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module's files share.  One gpurt_gpu a registered GPU, one gpurt_file an open descriptor, one
 * gpurt_client a descriptor and a GPU that it has named.
 *
 * Who may touch what:
 *   gpurt_file.lock	   makes a descriptor's clients, opens and closes their TSGs; taken outermost
 *   gpurt_gpu.alive (SRCU) read while a decision or a driver's operation is under way; the driver goes away
 *			   behind it
 *   gpurt_gpu.gate	   decisions and runlist updates, see gate.c; everything about scheduling
 *   gpurt_gpu.clients_lock
 *			   changes of the list of clients, see gpurt_clients_read() for those who read it
 */
#ifndef GPURT_INTERNAL_H
#define GPURT_INTERNAL_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/swait.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "core/latency.h"
#include "core/policy.h"
#include "drv/drv.h"

/* Processes are filtered by a hash of their number before anything is done about them. */
#define GPURT_WATCH_BITS 8

/* A decision to be taken at the gate.  Lives on the caller's stack. */
struct gpurt_update {
	int (*decide)(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now);
	u32 level;			/* 0..99: its place among those who wait */
	struct gpurt_client *client;	/* whom it is about, if anyone */
	bool own;			/* by a call on its descriptor, which keeps it from ending */
	int ret;
	/* the gate's */
	struct list_head node;
	struct task_struct *task;
	bool done;
};

struct gpurt_gate {
	raw_spinlock_t lock;
	bool held;
	struct gpurt_queue waiters;	/* gpurt_update.node, by level */
};

struct gpurt_gpu {
	struct kref ref;
	struct rcu_head rcu;
	u32 index;
	const struct gpurt_driver_ops *ops;
	void *driver;

	struct srcu_struct alive;
	bool dying;
	struct completion drained;	/* the driver has been told that every client is gone */

	struct gpurt_gate gate;
	struct gpurt_sched sched;	/* at the gate, down to the blank line */
	struct gpurt_latency latency[GPURT_CAUSE_COUNT];
	u64 commits;
	u64 updated_ns;			/* how long they took in all */
	u64 faults;			/* updates that the driver could not carry out */
	u64 everyone_since;		/* when the runlist last became everyone's */
	u32 retry_cause;
	u64 retry_at;			/* U64_MAX: the last update went well */
	u64 retry_delay;
	bool retry_now;			/* the driver thinks that it would go well; set without the gate */
	u64 armed;			/* what the timer is set to */
	bool wanted;			/* somebody wants to know of events */

	atomic_t waiting;		/* threads that wait, and clients that were ever polled */
	struct gpurt_sched_client *runner;	/* sched.runner once carried out, for readers */
	bool fault;			/* the runlist is not what it should be */
	struct mutex clients_lock;	/* changes of clients */
	struct list_head clients;

	struct kthread_worker *worker;	/* highest FIFO priority */
	struct hrtimer timer;		/* budgets, and updates that must be tried again */
	struct kthread_work tick_work;
	struct kthread_work delegated_work;
	struct work_struct resume_work;

	struct mutex job_lock;		/* who changes how policy `job` notices */
	u32 notice;
	u64 poll_ns;
	bool job_active;
	bool job_probed;		/* the tracepoints' probes are in */
	u64 job_rest;			/* the thread does not look again before */
	struct hrtimer job_timer;
	struct irq_work job_irq;
	struct kthread_work job_work;
	atomic_t watched[1 << GPURT_WATCH_BITS];
};

struct gpurt_client {
	struct gpurt_sched_client core;	/* at the gate */
	u64 granted_at;
	struct gpurt_gpu *gpu;
	struct gpurt_file *file;
	void *ctx;			/* the driver's */
	struct list_head node;		/* of gpu->clients; empty once the client is gone */
	bool listed;			/* under gpu->clients_lock */
	bool gone;			/* at the gate */
	u64 id;
	struct pid *tgid;
	char comm[GPURT_COMM_LEN];
	struct swait_queue_head waiters;	/* for grants and completions */
	atomic_t wakes;				/* how often they were woken */
	struct swait_queue_head orders;		/* the call that waits for the agent's next order */
	atomic_t ordering;			/* there is one */
	atomic_t completions;
	int seen;			/* completions that GPURT_IOC_WAIT has told of */
	bool polled;			/* under file->lock */
	struct rcu_head rcu;
};

struct gpurt_file {
	struct mutex lock;		/* clients, and their TSGs */
	struct gpurt_client *clients[GPURT_MAX_GPUS];
	bool gone;			/* its process died or executed another program */
	struct pid *tgid;
	char comm[GPURT_COMM_LEN];
	wait_queue_head_t poll;
	struct irq_work poll_wake;	/* wake-ups of poll() may come from where the queue cannot be locked */
	struct mmu_notifier owner;
};

/* gate.c: decisions, one at a time, in order of GPU priority */
void gpurt_gate_init(struct gpurt_gate *gate);
int gpurt_gate_update(struct gpurt_gpu *gpu, struct gpurt_update *u);
void gpurt_gate_delegated(struct kthread_work *work);

/* gpu.c: GPUs that drivers register */
struct gpurt_gpu *gpurt_gpu_get(u32 index);
void gpurt_gpu_put(struct gpurt_gpu *gpu);
u32 gpurt_gpu_count(void);
/* While it is true the driver's operations may be called; ends with gpurt_gpu_release(). */
bool gpurt_gpu_hold(struct gpurt_gpu *gpu, int *token);
void gpurt_gpu_release(struct gpurt_gpu *gpu, int token);

/* sched.c: what the core asks for, and its timer */
int gpurt_sched_check(void);
void gpurt_sched_init_gpu(struct gpurt_gpu *gpu);
void gpurt_sched_stop_gpu(struct gpurt_gpu *gpu);
void gpurt_sched_after(struct gpurt_gpu *gpu, u64 now);
int gpurt_update(struct gpurt_gpu *gpu, struct gpurt_update *u);

/* client.c */
struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file);
void gpurt_client_gone(struct gpurt_client *client, bool process);
void gpurt_clients_drain(struct gpurt_gpu *gpu);
void gpurt_client_free(struct gpurt_client *client);
bool gpurt_client_granted(const struct gpurt_client *client);
void gpurt_client_wake(struct gpurt_client *client);
void gpurt_client_polled(struct gpurt_client *client);
int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 *state);
int gpurt_client_end(struct gpurt_client *client);
void gpurt_client_tsg(struct gpurt_client *client, bool opened);
void gpurt_client_tsgs(struct gpurt_client *client, u32 count);
int gpurt_client_priority(struct gpurt_client *client, u32 priority);
int gpurt_client_budget(struct gpurt_client *client, u64 limit, u32 action);
void gpurt_client_exempt(struct gpurt_client *client);
int gpurt_clients_read(void);
void gpurt_clients_done(int token);
bool gpurt_clients_reading(void);
void gpurt_clients_stop(void);
#define gpurt_for_each_client(client, gpu) \
	list_for_each_entry_rcu(client, &(gpu)->clients, node, gpurt_clients_reading())

/* exempt.c: whose TSGs stay on every runlist */
int gpurt_exempt_change(u32 attr, const char *what, struct pid *pid, bool add, const char **why);
bool gpurt_exempt_matches(const struct gpurt_client *client);
void gpurt_exempt_clear(void);

/* job.c: policy `job`, which watches tasks */
void gpurt_job_start(void);
void gpurt_job_init_gpu(struct gpurt_gpu *gpu);
int gpurt_job_set_policy(struct gpurt_gpu *gpu, u32 policy, u32 notice, u64 poll_ns, const char **why);
void gpurt_job_stop(struct gpurt_gpu *gpu);
void gpurt_job_tsg_opened(struct gpurt_gpu *gpu);
void gpurt_job_watch(struct gpurt_gpu *gpu, struct pid *tgid, int change);
bool gpurt_job_can_notify(void);

/* events.c: what happened, for tracers and for readers of the multicast group */
bool gpurt_events_wanted(void);
void gpurt_event(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 time, u32 cause, u64 latency);
int gpurt_events_start(void);
void gpurt_events_stop(void);

/* netlink.c */
int gpurt_netlink_start(void);
void gpurt_netlink_stop(void);
struct gpurt_record;
bool gpurt_netlink_heard(void);
void gpurt_netlink_send(const struct gpurt_record *record);

/* chardev.c */
int gpurt_chardev_start(void);
void gpurt_chardev_stop(void);

/* drv/agent.c */
int gpurt_agents_start(void);
void gpurt_agents_stop(void);

/* drv/vgpu.c */
int gpurt_vgpu_start(void);
void gpurt_vgpu_stop(void);

#ifdef GPURT_DEBUG
int gpurt_selftest(void);
#else
static inline int gpurt_selftest(void) { return 0; }
#endif

#ifdef GPURT_KUNIT
extern struct kunit_suite gpurt_ring_suite;
void gpurt_kunit_start(void);
void gpurt_kunit_stop(void);
#else
static inline void gpurt_kunit_start(void) { }
static inline void gpurt_kunit_stop(void) { }
#endif

static inline struct gpurt_client *gpurt_client_of(struct gpurt_sched_client *c)
{
	return container_of(c, struct gpurt_client, core);
}

#endif
