/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Enough of the kernel and of gpurt.ko for the adapter of patched drivers (kmod/drv/port*.c) to run in user space.
 * Workers run when the harness says so.
 */
#include <stdarg.h>

#include "../linux.h"

typedef int32_t s32;

/* Allocations, one of which may fail. */
static int fail_nth;	/* 1: the next one; 0: none */

static void *allocate(size_t size, bool may_fail)
{
	if (may_fail && fail_nth && !--fail_nth)
		return NULL;
	return calloc(1, size);
}

#undef kzalloc
#undef GFP_KERNEL
#define GFP_KERNEL 1
#define GFP_KERNEL_ACCOUNT 1
#define __GFP_NOFAIL 2
#define kzalloc(size, flags) allocate(size, !((flags) & __GFP_NOFAIL))
#define kfree_rcu(p, member) free(p)

/* The lines that the adapter logs, counted. */
static int logged;

static inline void count_line(const char *format, ...)
{
	logged++;
}

#undef pr_err
#undef pr_warn
#define pr_err(...) count_line(__VA_ARGS__)
#define pr_warn(...) count_line(__VA_ARGS__)
#define pr_warn_once(...) ((void)0)
#define pr_info(...) ((void)0)

/* Locks.  @in_hold: what was done since the last mutex was taken. */
static int in_hold, mutexes;	/* how often one was taken */
static bool raw_spinning;
typedef struct mutex raw_spinlock_t;

static bool may_take_a_mutex(void)
{
	in_hold = 0;
	mutexes++;
	return !raw_spinning;
}

#define mutex_init(m) ((m)->held = false)
#define rt_mutex mutex
#define rt_mutex_init mutex_init
#define rt_mutex_lock mutex_lock
#define rt_mutex_unlock mutex_unlock
#define raw_spin_lock_init(l) ((l)->held = false)

static inline void raw_spin_lock(raw_spinlock_t *l)
{
	assert(!raw_spinning && !l->held);
	raw_spinning = l->held = true;
}

static inline void raw_spin_unlock(raw_spinlock_t *l)
{
	assert(l->held);
	raw_spinning = l->held = false;
}

struct rcu_head {
	int unused;
};
#define __rcu
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define synchronize_rcu() ((void)0)
#define rcu_access_pointer(p) (p)
#define rcu_dereference(p) (p)
#define rcu_assign_pointer(p, v) ((p) = (v))
#define RCU_INIT_POINTER(p, v) ((p) = (v))
#define lockdep_is_held(lock) true
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, v) ((x) = (v))
#define smp_rmb() ((void)0)
#define smp_wmb() ((void)0)
#define cond_resched() assert(!raw_spinning)
#define xchg(p, v) ({ typeof(*(p)) before = *(p); *(p) = (v); before; })
typedef struct {
	int counter;
} atomic_t;
#define atomic_inc(a) ((void)(a)->counter++)
#define atomic_dec(a) ((void)(a)->counter--)
#define atomic_read(a) ((a)->counter)

/* Lists. */
#define list_for_each_entry_rcu(pos, head, member, ...) list_for_each_entry(pos, head, member)
#define list_first_entry_or_null(head, type, member) (list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_del_rcu list_del
#define list_add_tail_rcu list_add_tail
#define list_add_rcu list_add

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->next->prev = head->prev;
	head->prev->next = list->next;
	list->prev->next = head;
	head->prev = list->prev;
	INIT_LIST_HEAD(list);
}

/* Workers. */
struct workqueue_struct;
struct work_struct {
	struct list_head node;
	void (*run)(struct work_struct *work);
	bool queued;
};
static struct workqueue_struct *gpurt_workers;
static LIST_HEAD(works);
#define INIT_WORK(w, f) (*(w) = (struct work_struct){ .run = (f) })
#define INIT_WORK_ONSTACK INIT_WORK
#define destroy_work_on_stack(w) assert(!(w)->queued)

static inline void queue_work(struct workqueue_struct *queue, struct work_struct *work)
{
	if (!work->queued)
		list_add_tail(&work->node, &works);
	work->queued = true;
}

static inline void cancel_work_sync(struct work_struct *work)
{
	if (work->queued)
		list_del(&work->node);
	work->queued = false;
}

static inline bool flush_work(struct work_struct *work)
{
	bool was = work->queued;

	cancel_work_sync(work);
	if (was)
		work->run(work);
	return was;
}

/* Modules, parameters, notifiers: only the latter are called. */
struct module {
	bool going;
};
struct kernel_param {
	int unused;
};
struct kernel_param_ops {
	int (*get)(char *text, const struct kernel_param *param);
};
struct notifier_block {
	int (*notifier_call)(struct notifier_block *nb, unsigned long event, void *data);
};
enum { MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING };
enum { NOTIFY_DONE, PM_SUSPEND_PREPARE, PM_HIBERNATION_PREPARE, PM_RESTORE_PREPARE, PM_POST_SUSPEND, PM_POST_HIBERNATION,
       PM_POST_RESTORE };
#define module_param_cb(name, ops, argument, mode) static const struct kernel_param_ops *const name##_parameter = ops
#define MODULE_PARM_DESC(name, text) extern int name##_is_described
#define try_module_get(m) (!(m)->going)
#define module_put(m) ((void)(m))
#define DECLARE_WAIT_QUEUE_HEAD(name) int name __attribute__((unused))
#define wake_up_all(queue) ((void)0)
#define wait_event(queue, condition) assert(condition)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PAGE_SIZE 4096
#define register_pm_notifier(nb) ((void)(nb), 0)
#define unregister_pm_notifier(nb) ((void)(nb))
#define register_module_notifier(nb) ((void)(nb), 0)
#define unregister_module_notifier(nb) ((void)(nb))

static inline int scnprintf(char *text, size_t size, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, size, format, arguments);
	va_end(arguments);
	return size && length >= (int)size ? (int)size - 1 : size ? length : 0;
}

#define strscpy(to, from, size) ((void)snprintf(to, size, "%s", from))

static struct task_struct *current;
static void *__symbol_get(const char *symbol);
#define __symbol_put(symbol) ((void)0)

/* Trees of processes: a list. */
struct gpurt_by_process {
	struct pid *tgid;
	struct gpurt_by_process *next;
};
struct gpurt_processes {
	struct gpurt_by_process *first;
};

static inline void gpurt_processes_add(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	one->next = all->first;
	all->first = one;
}

static inline void gpurt_processes_remove(struct gpurt_processes *all, struct gpurt_by_process *one)
{
	struct gpurt_by_process **at = &all->first;

	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
}

static inline struct gpurt_by_process *gpurt_processes_find(struct gpurt_processes *all, const struct pid *tgid)
{
	struct gpurt_by_process *one = all->first;

	while (one && one->tgid != tgid)
		one = one->next;
	return one;
}
