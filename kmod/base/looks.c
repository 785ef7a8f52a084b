// SPDX-License-Identifier: GPL-2.0
/*
 * Users choose how many clients there are, so a look of policy `job` does not visit all of them.  Clients that have
 * been real-time have lists of their own, so that best-effort clients, however many, do not delay looks at them.
 */
#include <linux/kernel.h>

#include "base/looks.h"

void gpurt_looks_init(struct gpurt_looks *looks)
{
	int i;

	raw_spin_lock_init(&looks->lock);
	for (i = 0; i < 4; i++)
		INIT_LIST_HEAD(&looks->turns[i / 2][i % 2]);
}

void gpurt_looked_init(struct gpurt_looked *looked)
{
	INIT_LIST_HEAD(&looked->node[false]);
	INIT_LIST_HEAD(&looked->node[true]);
}

/* Called with the lock held. */
static void enlist(struct gpurt_looks *looks, struct gpurt_looked *looked)
{
	looks->count[looked->urgent]++;
	if (looked->urgent)
		list_add_tail(&looked->node[false], &looks->turns[false][true]);
	list_add_tail(&looked->node[true], &looks->turns[true][looked->urgent]);
}

/* Called with the lock held.  Returns whether it was in the lists. */
static bool unlist(struct gpurt_looks *looks, struct gpurt_looked *looked)
{
	if (list_empty(&looked->node[true]))
		return false;
	looks->count[looked->urgent]--;
	list_del_init(&looked->node[false]);
	list_del_init(&looked->node[true]);
	return true;
}

/* A new client.  The functions here are called in process context. */
void gpurt_looks_add(struct gpurt_looks *looks, struct gpurt_looked *looked)
{
	raw_spin_lock(&looks->lock);
	enlist(looks, looked);
	raw_spin_unlock(&looks->lock);
}

/* The client goes. */
void gpurt_looks_remove(struct gpurt_looks *looks, struct gpurt_looked *looked)
{
	raw_spin_lock(&looks->lock);
	unlist(looks, looked);
	raw_spin_unlock(&looks->lock);
}

/* From now on the client counts as having been real-time.  It may be added later. */
void gpurt_looks_urgent(struct gpurt_looks *looks, struct gpurt_looked *looked)
{
	bool listed;

	raw_spin_lock(&looks->lock);
	listed = unlist(looks, looked);
	looked->urgent = true;
	if (listed)
		enlist(looks, looked);
	raw_spin_unlock(&looks->lock);
}

u32 gpurt_looks_count(const struct gpurt_looks *looks, bool urgent)
{
	return READ_ONCE(looks->count[urgent]);
}

/* The client whose turn it is; it moves to the end of the list.  NULL: there is no client. */
struct gpurt_looked *gpurt_looks_next(struct gpurt_looks *looks, bool started, bool urgent)
{
	struct list_head *turns = &looks->turns[started][urgent], *node = NULL;

	raw_spin_lock(&looks->lock);
	if (!list_empty(turns)) {
		node = turns->next;
		list_move_tail(node, turns);
	}
	raw_spin_unlock(&looks->lock);
	return node ? container_of(node - started, struct gpurt_looked, node[0]) : NULL;
}
