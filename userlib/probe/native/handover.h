/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Hands a group and its descriptor from the process that owns them to another process. */
#ifndef PROBE_HANDOVER_H
#define PROBE_HANDOVER_H

#include <sys/types.h>

#include "ops.h"

struct handover {
	pid_t pid;
	struct rm_tsg tsg;		/* .fd: the owner's number for it */
	struct ops_caller caller;
};

/* Returns 0 or -1.  For caller "scm_rights" the descriptor itself is sent, otherwise only its number. */
int handover_send(int socket, const struct handover *handover);
/* Returns NULL, or why there is no descriptor.  On success .tsg.fd is this process's own descriptor. */
const char *handover_receive(int socket, struct handover *handover);

/* Becomes the user and the group nobody (65534), without other groups.  Returns 0 or -1. */
int drop_privileges(void);
/* Ends a child: SIGTERM, half a second, SIGKILL. */
void kill_child(pid_t child);

#endif
