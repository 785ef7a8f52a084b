/* SPDX-License-Identifier: GPL-2.0 */
/* Clients whose TSGs stay on every runlist, by the administrator's rules. */
#ifndef GPURT_EXEMPT_H
#define GPURT_EXEMPT_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_gpu;

void gpurt_exempt_apply(struct gpurt_client *client);
void gpurt_exempt_tell(struct gpurt_gpu *gpu);
bool gpurt_exempt_matches(const struct gpurt_client *client);

#endif
