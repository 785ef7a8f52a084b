/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A crew: processes that use the GPU side by side.  CUDA does not survive a fork, so the parent forks the members
 * before it uses CUDA.  Each member puts its results into its seat, in shared memory.  Only the parent writes records.
 */
#ifndef PROBE_CREW_H
#define PROBE_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CREW_MAX 5
#define CREW_VALUES 16384

struct crew_seat {
	uint64_t count, values[CREW_VALUES];
	uint64_t start, end, more[4];
	atomic_bool done;
};

struct crew {
	int size;
	atomic_int ready;	/* meetings, summed over all members */
	atomic_int scene;	/* for members that go through several scenes: the one that the measuring member is in */
	/* The measuring member has finished, or a member has died: all others stop. */
	atomic_bool over;
	atomic_uint calls;	/* calls of the other members in that scene */
	struct crew_seat seat[CREW_MAX];
};

/* The work of member @index. */
typedef void (*crew_role)(struct crew *crew, int index, const void *argument);
/* Writes the records of a crew whose members have all finished. */
typedef void (*crew_tell)(const struct crew *crew, const void *argument);

/*
 * Runs @role in @size processes, then @tell in this process.  If a member fails, or still runs after @limit_s, the crew
 * is killed and an error record is written instead.
 */
void crew_run(int size, crew_role role, const void *argument, unsigned int limit_s, crew_tell tell);
/* In a member: waits until all members have called it as often.  False if the crew is over before that. */
bool crew_meet(struct crew *crew);

#endif
