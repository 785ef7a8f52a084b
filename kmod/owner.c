// SPDX-License-Identifier: GPL-2.0
/*
 * The processes that own descriptors, and how the module learns that one ends.
 *
 * Descriptors may stay when their owner ends, because other processes inherited them; and so may its memory, because a
 * process that it made with vfork() or with CLONE_VM shares it, or because its core is written, which takes seconds.
 * The GPU must not stay with any of those.  So probes of three tracepoints report
 *
 *   signal_deliver	a signal that ends the process.  Its clients are taken off the GPU.  Its other threads may be in
 *			calls still, so the driver keeps the clients until the process has ended
 *   sched_process_exit	the last thread of the process ends.  Its clients are taken off the GPU, and end
 *   sched_process_exec	the process executes another program.  Likewise
 *
 * A probe must not sleep, and runs with other locks held.  A thread of the highest FIFO priority has the GPUs' threads
 * take the clients off.  They alone decide when a GPU is handed on, so that must not depend on when an ordinary thread
 * gets a CPU, nor on another GPU whose driver is slow.  A work queue ends the clients.
 *
 * A notifier of the address space would wait for drivers inside the SRCU of all notifiers of the machine: a driver that
 * is stuck would stop virtual machines and RDMA as well.
 */
#include <linux/hash.h>
#include <linux/kthread.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "chardev.h"
#include "client.h"
#include "compat.h"
#include "owner.h"
#include "tracepoints.h"

#define BITS 8

struct gpurt_owner {
	/* With owners_lock held, down to the blank line. */
	struct hlist_node node;		/* of owners; not in it: it executes another program, or has ended */
	struct list_head files;		/* those that are not over: gpurt_owner_let_go() */
	unsigned int users;		/* descriptors */
	struct gpurt_file *taking_off;	/* what take_off is at */
	struct gpurt_file *ending;	/* what end is at */

	struct pid *tgid;
	struct kthread_work take_off;
	struct work_struct end;
};

static DEFINE_RAW_SPINLOCK(owners_lock);	/* taken with interrupts off */
static struct hlist_head owners[1 << BITS];
static struct kthread_worker *worker;		/* its thread has the highest FIFO priority */

/* Takes a process's clients off the GPU: the descriptors that this has been done for are the last in its list. */
static void take_off(struct kthread_work *work)
{
	struct gpurt_owner *owner = container_of(work, struct gpurt_owner, take_off);
	struct gpurt_file *file;

	raw_spin_lock_irq(&owners_lock);
	for (;;) {
		file = list_first_entry_or_null(&owner->files, struct gpurt_file, owned.node);
		if (!file || file->owned.taken_off)
			break;
		WRITE_ONCE(file->owned.taken_off, true);
		list_move_tail(&file->owned.node, &owner->files);
		owner->taking_off = file;
		raw_spin_unlock_irq(&owners_lock);
		gpurt_file_take_off(file);
		raw_spin_lock_irq(&owners_lock);
		owner->taking_off = NULL;
	}
	raw_spin_unlock_irq(&owners_lock);
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
		raw_spin_lock_irq(&owners_lock);
		owner->ending = NULL;
	}
	raw_spin_unlock_irq(&owners_lock);
}

/* Called with owners_lock held. */
static struct gpurt_owner *find(struct pid *tgid)
{
	struct gpurt_owner *owner;

	hlist_for_each_entry(owner, &owners[hash_ptr(tgid, BITS)], node)
		if (owner->tgid == tgid)
			return owner;
	return NULL;
}

/* In a probe.  The process ends soon, or it @ended. */
static void ends(struct pid *tgid, bool ended)
{
	struct gpurt_owner *owner;
	unsigned long flags;

	/* Most processes of the machine have no descriptor.  One that opens its first does not end meanwhile. */
	if (hlist_empty(&owners[hash_ptr(tgid, BITS)]))
		return;
	raw_spin_lock_irqsave(&owners_lock, flags);
	owner = find(tgid);
	if (owner) {
		kthread_queue_work(worker, &owner->take_off);
		if (ended) {
			hlist_del_init(&owner->node);
			queue_work(system_unbound_wq, &owner->end);
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
	owner->tgid = get_pid(tgid);
	kthread_init_work(&owner->take_off, take_off);
	INIT_WORK(&owner->end, end);
	return owner;
}

/* Called when no descriptor is the owner's any more, hence when no probe finds it. */
static void owner_destroy(struct gpurt_owner *owner)
{
	kthread_cancel_work_sync(&owner->take_off);
	cancel_work_sync(&owner->end);
	put_pid(owner->tgid);
	kfree(owner);
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
		hlist_add_head(&owner->node, &owners[hash_ptr(owner->tgid, BITS)]);
	}
	owner->users++;
	file->owned.owner = owner;
	list_add(&file->owned.node, &owner->files);
	raw_spin_unlock_irq(&owners_lock);
	if (owner != made)
		owner_destroy(made);
	return 0;
}

/* The descriptor's clients are about to end.  When it returns they are not being taken off, and will not be. */
void gpurt_owner_let_go(struct gpurt_file *file)
{
	struct gpurt_owner *owner = file->owned.owner;
	bool busy;

	/*
	 * If the process ends, the thread at FIFO 99 hands its GPUs on first.  The caller may be an ordinary task that
	 * is kept from its CPU after this.
	 */
	kthread_flush_work(&owner->take_off);
	raw_spin_lock_irq(&owners_lock);
	list_del_init(&file->owned.node);
	busy = owner->taking_off == file;
	raw_spin_unlock_irq(&owners_lock);
	if (busy)
		kthread_flush_work(&owner->take_off);
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
		hlist_del_init(&owner->node);
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
