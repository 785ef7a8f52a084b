/* SPDX-License-Identifier: GPL-2.0 */
/* Calls that wait. */
#ifndef GPURT_WAIT_H
#define GPURT_WAIT_H

#include "uapi/gpurt.h"

struct gpurt_client;

int gpurt_wait_for(struct gpurt_client *client, struct gpurt_wait *w);
int gpurt_wait_for_order(struct gpurt_client *client, struct gpurt_order *o);
void gpurt_wait_polled(struct gpurt_client *client);

#endif
