/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of a simulation as one state: where it is, copies of it, and the set of those that were seen. */
#ifndef GPURT_EXPLORE_STATE_H
#define GPURT_EXPLORE_STATE_H

#include "explore.h"
#include "sim.h"

struct state_range {
	u8 *at;
	size_t size;
};

/* The memory that changes while time passes.  Empty queues of levels that no task has stay as they are: left out. */
struct state_map {
	struct sim *sim;
	struct state_range *range;
	u32 count;
	size_t size;
};

/* Hashes of 128 bits, in an open table: that two states share one does not happen. */
struct state_set {
	u64 (*slot)[2];
	u64 count, room;
	u8 *saved;		/* the state to be added, to be put back once it has been hashed */
};

bool state_map_init(struct state_map *map, struct sim *sim);
void state_map_free(struct state_map *map);
void state_save(const struct state_map *map, u8 *to);
void state_restore(const struct state_map *map, const u8 *from);

bool state_set_init(struct state_set *set, const struct state_map *map);
void state_set_free(struct state_set *set);
/* Adds the state of the simulation, which stays as it is.  1: it is new; 0: it was there; negative: no memory. */
int state_add(struct state_set *set, const struct state_map *map, struct sim *sim);

#endif
