// SPDX-License-Identifier: GPL-2.0
/*
 * The processes that own descriptors, and how the module learns that one ends.
 *
 * Descriptors may stay when their owner ends, because other processes inherited them; and so may its memory, because a
 * process that it made with vfork() or with CLONE_VM shares it, or because its core is written, which takes seconds.
 * The GPU must not stay with any of those.  So probes of three tracepoints report
 *
 *   signal_deliver	a signal that ends the process.  Its urgent clients are taken off the GPU.  Its other threads
 *			may be in calls still, so the driver keeps the clients until the process has ended
 *   sched_process_exit	the last thread of the process ends.  Its urgent clients are taken off the GPU, and all end
 *   sched_process_exec	the process executes another program.  Likewise
 *
 * A probe must not sleep, and runs with other locks held.  A thread of the highest FIFO priority has the GPUs' threads
 * take the urgent clients off: those that have ever been real-time, and best effort while it owns a GPU as a lock.
 * They alone keep a GPU from others, so when it is handed on must not depend on when an ordinary thread gets a CPU, nor
 * on another GPU whose driver is slow.  A work queue ends all clients, and is enough for the others: a process of an
 * ordinary user, however many descriptors it has, gives that thread nothing to do.
 *
 * A notifier of the address space would wait for drivers inside the SRCU of all notifiers of the machine: a driver that
 * is stuck would stop virtual machines and RDMA as well.
 */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/slab.h>

#include "chardev.h"
#include "client.h"
#include "compat.h"
#include "gpu.h"
#include "owner.h"
#include "processes.h"
#include "tracepoints.h"
#include "workers.h"

#define BATCH 32U	/* so many urgent clients are taken off before the thread rests */

struct gpurt_owner {
	/* With owners_lock held, down to the blank line. */
	struct gpurt_by_process by;	/* of owners */
	bool listed;			/* there; if not, it executes another program, or has ended */
	struct list_head files;		/* whose clients are to end: gpurt_owner_over() */
	struct list_head urgent;	/* gpurt_client.urgent: those taken off already are the last */
	unsigned int users;		/* descriptors */
	struct gpurt_client *taking_off;	/* what take_off is at */
	struct gpurt_file *ending;	/* what end is at */
	bool ends;			/* the process does, or executes another program */

	struct rcu_head rcu;
	struct kthread_work take_off;
	struct work_struct end;
};

static DEFINE_RAW_SPINLOCK(owners_lock);	/* taken with interrupts off */
static struct gpurt_processes owners;	/* changed with owners_lock held; freed by RCU */
static struct kthread_worker *worker;		/* its thread has the highest FIFO priority */

/* Called with owners_lock held, by next(). */
static bool is_to_go(const struct gpurt_client *client, const struct gpurt_owner *owner)
{
	/* What is in a list has its descriptor still: gpurt_owner_let_go(). */
	return client && !list_empty(&client->urgent.node) && client->file->owned.owner == owner &&
	       !client->urgent.taken_off;
}

/*
 * Called with owners_lock held, and while no client is freed.  The client to be taken off next: the one that owns the
 * first one's GPU, if the process has it, or else its bus.  NULL: all have been taken off.
 */
static struct gpurt_client *next(struct gpurt_owner *owner)
{
	struct gpurt_client *client, *runner, *copier;
	struct gpurt_sched_client *core;

	client = list_first_entry_or_null(&owner->urgent, struct gpurt_client, urgent.node);
	if (!client || client->urgent.taken_off)
		return NULL;
	core = READ_ONCE(client->gpu->sched.runner);
	runner = core ? gpurt_client_of(core) : NULL;
	copier = gpurt_bus_holder(client->gpu);
	if (is_to_go(runner, owner))
		client = runner;
	else if (is_to_go(copier, owner))
		client = copier;
	client->urgent.taken_off = true;
	list_move_tail(&client->urgent.node, &owner->urgent);
	return client;
}

/* Takes BATCH of a process's urgent clients off the GPU.  Whether there may be more. */
static bool take_off_some(struct gpurt_owner *owner)
{
	int reading = gpurt_clients_read();
	unsigned int n;

	raw_spin_lock_irq(&owners_lock);
	for (n = 0; n < BATCH; n++) {
		owner->taking_off = next(owner);
		if (!owner->taking_off)
			break;
		raw_spin_unlock_irq(&owners_lock);
		gpurt_client_take_off(owner->taking_off);
		raw_spin_lock_irq(&owners_lock);
	}
	owner->taking_off = NULL;
	raw_spin_unlock_irq(&owners_lock);
	gpurt_clients_done(reading);
	return n == BATCH;
}

/*
 * Nothing on this CPU outranks this thread, and users choose how many descriptors there are.  So after a batch it rests
 * for as long as the batch took, and goes on behind the other processes that end.
 */
static void take_off(struct kthread_work *work)
{
	struct gpurt_owner *owner = container_of(work, struct gpurt_owner, take_off);
	ktime_t began = ktime_get(), rest;

	if (!take_off_some(owner))
		return;
	rest = ktime_sub(ktime_get(), began);
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_hrtimeout(&rest, HRTIMER_MODE_REL);
	kthread_queue_work(worker, work);
}

/* Ends a process's clients. */
static void end(struct work_struct *work)
{
	struct gpurt_owner *owner = container_of(work, struct gpurt_owner, end);
	struct gpurt_file *file;

	raw_spin_lock_irq(&owners_lock);
	for (;;) {
		file = list_first_entry_or_null(&owner->files, struct gpurt_file, owned.node);
		if (!file)
			break;
		owner->ending = file;
		raw_spin_unlock_irq(&owners_lock);
		gpurt_file_gone(file, true);	/* which takes it off the list */
		cond_resched();
		raw_spin_lock_irq(&owners_lock);
		owner->ending = NULL;
	}
	raw_spin_unlock_irq(&owners_lock);
}

/* Called with owners_lock held. */
static struct gpurt_owner *find(struct pid *tgid)
{
	struct gpurt_by_process *by = gpurt_processes_find(&owners, tgid);

	return by ? container_of(by, struct gpurt_owner, by) : NULL;
}

/* Called with owners_lock held.  Its process executes another program, or no descriptor is the owner's any more. */
static void unlist(struct gpurt_owner *owner)
{
	if (owner->listed)
		gpurt_processes_remove(&owners, &owner->by);
	owner->listed = false;
}

/* Whether the process has a descriptor. */
static bool has_descriptor(struct pid *tgid)
{
	bool has;

	rcu_read_lock();
	has = gpurt_processes_find(&owners, tgid);
	rcu_read_unlock();
	return has;
}

/* In a probe.  The process ends soon, or it @ended. */
static void ends(struct pid *tgid, bool ended)
{
	struct gpurt_owner *owner;
	unsigned long flags;

	/* Most processes of the machine have no descriptor.  One that opens its first does not end meanwhile. */
	if (!has_descriptor(tgid))
		return;
	raw_spin_lock_irqsave(&owners_lock, flags);
	owner = find(tgid);
	if (owner) {
		WRITE_ONCE(owner->ends, true);
		if (!list_empty(&owner->urgent))
			kthread_queue_work(worker, &owner->take_off);
		if (ended) {
			unlist(owner);
			queue_work(gpurt_workers, &owner->end);
		}
	}
	raw_spin_unlock_irqrestore(&owners_lock, flags);
}

/* Whether the signal ends the process, as get_signal() in kernel/signal.c decides. */
static bool is_fatal(int signal, const struct k_sigaction *action)
{
	if (action->sa.sa_handler != SIG_DFL || sig_kernel_ignore(signal) || sig_kernel_stop(signal))
		return false;
	return !(current->signal->flags & SIGNAL_UNKILLABLE) || sig_kernel_only(signal);
}

static void on_signal(void *data, int signal, struct kernel_siginfo *info, struct k_sigaction *action)
{
	if (is_fatal(signal, action))
		ends(task_tgid(current), false);
}

static void on_exit(void *data, struct task_struct *task)
{
	if (!atomic_read(&task->signal->live))
		ends(task_tgid(task), true);
}

static void on_exec(void *data, struct task_struct *task, pid_t old, struct linux_binprm *program)
{
	ends(task_tgid(task), true);
}

static struct gpurt_probe probes[] = {
	{ .name = "signal_deliver", .function = on_signal },
	{ .name = "sched_process_exit", .function = on_exit },
	{ .name = "sched_process_exec", .function = on_exec },
};

static struct gpurt_owner *owner_create(struct pid *tgid)
{
	struct gpurt_owner *owner = kzalloc(sizeof(*owner), GFP_KERNEL_ACCOUNT);

	if (!owner)
		return NULL;
	INIT_LIST_HEAD(&owner->files);
	INIT_LIST_HEAD(&owner->urgent);
	owner->by.tgid = get_pid(tgid);
	kthread_init_work(&owner->take_off, take_off);
	INIT_WORK(&owner->end, end);
	return owner;
}

static void owner_free(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct gpurt_owner, rcu));
}

/* Called when no descriptor is the owner's any more, hence when no probe finds it. */
static void owner_destroy(struct gpurt_owner *owner)
{
	kthread_cancel_work_sync(&owner->take_off);
	cancel_work_sync(&owner->end);
	put_pid(owner->by.tgid);	/* which is only compared from now on */
	/* What kfree_rcu() is given the kernel frees by hundreds, up to 6.1 without letting others execute. */
	call_rcu(&owner->rcu, owner_free);
}

/* The caller's process opened the descriptor.  0 or -ENOMEM. */
int gpurt_owner_watch(struct gpurt_file *file)
{
	struct gpurt_owner *made = owner_create(file->tgid), *owner;

	if (!made)
		return -ENOMEM;
	raw_spin_lock_irq(&owners_lock);
	owner = find(file->tgid);
	if (!owner) {
		owner = made;
		gpurt_processes_add(&owners, &owner->by);
		owner->listed = true;
	}
	owner->users++;
	file->owned.owner = owner;
	list_add(&file->owned.node, &owner->files);
	raw_spin_unlock_irq(&owners_lock);
	if (owner != made)
		owner_destroy(made);
	return 0;
}

/* Whether the descriptor's process ends, or executes another program.  Called while its clients have not ended. */
bool gpurt_owner_ends(const struct gpurt_file *file)
{
	return READ_ONCE(file->owned.owner->ends);
}

/* @lasting: until the client ends; else until gpurt_owner_calm(). */
static void make_urgent(struct gpurt_client *client, bool lasting)
{
	struct gpurt_urgent *urgent = &client->urgent;
	struct gpurt_owner *owner;
	unsigned long flags;

	raw_spin_lock_irqsave(&owners_lock, flags);
	if (urgent->over)
		goto unlock;
	owner = client->file->owned.owner;
	if (lasting)
		WRITE_ONCE(urgent->lasting, true);
	if (list_empty(&urgent->node) && (lasting || !owner->ends)) {
		list_add(&urgent->node, &owner->urgent);
		if (owner->ends)
			kthread_queue_work(worker, &owner->take_off);
	}
unlock:
	raw_spin_unlock_irqrestore(&owners_lock, flags);
}

/*
 * Any context, by a caller who keeps the client from being freed.  The client is real-time: when its process ends it is
 * taken off the GPU at once, from now on.
 */
void gpurt_owner_urgent(struct gpurt_client *client)
{
	if (likely(READ_ONCE(client->urgent.lasting)))
		return;
	make_urgent(client, true);
	gpurt_job_urgent(client);
}

/* Called with the gate held.  The client owns the GPU from now on; where it is best effort, as a lock. */
void gpurt_owner_holds(struct gpurt_client *client)
{
	if (!client->core.level)
		make_urgent(client, false);
}

/* Called with the lock of the bus held.  The client copies as best effort from now on. */
void gpurt_owner_copies(struct gpurt_client *client)
{
	make_urgent(client, false);
}

/* Whether the client keeps the GPU or the bus from others. */
static bool keeps_any(const struct gpurt_client *client)
{
	return READ_ONCE(client->gpu->sched.runner) == &client->core ||
	       READ_ONCE(client->copier.node.state) == GPURT_STATE_RUNNING;
}

/*
 * Called with the gate held, or the lock of the bus.  The client does not own the GPU any more, or the bus; it may own
 * the other of the two.  Who is given one says so before make_urgent() takes the lock: so either this sees it, or that
 * sees that the client is not in the list.
 */
void gpurt_owner_calm(struct gpurt_client *client)
{
	struct gpurt_urgent *urgent = &client->urgent;
	unsigned long flags;

	if (likely(READ_ONCE(urgent->lasting) || list_empty(&urgent->node)))
		return;
	raw_spin_lock_irqsave(&owners_lock, flags);
	if (!urgent->lasting && !urgent->over && !keeps_any(client))
		list_del_init(&urgent->node);
	raw_spin_unlock_irqrestore(&owners_lock, flags);
}

/* The client is about to end.  When it returns the client is not being taken off, and will not be. */
void gpurt_owner_let_go(struct gpurt_client *client)
{
	struct gpurt_owner *owner = client->file->owned.owner;
	bool busy;

	/*
	 * If the process ends, the thread at FIFO 99 hands its GPUs on first.  The caller may be an ordinary task that
	 * is kept from its CPU after this.
	 */
	kthread_flush_work(&owner->take_off);
	raw_spin_lock_irq(&owners_lock);
	list_del_init(&client->urgent.node);
	client->urgent.over = true;
	busy = owner->taking_off == client;
	raw_spin_unlock_irq(&owners_lock);
	if (busy)
		kthread_flush_work(&owner->take_off);
}

/* The descriptor's clients are about to end: its process need not end them any more. */
void gpurt_owner_over(struct gpurt_file *file)
{
	raw_spin_lock_irq(&owners_lock);
	list_del_init(&file->owned.node);
	raw_spin_unlock_irq(&owners_lock);
}

/* The descriptor's clients have ended, and the descriptor is about to be freed. */
void gpurt_owner_forget(struct gpurt_file *file)
{
	struct gpurt_owner *owner = file->owned.owner;
	bool busy, last;

	raw_spin_lock_irq(&owners_lock);
	busy = owner->ending == file;
	last = !--owner->users;
	if (last)
		unlist(owner);
	raw_spin_unlock_irq(&owners_lock);
	if (last)
		owner_destroy(owner);
	else if (busy)
		flush_work(&owner->end);
}

int gpurt_owners_start(void)
{
	int err;

	worker = compat_kthread_worker("gpurt-end");
	if (IS_ERR(worker))
		return PTR_ERR(worker);
	err = compat_set_highest_fifo(worker->task);
	if (err) {
		kthread_destroy_worker(worker);
		return err;
	}
	gpurt_probes_find(probes, ARRAY_SIZE(probes));
	err = gpurt_probes_add(probes, ARRAY_SIZE(probes), NULL);
	if (!err)
		return 0;
	kthread_destroy_worker(worker);
	if (err == -EOPNOTSUPP)
		pr_err("gpurt: this kernel does not report the ends of processes (CONFIG_TRACEPOINTS)\n");
	return err;
}

/* Called when there is no descriptor. */
void gpurt_owners_stop(void)
{
	gpurt_probes_remove(probes, ARRAY_SIZE(probes), NULL);
	kthread_destroy_worker(worker);
}
