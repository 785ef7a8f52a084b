/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Enough of Linux for what the patches add to drivers to run in user space.  Locks only check that they are used rightly:
 * there is one thread.
 */
#ifndef PATCHES_LINUX_H
#define PATCHES_LINUX_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __NVGPU_POSIX__	/* else the driver has them */
typedef uint32_t u32;
typedef uint64_t u64;
#endif
#define __user
#define GFP_KERNEL 0
#define kzalloc(size, flags) calloc(1, size)
#define kfree free
#define pr_debug(...) ((void)0)
#define pr_debug_ratelimited(...) ((void)0)
#define pr_err(...) ((void)0)
#define pr_warn(...) ((void)0)
#define dev_err(dev, ...) ((void)(dev))
#define WARN_ON_ONCE(x) ({ bool warns = (x); assert(!warns); warns; })
#define WARN_ONCE(x, ...) WARN_ON_ONCE(x)
#define get_jiffies_64() 1
#define atomic64_add(n, counter) ((void)(n))
#define schedule() abort()
#define dev_name(dev) "card"
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define THIS_MODULE NULL
#define EXPORT_SYMBOL_GPL(name) extern int name##_is_exported

/* Lists. */
struct list_head {
	struct list_head *next, *prev;
};
#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }
#define INIT_LIST_HEAD(head) (*(head) = (struct list_head){ head, head })
#define list_empty(head) ((head)->next == (head))
#define list_first_entry(head, type, member) container_of((head)->next, type, member)
#define list_for_each_entry(pos, head, member)                                                                     \
	for (pos = container_of((head)->next, typeof(*pos), member); &pos->member != (head);                       \
	     pos = container_of(pos->member.next, typeof(*pos), member))
#define list_for_each_entry_safe(pos, n, head, member)                                                             \
	for (pos = container_of((head)->next, typeof(*pos), member),                                               \
	    n = container_of(pos->member.next, typeof(*pos), member);                                              \
	     &pos->member != (head); pos = n, n = container_of(n->member.next, typeof(*n), member))

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	entry->next = head->next;
	entry->prev = head;
	head->next->prev = entry;
	head->next = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
	entry->next = entry->prev = NULL;
}

/* Locks: which are held. */
struct mutex {
	bool held;
};
typedef struct mutex spinlock_t;
#define DEFINE_MUTEX(name) struct mutex name
#define DEFINE_SPINLOCK(name) spinlock_t name
static bool spinning;
static bool may_take_a_mutex(void);	/* of the harness */

static inline void mutex_lock(struct mutex *m)
{
	assert(!m->held && !spinning && may_take_a_mutex());
	m->held = true;
}

static inline void mutex_unlock(struct mutex *m)
{
	assert(m->held);
	m->held = false;
}

static inline void spin_lock(spinlock_t *l)
{
	assert(!spinning);
	spinning = true;
}

static inline void spin_unlock(spinlock_t *l)
{
	assert(spinning);
	spinning = false;
}

/* Processes. */
struct pid {
	int number, references;
};
struct task_struct {
	struct pid *pid;
};
enum { PIDTYPE_TGID };

static inline struct pid *get_pid(struct pid *pid)
{
	if (pid)
		pid->references++;
	return pid;
}

static inline struct pid *get_task_pid(struct task_struct *task, int type)
{
	return task->pid ? get_pid(task->pid) : NULL;
}

static inline void put_pid(struct pid *pid)
{
	if (pid)
		pid->references--;
}

#endif
