/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Structures that agent.c and boards.c share: the GPUs, and the process's TSGs on each. */
#ifndef GPURT_PRELOAD_BOARD_H
#define GPURT_PRELOAD_BOARD_H

#include <stdatomic.h>

#include "preload.h"

/* The time between two tries of a call that the driver refused; if nobody waits, it doubles up to RETRY_MAX_NS. */
#define RETRY_NS	1000000
#define RETRY_MAX_NS	128000000
#define RETRIES		100
#define ROOM_NS		1000000000	/* how often the host is asked whether it has room for one more agent */

/* One GPU. */
struct board {
	struct tsg *tsgs;
	char device[GPURT_NAME_LEN];	/* the GPU's address; empty: not known */
	unsigned int number;		/* of TSGs */
	const struct family *family;
	bool running;			/* its thread waits for orders */
	bool introduced;		/* the host has been told of the process */
	bool driven;			/* the host's driver switches the TSGs itself (tier T2): there are no orders */
	atomic_bool changed;		/* the host must be told how many TSGs there are */
	bool unmanaged;			/* no host, no host for this GPU, no room there, or an unknown driver release */
	_Atomic(uint64_t) again;	/* no room: when the host is asked again, ns; 0: it need not be */
	bool on;			/* what the last order said */
	uint64_t set;			/* changes when the TSGs' channels change or may have been enabled */
	bool free;			/* the process may begin without asking, as the last order said */
	bool yields;			/* the process may begin beside others, likewise */
	unsigned int slice_us;		/* of the group for kernels, as the last order said; 0: its own */
	bool uncut;			/* the driver has refused a slice */
	int result;			/* of the last order */
	uint64_t sequence;		/* of the last order that was carried out */
};

extern struct board boards[GPURT_MAX_GPUS];

/*
 * Called with the lock held.  Switches all TSGs that are not known to be @on.  Tries all of them and returns the first
 * error.
 */
int board_turn(struct board *b, bool on);
/*
 * Called with the lock held.  Sets the ordered slice of groups for kernels.  Returns whether all have that slice now.
 * If the driver refuses, the order has not failed, but the host is told.
 */
bool board_slice(struct board *b);
/* Called with the lock held.  Whether the host may order slices for the board. */
bool board_single(const struct board *b);
/* Called with the lock held.  Forgets which TSGs are on or off. */
void board_doubt(struct board *b);
/* Called with the lock held.  The agent of another process takes the TSGs off. */
void board_taken(struct board *b);
/* Called with the lock held.  Another process's agent may know channels that have since changed. */
void board_change(struct board *b);
/* Called with the lock held.  The channels that another process's agent can switch, all or none. */
void board_channels(struct board *b, struct gpurt_channels *channels);
/*
 * Called with the lock held.  Writes the place of the process's TSGs for the host: the driver family, and the GPU
 * instance if all are on one.
 */
void board_driver(const struct board *b, char text[GPURT_NAME_LEN]);
/* Called with the lock held.  The lowest tier of the families of the board's TSGs.  @how: its method and reason. */
unsigned int board_tier(const struct board *b, const char **how);
void pause_ns(long ns);

#endif
