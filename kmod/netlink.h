/* SPDX-License-Identifier: GPL-2.0 */
/* The control plane: generic netlink family "gpurt". */
#ifndef GPURT_NETLINK_H
#define GPURT_NETLINK_H

#include <net/genetlink.h>

struct gpurt_record;

/* netlink.c */
extern struct genl_family gpurt_family;
int gpurt_netlink_start(void);
void gpurt_netlink_stop(void);
bool gpurt_netlink_heard(void);
void gpurt_netlink_send(const struct gpurt_record *record);
int gpurt_nl_check(struct sk_buff *skb, const struct nlmsghdr *nlh, struct netlink_ext_ack *extack);
int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why);

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

#endif
