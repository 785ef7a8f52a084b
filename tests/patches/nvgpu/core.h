/* SPDX-License-Identifier: GPL-2.0 */
/* The scheduler of kmod/core with one client for each process, for a harness whose types are another driver's. */
#ifndef PATCHES_CORE_H
#define PATCHES_CORE_H

#include <stdbool.h>

#define CORE_CLIENTS 4

void core_start(unsigned int policy);
/* One client does something; returns whether it may. */
bool core_step(int client, unsigned int what, unsigned int priority);
void core_tsgs(int client, int change);
void core_killed(int client);
/* Whether an update of the runlist is asked for since the last call. */
bool core_wants_commit(void);
/* Whether the client's TSGs are to be on the runlist; of a process that is no client (-1): whether everyone's are. */
bool core_may_run(int client);

#endif
