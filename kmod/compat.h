/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differences between kernel releases: no other file has any.  Each comment names the release that made it.
 */
#ifndef GPURT_COMPAT_H
#define GPURT_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/version.h>
#include <net/genetlink.h>
#include <uapi/linux/sched/types.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "gpurt needs Linux 5.10 or newer"
#endif

#ifndef CONFIG_64BIT
#error "gpurt needs a 64-bit kernel: times are read without locks, and divided"
#endif

#ifndef CONFIG_TRACEPOINTS
#error "gpurt needs CONFIG_TRACEPOINTS: without them a process that ends or executes another program would keep the GPU"
#endif

/* 6.13 added hrtimer_setup(), 6.15 removed hrtimer_init(). */
static inline void compat_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
					clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

/*
 * Irq work that is carried out in the interrupt itself, under PREEMPT_RT too.  5.11 made the macro; 5.10 has the flag,
 * which only its real-time patches read.
 */
static inline void compat_irq_work_init_hard(struct irq_work *work, void (*function)(struct irq_work *))
{
#ifdef IRQ_WORK_INIT_HARD
	*work = IRQ_WORK_INIT_HARD(function);
#else
	init_irq_work(work, function);
	atomic_set(&work->flags, IRQ_WORK_HARD_IRQ);
#endif
}

/* 6.14 split kthread_create_worker(): only kthread_run_worker() starts the thread. */
static inline struct kthread_worker *compat_kthread_worker(const char *name)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	return kthread_run_worker(0, "%s", name);
#else
	return kthread_create_worker(0, "%s", name);
#endif
}

/* As sched_setscheduler(2), for real-time policies only, without a check of rights. */
typedef int (*compat_setscheduler_t)(struct task_struct *task, int policy, const struct sched_param *param);

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
static inline int compat_setscheduler(struct task_struct *task, int policy, const struct sched_param *param)
{
	const struct sched_attr attr = {
		.size = sizeof(attr), .sched_policy = policy & ~SCHED_RESET_ON_FORK,
		.sched_flags = policy & SCHED_RESET_ON_FORK ? SCHED_FLAG_RESET_ON_FORK : 0,
		.sched_priority = param->sched_priority,
	};

	return sched_setattr_nocheck(task, &attr);
}
#endif

/*
 * 5.9 took sched_setscheduler_nocheck() away from modules, 5.14 gave them sched_setattr_nocheck().  In between the
 * function is found as tracers find theirs; NULL: this kernel has no probes.
 */
static inline compat_setscheduler_t compat_find_setscheduler(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	return compat_setscheduler;
#else
	struct kprobe probe = { .symbol_name = "sched_setscheduler_nocheck" };

	if (register_kprobe(&probe))
		return NULL;
	unregister_kprobe(&probe);
	return (compat_setscheduler_t)probe.addr;
#endif
}

/*
 * Without that function there is only sched_set_fifo(), which gives priority 50: a real-time task above 50 could delay
 * every update.
 */
static inline int compat_set_highest_fifo(struct task_struct *task)
{
	const struct sched_param param = { .sched_priority = MAX_RT_PRIO - 1 };
	compat_setscheduler_t set = compat_find_setscheduler();

	if (set)
		return set(task, SCHED_FIFO, &param);
	sched_set_fifo(task);
	pr_warn("gpurt: the GPU's thread runs at FIFO priority 50 only; raise it with chrt -f -p 99 %d\n", task->pid);
	return 0;
}

/* 5.14 renamed task_struct.state. */
static inline unsigned int compat_task_state(struct task_struct *task)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	return READ_ONCE(task->__state);
#else
	return READ_ONCE(task->state);
#endif
}

/* Under PREEMPT_RT (5.15) a task that blocks on what is elsewhere a spinning lock counts as runnable. */
static inline bool compat_task_is_runnable(struct task_struct *task)
{
#ifdef TASK_RTLOCK_WAIT
	return compat_task_state(task) == TASK_RUNNING || compat_task_state(task) == TASK_RTLOCK_WAIT;
#else
	return compat_task_state(task) == TASK_RUNNING;
#endif
}

/* From 5.18 on, probes of sched_switch get the state with which a task was switched out. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
#define COMPAT_SCHED_SWITCH_ARGS(data, prev, next, state) \
	void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state
#define compat_switched_out_asleep(prev, state) (!preempt && (state) != TASK_RUNNING)
#else
#define COMPAT_SCHED_SWITCH_ARGS(data, prev, next, state) \
	void *data, bool preempt, struct task_struct *prev, struct task_struct *next
#define compat_switched_out_asleep(prev, state) (!preempt && compat_task_state(prev) != TASK_RUNNING)
#endif

/*
 * A multicast group that only CAP_NET_ADMIN may join.  6.7 introduced it, and 5.10.204, 5.15.143, 6.1.68 and 6.6.7
 * backported it; later the flag got a name of its own.  Elsewhere there is no such group.
 */
#ifdef GENL_MCAST_CAP_NET_ADMIN
#define COMPAT_ADMIN_GROUP(group) { .name = group, .flags = GENL_MCAST_CAP_NET_ADMIN },
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0) || \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 7) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)) || \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 68) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)) || \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 143) && LINUX_VERSION_CODE < KERNEL_VERSION(5, 16, 0)) || \
	(LINUX_VERSION_CODE >= KERNEL_VERSION(5, 10, 204) && LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0))
#define COMPAT_ADMIN_GROUP(group) { .name = group, .flags = GENL_UNS_ADMIN_PERM },
#else
#define COMPAT_ADMIN_GROUP(group)
#endif

/* 6.7 put a dump's facts about its request into one struct genl_info. */
static inline struct nlattr **compat_dump_attrs(struct netlink_callback *cb)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	return genl_dumpit_info(cb)->info.attrs;
#else
	return genl_dumpit_info(cb)->attrs;
#endif
}

/*
 * Newer releases (7.2, not 6.12) tell the probe of sched_process_exit whether the thread was the last of its process.
 * The tracepoint's type says which probe this kernel calls, also where a distribution backported that.
 */
#define compat_exit_probe(probe, probe_of_group) \
	__builtin_choose_expr(__builtin_types_compatible_p(typeof(&check_trace_callback_type_sched_process_exit), \
							   void (*)(void (*)(void *, struct task_struct *, bool))), \
			      probe_of_group, probe)

#endif
