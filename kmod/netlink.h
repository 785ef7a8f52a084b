/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_NETLINK_H
#define GPURT_NETLINK_H

#include <net/genetlink.h>

#include "internal.h"

/* netlink.c */
extern struct genl_family gpurt_family;
int gpurt_nl_check(const struct nlmsghdr *nlh, u64 required, struct netlink_ext_ack *extack);
int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why);

/* netlink_get.c */
int gpurt_nl_get_status(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_clients(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_latency(struct sk_buff *skb, struct netlink_callback *cb);

/* netlink_set.c */
int gpurt_nl_set_priority(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_policy(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_budget(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_exempt(struct sk_buff *skb, struct genl_info *info);

#endif
