// SPDX-License-Identifier: GPL-2.0
/*
 * The processes that opened descriptors, and how the module learns that one ends.
 *
 * Descriptors may stay when their opener ends, because other processes inherited them.  The opener's memory may stay,
 * because a process that it made with vfork() or with CLONE_VM shares it.  It also stays while its core is written,
 * which takes seconds.  The GPU must not wait for any of these.  So probes of three tracepoints report
 *
 *   signal_deliver	a signal that ends the process.  Its urgent clients are taken off the GPU.  Its other threads
 *			may be in calls still, so the driver keeps the clients until the process has ended
 *   sched_process_exit	the last thread of the process ends.  Its urgent clients are taken off the GPU, and all end
 *   sched_process_exec	the process executes another program.  Likewise
 *
 * A probe must not sleep, and runs with other locks held.  A thread of the highest FIFO priority has the GPUs' threads
 * take the urgent clients off.  Urgent clients are those that have ever been real-time, and best-effort clients while
 * they own a GPU as a lock.  Only urgent clients keep a GPU from others.  So the time at which a GPU is handed on must
 * not depend on when an ordinary thread gets a CPU, nor on another GPU whose driver is slow.  A work queue ends all
 * clients, and is enough for clients that are not urgent.  A process of an ordinary user, however many descriptors it
 * has, gives the thread nothing to do.
 *
 * A notifier of the address space would wait for drivers inside the SRCU of all the machine's notifiers.  A stuck
 * driver would stop virtual machines and RDMA as well.
 */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/slab.h>
#include <trace/events/sched.h>
#include <trace/events/signal.h>

#include "base/deps.h"
#include "base/processes.h"
#include "base/tracepoints.h"
#include "base/workers.h"
#include "compat.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/team.h"

#define BATCH 32U	/* urgent clients that are taken off before the thread rests */

struct gpurt_opener {
	/* openers_lock protects these, down to the blank line. */
	struct gpurt_by_process by;	/* of openers */
	bool listed;			/* in openers; false: it executes another program, or has ended */
	struct list_head files;		/* whose clients are to end: gpurt_exits_over() */
	struct list_head urgent;	/* gpurt_client.urgent, those already taken off at the end */
	unsigned int users;		/* descriptors */
	struct gpurt_client *taking_off;	/* the client that take_off works on */
	struct gpurt_file *ending;	/* the descriptor that end works on */
	bool ends;			/* the process ends, or executes another program */

	struct rcu_head rcu;
	struct kthread_work take_off;
	struct work_struct end;
};

static DEFINE_RAW_SPINLOCK(openers_lock);	/* taken with interrupts off */
static struct gpurt_processes openers;	/* changed with openers_lock held; freed by RCU */
static struct kthread_worker *worker;		/* its thread has the highest FIFO priority */
static const struct gpurt_exits_ops *ops;
static GPURT_DEP(exits_take_off);

/* Called with openers_lock held, by next(). */
static bool is_to_go(const struct gpurt_client *client, const struct gpurt_opener *opener)
{
	/* A listed client still has its descriptor: gpurt_exits_let_go(). */
	return client && !list_empty(&client->urgent.node) && client->file->opened.opener == opener &&
	       !client->urgent.taken_off;
}

/*
 * Likewise.  The process's client that keeps others off the GPU: the owner, or a member that is in a segment of the
 * group that is the owner.  NULL: there is no such client.
 */
static struct gpurt_client *find_runner(const struct gpurt_gpu *gpu, const struct gpurt_opener *opener)
{
	struct gpurt_sched_client *core = READ_ONCE(gpu->sched.runner);
	struct gpurt_client *member;
	struct gpurt_seat *seat;

	if (!core)
		return NULL;
	seat = gpurt_seat_of(core);
	if (!seat)
		return gpurt_client_of(core);
	list_for_each_entry_rcu(member, &seat->members, in_seat, gpurt_clients_reading())
		if (READ_ONCE(member->core.depth) && is_to_go(member, opener))
			return member;
	return NULL;
}

/*
 * Called with openers_lock held, and while no client is freed.  The client to take off next.  On the GPU of the first
 * listed client it is the process's client that owns the GPU.  Otherwise it is its client that has the bus, else the
 * first itself.  NULL: all have been taken off.
 */
static struct gpurt_client *next(struct gpurt_opener *opener)
{
	struct gpurt_client *client, *runner, *copier;

	client = list_first_entry_or_null(&opener->urgent, struct gpurt_client, urgent.node);
	if (!client || client->urgent.taken_off)
		return NULL;
	runner = find_runner(client->gpu, opener);
	copier = gpurt_bus_holder(client->gpu);
	if (is_to_go(runner, opener))
		client = runner;
	else if (is_to_go(copier, opener))
		client = copier;
	client->urgent.taken_off = true;
	list_move_tail(&client->urgent.node, &opener->urgent);
	return client;
}

/* Takes BATCH of a process's urgent clients off the GPU.  Returns whether there may be more. */
static bool take_off_some(struct gpurt_opener *opener)
{
	int reading = gpurt_clients_read();
	unsigned int n;

	gpurt_dep_begin(&exits_take_off);
	raw_spin_lock_irq(&openers_lock);
	for (n = 0; n < BATCH; n++) {
		opener->taking_off = next(opener);
		if (!opener->taking_off)
			break;
		raw_spin_unlock_irq(&openers_lock);
		ops->take_off(opener->taking_off);
		raw_spin_lock_irq(&openers_lock);
	}
	opener->taking_off = NULL;
	raw_spin_unlock_irq(&openers_lock);
	gpurt_dep_end(&exits_take_off);
	gpurt_clients_done(reading);
	return n == BATCH;
}

/*
 * Nothing on this CPU outranks this thread, and users choose how many descriptors there are.  So after a batch it rests
 * for as long as the batch took, and continues after the other ending processes.
 */
static void take_off(struct kthread_work *work)
{
	struct gpurt_opener *opener = container_of(work, struct gpurt_opener, take_off);
	ktime_t began = ktime_get(), rest;

	if (!take_off_some(opener))
		return;
	rest = ktime_sub(ktime_get(), began);
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_hrtimeout(&rest, HRTIMER_MODE_REL);
	kthread_queue_work(worker, work);
}

/* Ends a process's clients. */
static void end(struct work_struct *work)
{
	struct gpurt_opener *opener = container_of(work, struct gpurt_opener, end);
	struct gpurt_file *file;

	raw_spin_lock_irq(&openers_lock);
	for (;;) {
		file = list_first_entry_or_null(&opener->files, struct gpurt_file, opened.node);
		if (!file)
			break;
		opener->ending = file;
		raw_spin_unlock_irq(&openers_lock);
		ops->gone(file, true);		/* takes the file off the list */
		cond_resched();
		raw_spin_lock_irq(&openers_lock);
		opener->ending = NULL;
	}
	raw_spin_unlock_irq(&openers_lock);
}

/* Called with openers_lock held. */
static struct gpurt_opener *find(struct pid *tgid)
{
	struct gpurt_by_process *by = gpurt_processes_find(&openers, tgid);

	return by ? container_of(by, struct gpurt_opener, by) : NULL;
}

/* Called with openers_lock held.  Its process executes another program, or the opener has no descriptor left. */
static void unlist(struct gpurt_opener *opener)
{
	if (opener->listed)
		gpurt_processes_remove(&openers, &opener->by);
	opener->listed = false;
}

/* Whether the process has a descriptor. */
static bool has_descriptor(struct pid *tgid)
{
	bool has;

	rcu_read_lock();
	has = gpurt_processes_find(&openers, tgid);
	rcu_read_unlock();
	return has;
}

/* In a probe.  The process ends soon, or has ended (@ended). */
static void ends(struct pid *tgid, bool ended)
{
	struct gpurt_opener *opener;
	unsigned long flags;

	/*
	 * Most processes of the machine have no descriptor.  A process cannot end while it opens its first descriptor.
	 */
	if (!has_descriptor(tgid))
		return;
	raw_spin_lock_irqsave(&openers_lock, flags);
	opener = find(tgid);
	if (opener) {
		WRITE_ONCE(opener->ends, true);
		if (!list_empty(&opener->urgent))
			kthread_queue_work(worker, &opener->take_off);
		if (ended) {
			unlist(opener);
			queue_work(gpurt_workers, &opener->end);
		}
	}
	raw_spin_unlock_irqrestore(&openers_lock, flags);
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

static void __maybe_unused on_exit(void *data, struct task_struct *task)
{
	if (!atomic_read(&task->signal->live))
		ends(task_tgid(task), true);
}

static void __maybe_unused on_group_exit(void *data, struct task_struct *task, bool group_dead)
{
	if (group_dead)
		ends(task_tgid(task), true);
}

static void on_exec(void *data, struct task_struct *task, pid_t old, struct linux_binprm *program)
{
	ends(task_tgid(task), true);
}

static struct gpurt_probe probes[] = {
	GPURT_PROBE(signal_deliver, on_signal),
	GPURT_PROBE(sched_process_exit, compat_exit_probe(on_exit, on_group_exit)),
	GPURT_PROBE(sched_process_exec, on_exec),
};

static struct gpurt_opener *opener_create(struct pid *tgid)
{
	struct gpurt_opener *opener = kzalloc(sizeof(*opener), GFP_KERNEL_ACCOUNT);

	if (!opener)
		return NULL;
	INIT_LIST_HEAD(&opener->files);
	INIT_LIST_HEAD(&opener->urgent);
	opener->by.tgid = get_pid(tgid);
	kthread_init_work(&opener->take_off, take_off);
	INIT_WORK(&opener->end, end);
	return opener;
}

static void opener_free(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct gpurt_opener, rcu));
}

/* Called when the opener has no descriptor left, hence when no probe finds it. */
static void opener_destroy(struct gpurt_opener *opener)
{
	gpurt_dep_wait(&exits_take_off);
	kthread_cancel_work_sync(&opener->take_off);
	cancel_work_sync(&opener->end);
	put_pid(opener->by.tgid);	/* which is only compared from now on */
	/*
	 * Not kfree_rcu(): the kernel frees its objects by hundreds, and up to 6.1 lets no other task execute
	 * meanwhile.
	 */
	call_rcu(&opener->rcu, opener_free);
}

/* The caller's process opened the descriptor.  0 or -ENOMEM. */
int gpurt_exits_watch(struct gpurt_file *file)
{
	struct gpurt_opener *made = opener_create(file->tgid), *opener;

	if (!made)
		return -ENOMEM;
	raw_spin_lock_irq(&openers_lock);
	opener = find(file->tgid);
	if (!opener) {
		opener = made;
		gpurt_processes_add(&openers, &opener->by);
		opener->listed = true;
	}
	opener->users++;
	file->opened.opener = opener;
	list_add(&file->opened.node, &opener->files);
	raw_spin_unlock_irq(&openers_lock);
	if (opener != made)
		opener_destroy(made);
	return 0;
}

/* Whether the descriptor's process ends, or executes another program.  Called before its clients have ended. */
bool gpurt_exits_ends(const struct gpurt_file *file)
{
	return READ_ONCE(file->opened.opener->ends);
}

/* @lasting: until the client ends; else until gpurt_exits_calm(). */
static void make_urgent(struct gpurt_client *client, bool lasting)
{
	struct gpurt_urgent *urgent = &client->urgent;
	struct gpurt_opener *opener;
	unsigned long flags;

	raw_spin_lock_irqsave(&openers_lock, flags);
	if (urgent->over)
		goto unlock;
	opener = client->file->opened.opener;
	if (lasting)
		WRITE_ONCE(urgent->lasting, true);
	if (list_empty(&urgent->node) && (lasting || !opener->ends)) {
		list_add(&urgent->node, &opener->urgent);
		if (opener->ends)
			kthread_queue_work(worker, &opener->take_off);
	}
unlock:
	raw_spin_unlock_irqrestore(&openers_lock, flags);
}

/*
 * In process context, by a caller who keeps the client from being freed.  The client is, or will soon be, real-time.
 * From now on it is taken off the GPU as soon as its process ends, and policy `job` looks at it with the urgent
 * clients.
 */
void gpurt_exits_urgent(struct gpurt_client *client)
{
	if (likely(READ_ONCE(client->urgent.lasting)))
		return;
	make_urgent(client, true);
	gpurt_looks_urgent(&client->gpu->job.looks, &client->looked);
}

/* From now on or soon, the best-effort client may own the GPU as a lock, or has the bus. */
void gpurt_exits_holds(struct gpurt_client *client)
{
	make_urgent(client, false);
}

/* Whether the client keeps the GPU or the bus from others.  A group's member does so while it is in a segment. */
static bool keeps_any(const struct gpurt_client *client)
{
	bool member = READ_ONCE(client->core.entry) != &client->core;

	if (gpurt_client_owns(client) && (!member || READ_ONCE(client->core.depth)))
		return true;
	return READ_ONCE(client->copier.node.state) == GPURT_STATE_RUNNING;
}

/*
 * Called with the gate or the lock of the bus held.  The client no longer owns the GPU, or no longer has the bus; it
 * may still have the other of the two.  A client that gets either says so before make_urgent() takes the lock.  So
 * either this sees that, or make_urgent() sees that the client is not listed.
 */
void gpurt_exits_calm(struct gpurt_client *client)
{
	struct gpurt_urgent *urgent = &client->urgent;
	unsigned long flags;

	if (likely(READ_ONCE(urgent->lasting) || list_empty(&urgent->node)))
		return;
	raw_spin_lock_irqsave(&openers_lock, flags);
	if (!urgent->lasting && !urgent->over && !keeps_any(client))
		list_del_init(&urgent->node);
	raw_spin_unlock_irqrestore(&openers_lock, flags);
}

/* The client is about to end.  On return the client is not being taken off, and will not be. */
void gpurt_exits_let_go(struct gpurt_client *client)
{
	struct gpurt_opener *opener = client->file->opened.opener;
	bool busy;

	/*
	 * If the process ends, the thread at FIFO 99 first hands on its GPUs.  The caller may be an ordinary task that
	 * loses its CPU after this.
	 */
	gpurt_dep_wait(&exits_take_off);
	kthread_flush_work(&opener->take_off);
	raw_spin_lock_irq(&openers_lock);
	list_del_init(&client->urgent.node);
	client->urgent.over = true;
	busy = opener->taking_off == client;
	raw_spin_unlock_irq(&openers_lock);
	if (busy)
		kthread_flush_work(&opener->take_off);
}

/* The descriptor's clients are about to end: the end of its process need no longer end them. */
void gpurt_exits_over(struct gpurt_file *file)
{
	raw_spin_lock_irq(&openers_lock);
	list_del_init(&file->opened.node);
	raw_spin_unlock_irq(&openers_lock);
}

/* The descriptor's clients have ended, and the descriptor is about to be freed. */
void gpurt_exits_forget(struct gpurt_file *file)
{
	struct gpurt_opener *opener = file->opened.opener;
	bool busy, last;

	raw_spin_lock_irq(&openers_lock);
	busy = opener->ending == file;
	last = !--opener->users;
	if (last)
		unlist(opener);
	raw_spin_unlock_irq(&openers_lock);
	if (last)
		opener_destroy(opener);
	else if (busy)
		flush_work(&opener->end);
}

int gpurt_exits_start(const struct gpurt_exits_ops *what)
{
	int err;

	ops = what;
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
void gpurt_exits_stop(void)
{
	gpurt_probes_remove(probes, ARRAY_SIZE(probes), NULL);
	kthread_destroy_worker(worker);
}
