// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "attributes.h"

#define HAS(name) (1ULL << GPURT_A_##name)

#define ATTRIBUTE(name, kind, bytes, meaning) [GPURT_A_##name] = { .type = GPURT_TYPE_##kind, .size = bytes },

static const struct gpurt_attribute attributes[GPURT_A_END] = { GPURT_ATTRIBUTES(ATTRIBUTE) };

static const struct gpurt_request requests[] = {
	{ GPURT_CMD_GET_STATUS, .dump = true, .optional = HAS(GPU) },
	{ GPURT_CMD_GET_CLIENTS, .dump = true, .optional = HAS(GPU) },
	{ GPURT_CMD_GET_LATENCY, .dump = true, .optional = HAS(GPU) },
	{ GPURT_CMD_GET_BUS, .dump = true, .optional = HAS(GPU) },
	{ GPURT_CMD_GET_RULES, .dump = true },
	{ GPURT_CMD_SET_PRIORITY, .administrator = true,
	  .required = HAS(PID) | HAS(PRIORITY), .optional = HAS(GPU) },
	{ GPURT_CMD_SET_POLICY, .administrator = true,
	  .required = HAS(POLICY), .optional = HAS(GPU) | HAS(NOTICE) | HAS(POLL_NS) },
	{ GPURT_CMD_SET_BUDGET, .administrator = true,
	  .required = HAS(BUDGET_NS),
	  .optional = HAS(PID) | HAS(CGROUP) | HAS(PERIOD_NS) | HAS(GPU) | HAS(OVERRUN) },
	{ GPURT_CMD_SET_EXEMPT, .administrator = true,
	  .required = HAS(EXEMPT), .optional = HAS(PID) | HAS(COMM) | HAS(CGROUP) },
	{ GPURT_CMD_SET_BARRED, .administrator = true,
	  .required = HAS(BARRED), .optional = HAS(PID) | HAS(COMM) | HAS(CGROUP) },
	{ GPURT_CMD_SET_GROUP, .administrator = true,
	  .required = HAS(GROUP) | HAS(PID) },
};

/* The attribute with that number; NULL: there is no such attribute. */
const struct gpurt_attribute *gpurt_attribute_find(u32 number)
{
	return number < GPURT_A_END && attributes[number].size ? &attributes[number] : NULL;
}

/* Finds the attributes of a request with that command; NULL: the command is no request. */
const struct gpurt_request *gpurt_request_find(u32 command)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(requests); i++)
		if (requests[i].command == command)
			return &requests[i];
	return NULL;
}
