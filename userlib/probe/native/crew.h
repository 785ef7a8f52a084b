/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Processes that use the GPU side by side.  They are forked before anything has touched CUDA, which does not survive a
 * fork, and leave what they saw in memory that all of them share; only the parent writes records.
 */
#ifndef PROBE_CREW_H
#define PROBE_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CREW_MAX 4
#define CREW_VALUES 16384

struct crew_seat {
	uint64_t count, values[CREW_VALUES];
	uint64_t start, end, more[4];
	atomic_bool done;
};

struct crew {
	int size;
	atomic_int ready;
	/* The one who measures has ended, or somebody has died: the others stop. */
	atomic_bool over;
	struct crew_seat seat[CREW_MAX];
};

typedef void (*crew_role)(struct crew *crew, int index, const void *argument);

/*
 * Runs @role in @size processes; NULL, with a line, if one of them could not do its part.  @limit_s after the start
 * those that are left are ended.
 */
struct crew *crew_run(int size, crew_role role, const void *argument, unsigned int limit_s);
void crew_free(struct crew *crew);
/* In a member: waits until all are ready; false if it is over before. */
bool crew_meet(struct crew *crew);

#endif
