/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/gpurt. */
#ifndef GPURT_CHARDEV_H
#define GPURT_CHARDEV_H

int gpurt_chardev_start(void);
void gpurt_chardev_stop(void);

#endif
