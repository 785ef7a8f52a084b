// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "bus.h"

/* Initialises zeroed memory. */
void gpurt_bus_init(struct gpurt_bus *b)
{
	b->bound = GPURT_COPY_BOUND_NS;
	gpurt_queue_init(&b->waiting);
}

void gpurt_bus_node_init(struct gpurt_bus_node *n)
{
	*n = (struct gpurt_bus_node){ .state = GPURT_STATE_IDLE };
	INIT_LIST_HEAD(&n->node);
}

/* The most urgent request, the first among equals; NULL: no request waits. */
static struct gpurt_bus_node *first(const struct gpurt_bus *b)
{
	return b->waiters ? list_entry(gpurt_queue_first(&b->waiting), struct gpurt_bus_node, node) : NULL;
}

static void enqueue(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now)
{
	n->state = GPURT_STATE_PENDING;
	n->since = now;
	b->waiters++;
	gpurt_queue_add(&b->waiting, &n->node, n->level);
}

static void dequeue(struct gpurt_bus *b, struct gpurt_bus_node *n)
{
	b->waiters--;
	gpurt_queue_del(&b->waiting, &n->node, n->level);
}

/* The bus is free: the most urgent request gets it. */
static void hand_on(struct gpurt_bus *b, u64 now)
{
	struct gpurt_bus_node *n = first(b);

	b->holder = n;
	if (!n)
		return;
	dequeue(b, n);
	n->waited = now - n->since;
	gpurt_latency_record(&b->waits, n->waited);
	n->state = GPURT_STATE_RUNNING;
	n->since = now;
	n->copies++;
}

static void give_back(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now)
{
	n->held_ns += now - n->since;
	n->state = GPURT_STATE_IDLE;
	n->since = now;
	b->holder = NULL;
}

/*
 * Asks for the bus at @level.  Afterwards n->state says whether the client has the bus or waits.  -EINVAL: no such
 * level; -EBUSY: the client has asked already.
 */
int gpurt_bus_request(struct gpurt_bus *b, struct gpurt_bus_node *n, u32 level, u64 now)
{
	if (level > GPURT_MAX_PRIORITY)
		return -EINVAL;
	if (n->state != GPURT_STATE_IDLE)
		return -EBUSY;
	n->level = level;
	enqueue(b, n, now);
	if (!b->holder)
		hand_on(b, now);
	return 0;
}

/*
 * A chunk is over, and the client has another one.  It asks for the bus again, behind its equals, before it gives the
 * bus back.  Returns -ENOENT if the client does not have the bus.
 */
int gpurt_bus_next(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now)
{
	if (n->state != GPURT_STATE_RUNNING)
		return -ENOENT;
	give_back(b, n, now);
	enqueue(b, n, now);
	hand_on(b, now);
	return 0;
}

/* The copy is over, or the request is withdrawn.  -ENOENT: the client has no copy and no request. */
int gpurt_bus_release(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now)
{
	if (n->state == GPURT_STATE_IDLE)
		return -ENOENT;
	if (n->state == GPURT_STATE_RUNNING) {
		give_back(b, n, now);
		hand_on(b, now);
		return 0;
	}
	dequeue(b, n);
	n->state = GPURT_STATE_IDLE;
	n->since = now;
	return 0;
}

/* The client died, executed another program, or closed its descriptor.  Its memory is the host's again. */
void gpurt_bus_gone(struct gpurt_bus *b, struct gpurt_bus_node *n, u64 now)
{
	if (n->state != GPURT_STATE_IDLE)
		gpurt_bus_release(b, n, now);
}

/* Changes the level of the client's request, which comes last at the new level.  -EINVAL: no such level. */
int gpurt_bus_set_level(struct gpurt_bus *b, struct gpurt_bus_node *n, u32 level)
{
	if (level > GPURT_MAX_PRIORITY)
		return -EINVAL;
	if (level == n->level)
		return 0;
	if (n->state == GPURT_STATE_PENDING) {
		gpurt_queue_del(&b->waiting, &n->node, n->level);
		gpurt_queue_add(&b->waiting, &n->node, level);
	}
	n->level = level;
	return 0;
}

/* When to call gpurt_bus_tick(); U64_MAX: no need. */
u64 gpurt_bus_deadline(const struct gpurt_bus *b)
{
	const struct gpurt_bus_node *n = first(b);

	return b->bound && n && n->level && !b->holder->level ? b->holder->since + b->bound : U64_MAX;
}

/* To be called at the deadline.  Returns the best-effort client that had the bus too long and lost it, or NULL. */
struct gpurt_bus_node *gpurt_bus_tick(struct gpurt_bus *b, u64 now)
{
	struct gpurt_bus_node *n = b->holder;

	if (gpurt_bus_deadline(b) > now)
		return NULL;
	give_back(b, n, now);
	hand_on(b, now);
	return n;
}
