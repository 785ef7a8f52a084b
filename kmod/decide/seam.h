/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only calls upward, from deciding to those for whom it decides.  A thread that waits at the
 * gate may be raised: clients/boost.c and clients/boost_calls.c describe these functions.  An
 * update lets clients go.
 */
#ifndef GPURT_SEAM_H
#define GPURT_SEAM_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;

struct gpurt_seam {
	/* With the gate held. */
	void (*raise)(struct gpurt_client *client, u32 level);		/* gpurt_boost_wanted() */
	/* With the lock of the gate held, or by the thread that waits. */
	bool (*is_owners)(const struct gpurt_client *client);		/* gpurt_boost_is_owners(), and so on */
	bool (*spins)(const struct gpurt_client *client);
	void (*waits)(struct gpurt_client *client);
	void (*handed)(struct gpurt_client *client);
	bool (*passed)(struct gpurt_client *client);
	/* In any context.  Work of the client completed. */
	void (*completed)(struct gpurt_client *client);			/* gpurt_boost_completed() */
	/* By a worker, with the GPU held alive.  An update succeeded: clients that have left may be forgotten. */
	void (*reap)(struct gpurt_gpu *gpu);				/* gpurt_client_reap() */
};

extern const struct gpurt_seam *gpurt_seam;	/* set before there is a GPU */

#endif
