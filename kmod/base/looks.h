/* SPDX-License-Identifier: GPL-2.0 */
/* The order in which policy `job` looks at clients: each has its turn. */
#ifndef GPURT_LOOKS_H
#define GPURT_LOOKS_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/*
 * A GPU's clients in the order of their turns.  Urgent clients are in two lists, for looks at tasks that stopped [0][1]
 * and that started [1][1].  Best-effort clients are in one list, [1][0]: a look at it is for both.
 */
struct gpurt_looks {
	raw_spinlock_t lock;
	struct list_head turns[2][2];	/* of gpurt_looked.node[0] and [1]; the first one's turn is next */
	u32 count[2];			/* number of clients: best effort, urgent */
};

/* One client; with gpurt_looks.lock held. */
struct gpurt_looked {
	struct list_head node[2];
	bool urgent;			/* it has been real-time */
};

void gpurt_looks_init(struct gpurt_looks *looks);
void gpurt_looked_init(struct gpurt_looked *looked);
void gpurt_looks_add(struct gpurt_looks *looks, struct gpurt_looked *looked);
void gpurt_looks_remove(struct gpurt_looks *looks, struct gpurt_looked *looked);
void gpurt_looks_urgent(struct gpurt_looks *looks, struct gpurt_looked *looked);
u32 gpurt_looks_count(const struct gpurt_looks *looks, bool urgent);
struct gpurt_looked *gpurt_looks_next(struct gpurt_looks *looks, bool started, bool urgent);

#endif
