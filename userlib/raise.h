/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Policy `boosted` on a host that cannot raise threads.  A thread raises itself before its segment begins, and is
 * lowered after the segment has ended (gpurt/uapi.h, "Raised threads").  Each client, that is each handle and GPU, has
 * one struct.
 */
#ifndef GPURT_RAISE_H
#define GPURT_RAISE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpurt_raising {
	_Atomic uint32_t open;		/* segments, nested ones counted */
	_Atomic uint64_t raised;	/* the thread, its previous and its present priority; 0: none is raised */
};

/*
 * gpurt_raising_begins() is called before a segment begins, and returns whether it is the outermost one.  _ended() is
 * called when the segment has ended or could not begin, _over() when no segment of the client is open any more.
 */
bool gpurt_raising_begins(struct gpurt_raising *r);
void gpurt_raising_ended(struct gpurt_raising *r);
void gpurt_raising_over(struct gpurt_raising *r);

/* Held from the host's demand that a thread raise itself until its segment has begun: one thread at a time does so. */
__attribute__((visibility("hidden")))
extern pthread_mutex_t gpurt_raise_lock;

/* Gives the calling thread SCHED_FIFO at @priority.  Called with the lock held.  -EPERM: the thread lacks the right. */
int gpurt_raise_self(struct gpurt_raising *r, unsigned int priority);

#endif
