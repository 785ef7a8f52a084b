// SPDX-License-Identifier: GPL-2.0
/* Dumps of the control plane, which anyone may ask for.  Part of kunit.c. */

/* Answers one part of a dump.  Whether a task that is to execute on this CPU executed meanwhile. */
static bool lets_others_execute(struct kunit *test, u8 command,
				int (*get)(struct sk_buff *skb, struct netlink_callback *cb))
{
	struct sk_buff *request = genlmsg_new(0, GFP_KERNEL), *answer = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	struct genl_dumpit_info info = { };
	struct netlink_callback cb = { .skb = request, .data = &info };
	bool waits;

	KUNIT_ASSERT_NOT_NULL(test, request);
	KUNIT_ASSERT_NOT_NULL(test, answer);
	memset(&NETLINK_CB(request), 0, sizeof(NETLINK_CB(request)));
	genlmsg_end(request, genlmsg_put(request, 0, 0, &gpurt_family, 0, command));
	cb.nlh = nlmsg_hdr(request);
	set_tsk_need_resched(current);
	set_preempt_need_resched();
	KUNIT_EXPECT_GT(test, get(answer, &cb), 0);
	waits = need_resched();
	kfree_skb(request);
	kfree_skb(answer);
	return !waits;
}

/* Users choose how many clients there are.  Without full preemption a task waits until the kernel lets it execute. */
static void a_dump_lets_others_execute(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_TRUE(test, lets_others_execute(test, GPURT_CMD_GET_STATUS, gpurt_nl_get_status));
	KUNIT_EXPECT_TRUE(test, lets_others_execute(test, GPURT_CMD_GET_CLIENTS, gpurt_nl_get_clients));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case dumps_cases[] = {
	KUNIT_CASE(a_dump_lets_others_execute),
	{}
};

static struct kunit_suite dumps_suite = {
	.name = "gpurt-dumps",
	.test_cases = dumps_cases,
};
