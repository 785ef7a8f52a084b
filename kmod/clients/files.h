/* SPDX-License-Identifier: GPL-2.0 */
/* The clients of a descriptor. */
#ifndef GPURT_FILES_H
#define GPURT_FILES_H

#include <linux/types.h>

struct gpurt_client;
struct gpurt_file;

bool gpurt_file_is_alive(const struct gpurt_file *file);
struct gpurt_client *gpurt_file_client(struct gpurt_file *file, u32 index);
void gpurt_file_gone(struct gpurt_file *file, bool process);

#endif
