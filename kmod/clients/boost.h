/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policy `boosted`: threads of clients are raised and lowered.  When is decided in core/boost.c, which says so through
 * gpurt_sched_ops.raise.
 */
#ifndef GPURT_BOOST_H
#define GPURT_BOOST_H

#include <linux/types.h>

#include "state/client.h"
#include "state/team.h"

const char *gpurt_boost_why_not(void);

int gpurt_boost_init(struct gpurt_client *client);
void gpurt_boost_destroy(struct gpurt_client *client);
void gpurt_boost_wanted(struct gpurt_client *client, u32 level);
void gpurt_boost_look(struct gpurt_client *client);
void gpurt_boost_bar(struct gpurt_client *client);
void gpurt_boost_stop(struct gpurt_client *client);

/*
 * Members of struct gpurt_boosted that have the lock change with it held.  The change is carried
 * out before the lock is given back.
 */
void gpurt_boost_settle(struct gpurt_client *client);
void gpurt_boost_have_looked(struct gpurt_client *client);
void gpurt_boost_flush(struct gpurt_client *client);

/* The form of the begin that opened its segment.  The administrator may have put it into such a group since. */
static inline u32 gpurt_boost_form_now(const struct gpurt_client *client)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	return seat && seat->team->core.all ? GPURT_FORM_OWNER : client->boost.form;
}

int gpurt_boost_load(void);
void gpurt_boost_unload(void);

#endif
