// SPDX-License-Identifier: GPL-2.0
/* An open descriptor of /dev/gpurt: its lifetime, and who waits for it in poll(). */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "base/workers.h"
#include "state/file.h"
#include "state/team.h"

#define POLLERS 8	/* callers of poll() that are woken at once */
#define ENDS_BITS 6
#define ENDS_PATIENCE_MS 100

/* Closed descriptors that are not freed yet, by hash of the user. */
static atomic_t ends[1 << ENDS_BITS];
static DECLARE_WAIT_QUEUE_HEAD(freed);

static atomic_t *ends_of(kuid_t uid)
{
	return &ends[hash_32(__kuid_val(uid), ENDS_BITS)];
}

/* Whether so many of the user's closed descriptors await their release that new ones should wait. */
bool gpurt_file_many_end(kuid_t uid)
{
	return atomic_read(ends_of(uid)) >= GPURT_MANY_ENDS;
}

/*
 * Ordinary workers free closed descriptors.  If a user's processes close them faster than that, the kernel would keep
 * more and more of them.  So these processes wait here before they use the next descriptor.  They do not wait in
 * open(), since misc_open() holds misc_mtx there.  Returns 0, or -ERESTARTSYS if the caller is being killed.
 */
int gpurt_file_await_ends(kuid_t uid)
{
	bool urgent = current->rt_priority || current->policy == SCHED_DEADLINE;
	long left = urgent ? 0 : wait_event_killable_timeout(freed, !gpurt_file_many_end(uid),
							     msecs_to_jiffies(ENDS_PATIENCE_MS));

	return min(left, 0L);
}

/* Waits for ordinary workers, so threads that may outrank them never call it: bury() frees their descriptors. */
static void file_free(struct kref *ref)
{
	struct gpurt_file *file = container_of(ref, struct gpurt_file, ref);

	irq_work_sync(&file->poll_wake);
	cancel_work_sync(&file->slow_poll_wake);
	mmdrop(file->mm);
	gpurt_team_put(file->team);
	put_pid(file->tgid);
	if (atomic_dec_return(ends_of(file->uid)) == GPURT_MANY_ENDS - 1)
		wake_up_all(&freed);
	kfree(file);
}

/* In process context. */
void gpurt_file_put(struct gpurt_file *file)
{
	kref_put(&file->ref, file_free);
}

/*
 * Drops the descriptor's own reference.  If only the opener has ended, the descriptor is still in another process's
 * table, whose size is bounded.
 */
void gpurt_file_close(struct gpurt_file *file)
{
	atomic_inc(ends_of(file->uid));
	gpurt_file_put(file);
}

static int not_woken(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

/* Wakes POLLERS that follow @place in the queue, and moves @place behind them.  Returns whether there are more. */
static bool wake_some(wait_queue_head_t *queue, wait_queue_entry_t *place)
{
	wait_queue_entry_t *one, *next;
	unsigned long flags;
	unsigned int count;

	spin_lock_irqsave(&queue->lock, flags);
	next = list_next_entry(place, entry);
	for (count = 0; count < POLLERS && &next->entry != &queue->head; count++) {
		one = next;
		next = list_next_entry(next, entry);
		if (one->func)	/* wake_up_all() has place entries without a function */
			one->func(one, TASK_NORMAL, 0, NULL);
	}
	list_move_tail(&place->entry, &next->entry);
	spin_unlock_irqrestore(&queue->lock, flags);
	return &next->entry != &queue->head;
}

/* Puts @place before all waiting calls.  Later calls are put before it, and then check their condition. */
static void add_place(wait_queue_head_t *queue, wait_queue_entry_t *place)
{
	init_waitqueue_func_entry(place, not_woken);
	add_wait_queue(queue, place);
}

/*
 * Wakes the callers of poll() that came last, at most POLLERS, and has a worker wake all if there are more.  The
 * process determines their number, and the caller is an interrupt, or a thread that nothing outranks.
 *
 * POLLERS bounds the entries of this queue, not the threads behind them.  An entry can be an epoll descriptor.  The
 * kernel then also wakes all callers that wait for that descriptor in poll() or by other epolls, with interrupts off
 * unless PREEMPT_RT.  The kernel does so for each descriptor of the machine that becomes ready, such as an eventfd.
 */
void gpurt_file_wake_poll(struct gpurt_file *file)
{
	wait_queue_entry_t place;

	add_place(&file->poll, &place);
	if (wake_some(&file->poll, &place))
		queue_work(gpurt_workers, &file->slow_poll_wake);
	remove_wait_queue(&file->poll, &place);
}

static void poll_wake(struct irq_work *work)
{
	gpurt_file_wake_poll(container_of(work, struct gpurt_file, poll_wake));
}

/* Like wake_up_all(), but without full preemption other tasks of that CPU execute from time to time. */
static void slow_poll_wake(struct work_struct *work)
{
	struct gpurt_file *file = container_of(work, struct gpurt_file, slow_poll_wake);
	wait_queue_entry_t place;

	add_place(&file->poll, &place);
	while (wake_some(&file->poll, &place))
		cond_resched();
	remove_wait_queue(&file->poll, &place);
}

/* Makes the queue that poll() waits in, and the works that wake it. */
void gpurt_file_init_poll(struct gpurt_file *file)
{
	init_waitqueue_head(&file->poll);
	init_irq_work(&file->poll_wake, poll_wake);
	INIT_WORK(&file->slow_poll_wake, slow_poll_wake);
}
