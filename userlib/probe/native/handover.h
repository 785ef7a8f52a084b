/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A group and the descriptor behind it, handed from the process that owns them to another. */
#ifndef PROBE_HANDOVER_H
#define PROBE_HANDOVER_H

#include <sys/types.h>

#include "ops.h"

struct handover {
	pid_t pid;
	struct rm_tsg tsg;		/* .fd: as the owner numbers it */
	struct ops_caller caller;
};

/* 0, or -1; with SCM_RIGHTS the descriptor travels along, else only its number. */
int handover_send(int socket, const struct handover *handover);
/* NULL, or why there is nothing to call through; .tsg.fd is then this process's own. */
const char *handover_receive(int socket, struct handover *handover);

/* To user and group nobody, with no other groups; 0, or -1. */
int drop_privileges(void);
void kill_child(pid_t child);

#endif
