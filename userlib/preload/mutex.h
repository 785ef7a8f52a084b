/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The library's mutexes.  Where tests build it with PRELOAD_CHECKS, the process ends if a thread takes one that it has,
 * or releases one that it has not.  Otherwise nobody would notice before two threads meet.
 */
#ifndef GPURT_PRELOAD_MUTEX_H
#define GPURT_PRELOAD_MUTEX_H

#include <pthread.h>
#include <stdlib.h>

#ifdef PRELOAD_CHECKS
#define MUTEX_FREE PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#else
#define MUTEX_FREE PTHREAD_MUTEX_INITIALIZER
#endif

static inline void mutex_checked(int err)
{
#ifdef PRELOAD_CHECKS
	if (err)
		abort();
#else
	(void)err;
#endif
}

static inline void mutex_take(pthread_mutex_t *mutex)
{
	mutex_checked(pthread_mutex_lock(mutex));
}

static inline void mutex_release(pthread_mutex_t *mutex)
{
	mutex_checked(pthread_mutex_unlock(mutex));
}

/* In a child, whose parent's threads had it. */
static inline void mutex_forked(pthread_mutex_t *mutex)
{
	*mutex = (pthread_mutex_t)MUTEX_FREE;
}

#endif
