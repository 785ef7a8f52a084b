// SPDX-License-Identifier: GPL-2.0
/*
 * The control plane: generic netlink family "gpurt", see uapi/gpurt.h.  It lives in the initial network
 * namespace.  Reading needs no privilege, every SET command needs CAP_SYS_NICE.
 */
#include <linux/capability.h>
#include <linux/module.h>

#include "compat.h"
#include "events.h"
#include "netlink.h"

#define BY_NAME(x, prefix) [x] = prefix #x
#define ALL_NAMES(prefix) { \
	BY_NAME(GPURT_A_GPU, prefix), BY_NAME(GPURT_A_POLICY, prefix), BY_NAME(GPURT_A_NOTICE, prefix), \
	BY_NAME(GPURT_A_POLL_NS, prefix), BY_NAME(GPURT_A_PID, prefix), BY_NAME(GPURT_A_COMM, prefix), \
	BY_NAME(GPURT_A_CGROUP, prefix), BY_NAME(GPURT_A_PRIORITY, prefix), BY_NAME(GPURT_A_EXEMPT, prefix), \
	BY_NAME(GPURT_A_BUDGET_NS, prefix), BY_NAME(GPURT_A_OVERRUN, prefix), \
}

static const char *const missing_text[GPURT_A_END] = ALL_NAMES("missing attribute ");
static const char *const duplicate_text[GPURT_A_END] = ALL_NAMES("duplicate attribute ");

int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why)
{
	if (extack && why)
		extack->_msg = why;
	return err;
}

/* Checks what the kernel's own validation does not: the version, that no attribute is repeated or missing. */
int gpurt_nl_check(const struct nlmsghdr *nlh, u64 required, struct netlink_ext_ack *extack)
{
	const struct genlmsghdr *header = nlmsg_data(nlh);
	const struct nlattr *attr;
	int rem, type;
	u64 seen = 0;

	BUILD_BUG_ON(GPURT_A_END > 64);
	if (header->version != GPURT_GENL_VERSION || header->reserved)
		return gpurt_nl_refuse(extack, -EINVAL, "this host speaks version 1 of the family");
	nlmsg_for_each_attr(attr, nlh, GENL_HDRLEN, rem) {
		type = nla_type(attr);
		if (type >= GPURT_A_END)
			continue;
		if (seen & BIT_ULL(type))
			return gpurt_nl_refuse(extack, -EINVAL, duplicate_text[type]);
		seen |= BIT_ULL(type);
	}
	if (required & ~seen)
		return gpurt_nl_refuse(extack, -EINVAL, missing_text[__ffs64(required & ~seen)]);
	return 0;
}

static const struct nla_policy get_policy[] = {
	[GPURT_A_GPU] = { .type = NLA_U32 },
};

static const struct nla_policy priority_policy[] = {
	[GPURT_A_GPU] = { .type = NLA_U32 },
	[GPURT_A_PID] = { .type = NLA_U32 },
	[GPURT_A_PRIORITY] = { .type = NLA_U32 },
};

static const struct nla_policy policy_policy[] = {
	[GPURT_A_GPU] = { .type = NLA_U32 },
	[GPURT_A_POLICY] = { .type = NLA_U32 },
	[GPURT_A_NOTICE] = { .type = NLA_U32 },
	[GPURT_A_POLL_NS] = { .type = NLA_U64 },
};

static const struct nla_policy budget_policy[] = {
	[GPURT_A_GPU] = { .type = NLA_U32 },
	[GPURT_A_PID] = { .type = NLA_U32 },
	[GPURT_A_BUDGET_NS] = { .type = NLA_U64 },
	[GPURT_A_OVERRUN] = { .type = NLA_U32 },
};

static const struct nla_policy exempt_policy[] = {
	[GPURT_A_EXEMPT] = { .type = NLA_U32 },
	[GPURT_A_PID] = { .type = NLA_U32 },
	[GPURT_A_COMM] = { .type = NLA_NUL_STRING, .len = GPURT_COMM_LEN - 1 },
	[GPURT_A_CGROUP] = { .type = NLA_NUL_STRING, .len = GPURT_CGROUP_LEN - 1 },
};

#define GET(command, function) { \
	.cmd = command, .dumpit = function, .policy = get_policy, .maxattr = ARRAY_SIZE(get_policy) - 1, \
}
#define SET(command, function, rules) { \
	.cmd = command, .doit = function, .policy = rules, .maxattr = ARRAY_SIZE(rules) - 1, \
}

static const struct genl_ops ops[] = {
	GET(GPURT_CMD_GET_STATUS, gpurt_nl_get_status),
	GET(GPURT_CMD_GET_CLIENTS, gpurt_nl_get_clients),
	GET(GPURT_CMD_GET_LATENCY, gpurt_nl_get_latency),
	SET(GPURT_CMD_SET_PRIORITY, gpurt_nl_set_priority, priority_policy),
	SET(GPURT_CMD_SET_POLICY, gpurt_nl_set_policy, policy_policy),
	SET(GPURT_CMD_SET_BUDGET, gpurt_nl_set_budget, budget_policy),
	SET(GPURT_CMD_SET_EXEMPT, gpurt_nl_set_exempt, exempt_policy),
};

static const struct genl_multicast_group groups[] = {
	{ .name = GPURT_GENL_EVENTS },
};

struct genl_family gpurt_family __ro_after_init = {
	.name = GPURT_GENL_NAME,
	.version = GPURT_GENL_VERSION,
	.module = THIS_MODULE,
	.parallel_ops = true,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

/* Whether a socket has joined the group of events. */
bool gpurt_netlink_heard(void)
{
	return genl_has_listeners(&gpurt_family, &init_net, 0);
}

static int put_event(struct sk_buff *skb, const struct gpurt_record *r)
{
	if (nla_put_u32(skb, GPURT_A_EVENT, r->event) ||
	    nla_put_u64_64bit(skb, GPURT_A_TIME_NS, r->time, GPURT_A_PAD))
		return -EMSGSIZE;
	if (r->event == GPURT_EVENT_LOST)
		return nla_put_u64_64bit(skb, GPURT_A_LOST, r->latency, GPURT_A_PAD);
	if (nla_put_u32(skb, GPURT_A_GPU, r->gpu))
		return -EMSGSIZE;
	if (r->client && (nla_put_u64_64bit(skb, GPURT_A_CLIENT, r->client, GPURT_A_PAD) ||
			  nla_put_u32(skb, GPURT_A_PID, r->pid) ||
			  nla_put_string(skb, GPURT_A_COMM, r->comm) ||
			  nla_put_u32(skb, GPURT_A_PRIORITY, r->priority)))
		return -EMSGSIZE;
	if (r->event == GPURT_EVENT_COMMIT && nla_put_u32(skb, GPURT_A_CAUSE, r->cause))
		return -EMSGSIZE;
	if (r->latency && nla_put_u64_64bit(skb, GPURT_A_LATENCY_NS, r->latency, GPURT_A_PAD))
		return -EMSGSIZE;
	return 0;
}

/* Sends an event to every reader.  A reader that is too slow learns from its socket (ENOBUFS) that it lost some. */
void gpurt_netlink_send(const struct gpurt_record *record)
{
	struct sk_buff *skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *header;

	if (!skb)
		return;
	header = genlmsg_put(skb, 0, 0, &gpurt_family, 0, GPURT_CMD_EVENT);
	if (!header || put_event(skb, record)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast(&gpurt_family, skb, 0, 0, GFP_KERNEL);
}

int __init gpurt_netlink_start(void)
{
	return genl_register_family(&gpurt_family);
}

void gpurt_netlink_stop(void)
{
	genl_unregister_family(&gpurt_family);
}
