/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors join groups, and their clients take their seats. */
#ifndef GPURT_CLIENTS_GROUP_H
#define GPURT_CLIENTS_GROUP_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_file;
struct gpurt_gpu;
struct gpurt_group_join;

bool gpurt_groups_possible(void);
int gpurt_group_check(struct gpurt_file *file, const char *name, u32 index, u32 *entering);
int gpurt_group_join(struct gpurt_file *file, const struct gpurt_group_join *asked, u32 own);
int gpurt_group_moved(struct gpurt_file *file, const char *name);
int gpurt_group_first(struct gpurt_client *client, u32 own, u32 right);
int gpurt_group_seat(struct gpurt_client *client, u32 own, bool moved);
void gpurt_group_left(struct gpurt_client *client, u64 now);
void gpurt_group_parted(struct gpurt_client *client);
void gpurt_group_leveled(struct gpurt_client *client);

#endif
