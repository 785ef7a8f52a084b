/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The library's mutexes.  Where tests build it with PRELOAD_CHECKS, the process ends if a thread locks a mutex that it
 * holds, or unlocks one that it does not hold.  Otherwise nobody would notice before two threads meet.
 */
#ifndef GPURT_PRELOAD_MUTEX_H
#define GPURT_PRELOAD_MUTEX_H

#include <pthread.h>
#include <stdlib.h>

#include "../inherit.h"

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

/* Called when the library is loaded, and in a child, where a thread of the parent may have held the mutex. */
static inline void mutex_begins(pthread_mutex_t *mutex)
{
#ifdef PRELOAD_CHECKS
	gpurt_mutex_init(mutex, PTHREAD_MUTEX_ERRORCHECK);
#else
	gpurt_mutex_init(mutex, PTHREAD_MUTEX_NORMAL);
#endif
}

#endif
