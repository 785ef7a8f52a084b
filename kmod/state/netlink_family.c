// SPDX-License-Identifier: GPL-2.0
/* The generic netlink family: checks of every request, and events for the readers of its groups. */
#include <linux/capability.h>
#include <linux/module.h>

#include "compat.h"
#include "core/attributes.h"
#include "state/netlink_family.h"
#include "state/record.h"

#define MISSING(name, kind, bytes, meaning) [GPURT_A_##name] = "missing attribute GPURT_A_" #name,
#define DUPLICATE(name, kind, bytes, meaning) [GPURT_A_##name] = "duplicate attribute GPURT_A_" #name,

/* extack takes constant texts only. */
static const char *const missing_text[GPURT_A_END] = { GPURT_ATTRIBUTES(MISSING) };
static const char *const duplicate_text[GPURT_A_END] = { GPURT_ATTRIBUTES(DUPLICATE) };

int gpurt_nl_refuse(struct netlink_ext_ack *extack, int err, const char *why)
{
	if (extack && why)
		extack->_msg = why;
	return err;
}

/* Refuses a request in which an attribute is repeated, or one of @required is missing. */
static int check_attributes(const struct nlmsghdr *nlh, u64 required, struct netlink_ext_ack *extack)
{
	const struct nlattr *attr;
	int rem, type;
	u64 seen = 0;

	nlmsg_for_each_attr(attr, nlh, GENL_HDRLEN, rem) {
		type = nla_type(attr);
		if (type >= GPURT_A_REQUESTS)
			continue;	/* unknown, hence refused: no request has a policy for it */
		if (seen & BIT_ULL(type))
			return gpurt_nl_refuse(extack, -EINVAL, duplicate_text[type]);
		seen |= BIT_ULL(type);
	}
	if (required & ~seen)
		return gpurt_nl_refuse(extack, -EINVAL, missing_text[__ffs64(required & ~seen)]);
	return 0;
}

/*
 * Checks what the kernel's own validation does not check: the sender's rights, the version, and that no attribute is
 * repeated or missing.
 */
int gpurt_nl_check(struct sk_buff *skb, const struct nlmsghdr *nlh, struct netlink_ext_ack *extack)
{
	const struct genlmsghdr *header = nlmsg_data(nlh);
	const struct gpurt_request *request = gpurt_request_find(header->cmd);

	if (request->administrator && !netlink_capable(skb, CAP_SYS_NICE))
		return gpurt_nl_refuse(extack, -EPERM, "this needs CAP_SYS_NICE: run as root");
	if (header->version != GPURT_GENL_VERSION || header->reserved)
		return gpurt_nl_refuse(extack, -EINVAL, "this host speaks version 1 of the family");
	return check_attributes(nlh, request->required, extack);
}

/* Indices of groups; not every kernel has the second group. */
enum { EVENTS, NAMED_EVENTS };

static const struct genl_multicast_group groups[] = {
	{ .name = GPURT_GENL_EVENTS },
	COMPAT_ADMIN_GROUP(GPURT_GENL_NAMED_EVENTS)
};

struct genl_family gpurt_family __ro_after_init = {
	.name = GPURT_GENL_NAME,
	.version = GPURT_GENL_VERSION,
	.module = THIS_MODULE,
	.parallel_ops = true,
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

static bool is_heard(unsigned int group)
{
	return group < ARRAY_SIZE(groups) && genl_has_listeners(&gpurt_family, &init_net, group);
}

/* Whether a socket has joined a group of events. */
bool gpurt_netlink_heard(void)
{
	return is_heard(EVENTS) || is_heard(NAMED_EVENTS);
}

static int put_job(struct sk_buff *skb, const struct gpurt_record *r, bool named)
{
	if (r->event != GPURT_EVENT_JOB_BEGIN && r->event != GPURT_EVENT_JOB_END)
		return 0;
	if (nla_put_string(skb, GPURT_A_TASK, named ? r->task : "") ||
	    nla_put_u64_64bit(skb, GPURT_A_JOB, r->job, GPURT_A_PAD) ||
	    (r->cpu && nla_put_u64_64bit(skb, GPURT_A_CPU_NS, r->cpu, GPURT_A_PAD)))
		return -EMSGSIZE;
	return 0;
}

/* @named: for readers who may know every process. */
static int put_event(struct sk_buff *skb, const struct gpurt_record *r, bool named)
{
	if (nla_put_u32(skb, GPURT_A_EVENT, r->event) ||
	    nla_put_u64_64bit(skb, GPURT_A_TIME_NS, r->time, GPURT_A_PAD))
		return -EMSGSIZE;
	if (r->event == GPURT_EVENT_LOST)
		return nla_put_u64_64bit(skb, GPURT_A_LOST, r->latency, GPURT_A_PAD);
	if (nla_put_u32(skb, GPURT_A_GPU, r->gpu))
		return -EMSGSIZE;
	if (r->client && (nla_put_u64_64bit(skb, GPURT_A_CLIENT, r->client, GPURT_A_PAD) ||
			  nla_put_u32(skb, GPURT_A_PID, named ? r->pid : 0) ||
			  nla_put_string(skb, GPURT_A_COMM, named ? r->comm : "") ||
			  nla_put_u32(skb, GPURT_A_PRIORITY, r->priority)))
		return -EMSGSIZE;
	if (named && *r->group && nla_put_string(skb, GPURT_A_GROUP, r->group))
		return -EMSGSIZE;
	if (r->event == GPURT_EVENT_COMMIT && nla_put_u32(skb, GPURT_A_CAUSE, r->cause))
		return -EMSGSIZE;
	if ((r->latency && nla_put_u64_64bit(skb, GPURT_A_LATENCY_NS, r->latency, GPURT_A_PAD)) ||
	    (r->lost && nla_put_u64_64bit(skb, GPURT_A_LOST, r->lost, GPURT_A_PAD)))
		return -EMSGSIZE;
	return put_job(skb, r, named);
}

static void send_to(unsigned int group, const struct gpurt_record *record)
{
	struct sk_buff *skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *header;

	if (!skb) {
		genl_set_err(&gpurt_family, &init_net, 0, group, -ENOBUFS);
		return;
	}
	header = genlmsg_put(skb, 0, 0, &gpurt_family, 0, GPURT_CMD_EVENT);
	if (!header || put_event(skb, record, group == NAMED_EVENTS)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast(&gpurt_family, skb, 0, group, GFP_KERNEL);
}

/*
 * Sends an event to every reader.  A reader that is too slow, or whose message finds no memory, learns from its socket
 * (ENOBUFS) that it lost events.
 */
void gpurt_netlink_send(const struct gpurt_record *record)
{
	if (is_heard(EVENTS))
		send_to(EVENTS, record);
	if (is_heard(NAMED_EVENTS))
		send_to(NAMED_EVENTS, record);
}
