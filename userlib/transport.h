/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* How libgpurt reaches its host: a table of functions for each transport. */
#ifndef GPURT_TRANSPORT_H
#define GPURT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

/* How long a call may take, which decides what its thread does until the answer comes. */
enum gpurt_patience {
	GPURT_WAITS,			/* for the GPU or for work: it sleeps, and a signal interrupts it (-EINTR) */
	GPURT_IS_ANSWERED,		/* as soon as the host has its turn */
	GPURT_SPINS,			/* likewise; the thread keeps its CPU, for its client has form `owner` or `fence` */
};

struct gpurt_transport {
	/* Stores the connection in *@state.  Returns 0 or -errno. */
	int (*open)(const char *path, void **state);
	void (*close)(void *state);
	/* Called in a child of the process that called open(): frees the child's copies and takes no lock. */
	void (*abandon)(void *state);
	/* Carries out ioctl @code.  @argument begins with its own size and receives the answer.  Returns 0 or -errno. */
	int (*call)(void *state, uint32_t code, void *argument, enum gpurt_patience patience);
	/* Whether the host is gone.  NULL: it cannot go. */
	bool (*lost)(void *state);
	/*
	 * Like call(), without an answer.  @patient: for a signal handler that interrupted call().  Otherwise -EAGAIN
	 * if the call had to wait for the host to read, or if MOST_POSTS posts may be unread.
	 */
	int (*post)(void *state, uint32_t code, void *argument, bool patient);
};

extern const struct gpurt_transport gpurt_transport_ioctl;
extern const struct gpurt_transport gpurt_transport_socket;

#endif
