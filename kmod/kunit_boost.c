// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-boost: policy `boosted` raises and lowers threads; part of kunit.c. */

#define OWN 10

static void be_fifo(struct kunit *test, u32 priority)
{
	const struct sched_param param = { .sched_priority = priority };

	KUNIT_ASSERT_EQ(test, compat_find_setscheduler()(current, SCHED_FIFO, &param), 0);
}

/* A GPU with that policy, for the calling thread of priority OWN. */
static struct bench *boosted_bench(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	const char *why = NULL;

	KUNIT_ASSERT_EQ(test, 0, gpurt_policy_set(b->gpu, GPURT_POLICY_BOOSTED, GPURT_NOTICE_POLL,
						  GPURT_POLL_DEFAULT_NS, &why));
	be_fifo(test, OWN);
	return b;
}

static void boosted_bench_free(struct bench *b)
{
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
	sched_set_normal(current, 0);
}

/* As the ioctl does it. */
static int boosted_begin(struct gpurt_client *client, u32 hint)
{
	u32 own = gpurt_raised_own(current), state;
	bool raised;
	int err;

	err = gpurt_boost_begins(client, own, hint, GPURT_FORM_SELF, &raised);
	if (err)
		return err;
	err = gpurt_client_begin(client, own, hint, GPURT_FORM_SELF, &state);
	gpurt_boost_returns(client, raised);
	return err;
}

static int boosted_end(struct gpurt_client *client)
{
	bool raised = gpurt_boost_ends(client);
	int err = gpurt_client_end(client);

	gpurt_boost_returns(client, raised);
	return err;
}

static bool is_lowered(struct bench *b)
{
	return current->rt_priority == OWN;
}

static void a_thread_is_raised_for_its_segment(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 20), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 20);
	KUNIT_EXPECT_TRUE(test, current->sched_reset_on_fork);
	KUNIT_EXPECT_EQ(test, gpurt_raised_own(current), (u32)OWN);
	KUNIT_EXPECT_EQ(test, (u32)b->clients[0]->core.boost.raised, 20U);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, (u32)OWN);
	KUNIT_EXPECT_FALSE(test, current->sched_reset_on_fork);
	KUNIT_EXPECT_EQ(test, gpurt_raised_own(current), (u32)OWN);
	boosted_bench_free(b);
}

static void it_needs_the_most_of_what_its_clients_need(struct kunit *test)
{
	struct bench *b = boosted_bench(test);
	int i;

	for (i = 0; i < CLIENTS; i++)
		KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[i], 5 + i), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 5 + CLIENTS - 1);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[CLIENTS - 1]), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 5 + CLIENTS - 2);
	gpurt_client_gone(b->clients[CLIENTS - 2], false);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 5 + CLIENTS - 3);
	for (i = 0; i < CLIENTS - 2; i++)
		KUNIT_EXPECT_EQ(test, boosted_end(b->clients[i]), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, (u32)OWN);
	boosted_bench_free(b);
}

static void decisions_of_others_lower_it(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	KUNIT_EXPECT_EQ(test, gpurt_client_priority(b->clients[0], 0), 0);
	KUNIT_EXPECT_TRUE(test, comes_true(is_lowered, b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[1], 0), 0);
	gpurt_client_killed(b->clients[1]);
	KUNIT_EXPECT_TRUE(test, comes_true(is_lowered, b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[1]), -EIO);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[2], 0), 0);
	KUNIT_EXPECT_FALSE(test, is_lowered(b));
	gpurt_client_gone(b->clients[2], false);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static void what_the_thread_did_meanwhile_stays(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	be_fifo(test, OWN + 1);
	/* by the other client it is not raised either */
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[1], 0), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[1]), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, OWN + 1U);
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);	/* but again now */
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + OWN + 1);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	boosted_bench_free(b);
}

static void a_begin_that_fails_leaves_nothing_raised(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[1], gpurt_normal + 1), -ERANGE);
	gpurt_client_gone(b->clients[1], false);
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[1], 20), -ESTALE);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + OWN);
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[2], 0), -ENODEV);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), -ENODEV);
	bench_free(b);
	sched_set_normal(current, 0);
}

/* A thread that raises itself, begins, and says so. */
struct boosted_beginner {
	struct gpurt_client *client;
	struct task_struct *task;
	int err;
	struct completion done;
};

static int be_boosted_beginner(void *data)
{
	struct boosted_beginner *one = data;
	const struct sched_param param = { .sched_priority = OWN };

	one->err = compat_find_setscheduler()(current, SCHED_FIFO, &param) ?: boosted_begin(one->client, 0);
	complete(&one->done);
	return 0;
}

static bool second_asks(struct bench *b)
{
	return waiting(&b->gpu->gate, OWN) && gpurt_boost_asks(b->clients[1]);
}

/* The update of the first client is under way. */
static void it_is_raised_while_it_waits_at_the_gate(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	for (i = 0; i < 2; i++) {
		one[i].client = b->clients[i];
		init_completion(&one[i].done);
		one[i].task = kthread_create(be_boosted_beginner, &one[i], "gpurt-kunit");
		KUNIT_ASSERT_FALSE(test, IS_ERR(one[i].task));
		get_task_struct(one[i].task);
	}
	wake_up_process(one[0].task);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	wake_up_process(one[1].task);
	KUNIT_EXPECT_TRUE(test, comes_true(second_asks, b));
	KUNIT_EXPECT_EQ(test, one[1].task->rt_priority, gpurt_normal + OWN);
	complete(&b->go);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&one[i].done, msecs_to_jiffies(PATIENCE)));
		KUNIT_EXPECT_EQ(test, one[i].err, 0);
		put_task_struct(one[i].task);
	}
	boosted_bench_free(b);
}

static struct kunit_case boost_cases[] = {
	KUNIT_CASE(a_thread_is_raised_for_its_segment),
	KUNIT_CASE(it_needs_the_most_of_what_its_clients_need),
	KUNIT_CASE(decisions_of_others_lower_it),
	KUNIT_CASE(what_the_thread_did_meanwhile_stays),
	KUNIT_CASE(a_begin_that_fails_leaves_nothing_raised),
	KUNIT_CASE(it_is_raised_while_it_waits_at_the_gate),
	{}
};

static struct kunit_suite boost_suite = {
	.name = "gpurt-boost",
	.test_cases = boost_cases,
};
