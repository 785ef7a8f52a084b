/* SPDX-License-Identifier: GPL-2.0 */
/* The clients of all GPUs: walks of them, and their release. */
#ifndef GPURT_CLIENTS_H
#define GPURT_CLIENTS_H

#include <linux/rculist.h>
#include <linux/types.h>

#include "state/client.h"

void gpurt_clients_add(struct gpurt_client *client);
bool gpurt_clients_remove(struct gpurt_client *client);
u64 gpurt_clients_newest(void);
void gpurt_client_put(struct gpurt_client *client);

/* Between the first two no client of any GPU is freed.  The caller may sleep. */
int gpurt_clients_read(void);
void gpurt_clients_done(int token);
bool gpurt_clients_reading(void);
#define gpurt_for_each_client(client, gpu) \
	list_for_each_entry_rcu(client, &(gpu)->clients, node, gpurt_clients_reading())

void gpurt_clients_start(void (*destroy)(struct gpurt_client *client));
void gpurt_clients_stop(void);

#endif
