/* SPDX-License-Identifier: GPL-2.0 */
/* Policy `boosted`: what a client's thread does about its own raising in each of its calls. */
#ifndef GPURT_BOOST_CALLS_H
#define GPURT_BOOST_CALLS_H

#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/types.h>

#include "core/boost.h"
#include "state/client.h"
#include "state/team.h"

int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised);
bool gpurt_boost_ends(struct gpurt_client *client);
int gpurt_boost_copies(struct gpurt_client *client, u32 own, u32 level);
void gpurt_boost_copied(struct gpurt_client *client);
int gpurt_boost_may_keep(u32 own, u32 *right);
void gpurt_boost_keeps(struct gpurt_client *client, u32 right);
u32 gpurt_boost_queues_at(const struct gpurt_client *client, u32 level);
void gpurt_boost_returns(struct gpurt_client *client, bool raised);

/* At the gate, by and for a thread that is raised while its client owns the GPU. */
bool gpurt_boost_is_owners(const struct gpurt_client *client);
bool gpurt_boost_spins(const struct gpurt_client *client);
void gpurt_boost_waits(struct gpurt_client *client);
void gpurt_boost_handed(struct gpurt_client *client);
bool gpurt_boost_passed(struct gpurt_client *client);

/* Form fence. */
void gpurt_boost_works(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_worked(struct gpurt_client *client, const struct gpurt_wait *w);
void gpurt_boost_submits(struct gpurt_client *client);
void gpurt_boost_completed(struct gpurt_client *client);

/* The form of a begin with these flags: in a group that raises all threads it is `owner`, whatever they state. */
static inline u32 gpurt_boost_form_of(const struct gpurt_client *client, u32 flags)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	return seat && seat->team->core.all ? GPURT_FORM_OWNER : gpurt_boost_stated(flags);
}

/* gpurt_boost_queues_at(), of which other policies do not pay for the call. */
static inline u32 gpurt_client_queues_at(const struct gpurt_client *client, u32 level)
{
	if (likely(READ_ONCE(client->gpu->sched.policy) != GPURT_POLICY_BOOSTED))
		return level;
	return gpurt_boost_queues_at(client, level);
}

/*
 * At which level a caller queues that need not be a thread of the client's process: not above the caller's priority.
 * Else a preempted caller would keep all callers waiting that are less urgent than the client.
 */
static inline u32 gpurt_client_caller_level(const struct gpurt_client *client)
{
	return gpurt_client_queues_at(client, min_t(u32, gpurt_level_now(client), current->rt_priority));
}

#endif
