/* SPDX-License-Identifier: GPL-2.0 */
/* Clients come and go, and decisions are taken for them. */
#ifndef GPURT_CLIENT_H
#define GPURT_CLIENT_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_file;
struct gpurt_gpu;

struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file);
void gpurt_client_destroy(struct gpurt_client *client);
void gpurt_client_take_off(struct gpurt_client *client);
void gpurt_client_gone(struct gpurt_client *client, bool process);
void gpurt_client_reap(struct gpurt_gpu *gpu);
void gpurt_client_disband(struct gpurt_gpu *gpu);
void gpurt_client_drain(struct gpurt_gpu *gpu);

#endif
