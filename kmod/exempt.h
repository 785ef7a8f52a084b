/* SPDX-License-Identifier: GPL-2.0 */
/* The administrator's rules: which clients' TSGs stay on every runlist. */
#ifndef GPURT_EXEMPT_H
#define GPURT_EXEMPT_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;
struct pid;

int gpurt_exempt_change(u32 attr, const char *text, struct pid *pid, bool add, const char **why);
void gpurt_exempt_apply(struct gpurt_client *client);
void gpurt_exempt_tell(struct gpurt_gpu *gpu);
bool gpurt_exempt_matches(const struct gpurt_client *client);
void gpurt_exempt_clear(void);

bool gpurt_has_cgroups(void);
bool gpurt_cgroup_is_below(const char *path, const char *prefix);
void gpurt_cgroup_of(struct pid *tgid, char *path, size_t size);

#endif
