/* SPDX-License-Identifier: GPL-2.0 */
/* Decisions for a client. */
#ifndef GPURT_DECISIONS_H
#define GPURT_DECISIONS_H

#include <linux/types.h>

struct gpurt_agent;
struct gpurt_client;

int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 form, u32 *state);
int gpurt_client_end(struct gpurt_client *client);
int gpurt_client_agent(struct gpurt_client *client, struct gpurt_agent *agent);
int gpurt_client_priority(struct gpurt_client *client, u32 priority);

#endif
