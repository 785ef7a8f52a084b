/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_CHARDEV_H
#define GPURT_CHARDEV_H

#include "internal.h"

struct file;

/* ioctl.c */
long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

/* chardev.c */
struct gpurt_client *gpurt_file_client(struct gpurt_file *file, u32 index);

#endif
