// SPDX-License-Identifier: GPL-2.0
/* Dumps of the control plane, which anyone may ask for.  Part of kunit.c. */

/* A request without attributes. */
static struct sk_buff *request_make(struct kunit *test, u8 command)
{
	struct sk_buff *request = genlmsg_new(0, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, request);
	memset(&NETLINK_CB(request), 0, sizeof(NETLINK_CB(request)));
	genlmsg_end(request, genlmsg_put(request, 0, 0, &gpurt_family, 0, command));
	return request;
}

/* Answers one part of a dump.  Whether a task that is to execute on this CPU executed meanwhile. */
static bool lets_others_execute(struct kunit *test, u8 command)
{
	struct sk_buff *request = request_make(test, command), *answer = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	struct genl_dumpit_info info = { };
	struct netlink_callback cb = { .skb = request, .data = &info, .nlh = nlmsg_hdr(request) };
	bool waits;

	KUNIT_ASSERT_NOT_NULL(test, answer);
	set_tsk_need_resched(current);
	set_preempt_need_resched();
	KUNIT_EXPECT_GT(test, gpurt_nl_get(answer, &cb), 0);
	waits = need_resched();
	kfree_skb(request);
	kfree_skb(answer);
	return !waits;
}

/* Users choose how many clients there are.  Without full preemption a task waits until the kernel lets it execute. */
static void a_dump_lets_others_execute(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_TRUE(test, lets_others_execute(test, GPURT_CMD_GET_STATUS));
	KUNIT_EXPECT_TRUE(test, lets_others_execute(test, GPURT_CMD_GET_CLIENTS));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* The length of one part of a dump of clients, for which there are @room bytes. */
static int clients_part(struct kunit *test, struct netlink_callback *cb, unsigned int room)
{
	struct sk_buff *answer = genlmsg_new(room, GFP_KERNEL);
	int length;

	KUNIT_ASSERT_NOT_NULL(test, answer);
	skb_reserve(answer, skb_tailroom(answer) - room);	/* memory comes in certain sizes, and is all used */
	length = gpurt_nl_get(answer, cb);
	kfree_skb(answer);
	return length;
}

/* A user who opens and closes the device without end must not keep an administrator from seeing the other GPUs. */
static void a_dump_of_clients_ends_however_many_come(struct kunit *test)
{
	struct sk_buff *request = request_make(test, GPURT_CMD_GET_CLIENTS);
	struct bench *b = bench_make(test, &atomic_driver);
	struct genl_dumpit_info info = { };
	struct netlink_callback cb = { .skb = request, .data = &info, .nlh = nlmsg_hdr(request) };
	struct netlink_callback first = cb;
	struct gpurt_client *late[CLIENTS + 1];
	int one = clients_part(test, &first, NLMSG_GOODSIZE) / CLIENTS, parts, i;

	for (parts = 0; parts <= CLIENTS && clients_part(test, &cb, one) > 0; parts++) {
		gpurt_gpu_get(b->gpu->index);	/* the client's */
		late[parts] = gpurt_client_open(b->gpu, &b->file);
		KUNIT_ASSERT_FALSE(test, IS_ERR(late[parts]));
	}
	KUNIT_EXPECT_EQ(test, parts, CLIENTS);
	for (i = 0; i < parts; i++) {
		gpurt_client_gone(late[i], false);
		gpurt_client_put(late[i]);
	}
	kfree_skb(request);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case dumps_cases[] = {
	KUNIT_CASE(a_dump_lets_others_execute),
	KUNIT_CASE(a_dump_of_clients_ends_however_many_come),
	{}
};

static struct kunit_suite dumps_suite = {
	.name = "gpurt-dumps",
	.test_cases = dumps_cases,
};
