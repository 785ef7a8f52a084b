/* SPDX-License-Identifier: GPL-2.0 */
/* An open descriptor of /dev/gpurt: its lifetime, and who waits for it in poll(). */
#ifndef GPURT_FILE_H
#define GPURT_FILE_H

#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "uapi/gpurt.h"

#define GPURT_MANY_ENDS 256	/* closed descriptors of a user that are not freed yet */

struct gpurt_client;
struct gpurt_opener;
struct gpurt_team;
struct mm_struct;
struct pid;

/* The descriptor's place in the list of the process that opened it; with the lock of exits.c held. */
struct gpurt_opened {
	struct gpurt_opener *opener;
	struct list_head node;
};

struct gpurt_file {
	struct kref ref;		/* the descriptor's, and its clients' */
	struct mutex lock;		/* its clients, and their TSGs */
	struct gpurt_client *clients[GPURT_MAX_GPUS];
	bool gone;			/* its process ended or executed another program */
	struct pid *tgid;
	kuid_t uid;			/* the user of that process */
	char comm[GPURT_COMM_LEN];
	wait_queue_head_t poll;
	struct irq_work poll_wake;	/* wakes poll() from contexts that cannot lock the queue, */
	struct work_struct slow_poll_wake;	/* or, for best effort and many callers, has a worker do so */
	struct mm_struct *mm;		/* the opener's, while it executes the program that opened the descriptor */
	struct gpurt_opened opened;
	struct gpurt_team *team;	/* its group; with lock held; NULL: none.  Never changes back */
	bool kept;			/* likewise: it joined with GPURT_GROUP_ALL */
	struct list_head in_team;	/* of gpurt_team.files, until it is gone; with gpurt_groups_lock held */
};

static inline struct gpurt_file *gpurt_file_get(struct gpurt_file *file)
{
	kref_get(&file->ref);
	return file;
}

void gpurt_file_put(struct gpurt_file *file);
void gpurt_file_close(struct gpurt_file *file);
bool gpurt_file_many_end(kuid_t uid);
int gpurt_file_await_ends(kuid_t uid);
void gpurt_file_init_poll(struct gpurt_file *file);
void gpurt_file_wake_poll(struct gpurt_file *file);

#endif
