// SPDX-License-Identifier: GPL-2.0
/*
 * The control plane: generic netlink family "gpurt", see uapi/gpurt.h.  It lives in the initial network
 * namespace.  Reading needs no privilege, every SET command needs CAP_SYS_NICE.
 */
#include <linux/module.h>

#include "calls/calls.h"
#include "core/attributes.h"

/* By command, from core/attributes.c; see fill_policies(). */
static struct nla_policy policies[GPURT_CMD_COUNT][GPURT_A_END] __ro_after_init;

#define GET(command, function) { \
	.cmd = command, .dumpit = function, .policy = policies[command], .maxattr = GPURT_A_END - 1, \
}
#define SET(command) { \
	.cmd = command, .doit = gpurt_nl_set, .policy = policies[command], .maxattr = GPURT_A_END - 1, \
}

static const struct genl_ops ops[] = {
	GET(GPURT_CMD_GET_STATUS, gpurt_nl_get),
	GET(GPURT_CMD_GET_CLIENTS, gpurt_nl_get),
	GET(GPURT_CMD_GET_LATENCY, gpurt_nl_get),
	GET(GPURT_CMD_GET_BUS, gpurt_nl_get),
	GET(GPURT_CMD_GET_RULES, gpurt_nl_get_rules),
	SET(GPURT_CMD_SET_PRIORITY),
	SET(GPURT_CMD_SET_POLICY),
	SET(GPURT_CMD_SET_BUDGET),
	SET(GPURT_CMD_SET_EXEMPT),
	SET(GPURT_CMD_SET_BARRED),
	SET(GPURT_CMD_SET_GROUP),
};

static void __init fill_policy(struct nla_policy *policy, const struct gpurt_attribute *a)
{
	static const u8 types[] __initconst = {
		[GPURT_TYPE_U32] = NLA_U32, [GPURT_TYPE_U64] = NLA_U64,
		[GPURT_TYPE_STRING] = NLA_NUL_STRING, [GPURT_TYPE_BINARY] = NLA_BINARY,
	};

	policy->type = types[a->type];
	if (a->type == GPURT_TYPE_STRING)
		policy->len = a->size - 1;
	else if (a->type == GPURT_TYPE_BINARY)
		policy->len = a->size;
}

/* An attribute without a policy is refused as unknown. */
static void __init fill_policies(void)
{
	const struct gpurt_request *request;
	u32 command, number;

	BUILD_BUG_ON(GPURT_A_END < GPURT_A_REQUESTS);
	for (command = 0; command < GPURT_CMD_COUNT; command++) {
		request = gpurt_request_find(command);
		for (number = 0; request && number < GPURT_A_REQUESTS; number++)
			if ((request->required | request->optional) & BIT_ULL(number))
				fill_policy(&policies[command][number], gpurt_attribute_find(number));
	}
}

int __init gpurt_netlink_start(void)
{
	fill_policies();
	gpurt_family.ops = ops;
	gpurt_family.n_ops = ARRAY_SIZE(ops);
	return genl_register_family(&gpurt_family);
}

void gpurt_netlink_stop(void)
{
	genl_unregister_family(&gpurt_family);
}
