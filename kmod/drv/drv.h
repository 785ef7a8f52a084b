/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface that a GPU driver offers to gpurt.  All policy stays in the module: a driver says
 * which TSGs there are, and carries out updates of the runlist.
 *
 * A driver calls gpurt_gpu_register() once for each GPU, and gpurt_gpu_unregister() before the GPU goes away.  The
 * latter returns when no operation is running and none will start.  Before it returns, commit() has put everyone back
 * on the runlist, or has failed for a quarter of a second.  Every client has got client_close().
 *
 * "With the gate held" means: one such operation at a time for each GPU.  If commit_sleeps is unset, the operation runs
 * in the context of the task that causes it, with preemption off.  It must then not allocate, sleep, or take a lock
 * that sleeps under PREEMPT_RT.  If commit_sleeps is set, the operation runs in the GPU's own thread, which has the
 * highest FIFO priority, and may sleep.  In both cases it must take a bounded time: every client whose decision comes
 * meanwhile waits for it.  While it sleeps, the CPU of the thread that waits for it executes other threads.  Under
 * policy `boosted` the bounds for tasks that spin do not hold then, but the bounds for self-suspending tasks do
 * (docs/boosted.md, "Limits").
 *
 * "In process context" means: may sleep.  These operations are called one at a time for each client.
 *
 * "At any time" means: in process context, but without a lock, beside all other operations.
 *
 * "In any context" means: a driver may call the function from an interrupt, and with any of its own locks held.
 *
 * Locks.  Every operation may take the locks that protect the driver's runlist.  With the gate held and without
 * commit_sleeps these must be raw spinlocks.  So a driver that holds such a lock may call the functions that are for
 * any context.  It must not call gpurt_gpu_register(), gpurt_gpu_unregister() or gpurt_gpu_suspend(), which wait for
 * operations.
 */
#ifndef GPURT_DRV_H
#define GPURT_DRV_H

#include <linux/stddef.h>
#include <linux/types.h>

#include "../uapi/gpurt.h"

/*
 * The version of this interface.  A change that makes an older driver wrong changes the version.  New members are added
 * at the end of struct gpurt_driver_ops.  The size says which members the driver knows; later members count as zero.
 */
#define GPURT_DRIVER_VERSION 1

struct gpurt_agents_facts;
struct gpurt_client;
struct gpurt_gpu;
struct module;
struct pid;

/* The costs of the driver's GPU, in ns; 0: the driver does not know. */
struct gpurt_driver_costs {
	u64 alpha_ns, theta_ns, slice_ns;
};

/* If this GPU is a partition: the whole GPU, and the partition's size; else all 0. */
struct gpurt_driver_part {
	u32 whole;			/* that GPU's number, from 0 on */
	u32 units;			/* compute units of the partition */
	u32 cross;			/* slowdown of its memory-intensive work, thousandths: GPURT_IOC_SUBMIT */
};

/* An update of runlists.  The driver must not keep the pointer. */
struct gpurt_commit {
	void *only;			/* the context of the client that is to be alone; NULL: everyone */
	u64 now;			/* time of the decision, ktime_get_ns() */
	u64 sequence;			/* for gpurt_gpu_committed(); counts up */
	u32 runlists;			/* those that may differ from what they should be */
};

/* GPUs whose TSGs and work the module creates itself: GPURT_CAP_VGPU.  A driver offers all of these or none. */
struct gpurt_work_ops {
	/* In process context.  Errors as in uapi/gpurt.h, GPURT_IOC_TSG_OPEN and GPURT_IOC_TSG_CLOSE. */
	int (*tsg_open)(void *driver, void *ctx, u32 *tsg);
	int (*tsg_close)(void *driver, void *ctx, u32 tsg);
	/* At any time; may sleep.  Errors as GPURT_IOC_SUBMIT. */
	int (*submit)(void *driver, void *ctx, struct gpurt_submit *submit);
	/*
	 * At any time; must not sleep: the caller is about to wait.  Returns 1 if the work is done, since *when.
	 * Returns 0 if it is not: the driver will then call gpurt_client_work_done().  Returns -ENOENT if there is no
	 * such TSG, or the work was never submitted.
	 */
	int (*work_done)(void *driver, void *ctx, u32 tsg, u64 work, u64 *when);
	/* The same for all work of the client. */
	int (*idle)(void *driver, void *ctx, u64 *when);
	/*
	 * In process context.  Errors as GPURT_IOC_TSG_SHAPE; -EPERM if the shape needs a caller with @real_time.
	 * NULL:  TSGs have no levels and slices of their own.
	 */
	int (*tsg_shape)(void *driver, void *ctx, const struct gpurt_tsg_shape *shape, bool real_time);
};

/* GPUs whose commits are carried out by agents in the clients' processes: GPURT_CAP_AGENTS.  All of these or none. */
struct gpurt_agent_ops {
	/*
	 * With the gate held, hence between updates.  At @now the client registers as its process's agent, or reports a
	 * change as the agent.  Errors as GPURT_IOC_AGENT.
	 */
	int (*agent)(void *driver, void *ctx, struct gpurt_agent *agent, u64 now);
	/*
	 * At any time; called once before the order() of the same call.  The agent carried out order @answered, or
	 * failed with @result.  Errors as GPURT_IOC_ORDER.
	 */
	int (*answer)(void *driver, void *ctx, u64 answered, s32 result);
	/*
	 * At any time; must not sleep: the caller is about to wait.  Returns 1 if there is an order newer than
	 * order->answered, and stores it in *order.  Returns 0 if there is none: the driver will then call
	 * gpurt_client_ordered().  Returns -ENOENT without an agent.  The module implements the wait, with its time
	 * limit, its signals, and the end of the GPU.
	 */
	int (*order)(void *driver, void *ctx, struct gpurt_order *order);
	/*
	 * At any time.  Stores what the agents report of the GPU, in place of the driver's name and tier.
	 */
	void (*describe)(void *driver, struct gpurt_agents_facts *facts);
};

/* The first members of every driver's struct gpurt_driver_ops. */
#define GPURT_DRIVER \
	.size = sizeof(struct gpurt_driver_ops), .version = GPURT_DRIVER_VERSION, .owner = THIS_MODULE

/* gpurt_gpu_register() copies it, and the names, so the driver need not keep it. */
struct gpurt_driver_ops {
	u32 size;
	u32 version;			/* GPURT_DRIVER_VERSION */
	/* Stays loaded while the GPU has clients.  The GPU itself may be unregistered at any time. */
	struct module *owner;
	const char *name;
	u32 tier;			/* enum gpurt_tier */
	bool commit_sleeps;
	const struct gpurt_work_ops *work;	/* NULL: the module does not see the GPU's work */
	const struct gpurt_agent_ops *agents;	/* NULL: the driver carries out commits itself */

	/*
	 * In process context.  A process became a client of the GPU.  The driver sets *ctx to its own context for the
	 * client, which it gets in the other operations.  It passes @client to the functions below.
	 */
	int (*client_open)(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx);
	/*
	 * At any time; may be called several times; may be NULL.  The client is about to be closed,
	 * and a commit() that is under way need not wait for it.  With @process, its whole process
	 * ended or executed another program: all clients of that process go.  Not called when the
	 * GPU goes away.
	 */
	void (*client_ends)(void *driver, void *ctx, bool process);
	/*
	 * In process context, the last operation for the client.  Its TSGs and its work are gone.  If commit() had put
	 * them alone on the runlist, another commit() has succeeded since, unless the GPU goes away.  The caller can be
	 * a worker of a queue with WQ_MEM_RECLAIM, so client_close() must not flush work of a queue without that flag.
	 */
	void (*client_close)(void *driver, void *ctx);
	/*
	 * With the gate held.  Make the runlists @c->runlists match the answers that gpurt_may_run() gives from now on.
	 * The TSGs of the client with context @c->only (NULL: of all clients) and of exempt clients are on.  All others
	 * are off.  "Committed" means: every TSG that is off the runlist is preempted as well, and executes nothing
	 * more.
	 *
	 * 0: committed.  -EINPROGRESS: the driver will call gpurt_gpu_committed() within bound_ns, perhaps before this
	 * function returns.  Meanwhile no client has the GPU, decisions are taken, and a newer commit() supersedes this
	 * one.  The driver carries out the newest commit, and need not answer for the others.
	 *
	 * Errors: -ETIMEDOUT: it is not known what executes.  Isolation may be lost, which is reported.
	 * -ENOTRECOVERABLE: the GPU must be reset; no commit() comes until gpurt_gpu_reset_done().  Any other: the
	 * previous commit still holds.  After all errors but -ENOTRECOVERABLE the module tries again after 1 ms, then
	 * 2, up to 128 ms.
	 *
	 * Locks: see the top of this file.
	 */
	int (*commit)(void *driver, const struct gpurt_commit *c);
	/* With the gate held; may be NULL.  From the next commit() on the client is exempt, or is not. */
	void (*exempt)(void *driver, void *ctx, bool exempt);
	/* At any time; may be NULL. */
	void (*costs)(void *driver, struct gpurt_driver_costs *costs);
	/*
	 * In process context, without a lock, beside all other operations; may sleep; may be NULL.  The GPU must be
	 * powered from power(true), which returns 0 or more, or -errno, to power(false).  Calls nest.  A commit() in
	 * progress keeps the GPU powered by itself.  Any error counts as a commit() that failed before it changed
	 * anything, and is tried again.  The module does not call power(true) while a reset or a suspend is under way.
	 */
	int (*power)(void *driver, bool on);
	u64 bound_ns;			/* how long a commit() may be in progress; 0: 10 s */
	/*
	 * Mask of the runlists that are updated one by one; 0: only one, bit 0.  An update, its costs() and its latency
	 * in the statistics are for all runlists together: it is over when the last one is.
	 */
	u32 runlists;
	/* In the GPU's thread, when the driver has asked for it by gpurt_gpu_call(); may sleep; may be NULL. */
	void (*called)(void *driver);
	/*
	 * At any time; may be NULL.  The administrator's exemptions have changed: the answers of
	 * gpurt_process_is_exempt() may differ.  A commit() follows if a client has the GPU alone.
	 */
	void (*exemptions_changed)(void *driver);
	/* At any time; may be NULL. */
	void (*part)(void *driver, struct gpurt_driver_part *part);
	/*
	 * At any time; must not sleep for long; NULL: not known.  Whether the GPU executes nothing, and nothing is
	 * queued that it may execute.  *@asked: whether work is queued that is off the runlist.
	 */
	bool (*quiet)(void *driver, bool *asked);
	const char *device;		/* PCI address or device-tree name; NULL: not known */
	/*
	 * Groups of clients, which are on the runlist together.  A driver offers all of these or none; without them its
	 * clients can be in no group.  In process context, beside all other operations.  With group_open() a group
	 * comes to the GPU, and commit() gets *ctx when the group is to be alone.  At group_close() the group has no
	 * clients left, and no commit() for it will come.  Its last commit() may still be in force, because later ones
	 * failed.
	 */
	int (*group_open)(void *driver, void **ctx);
	void (*group_close)(void *driver, void *group);
	/*
	 * With the gate held, and preemption off.  0: the client's TSGs are also the group's, until client_close().  A
	 * commit() follows if client or group has the GPU alone.  -EBUSY: the client cannot be in that group.
	 */
	int (*group_join)(void *driver, void *ctx, void *group);
};

/* No driver may offer less. */
#define GPURT_DRIVER_SIZE_MIN offsetofend(struct gpurt_driver_ops, called)

/*
 * Both in process context, without a lock.  gpurt_gpu_register() sets *gpu before the first operation is called; on
 * failure *gpu is NULL.  It returns -ENOSPC, -ENOMEM, -EINVAL (another version, or an operation is missing) or -E2BIG
 * (the driver offers something that this module does not know).  After gpurt_gpu_unregister() the driver calls nothing
 * for that GPU.
 */
int gpurt_gpu_register(const struct gpurt_driver_ops *ops, void *driver, struct gpurt_gpu **gpu);
void gpurt_gpu_unregister(struct gpurt_gpu *gpu);
/* In any context.  The GPU's number for users: the lowest one that was free when it was registered. */
u32 gpurt_gpu_number(const struct gpurt_gpu *gpu);

/*
 * In any context.  Asks for a call of called() at @when (ktime_get_ns()), or soon if that is past; replaces an earlier
 * request.  The thread has the highest FIFO priority: called() must be short, and processes must not be able to cause
 * calls without limit.
 */
void gpurt_gpu_call(struct gpurt_gpu *gpu, u64 when);

/*
 * In any context, also with the locks held that commit() takes: it only queues the decision.  The client has @delta
 * more TSGs.  A driver calls it from client_open() for TSGs that are older than the client, and not after
 * client_close().
 */
void gpurt_client_tsgs_changed(struct gpurt_client *client, int delta);

/*
 * In any context, likewise.  The driver killed the client's TSGs, because they faulted or because the GPU was reset.
 * The client's segment ends; calls that wait for the GPU, and the client's next end, fail with EIO.  The driver
 * itself ends waits for work.
 */
void gpurt_client_killed(struct gpurt_client *client);

/*
 * In any context.  Returns a client of the process; NULL: the process has none.  The result is valid until
 * client_close() of that client: the caller holds a lock that the driver's client_close() takes as well.
 */
struct gpurt_client *gpurt_client_find(struct gpurt_gpu *gpu, const struct pid *tgid);

/*
 * In any context, without a lock.  Whether the TSGs of the client, or of all clients of a process, must be on the
 * runlist.  A driver asks for each TSG whenever it builds a runlist.  It builds runlists in commit(), and by itself (a
 * channel is bound, recovery, resume).  Then no TSG that is off comes back behind the module's back.  @client NULL:
 * the TSG's process is no client.  The driver also asks for a new TSG, which is off while another client has the GPU.
 *
 * Both know exemptions of clients only.  For them a process without a client is best effort, whatever the rules say:
 * see gpurt_process_is_exempt().
 */
bool gpurt_may_run(struct gpurt_gpu *gpu, const struct gpurt_client *client);
bool gpurt_process_may_run(struct gpurt_gpu *gpu, const struct pid *tgid);

/*
 * In process context; may sleep.  Whether an exemption is for the process, which need not be a client: it may be a
 * compositor that knows nothing of gpurt.  The module does not know of such a process.  So a driver asks when the
 * process opens the GPU, and again in exemptions_changed().  It keeps the answer with the process's TSGs, and puts
 * exempt TSGs on every runlist.  Rules by name apply to the process's name at that time.
 */
bool gpurt_process_is_exempt(struct pid *tgid);

/* In any context.  Work of the client completed at @when; it was submitted at @since. */
void gpurt_client_work_done(struct gpurt_client *client, u64 when, u64 since);
/*
 * In any context.  The commit() of that number was carried out on these runlists (@err 0), or failed; errors as of
 * commit().  An answer to a superseded commit() does not count.
 */
void gpurt_gpu_committed(struct gpurt_gpu *gpu, u64 sequence, u32 runlists, int err);

/*
 * In any context.  The GPU is being reset (begin), and is usable again (done).  In between decisions are taken, and no
 * client has the GPU; an earlier commit() may still be under way.  Afterwards the runlist is committed anew.  Calls
 * nest.
 */
void gpurt_gpu_reset_begin(struct gpurt_gpu *gpu);
void gpurt_gpu_reset_done(struct gpurt_gpu *gpu);

/* The same for suspend and resume.  gpurt_gpu_suspend() sleeps: no commit() is under way when it returns. */
void gpurt_gpu_suspend(struct gpurt_gpu *gpu);
void gpurt_gpu_resume(struct gpurt_gpu *gpu);

/* In any context, except after client_close().  A commit() that failed may succeed now: try it at once. */
void gpurt_client_retry(struct gpurt_client *client);
/* In any context.  There may be an order for the client, an agent. */
void gpurt_client_ordered(struct gpurt_client *client);
/* In any context.  The client, an agent, has not carried out in time the order given at @since. */
void gpurt_client_late(struct gpurt_client *client, u64 now, u64 since);

#endif
