/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_IOCTL_H
#define GPURT_IOCTL_H

struct file;

long gpurt_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);

#endif
