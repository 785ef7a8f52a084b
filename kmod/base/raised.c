// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that are raised above the normal priorities of their CPU, and what they were before.
 *
 * A thread is lowered only if its policy and priority are those that it was raised to.  The kernel offers modules no
 * atomic compare-and-change, so another thread's change within the same microsecond may be lost.
 *
 * The kernel lets a user's processes keep a thread at any priority up to its present one, for good.  So a thread is
 * never raised above the right of its user, whatever priority an administrator sets in the middle of a segment.
 *
 * Changes of one thread are made one at a time, under a lock of its own with priority inheritance.  Only the thread
 * itself and gpurt-boost make changes, so only they wait for each other.  In a kernel with full preemption the thread
 * may lose its CPU to a more urgent thread in the middle of a change.  Then no other thread waits for that CPU.  If
 * gpurt-boost has to change the thread, the thread inherits the highest priority and finishes.
 *
 * A struct gpurt_thread describes a thread while the thread has a reason to be raised.  No call allocates memory: each
 * reason brings along one struct gpurt_thread.  When it is let go it takes one away, perhaps another one.
 *
 * The functions that change something may sleep: kernels 5.3 to 6.4 take the lock of the cpusets to change a thread's
 * scheduling, which others hold for milliseconds.
 */
#include <linux/hash.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "base/raised.h"
#include "compat.h"
#include "core/boost.h"

#define RAISED_BITS 6

unsigned int gpurt_normal = GPURT_NORMAL_DEFAULT;
module_param_named(normal, gpurt_normal, uint, 0444);
MODULE_PARM_DESC(normal, "policy boosted: highest CPU priority of threads that are not raised (default 24)");

/* A thread's scheduling before the thread was raised. */
struct gpurt_saved {
	int policy;			/* SCHED_FIFO or SCHED_RR */
	u8 priority;
	bool reset_on_fork;
};

struct gpurt_thread {
	/* With table_lock held: */
	struct hlist_node node;		/* of the table, or of the spares of another */
	struct hlist_head spares;	/* one for each reason but one */
	struct task_struct *task;	/* with a reference; the same while it is in the table */

	struct rt_mutex lock;
	struct hlist_head reasons;	/* gpurt_raised.node, with the lock held */
	/* Written with the lock and table_lock held: */
	u8 set;				/* raised to this; 0: not raised, or its scheduling was changed */
	bool refused;			/* it changed its scheduling: left alone while it has reasons */
	struct gpurt_saved saved;
};

static DEFINE_RAW_SPINLOCK(table_lock);		/* the innermost lock */
static struct hlist_head table[1 << RAISED_BITS];	/* gpurt_thread.node, by task */
static compat_setscheduler_t setscheduler;

static bool is_real_time(const struct task_struct *task)
{
	return task->policy == SCHED_FIFO || task->policy == SCHED_RR;
}

static struct hlist_head *bucket_of(const struct task_struct *task)
{
	return &table[hash_ptr(task, RAISED_BITS)];
}

/* Called with table_lock held.  NULL: the thread has no reason. */
static struct gpurt_thread *find(const struct task_struct *task)
{
	struct gpurt_thread *t;

	hlist_for_each_entry(t, bucket_of(task), node)
		if (t->task == task)
			return t;
	return NULL;
}

/* The thread's priority without the raise; 0: it is neither SCHED_FIFO nor SCHED_RR. */
u32 gpurt_raised_own(struct task_struct *task)
{
	u32 priority = is_real_time(task) ? task->rt_priority : 0;
	const struct gpurt_thread *t;

	/* A thread that raises itself sees its own raise.  For other readers an instant does not matter. */
	if (priority <= gpurt_normal || hlist_empty(bucket_of(task)))
		return priority;
	raw_spin_lock(&table_lock);
	t = find(task);
	/* Without the flag another thread has set the priority since. */
	if (t && t->set && task->sched_reset_on_fork)
		priority = t->saved.priority;
	raw_spin_unlock(&table_lock);
	return priority;
}

/* Whether the thread's scheduling is still as this file has set it. */
static bool is_as_set(const struct gpurt_thread *t)
{
	return t->task->policy == SCHED_FIFO && t->task->rt_priority == t->set && t->task->sched_reset_on_fork;
}

/* The CPU priority that the thread is raised to; 0: it is not raised. */
u32 gpurt_raised_to(const struct gpurt_raised *b)
{
	const struct gpurt_thread *t;
	u32 priority;

	raw_spin_lock(&table_lock);
	t = b->thread;
	priority = t && !t->task->exit_state && is_as_set(t) ? t->set : 0;
	raw_spin_unlock(&table_lock);
	return priority;
}

/* Whether the thread is no longer raised because its scheduling was changed meanwhile. */
bool gpurt_raised_refused(const struct gpurt_raised *b)
{
	bool refused;

	raw_spin_lock(&table_lock);
	refused = b->thread && b->thread->refused;
	raw_spin_unlock(&table_lock);
	return refused;
}

/* 0 or -errno. */
static int change(struct task_struct *task, int policy, u32 priority, bool reset_on_fork)
{
	const struct sched_param param = { .sched_priority = priority };

	/* The thread has ended. */
	if (READ_ONCE(task->exit_state))
		return 0;
	return setscheduler(task, policy | (reset_on_fork ? SCHED_RESET_ON_FORK : 0), &param);
}

/* Called with the thread's lock held. */
static void note(struct gpurt_thread *t, u32 set, struct gpurt_saved saved)
{
	raw_spin_lock(&table_lock);
	t->set = set;
	t->saved = saved;
	raw_spin_unlock(&table_lock);
}

/* Likewise. */
static void refuse(struct gpurt_thread *t, bool refused)
{
	raw_spin_lock(&table_lock);
	t->set = 0;
	t->refused = refused;
	raw_spin_unlock(&table_lock);
}

/*
 * Called with the thread's lock held.  The highest CPU priority that a reason wants for the thread;
 * 0: none.
 */
static u32 wanted_of(const struct gpurt_thread *t)
{
	const struct gpurt_raised *b;
	u32 want = 0;

	hlist_for_each_entry(b, &t->reasons, node)
		want = max_t(u32, want, b->want);
	return want;
}

static void raise(struct gpurt_thread *t, u32 want)
{
	struct task_struct *task = t->task;
	struct gpurt_saved saved = t->saved;

	if (!t->set)
		saved = (struct gpurt_saved){ task->policy, task->rt_priority, task->sched_reset_on_fork };
	/* Threads of SCHED_DEADLINE or SCHED_OTHER, and threads that are above this already, stay as they are. */
	if (!t->set && (!is_real_time(task) || task->rt_priority >= want))
		return;
	note(t, want, saved);
	/* Threads and processes that it makes are to be SCHED_OTHER, because nothing would lower them. */
	if (change(task, SCHED_FIFO, want, true)) {
		note(t, 0, saved);
		pr_warn_once("gpurt: a thread could not be raised\n");
	}
}

static void lower(struct gpurt_thread *t)
{
	if (change(t->task, t->saved.policy, t->saved.priority, t->saved.reset_on_fork))
		pr_warn_once("gpurt: a thread could not be lowered\n");
	note(t, 0, t->saved);
}

/* Called with the thread's lock held.  Sets the scheduling that all its reasons together need. */
static void carry_out(struct gpurt_thread *t)
{
	u32 want = wanted_of(t);

	if (t->set && !is_as_set(t))
		refuse(t, true);
	if (t->refused || want == t->set)
		return;
	if (want)
		raise(t, want);
	else
		lower(t);
}

/* Gives the reason the structure of its thread: the one in the table, else the one that it brought along. */
static struct gpurt_thread *enter(struct gpurt_raised *b, struct task_struct *task)
{
	struct gpurt_thread *t;

	raw_spin_lock(&table_lock);
	t = find(task);
	if (t) {
		hlist_add_head(&b->spare->node, &t->spares);
	} else {
		t = b->spare;
		t->task = get_task_struct(task);
		hlist_add_head(&t->node, bucket_of(task));
	}
	b->spare = NULL;
	b->thread = t;
	WRITE_ONCE(b->task, task);
	raw_spin_unlock(&table_lock);
	return t;
}

/*
 * The reverse, without the thread's lock: when the last reason leaves, no thread holds or wants the lock.  The
 * structure that the reason takes away may be another client's, and may be freed at once.
 */
static void leave(struct gpurt_raised *b)
{
	struct gpurt_thread *t = b->thread;
	struct task_struct *last = NULL;

	raw_spin_lock(&table_lock);
	if (hlist_empty(&t->spares)) {
		b->spare = t;
		last = t->task;
	} else {
		b->spare = hlist_entry(t->spares.first, struct gpurt_thread, node);
	}
	hlist_del_init(&b->spare->node);
	b->thread = NULL;
	WRITE_ONCE(b->task, NULL);
	raw_spin_unlock(&table_lock);
	if (last)
		put_task_struct(last);
}

/*
 * Adds a reason to raise that thread.  gpurt_raised_want() says to which priority, at most @right: the thread's user
 * was found to have the right to it.
 */
void gpurt_raised_take(struct gpurt_raised *b, struct task_struct *task, u32 right)
{
	struct gpurt_thread *t = enter(b, task);

	rt_mutex_lock(&t->lock);
	b->want = 0;
	b->right = right;
	hlist_add_head(&b->node, &t->reasons);
	rt_mutex_unlock(&t->lock);
}

void gpurt_raised_want(struct gpurt_raised *b, u32 priority)
{
	struct gpurt_thread *t = b->thread;

	rt_mutex_lock(&t->lock);
	b->want = min_t(u32, priority, b->right);
	carry_out(t);
	rt_mutex_unlock(&t->lock);
}

/* Removes the reason to raise a thread. */
void gpurt_raised_let_go(struct gpurt_raised *b)
{
	struct gpurt_thread *t = b->thread;

	rt_mutex_lock(&t->lock);
	hlist_del_init(&b->node);
	carry_out(t);
	if (t->refused && hlist_empty(&t->reasons))
		refuse(t, false);
	rt_mutex_unlock(&t->lock);
	leave(b);
}

/* 0 or -ENOMEM. */
int gpurt_raised_init(struct gpurt_raised *b)
{
	struct gpurt_thread *t = kzalloc(sizeof(*t), GFP_KERNEL_ACCOUNT);

	if (!t)
		return -ENOMEM;
	INIT_HLIST_NODE(&t->node);
	INIT_HLIST_HEAD(&t->spares);
	INIT_HLIST_HEAD(&t->reasons);
	rt_mutex_init(&t->lock);
	INIT_HLIST_NODE(&b->node);
	b->spare = t;
	return 0;
}

/* Called after the reason was let go. */
void gpurt_raised_destroy(struct gpurt_raised *b)
{
	kfree(b->spare);
}

/* Whether this kernel lets modules raise threads. */
bool gpurt_raised_possible(void)
{
	return setscheduler;
}

void gpurt_raised_load(void)
{
	setscheduler = compat_find_setscheduler();
}
