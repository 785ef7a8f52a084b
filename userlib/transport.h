/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* How libgpurt reaches its host: one table of functions a transport. */
#ifndef GPURT_TRANSPORT_H
#define GPURT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

struct gpurt_transport {
	/* Returns a state in *@state, or -errno. */
	int (*open)(const char *path, void **state);
	void (*close)(void *state);
	/* In a child of the process that opened it: drops what the child inherited, touching no lock. */
	void (*abandon)(void *state);
	/*
	 * Carries out ioctl @code on @argument, which begins with its size, in and out.  Returns 0 or -errno;
	 * -EINTR only where @interruptible.
	 */
	int (*call)(void *state, uint32_t code, void *argument, bool interruptible);
	/* The same without an answer, from a signal handler that interrupted call(). */
	int (*post)(void *state, uint32_t code, void *argument);
};

extern const struct gpurt_transport gpurt_transport_ioctl;
extern const struct gpurt_transport gpurt_transport_socket;

#endif
