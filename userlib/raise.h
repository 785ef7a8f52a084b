/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Policy `boosted` on a host that cannot raise threads.  A thread raises itself before its segment begins, and is
 * lowered after it has ended (gpurt/uapi.h, "Raised threads").  One struct for each client, that is for each handle and
 * GPU.
 */
#ifndef GPURT_RAISE_H
#define GPURT_RAISE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpurt_raising {
	_Atomic uint32_t open;		/* segments, nested ones counted */
	_Atomic uint64_t raised;	/* the thread, what it had before and what it has now; 0: none is raised */
};

/*
 * A segment is about to begin: returns whether it is the outermost one.  The second is called when it has ended, or has
 * not begun after all.  The third is called when no segment of the client is open any more.
 */
bool gpurt_raising_begins(struct gpurt_raising *r);
void gpurt_raising_ended(struct gpurt_raising *r);
void gpurt_raising_over(struct gpurt_raising *r);

/* Held from the host's demand that a thread raise itself until that thread has begun: one thread of a client does it. */
__attribute__((visibility("hidden")))
extern pthread_mutex_t gpurt_raise_lock;

/* Gives the calling thread SCHED_FIFO at @priority.  Called with the lock held.  -EPERM: the thread lacks the right. */
int gpurt_raise_self(struct gpurt_raising *r, unsigned int priority);

#endif
