/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Mutexes with priority inheritance: while a thread holds one, it has the priority of the most urgent thread that waits
 * for it.  An agent's thread, the most urgent thread of its process, needs the locks that every launch takes.
 */
#ifndef GPURT_INHERIT_H
#define GPURT_INHERIT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Whether libc knows the thread's id.  In a child that was made without fork(), libc still has the id of the parent's
 * thread, and the kernel would take that thread for the owner of a mutex.  The number of a thread's CPU clock contains
 * the true id (posix-timers.h).
 */
static inline bool gpurt_thread_is_known(void)
{
	clockid_t clock;

	return !pthread_getcpuclockid(pthread_self(), &clock) && ~(clock >> 3) == (int)syscall(SYS_gettid);
}

/* @type: PTHREAD_MUTEX_*.  Where the kernel has no priority inheritance, an ordinary mutex. */
static inline void gpurt_mutex_init(pthread_mutex_t *mutex, int type)
{
	int protocol = gpurt_thread_is_known() ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE;
	pthread_mutexattr_t how;

	pthread_mutexattr_init(&how);
	pthread_mutexattr_settype(&how, type);
	pthread_mutexattr_setprotocol(&how, protocol);
	if (!pthread_mutex_init(mutex, &how))
		return;
	pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_NONE);
	pthread_mutex_init(mutex, &how);
}

#endif
