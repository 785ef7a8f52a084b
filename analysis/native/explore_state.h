/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of a simulation as one state: its address, copies of it, and the set of the states seen. */
#ifndef GPURT_EXPLORE_STATE_H
#define GPURT_EXPLORE_STATE_H

#include "explore.h"
#include "sim.h"

struct state_range {
	u8 *at;
	size_t size;
};

/* The memory that changes while time passes.  Queues of levels that no task has stay empty, and are left out. */
struct state_map {
	struct sim *sim;
	struct state_range *range;
	u32 count;
	size_t size;
};

/* Hashes of 128 bits, in an open table; the search assumes that no two states share a hash. */
struct state_set {
	u64 (*slot)[2];
	u64 count, room;
	u8 *saved;		/* a copy of the state to be added, put back after hashing */
};

bool state_map_init(struct state_map *map, struct sim *sim);
void state_map_free(struct state_map *map);
void state_save(const struct state_map *map, u8 *to);
void state_restore(const struct state_map *map, const u8 *from);

bool state_set_init(struct state_set *set, const struct state_map *map);
void state_set_free(struct state_set *set);
/* Adds the state of the simulation, which does not change.  1: the state is new; 0: it is not; negative: no memory. */
int state_add(struct state_set *set, const struct state_map *map, struct sim *sim);

#endif
