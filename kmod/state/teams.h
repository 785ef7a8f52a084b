/* SPDX-License-Identifier: GPL-2.0 */
/* The groups that there are, by user and name, and the descriptors in them. */
#ifndef GPURT_STATE_TEAMS_H
#define GPURT_STATE_TEAMS_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_file;
struct gpurt_team;
struct pid;

bool gpurt_team_has_room(kuid_t uid, const char *name, u32 more);
int gpurt_team_enter(struct gpurt_file *file, const char *name, bool all);
void gpurt_team_leave(struct gpurt_file *file);
u32 gpurt_team_elsewhere(const struct gpurt_client *client);
u32 gpurt_team_pids(struct gpurt_team *team, struct pid **pids);

#endif
