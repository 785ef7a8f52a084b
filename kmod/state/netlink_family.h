/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family "gpurt". */
#ifndef GPURT_NETLINK_FAMILY_H
#define GPURT_NETLINK_FAMILY_H

#include <net/genetlink.h>

extern struct genl_family gpurt_family;	/* netlink.c adds the operations */

struct gpurt_record;

bool gpurt_netlink_heard(void);
void gpurt_netlink_send(const struct gpurt_record *record);
int gpurt_nl_check(struct sk_buff *skb, const struct nlmsghdr *nlh, struct netlink_ext_ack *extack);
int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why);

#endif
