/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The bus between memory and one GPU: it carries one copy at a time.
 *
 * A copy is not preempted.  When one ends, the most urgent request is next, and among equals the one that came first.
 * So a request waits for at most one less urgent copy (docs/rtgpu.md).  A long copy is made in chunks.  Between two of
 * them its client asks for the next one before it gives the bus back.  So no less urgent request comes in between.
 *
 * A real-time client may keep the bus for as long as it likes.  A best-effort client may not keep real-time clients
 * waiting for ever.  It loses the bus when it has had the bus for `bound` while a real-time request waits.
 *
 * The caller serialises all calls for one gpurt_bus and passes a clock that never runs backwards.  It compares
 * `holder` before and after a call: the bus was handed on if that changed.  Every call takes constant time.
 */
#ifndef GPURT_CORE_BUS_H
#define GPURT_CORE_BUS_H

#include "env.h"
#include "../uapi/gpurt.h"
#include "latency.h"
#include "queue.h"

/* A client's place on the bus. */
struct gpurt_bus_node {
	struct list_head node;		/* of gpurt_bus.waiting */
	u32 level;			/* 0..99, of its request */
	u32 state;			/* enum gpurt_state: no request, waits, or has the bus */
	u64 since;			/* start of that state */
	u64 waited;			/* ns, before it last got the bus */
	u64 copies;			/* how often it got the bus */
	u64 held_ns;			/* total time with the bus, up to its last release */
};

struct gpurt_bus {
	struct gpurt_bus_node *holder;
	u32 waiters;
	u64 bound;			/* ns that best effort may keep the bus from real time; 0: for ever */
	struct gpurt_queue waiting;	/* gpurt_bus_node.node, by level */
	struct gpurt_latency waits;	/* of requests that got the bus */
};

void gpurt_bus_init(struct gpurt_bus *b);
void gpurt_bus_node_init(struct gpurt_bus_node *n);
int gpurt_bus_request(struct gpurt_bus *b, struct gpurt_bus_node *n, u32 level, u64 now);
int gpurt_bus_next(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now);
int gpurt_bus_release(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now);
void gpurt_bus_gone(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now);
int gpurt_bus_set_level(struct gpurt_bus *b, struct gpurt_bus_node *n, u32 level);
u64 gpurt_bus_deadline(const struct gpurt_bus *b);
struct gpurt_bus_node *gpurt_bus_tick(struct gpurt_bus *b, u64 now);

#endif
