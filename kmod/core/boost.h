/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Policy `boosted`: at which instants the thread of a client executes above the normal priorities of its CPU.
 *
 * Decisions about the GPU are those of `segment`.  The host also reports when a client's thread comes to the gate, when
 * it has the gate, and when an update is over.  The scheduler answers through gpurt_sched_ops.raise.  A client has one
 * of three forms:
 *
 *   self   its thread is raised from its wait for a begin until after its end.  For tasks that never spin in segments.
 *
 *   owner  its thread is raised from the end of the update that gives the GPU to its client until the start of the
 *          update that takes it away.  A thread that has the gate is above all others until its update is over.
 *
 *   fence  as owner, but not while it waits for its own work: the driver reports when that has completed.
 *
 * The page docs/readings/boosted.md, "Boosted", has the bounds that rest on this.
 *
 * The functions are in boost.c and follow the rules of sched.h.
 */
#ifndef GPURT_CORE_BOOST_H
#define GPURT_CORE_BOOST_H

#include "env.h"
#include "../uapi/gpurt.h"

/* The level of a thread: 0: its own priority; 1..99: above all normal priorities, by the level of its segment; or */
#define GPURT_RAISED_TOP	100	/* above all other raised threads, because it has the gate */

struct gpurt_boost {
	u8 form;			/* enum gpurt_form */
	u8 raised;			/* the level that the host was told last */
	u8 asked;			/* level at which its thread waits at the gate or has it; 0: neither */
	bool turn;			/* its thread has the gate */
	bool self;			/* form self: the thread raised itself for this segment */
	bool working;			/* form fence: its thread waits for its own work */
};

struct gpurt_sched;
struct gpurt_sched_client;

u32 gpurt_boost_stated(u32 begin_flags);
int gpurt_boost_refusal(u32 normal, u32 own, u32 level);
u32 gpurt_boost_cpu(u32 normal, u32 level);
u32 gpurt_boost_right(u32 normal, u32 form, u32 level);
int gpurt_boost_form(struct gpurt_sched_client *c, u32 form);
void gpurt_boost_ask(struct gpurt_sched *s, struct gpurt_sched_client *c, u32 level, u64 now);
void gpurt_boost_turn(struct gpurt_sched *s, struct gpurt_sched_client *c, bool turn, u64 now);
void gpurt_boost_over(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
void gpurt_boost_lost(struct gpurt_sched *s, u64 now);
void gpurt_boost_work(struct gpurt_sched *s, struct gpurt_sched_client *c, bool working, u64 now);
void gpurt_boost_refresh(struct gpurt_sched *s, struct gpurt_sched_client *c, u64 now);
u32 gpurt_boost_level(const struct gpurt_sched *s, const struct gpurt_sched_client *c);

#endif
