// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that wait for the same thing, the most urgent first.  A decision may wake only one thread, however many wait,
 * so it wakes the first.  Each woken thread checks its condition and then wakes the next.
 *
 * The kernel's simple wait queues (swait.h) wake in order of arrival.  There a thread of low priority that is kept from
 * its CPU would keep back the wake-up of a thread of high priority.
 */
#include <linux/sched.h>
#include <linux/sched/rt.h>

#include "base/waiters.h"

void gpurt_waiters_init(struct gpurt_waiters *w)
{
	raw_spin_lock_init(&w->lock);
	w->tree = RB_ROOT_CACHED;
}

/* Called with the lock held. */
static void wake(struct rb_node *node)
{
	struct gpurt_waiter *waiter = rb_entry_safe(node, struct gpurt_waiter, node);

	if (!waiter)
		return;
	waiter->woken = true;
	wake_up_process(waiter->task);
}

/*
 * From now on the calling thread waits, behind threads of its priority.  Afterwards it must check the condition that it
 * waits for.
 */
void gpurt_waiters_add(struct gpurt_waiters *w, struct gpurt_waiter *waiter)
{
	struct rb_node **link = &w->tree.rb_root.rb_node, *parent = NULL;
	unsigned long flags;
	bool first = true;

	*waiter = (struct gpurt_waiter){ .task = current, .priority = current->prio };
	raw_spin_lock_irqsave(&w->lock, flags);
	while (*link) {
		parent = *link;
		if (waiter->priority < rb_entry(parent, struct gpurt_waiter, node)->priority) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			first = false;
		}
	}
	rb_link_node(&waiter->node, parent, link);
	rb_insert_color_cached(&waiter->node, &w->tree, first);
	raw_spin_unlock_irqrestore(&w->lock, flags);
}

/* The calling thread has checked, and goes on waiting: it passes a wake-up that it got to the next waiter. */
void gpurt_waiters_pass_on(struct gpurt_waiters *w, struct gpurt_waiter *waiter)
{
	unsigned long flags;

	if (!READ_ONCE(waiter->woken))
		return;
	raw_spin_lock_irqsave(&w->lock, flags);
	waiter->woken = false;
	wake(rb_next(&waiter->node));
	raw_spin_unlock_irqrestore(&w->lock, flags);
}

/* The calling thread waits no longer. */
void gpurt_waiters_remove(struct gpurt_waiters *w, struct gpurt_waiter *waiter)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&w->lock, flags);
	if (waiter->woken)
		wake(rb_next(&waiter->node));
	rb_erase_cached(&waiter->node, &w->tree);
	raw_spin_unlock_irqrestore(&w->lock, flags);
}

/* Wakes the first waiter: the condition may have come true.  Any context. */
void gpurt_waiters_wake(struct gpurt_waiters *w)
{
	unsigned long flags;

	/* A thread that is not seen here checks its condition later.  Pairs with set_current_state() in wait_on(). */
	smp_mb();
	if (RB_EMPTY_ROOT(&w->tree.rb_root))
		return;
	raw_spin_lock_irqsave(&w->lock, flags);
	wake(rb_first_cached(&w->tree));
	raw_spin_unlock_irqrestore(&w->lock, flags);
}
