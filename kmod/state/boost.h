/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Policy `boosted`: threads of clients are raised and lowered.  core/boost.c decides when, and reports it through
 * gpurt_sched_ops.raise.
 */
#ifndef GPURT_STATE_BOOST_H
#define GPURT_STATE_BOOST_H

#include "core/boost.h"
#include "state/team.h"

const char *gpurt_boost_why_not(void);

int gpurt_boost_init(struct gpurt_client *client);
void gpurt_boost_destroy(struct gpurt_client *client);
void gpurt_boost_wanted(struct gpurt_client *client, u32 level);
void gpurt_boost_look(struct gpurt_client *client);
void gpurt_boost_bar(struct gpurt_client *client);
void gpurt_boost_stop(struct gpurt_client *client);

/*
 * These change members of struct gpurt_boosted with its lock held.  Before they release the lock, they change the
 * thread.
 */
void gpurt_boost_settle(struct gpurt_client *client);
void gpurt_boost_have_looked(struct gpurt_client *client);
void gpurt_boost_flush(struct gpurt_client *client);

u32 gpurt_boost_form_of(const struct gpurt_client *client, u32 form);
u32 gpurt_boost_form_now(const struct gpurt_client *client);

int gpurt_boost_load(void);
void gpurt_boost_unload(void);

/* boost_calls.c.  Policy `boosted`: how a client's thread raises and lowers itself in its calls. */
int gpurt_boost_begins(struct gpurt_client *client, u32 own, const struct gpurt_begin *begin, bool *raised);
bool gpurt_boost_ends(struct gpurt_client *client);
int gpurt_boost_copies(struct gpurt_client *client, u32 own, u32 level);
void gpurt_boost_copied(struct gpurt_client *client);
int gpurt_boost_may_keep(u32 own, u32 *right);
void gpurt_boost_keeps(struct gpurt_client *client, u32 right);
u32 gpurt_client_queues_at(const struct gpurt_client *client, u32 level);
u32 gpurt_client_caller_level(const struct gpurt_client *client);
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

#endif
