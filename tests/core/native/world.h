/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scheduler, a driver that only notes what it is told, a listener that only hears the events, and the
 * model, side by side.  All of them get the same event from world_step(), which says what they disagree on.
 */
#ifndef GPURT_TEST_WORLD_H
#define GPURT_TEST_WORLD_H

#include "model.h"

#define HEARD 16

struct world {
	struct gpurt_sched s;
	struct gpurt_sched_client c[CLIENTS];
	struct gpurt_budget b[CLIENTS];
	struct model m;
	u64 now;
	/* The driver. */
	struct gpurt_sched_client *only;
	u32 commits, cause;		/* of this step */
	u32 raised[CLIENTS];		/* what each client's thread was told */
	bool again;			/* it was told the same twice */
	/* The listener. */
	struct { int client; u32 event; } heard[HEARD];
	u32 n;				/* of this step */
	bool granted[CLIENTS];		/* was told so since the segment or job began */
	bool idle[CLIENTS];		/* has been since it was told */
	u64 preempted[CLIENTS];
};

void world_init(struct world *w);
/* NULL, or what is wrong.  @passed ns go by first. */
const char *world_step(struct world *w, const struct event *e, u64 passed);
const char *world_name(u32 op);

#endif
