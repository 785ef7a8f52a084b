/* SPDX-License-Identifier: GPL-2.0 */
/* The control plane: generic netlink family "gpurt". */
#ifndef GPURT_NETLINK_H
#define GPURT_NETLINK_H

int gpurt_netlink_start(void);
void gpurt_netlink_stop(void);

#endif
