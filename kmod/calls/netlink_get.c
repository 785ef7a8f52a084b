// SPDX-License-Identifier: GPL-2.0
/*
 * The control plane's GET commands, which are all dumps.  They do not take the gate: an unprivileged reader must not
 * delay a decision.  Process numbers are those of the reader's namespace, and only readers who may know them get them.
 *
 * Users choose how many clients there are.  So walks over all clients let other tasks execute in between, also in a
 * kernel without full preemption.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>

#include "base/raised.h"
#include "base/rules.h"
#include "calls/calls.h"
#include "clients/clients.h"
#include "compat.h"
#include "core/agents.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/team.h"

/* How far a dump has got. */
struct cursor {
	bool started;
	u32 gpu;			/* the next GPU */
	u32 last;			/* the last GPU of this dump */
	u64 item;			/* within the GPU: the last item that was sent */
	u64 newest;			/* newest client at the start: users may open the device without end */
};

static struct cursor *cursor_of(struct netlink_callback *cb)
{
	BUILD_BUG_ON(sizeof(struct cursor) > sizeof(cb->ctx));
	return (struct cursor *)cb->ctx;
}

/* Not a start() operation, which could not say why it refuses. */
static int start(struct netlink_callback *cb)
{
	struct nlattr **attrs = compat_dump_attrs(cb);
	struct cursor *at = cursor_of(cb);
	struct gpurt_gpu *gpu;
	int err;

	err = gpurt_nl_check(cb->skb, cb->nlh, cb->extack);
	if (err)
		return err;
	*at = (struct cursor){ .started = true, .last = GPURT_MAX_GPUS - 1, .newest = gpurt_clients_newest() };
	if (!attrs || !attrs[GPURT_A_GPU])
		return 0;
	at->gpu = nla_get_u32(attrs[GPURT_A_GPU]);
	at->last = at->gpu;
	gpu = gpurt_gpu_get(at->gpu);
	if (!gpu)
		return gpurt_nl_refuse(cb->extack, -ENODEV, "no GPU of that number");
	gpurt_gpu_put(gpu);
	return 0;
}

/* Whether the reader may know the client's process: it is the reader's user's, or the reader is the administrator. */
static bool is_known(struct netlink_callback *cb, const struct gpurt_client *client)
{
	return uid_eq(NETLINK_CREDS(cb->skb)->uid, client->uid) || netlink_capable(cb->skb, CAP_NET_ADMIN);
}

static u32 pid_for_reader(struct netlink_callback *cb, const struct gpurt_client *client)
{
	return is_known(cb, client) ? pid_nr_ns(client->tgid, task_active_pid_ns(current)) : 0;
}

static void *begin(struct sk_buff *skb, struct netlink_callback *cb, u8 command)
{
	return genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &gpurt_family, NLM_F_MULTI, command);
}

/* Ends a message, or takes it back if it does not fit. */
static int finish(struct sk_buff *skb, void *header, bool full)
{
	if (full) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

static int put_shape(struct sk_buff *skb, struct gpurt_gpu *gpu)
{
	struct gpurt_driver_costs costs = { };
	struct gpurt_driver_part part = { };
	struct gpurt_agents_facts facts;
	int token;

	gpurt_gpu_describe(gpu, &facts);
	if (gpurt_gpu_hold(gpu, &token)) {
		if (gpu->ops.costs)
			gpu->ops.costs(gpu->driver, &costs);
		if (gpu->ops.part)
			gpu->ops.part(gpu->driver, &part);
		gpurt_gpu_release(gpu, token);
	}
	return nla_put_u32(skb, GPURT_A_LATE, facts.late) || nla_put_u32(skb, GPURT_A_TIER, facts.tier) ||
	       nla_put_u64_64bit(skb, GPURT_A_REFUSED, facts.refused, GPURT_A_PAD) ||
	       nla_put_string(skb, GPURT_A_DRIVER, facts.driver) ||
	       nla_put_u64_64bit(skb, GPURT_A_ALPHA_NS, costs.alpha_ns, GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_THETA_NS, costs.theta_ns, GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_SLICE_NS, costs.slice_ns, GPURT_A_PAD) ||
	       (part.units && (nla_put_u32(skb, GPURT_A_PARTITION_OF, part.whole) ||
			       nla_put_u32(skb, GPURT_A_PARTITION_UNITS, part.units) ||
			       nla_put_u32(skb, GPURT_A_CROSS_THOUSANDTHS, part.cross)));
}

/* A member of the group that is in a segment on that GPU, else any member; NULL: no member is left. */
static struct gpurt_client *member_of(struct gpurt_gpu *gpu, const struct gpurt_seat *seat)
{
	struct gpurt_client *client, *found = NULL;

	gpurt_for_each_client(client, gpu) {
		cond_resched();
		if (READ_ONCE(client->seat) != seat || READ_ONCE(client->gone))
			continue;
		if (READ_ONCE(client->core.depth))
			return client;
		found = found ?: client;
	}
	return found;
}

static int put_runner(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu)
{
	/* Pairs with apply().  gpurt_nl_get() keeps clients from being freed. */
	struct gpurt_sched_client *runner = smp_load_acquire(&gpu->runlist.runner);
	struct gpurt_client *client;

	if (!runner)
		return nla_put_u32(skb, GPURT_A_IMAGE, GPURT_IMAGE_ALL);
	client = gpurt_seat_of(runner) ? member_of(gpu, gpurt_seat_of(runner)) : gpurt_client_of(runner);
	return nla_put_u32(skb, GPURT_A_IMAGE, GPURT_IMAGE_ONE) ||
	       nla_put_u32(skb, GPURT_A_RUNNER_PID, client ? pid_for_reader(cb, client) : 0);
}

static int put_stuck(struct sk_buff *skb, const struct gpurt_gpu *gpu)
{
	u64 time = gpurt_stuck_time(&gpu->stuck.core, &gpu->sched, ktime_get_ns());

	return nla_put_u64_64bit(skb, GPURT_A_STUCK_BOUND_NS, gpurt_stuck_limit(gpu), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_STUCK_COUNT, READ_ONCE(gpu->stuck.core.count), GPURT_A_PAD) ||
	       (time && nla_put_u64_64bit(skb, GPURT_A_STUCK_NS, time, GPURT_A_PAD));
}

static int put_status(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu)
{
	void *header = begin(skb, cb, GPURT_CMD_GET_STATUS);
	u32 clients = 0, tsgs = 0, barred = 0;
	struct gpurt_client *client;

	gpurt_for_each_client(client, gpu) {
		clients++;
		tsgs += READ_ONCE(client->core.tsgs);
		barred += test_bit(GPURT_BOOST_BARRED, &client->boost.flags);
		cond_resched();
	}
	return finish(skb, header, !header || nla_put_u32(skb, GPURT_A_GPU, gpu->index) ||
		      nla_put_u32(skb, GPURT_A_POLICY, READ_ONCE(gpu->sched.policy)) ||
		      nla_put_u32(skb, GPURT_A_NOTICE, READ_ONCE(gpu->job.notice)) ||
		      nla_put_u64_64bit(skb, GPURT_A_POLL_NS, READ_ONCE(gpu->job.poll_ns), GPURT_A_PAD) ||
		      nla_put_u32(skb, GPURT_A_CLIENT_COUNT, clients) || nla_put_u32(skb, GPURT_A_TSGS, tsgs) ||
		      nla_put_u32(skb, GPURT_A_BARRED_COUNT, barred) ||
		      put_runner(skb, cb, gpu) ||
		      (!gpurt_boost_why_not() && nla_put_u32(skb, GPURT_A_NORMAL_PRIORITIES, gpurt_normal)) ||
		      nla_put_u64_64bit(skb, GPURT_A_UPDATES, READ_ONCE(gpu->runlist.commits), GPURT_A_PAD) ||
		      nla_put_u64_64bit(skb, GPURT_A_FAULTS, READ_ONCE(gpu->runlist.faults), GPURT_A_PAD) ||
		      nla_put_u64_64bit(skb, GPURT_A_MALFORMED, 0, GPURT_A_PAD) || put_stuck(skb, gpu) ||
		      (*gpu->device && nla_put_string(skb, GPURT_A_DEVICE, gpu->device)) || put_shape(skb, gpu));
}

/* Ownership up to now: the scheduler has charged the runner only up to its last decision. */
static u64 held(struct gpurt_gpu *gpu, struct gpurt_sched_client *c)
{
	u64 ns = gpurt_client_held(c);

	if (READ_ONCE(gpu->runlist.runner) == READ_ONCE(c->entry) && !READ_ONCE(gpu->runlist.fault))
		ns += ktime_get_ns() - READ_ONCE(gpu->sched.since);
	return ns;
}

static u32 state(struct gpurt_client *client)
{
	u32 state = gpurt_state_of(&client->gpu->sched, &client->core);

	return state == GPURT_STATE_RUNNING && !gpurt_client_granted(client) ? GPURT_STATE_PENDING : state;
}

/* gpurt_nl_get() keeps the client from being freed, but it may be put under another budget meanwhile. */
static int put_budget(struct sk_buff *skb, struct gpurt_sched_client *c)
{
	u64 limit = 0, period = 0;
	u32 action = 0;

	gpurt_allowance_describe(gpurt_client_of(c), &limit, &period, &action);
	return nla_put_u64_64bit(skb, GPURT_A_BUDGET_NS, limit, GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_PERIOD_NS, period, GPURT_A_PAD) ||
	       (limit && nla_put_u32(skb, GPURT_A_OVERRUN, action));
}

static int put_counts(struct sk_buff *skb, struct gpurt_gpu *gpu, struct gpurt_sched_client *c)
{
	return nla_put_u64_64bit(skb, GPURT_A_SEGMENTS, READ_ONCE(c->segments), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_PREEMPTIONS, READ_ONCE(c->preemptions), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_HELD_NS, held(gpu, c), GPURT_A_PAD) ||
	       put_budget(skb, c) ||
	       nla_put_u64_64bit(skb, GPURT_A_OVERRUNS, READ_ONCE(c->overruns), GPURT_A_PAD);
}

/* The thread of the segment, the thread that copies and the thread that a group raises can be three threads. */
static u32 raised_to(const struct gpurt_client *client)
{
	return max3(gpurt_raised_to(&client->boost.raised), gpurt_raised_to(&client->copier.raised),
		    gpurt_raised_to(&client->kept.raised));
}

static int put_client(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu,
		      struct gpurt_client *client)
{
	void *header = begin(skb, cb, GPURT_CMD_GET_CLIENTS);
	const struct gpurt_seat *seat = READ_ONCE(client->seat);
	struct gpurt_sched_client *c = &client->core;

	return finish(skb, header, !header || nla_put_u32(skb, GPURT_A_GPU, gpu->index) ||
		      (seat && is_known(cb, client) && nla_put_string(skb, GPURT_A_GROUP, seat->team->name)) ||
		      nla_put_u64_64bit(skb, GPURT_A_CLIENT, client->id, GPURT_A_PAD) ||
		      nla_put_u32(skb, GPURT_A_PID, pid_for_reader(cb, client)) ||
		      nla_put_string(skb, GPURT_A_COMM, is_known(cb, client) ? client->comm : "") ||
		      nla_put_u32(skb, GPURT_A_STATE, state(client)) ||
		      nla_put_u32(skb, GPURT_A_PRIORITY, gpurt_level_told(client)) ||
		      nla_put_u32(skb, GPURT_A_OWN_PRIORITY, READ_ONCE(c->own)) ||
		      nla_put_u32(skb, GPURT_A_SET_PRIORITY, READ_ONCE(*(seat ? &seat->team->core.set : &c->set))) ||
		      nla_put_u32(skb, GPURT_A_DEPTH, READ_ONCE(c->depth)) ||
		      nla_put_u32(skb, GPURT_A_TSGS, READ_ONCE(c->tsgs)) ||
		      nla_put_u32(skb, GPURT_A_EXEMPT, READ_ONCE(c->exempt)) ||
		      nla_put_u32(skb, GPURT_A_DEMOTED, !!READ_ONCE(READ_ONCE(c->entry)->demoted)) ||
		      nla_put_u32(skb, GPURT_A_FORM, READ_ONCE(c->boost.form)) ||
		      nla_put_u32(skb, GPURT_A_RAISED, raised_to(client)) ||
		      nla_put_u32(skb, GPURT_A_KEPT, !!READ_ONCE(client->kept.raised.task)) ||
		      nla_put_u32(skb, GPURT_A_COPY, READ_ONCE(client->copier.node.state)) ||
		      nla_put_u64_64bit(skb, GPURT_A_COPIES, READ_ONCE(client->copier.node.copies), GPURT_A_PAD) ||
		      nla_put_u32(skb, GPURT_A_BARRED, test_bit(GPURT_BOOST_BARRED, &client->boost.flags)) ||
		      put_counts(skb, gpu, c));
}

/* The list is in order of ids. */
static int put_clients(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu)
{
	struct cursor *at = cursor_of(cb);
	struct gpurt_client *client;

	gpurt_for_each_client(client, gpu) {
		cond_resched();
		if (client->id <= at->item)
			continue;
		if (client->id > at->newest)
			break;
		if (put_client(skb, cb, gpu, client))
			return -EMSGSIZE;
		at->item = client->id;
	}
	return 0;
}

static int put_times(struct sk_buff *skb, const struct gpurt_latency *l)
{
	return nla_put_u64_64bit(skb, GPURT_A_COUNT, READ_ONCE(l->count), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_MIN_NS, READ_ONCE(l->min), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_SUM_NS, READ_ONCE(l->sum), GPURT_A_PAD) ||
	       nla_put_u64_64bit(skb, GPURT_A_MAX_NS, READ_ONCE(l->max), GPURT_A_PAD) ||
	       nla_put(skb, GPURT_A_HISTOGRAM, sizeof(l->bucket), l->bucket);
}

static int put_latency(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu, u32 cause)
{
	const struct gpurt_latency *l = &gpu->runlist.latency[cause];
	void *header = begin(skb, cb, GPURT_CMD_GET_LATENCY);

	return finish(skb, header, !header || nla_put_u32(skb, GPURT_A_GPU, gpu->index) ||
		      nla_put_u32(skb, GPURT_A_CAUSE, cause) || put_times(skb, l));
}

/* Leaves out causes that never happened. */
static int put_latencies(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu)
{
	struct cursor *at = cursor_of(cb);

	for (; at->item < GPURT_CAUSE_COUNT; at->item++)
		if (READ_ONCE(gpu->runlist.latency[at->item].count) && put_latency(skb, cb, gpu, at->item))
			return -EMSGSIZE;
	return 0;
}

/* gpurt_nl_get() keeps the client from being freed; it may have given the bus back by now. */
static int put_holder(struct sk_buff *skb, struct netlink_callback *cb, const struct gpurt_bus_node *n)
{
	const struct gpurt_client *client = n ? container_of(n, struct gpurt_client, copier.node) : NULL;
	u64 since;

	if (!client)
		return 0;
	since = READ_ONCE(n->since);	/* read before the clock: the client may get the bus anew meanwhile */
	return nla_put_u64_64bit(skb, GPURT_A_CLIENT, client->id, GPURT_A_PAD) ||
	       nla_put_u32(skb, GPURT_A_PID, pid_for_reader(cb, client)) ||
	       nla_put_string(skb, GPURT_A_COMM, is_known(cb, client) ? client->comm : "") ||
	       nla_put_u32(skb, GPURT_A_PRIORITY, READ_ONCE(n->level)) ||
	       nla_put_u64_64bit(skb, GPURT_A_HELD_NS, ktime_get_ns() - since, GPURT_A_PAD);
}

static int put_bus(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu)
{
	void *header = begin(skb, cb, GPURT_CMD_GET_BUS);

	return finish(skb, header, !header || nla_put_u32(skb, GPURT_A_GPU, gpu->index) ||
		      nla_put_u32(skb, GPURT_A_WAITERS, READ_ONCE(gpu->bus.core.waiters)) ||
		      put_times(skb, &gpu->bus.core.waits) || put_holder(skb, cb, READ_ONCE(gpu->bus.core.holder)));
}

/* Each adds the messages about one GPU, from the cursor on; -EMSGSIZE when the buffer is full. */
static int (*const puts[])(struct sk_buff *skb, struct netlink_callback *cb, struct gpurt_gpu *gpu) = {
	[GPURT_CMD_GET_STATUS] = put_status,
	[GPURT_CMD_GET_CLIENTS] = put_clients,
	[GPURT_CMD_GET_LATENCY] = put_latencies,
	[GPURT_CMD_GET_BUS] = put_bus,
};

/* The commands about GPUs.  It keeps clients from being freed. */
int gpurt_nl_get(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genlmsghdr *header = nlmsg_data(cb->nlh);
	struct cursor *at = cursor_of(cb);
	struct gpurt_gpu *gpu;
	int err = 0, reading;

	if (!at->started)
		err = start(cb);
	if (err)
		return err;
	for (; at->gpu <= at->last && !err; at->gpu++, at->item = 0) {
		gpu = gpurt_gpu_get(at->gpu);
		if (!gpu)
			continue;
		reading = gpurt_clients_read();
		err = puts[header->cmd](skb, cb, gpu);
		gpurt_clients_done(reading);
		gpurt_gpu_put(gpu);
		if (err)
			break;
	}
	return skb->len ? skb->len : err;
}

/*
 * GPURT_CMD_GET_RULES.  A dump of many messages takes several calls, between which rules may change.  The dump has the
 * rules in the order in which they were made, up to the last rule made before the dump began.  So it ends however many
 * are made meanwhile.  After a change the kernel marks its messages with NLM_F_DUMP_INTR.
 *
 * The cursor holds how far such a dump has got: ids of rules.
 */
struct rules_cursor {
	bool started;
	u64 after;			/* the last rule that was sent */
	u64 last;			/* the last rule of this dump */
};

struct rules_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
	struct rules_cursor *at;
	bool all;			/* the reader has CAP_NET_ADMIN */
};

/*
 * As with clients, readers of the process's user and readers with CAP_NET_ADMIN get the process.  Only the latter get
 * names and paths, which may be of anyone's processes.
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
	void *header = begin(d->skb, d->cb, GPURT_CMD_GET_RULES);

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
	struct rules_dump d = { skb, cb, (struct rules_cursor *)cb->ctx, netlink_capable(cb->skb, CAP_NET_ADMIN) };
	int err;

	BUILD_BUG_ON(sizeof(struct rules_cursor) > sizeof(cb->ctx));
	if (!d.at->started) {
		err = gpurt_nl_check(cb->skb, cb->nlh, cb->extack);
		if (err)
			return err;
		*d.at = (struct rules_cursor){ .started = true, .last = gpurt_rules_last() };
	}
	err = gpurt_rules_walk(d.at->after, d.at->last, &cb->seq, put_rule, &d);
	return skb->len ? skb->len : err;
}
