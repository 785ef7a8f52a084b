// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that are raised above the normal priorities of their CPU, and what they were before.
 *
 * A thread is lowered only if its policy and priority are those that it was raised to.  The kernel offers modules no
 * comparison and change in one: a change that somebody else makes within the same microsecond may be lost.
 *
 * The kernel lets everybody give the threads of his user any priority up to their present one, for good.  So nobody is
 * raised above what his user has the right to, whatever priority an administrator sets in the middle of a segment.
 *
 * The functions that change something are called one at a time, by callers that may sleep: kernels 5.3 to 6.4 take the
 * lock of the cpusets to change a thread's scheduling, which others hold for milliseconds.
 */
#include <linux/hash.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>

#include "boost.h"
#include "compat.h"
#include "raised.h"

#define BITS 6

static DEFINE_RAW_SPINLOCK(table_lock);		/* for readers, which do not sleep; held by everyone who changes it */
static struct hlist_head table[1 << BITS];	/* gpurt_raised.node, by task */
static compat_setscheduler_t setscheduler;

static bool is_real_time(const struct task_struct *task)
{
	return task->policy == SCHED_FIFO || task->policy == SCHED_RR;
}

static struct hlist_head *bucket_of(const struct task_struct *task)
{
	return &table[hash_ptr(task, BITS)];
}

/* One of the thread's reasons; NULL: it has none. */
static struct gpurt_raised *find(const struct task_struct *task)
{
	struct gpurt_raised *b;

	hlist_for_each_entry(b, bucket_of(task), node)
		if (b->task == task)
			return b;
	return NULL;
}

/* The thread's priority as if it were not raised, 0 if it is neither SCHED_FIFO nor SCHED_RR. */
u32 gpurt_raised_own(struct task_struct *task)
{
	u32 priority = is_real_time(task) ? task->rt_priority : 0;
	struct gpurt_raised *b;

	/* A thread that raises itself sees that it did; another reader may be early or late by an instant anyway. */
	if (priority <= gpurt_normal || hlist_empty(bucket_of(task)))
		return priority;
	raw_spin_lock(&table_lock);
	b = find(task);
	/* Without the flag somebody else has set its priority since. */
	if (b && b->set && task->sched_reset_on_fork)
		priority = b->saved.priority;
	raw_spin_unlock(&table_lock);
	return priority;
}

/* Whether nobody else has changed the thread's scheduling since it was raised. */
static bool is_as_set(const struct gpurt_raised *b)
{
	return b->task->policy == SCHED_FIFO && b->task->rt_priority == b->set && b->task->sched_reset_on_fork;
}

/* The CPU priority that the thread is raised to; 0: it is not. */
u32 gpurt_raised_to(const struct gpurt_raised *b)
{
	u32 priority;

	raw_spin_lock(&table_lock);
	priority = b->task && !b->task->exit_state && is_as_set(b) ? b->set : 0;
	raw_spin_unlock(&table_lock);
	return priority;
}

/* 0 or -errno. */
static int change(struct task_struct *task, int policy, u32 priority, bool reset_on_fork)
{
	const struct sched_param param = { .sched_priority = priority };

	/* Nothing executes any more. */
	if (READ_ONCE(task->exit_state))
		return 0;
	return setscheduler(task, policy | (reset_on_fork ? SCHED_RESET_ON_FORK : 0), &param);
}

/* All of the thread's reasons say the same about it. */
static void note(const struct gpurt_raised *news)
{
	struct gpurt_raised *b;

	raw_spin_lock(&table_lock);
	hlist_for_each_entry(b, bucket_of(news->task), node) {
		if (b->task != news->task)
			continue;
		b->set = news->set;
		b->refused = news->refused;
		b->saved = news->saved;
	}
	raw_spin_unlock(&table_lock);
}

/* What the thread needs; 0: nothing. */
static u32 wanted_of(const struct task_struct *task)
{
	const struct gpurt_raised *b;
	u32 want = 0;

	hlist_for_each_entry(b, bucket_of(task), node)
		if (b->task == task)
			want = max_t(u32, want, b->want);
	return want;
}

static void raise(struct gpurt_raised *news, u32 want)
{
	struct task_struct *task = news->task;

	if (!news->set)
		news->saved = (struct gpurt_saved){ task->policy, task->rt_priority, task->sched_reset_on_fork };
	/* SCHED_DEADLINE and SCHED_OTHER are left alone, and so is a thread that is above this already. */
	if (!news->set && (!is_real_time(task) || task->rt_priority >= want))
		return;
	news->set = want;
	note(news);
	/* Threads and processes that it makes are SCHED_OTHER: nothing would lower them. */
	if (change(task, SCHED_FIFO, want, true)) {
		news->set = 0;
		note(news);
		pr_warn_once("gpurt: a thread could not be raised\n");
	}
}

static void lower(struct gpurt_raised *news)
{
	if (change(news->task, news->saved.policy, news->saved.priority, news->saved.reset_on_fork))
		pr_warn_once("gpurt: a thread could not be lowered\n");
	news->set = 0;
	note(news);
}

/* Has the thread execute as all its reasons together need it. */
static void carry_out(struct gpurt_raised *b)
{
	u32 want = wanted_of(b->task);
	struct gpurt_raised news = { .task = b->task, .set = b->set, .refused = b->refused, .saved = b->saved };

	if (news.set && !is_as_set(b)) {
		news.set = 0;
		news.refused = true;
		note(&news);
	}
	if (news.refused || want == news.set)
		return;
	if (want)
		raise(&news, want);
	else
		lower(&news);
}

/*
 * A reason to raise that thread.  How high, gpurt_raised_want() says, but not above @right, to which its user was found
 * to have the right.
 */
void gpurt_raised_take(struct gpurt_raised *b, struct task_struct *task, u32 right)
{
	const struct gpurt_raised *other;

	raw_spin_lock(&table_lock);
	other = find(task);
	b->task = get_task_struct(task);
	b->want = 0;
	b->right = right;
	b->set = other ? other->set : 0;
	b->refused = other && other->refused;
	if (other)
		b->saved = other->saved;
	hlist_add_head(&b->node, bucket_of(task));
	raw_spin_unlock(&table_lock);
}

void gpurt_raised_want(struct gpurt_raised *b, u32 priority)
{
	raw_spin_lock(&table_lock);
	b->want = min_t(u32, priority, b->right);
	raw_spin_unlock(&table_lock);
	carry_out(b);
}

/* No reason to raise a thread any more. */
void gpurt_raised_let_go(struct gpurt_raised *b)
{
	struct task_struct *task = b->task;

	gpurt_raised_want(b, 0);
	raw_spin_lock(&table_lock);
	hlist_del_init(&b->node);
	b->set = 0;
	WRITE_ONCE(b->task, NULL);
	raw_spin_unlock(&table_lock);
	put_task_struct(task);
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
