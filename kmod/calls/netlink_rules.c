// SPDX-License-Identifier: GPL-2.0
/*
 * GPURT_CMD_GET_RULES.  A dump of many messages takes several calls, between which rules may
 * change.  The dump tells of the rules in the order in which they were made, up to the last one
 * made before the dump began.  So it ends however many are made meanwhile.  After a change the
 * kernel marks its messages with NLM_F_DUMP_INTR.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>

#include "base/rules.h"
#include "calls/netlink_handlers.h"

/* How far a dump has got: ids of rules. */
struct cursor {
	bool started;
	u64 after;			/* the last one that was sent */
	u64 last;			/* of this dump */
};

struct rules_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
	struct cursor *at;
	bool all;			/* the reader has CAP_NET_ADMIN */
};

/*
 * As of clients, a process is told to readers of its user and to those with CAP_NET_ADMIN.  Names and paths are told to
 * the latter only, for they are those of anyone's processes.
 */
static int put_process(const struct rules_dump *d, const struct gpurt_rule_entry *rule)
{
	bool all = d->all;

	if (rule->attr != GPURT_A_PID)
		return nla_put_string(d->skb, rule->attr, all ? rule->text : "");
	all = all || uid_eq(NETLINK_CREDS(d->cb->skb)->uid, rule->user);
	return nla_put_u32(d->skb, GPURT_A_PID, all ? pid_nr_ns(rule->pid, task_active_pid_ns(current)) : 0);
}

static int put_rule(const struct gpurt_rule_entry *rule, void *about)
{
	struct rules_dump *d = about;
	u32 flag = rule->what == GPURT_RULE_EXEMPT ? GPURT_A_EXEMPT : GPURT_A_BARRED;
	void *header = genlmsg_put(d->skb, NETLINK_CB(d->cb->skb).portid, d->cb->nlh->nlmsg_seq, &gpurt_family,
				   NLM_F_MULTI, GPURT_CMD_GET_RULES);

	if (!header)
		return -EMSGSIZE;
	genl_dump_check_consistent(d->cb, header);
	if (nla_put_u32(d->skb, flag, 1) || put_process(d, rule) ||
	    nla_put_u64_64bit(d->skb, GPURT_A_TIME_NS, rule->since, GPURT_A_PAD)) {
		genlmsg_cancel(d->skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(d->skb, header);
	d->at->after = rule->id;
	return 0;
}

int gpurt_nl_get_rules(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct rules_dump d = { skb, cb, (struct cursor *)cb->ctx, netlink_capable(cb->skb, CAP_NET_ADMIN) };
	int err;

	BUILD_BUG_ON(sizeof(struct cursor) > sizeof(cb->ctx));
	if (!d.at->started) {
		err = gpurt_nl_check(cb->skb, cb->nlh, cb->extack);
		if (err)
			return err;
		*d.at = (struct cursor){ .started = true, .last = gpurt_rules_last() };
	}
	err = gpurt_rules_walk(d.at->after, d.at->last, &cb->seq, put_rule, &d);
	return skb->len ? skb->len : err;
}
