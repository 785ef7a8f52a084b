// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A thread is lowered only if it still has the policy and priority that it was raised to: changes by the program stay.
 * The thread that ends the last segment lowers the raised thread, possibly in a signal handler.  So all functions here
 * except gpurt_raise_self() are async-signal-safe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handle.h"
#include "raise.h"

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

struct how {
	int policy;			/* SCHED_RESET_ON_FORK included */
	int priority;
};

struct raised {
	pid_t thread;
	struct how before, now;
};

pthread_mutex_t gpurt_raise_lock = PTHREAD_MUTEX_INITIALIZER;
/* The thread's last raise of itself, by which a child that it forks is lowered. */
static _Thread_local uint64_t mine;

static uint64_t pack(const struct raised *r)
{
	uint64_t reset = r->before.policy & SCHED_RESET_ON_FORK ? 1 : 0;

	return (uint64_t)(uint32_t)r->thread << 32 | reset << 24 | (uint64_t)(r->before.policy & 0xff) << 16 |
	       (uint64_t)r->before.priority << 8 | (uint64_t)r->now.priority;
}

static struct raised unpack(uint64_t word)
{
	int reset = word >> 24 & 1 ? SCHED_RESET_ON_FORK : 0;

	return (struct raised){
		.thread = (pid_t)(word >> 32),
		.before = { (int)(word >> 16 & 0xff) | reset, (int)(word >> 8 & 0xff) },
		.now = { SCHED_FIFO | reset, (int)(word & 0xff) },
	};
}

/* Reads the policy and priority of @thread (0: the caller). */
static bool has(pid_t thread, struct how *how)
{
	struct sched_param p;

	how->policy = sched_getscheduler(thread);
	if (how->policy < 0 || sched_getparam(thread, &p) < 0)
		return false;
	how->priority = p.sched_priority;
	return true;
}

static int set(pid_t thread, const struct how *how)
{
	struct sched_param p = { .sched_priority = how->priority };

	return sched_setscheduler(thread, how->policy, &p) < 0 ? -errno : 0;
}

static bool still(pid_t thread, const struct how *wanted)
{
	struct how how;

	return has(thread, &how) && how.policy == wanted->policy && how.priority == wanted->priority;
}

/* Thread ids are used again, for threads of other processes too. */
static bool in_this_process(pid_t thread)
{
	return !syscall(SYS_tgkill, gpurt_pid(), thread, 0);
}

static void lower(uint64_t word, bool child)
{
	struct raised r = unpack(word);
	pid_t caller = word ? (pid_t)syscall(SYS_gettid) : 0, thread = child ? caller : r.thread;
	int saved = errno;

	if (word && (thread == caller || in_this_process(thread)) && still(thread, &r.now))
		set(thread, &r.before);
	errno = saved;
}

/* Called in a child process, in its only thread. */
static void forked(void)
{
	pthread_mutex_init(&gpurt_raise_lock, NULL);
	lower(mine, true);
	mine = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

bool gpurt_raising_begins(struct gpurt_raising *r)
{
	return !atomic_fetch_add(&r->open, 1);
}

void gpurt_raising_ended(struct gpurt_raising *r)
{
	uint32_t open = atomic_load(&r->open);

	while (open && !atomic_compare_exchange_weak(&r->open, &open, open - 1))
		;
	if (open <= 1)
		lower(atomic_exchange(&r->raised, 0), false);
}

void gpurt_raising_over(struct gpurt_raising *r)
{
	atomic_store(&r->open, 0);
	lower(atomic_exchange(&r->raised, 0), false);
}

int gpurt_raise_self(struct gpurt_raising *r, unsigned int priority)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct raised made = { .thread = (pid_t)syscall(SYS_gettid) }, before = unpack(mine);
	uint64_t other;
	int err;

	pthread_once(&once, watch_forks);
	if (!has(0, &made.before))
		return -errno;
	/* The thread is raised already, for another client or level: it will return to its state before all raises. */
	if (mine && before.now.policy == made.before.policy && before.now.priority == made.before.priority)
		made.before = before.before;
	made.now = (struct how){ SCHED_FIFO | (made.before.policy & SCHED_RESET_ON_FORK), (int)priority };
	err = set(0, &made.now);
	if (err)
		return err;
	mine = pack(&made);
	other = atomic_exchange(&r->raised, mine);
	if (unpack(other).thread != made.thread)
		lower(other, false);
	return 0;
}
