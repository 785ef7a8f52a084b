/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that own descriptors, and how the module learns that one ends. */
#ifndef GPURT_OWNER_H
#define GPURT_OWNER_H

#include <linux/list.h>
#include <linux/types.h>

struct gpurt_client;
struct gpurt_file;
struct gpurt_owner;

/* A descriptor's place in the list of its process; with the lock of owner.c held. */
struct gpurt_owned {
	struct gpurt_owner *owner;
	struct list_head node;
};

/* A client's place in the list of those that are taken off the GPU at once when their process ends; likewise. */
struct gpurt_urgent {
	struct list_head node;
	bool taken_off;
	bool lasting;		/* it is there until it ends, not only while it owns the GPU, or copies */
	bool over;		/* its own end is under way: it is not put there again */
};

int gpurt_owner_watch(struct gpurt_file *file);
bool gpurt_owner_ends(const struct gpurt_file *file);
void gpurt_owner_urgent(struct gpurt_client *client);
void gpurt_owner_holds(struct gpurt_client *client);
void gpurt_owner_copies(struct gpurt_client *client);
void gpurt_owner_calm(struct gpurt_client *client);
void gpurt_owner_let_go(struct gpurt_client *client);
void gpurt_owner_over(struct gpurt_file *file);
void gpurt_owner_forget(struct gpurt_file *file);

int gpurt_owners_start(void);
void gpurt_owners_stop(void);

#endif
