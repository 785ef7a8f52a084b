/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every schedule of a small system of integers, on the core that ships.
 *
 * Times are whole numbers.  At each instant the search tries both to release and not to release each task that may be
 * released.  Each demand takes every whole number from best to worst.  CPUs that act at one instant act in ascending or
 * in descending order.  States that differ only in the time that has passed count as one.  So the longest
 * response times found are the exact worst cases of such schedules.
 */
#ifndef GPURT_EXPLORE_H
#define GPURT_EXPLORE_H

#include "simulate.h"

enum gpurt_explore_flags {
	GPURT_EXPLORE_PERIODIC = 1,	/* after its first release a task is released each period, never later */
	GPURT_EXPLORE_STOP = 2,		/* the search ends with the first response beyond its limit */
};

struct gpurt_exploration {
	u64 most_states;		/* the search gives up beyond this, or after 200 times as many ways */
	u32 flags;			/* enum gpurt_explore_flags */
	u32 late;			/* result: 1 + the first task or measure found beyond its limit; 0: none */
	u64 states, steps;		/* result: different states, and ways followed between them */
};

/*
 * Explores all schedules.  @limit: a response time for each task, then GPURT_SIM_MEASURES times for each chain; the
 * search leaves a schedule that exceeds a limit.  Writes the longest response time of each task and the longest times
 * of each chain to @worst; an unfinished job counts with the time since its release.  Returns 0, -GPURT_SIM_ETIME if
 * there are more states than @most_states, or another -enum gpurt_sim_error.
 */
int gpurt_explore(const struct gpurt_sim_config *config, const struct gpurt_sim_task *tasks, u32 count,
		  const struct gpurt_sim_segment *segments, const u64 *limit, struct gpurt_exploration *x, u64 *worst);

#endif
