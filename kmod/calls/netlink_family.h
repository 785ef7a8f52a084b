/* SPDX-License-Identifier: GPL-2.0 */
/* The generic netlink family "gpurt". */
#ifndef GPURT_NETLINK_FAMILY_H
#define GPURT_NETLINK_FAMILY_H

#include <net/genetlink.h>

extern struct genl_family gpurt_family;	/* netlink.c adds the operations */
extern const struct gpurt_events_sink gpurt_netlink_sink;

int gpurt_nl_check(struct sk_buff *skb, const struct nlmsghdr *nlh, struct netlink_ext_ack *extack);
int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why);

#endif
