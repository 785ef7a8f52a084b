/* SPDX-License-Identifier: GPL-2.0 */
/* Handlers that netlink.c calls, one for each command. */
#ifndef GPURT_NETLINK_HANDLERS_H
#define GPURT_NETLINK_HANDLERS_H

#include "state/netlink_family.h"

/* netlink_get.c */
int gpurt_nl_get_status(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_clients(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_latency(struct sk_buff *skb, struct netlink_callback *cb);
int gpurt_nl_get_bus(struct sk_buff *skb, struct netlink_callback *cb);

/* netlink_rules.c */
int gpurt_nl_get_rules(struct sk_buff *skb, struct netlink_callback *cb);

/* netlink_set.c */
int gpurt_nl_set_priority(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_policy(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_budget(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_exempt(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_barred(struct sk_buff *skb, struct genl_info *info);
int gpurt_nl_set_group(struct sk_buff *skb, struct genl_info *info);

#endif
