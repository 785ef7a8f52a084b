/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Whether programs wait for one another.  The owner of a GPU may wait, inside its segment, for a
 * program that waits for the GPU.  Both then wait for ever, and no call of either fails.  A host
 * looks now and then, and reports what it sees:
 *
 *   - The GPU executes nothing, nothing that it may execute is queued, and nothing of the owner's has completed since
 *     the first look.
 *
 *   - Another client waits for the GPU.
 *
 *   - No thread of the owner's process executes or is ready to.  Together they have used less than a hundredth of one
 *     CPU's time since the first look: a thread that wakes up only to check whether it should end makes no progress.
 *
 *   - All this holds in the same segment of the same owner for longer than the limit.
 *
 * If the owner's work is queued, the driver must act, whatever the owner's threads wait for.  A host does not take the
 * GPU away: only a person can know whether the owner waits for a program or for a user.
 */
#ifndef GPURT_CORE_STUCK_H
#define GPURT_CORE_STUCK_H

#include "env.h"
#include "sched.h"

#define GPURT_STUCK_DEFAULT_NS	1000000000ULL
#define GPURT_STUCK_LOOKS	4	/* looks during the limit */
#define GPURT_STUCK_SHARE	100
#define GPURT_STUCK_THREADS	1024	/* a process with more is not looked at, and counts as one that executes */

/* A host's look at one time. */
struct gpurt_stuck_look {
	u64 now;
	u64 cpu;			/* how long the threads of the owner's process have executed, ns */
	u64 done;			/* the owner's completed work: how much, or when the last ended */
	bool idle;			/* the GPU executes nothing, and nothing that it may execute is queued */
	bool asked;			/* work of others is queued; see also gpurt_stuck_asked() */
	bool asleep;			/* no thread of the process executes or is ready to; false: not known */
};

struct gpurt_stuck {
	u64 tenure;			/* gpurt_sched.runner_since at the last look */
	u64 segment;			/* the owner's gpurt_sched_client.segments then */
	u64 since;			/* first look that saw this state; 0: the last look did not */
	u64 cpu, done;			/* as in that look */
	bool told;
	u64 count;			/* how often it was reported */
};

bool gpurt_stuck_asked(const struct gpurt_sched *s);
bool gpurt_stuck_seen(struct gpurt_stuck *k, const struct gpurt_sched *s, u64 limit,
		      const struct gpurt_stuck_look *look);
u64 gpurt_stuck_time(const struct gpurt_stuck *k, const struct gpurt_sched *s, u64 now);
bool gpurt_stuck_leaves(const struct gpurt_sched_client *c, u32 elsewhere);

#endif
