// SPDX-License-Identifier: GPL-2.0
/* The bus.  Part of kunit.c. */

static const struct gpurt_copy copy_end = { .what = GPURT_COPY_END };

static int copy_begin(struct gpurt_client *client, u32 priority, u64 timeout_ns)
{
	struct gpurt_copy c = { .what = GPURT_COPY_BEGIN, .priority = priority, .timeout_ns = timeout_ns };

	return gpurt_bus_begin(client, 0, &c);
}

static int be_copier(void *data)
{
	struct beginner *one = data;

	one->err = copy_begin(one->client, one->priority, GPURT_FOREVER);
	complete(&one->done);
	return 0;
}

static void ask_for_bus(struct kunit *test, struct beginner *one, struct gpurt_client *client, u32 priority)
{
	one->priority = priority;
	start_as(test, be_copier, one, client);
}

static bool all_others_ask(struct bench *b)
{
	return READ_ONCE(b->gpu->bus.core.waiters) == CLIENTS - 1;
}

static void copies_go_by_priority_and_none_is_preempted(struct kunit *test)
{
	struct beginner *one = kunit_kcalloc(test, CLIENTS, sizeof(*one), GFP_KERNEL);
	static const u32 priority[CLIENTS] = { 0, 20, 99, 50 }, order[CLIENTS] = { 0, 2, 3, 1 };
	struct bench *b = bench_make(test, &sleeping_driver);
	int i, k;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->gpu->bus.core.bound = 0;	/* however long this machine takes */
	KUNIT_EXPECT_EQ(test, copy_begin(b->clients[0], 0, 0), 0);
	for (i = 1; i < CLIENTS; i++)
		ask_for_bus(test, &one[i], b->clients[i], priority[i]);
	KUNIT_ASSERT_TRUE(test, comes_true(all_others_ask, b));
	KUNIT_EXPECT_EQ(test, copy_begin(b->clients[0], 0, 0), -EBUSY);
	for (i = 0; i < CLIENTS - 1; i++) {
		for (k = i + 1; k < CLIENTS; k++)
			KUNIT_EXPECT_FALSE(test, completion_done(&one[order[k]].done));
		KUNIT_EXPECT_EQ(test, gpurt_bus_end(b->clients[order[i]], &copy_end), 0);
		KUNIT_ASSERT_TRUE(test, finished(&one[order[i + 1]]));
		KUNIT_EXPECT_EQ(test, one[order[i + 1]].err, 0);
	}
	KUNIT_EXPECT_EQ(test, copy_begin(b->clients[0], 0, 1000), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, gpurt_bus_end(b->clients[order[CLIENTS - 1]], &copy_end), 0);
	KUNIT_EXPECT_EQ(test, gpurt_bus_end(b->clients[0], &copy_end), -ENOENT);
	KUNIT_EXPECT_PTR_EQ(test, b->gpu->bus.core.holder, NULL);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* Nor does it wait for one. */
static void a_gpu_that_goes_away_ends_copies_and_waits_for_the_bus(struct kunit *test)
{
	struct beginner *one = kunit_kcalloc(test, CLIENTS, sizeof(*one), GFP_KERNEL);
	struct bench *b = bench_make(test, &atomic_driver);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	gpurt_gpu_get(b->gpu->index);	/* to look at it afterwards */
	KUNIT_EXPECT_EQ(test, copy_begin(b->clients[0], 10, 0), 0);
	for (i = 1; i < CLIENTS; i++)
		ask_for_bus(test, &one[i], b->clients[i], 10 * i);
	KUNIT_ASSERT_TRUE(test, comes_true(all_others_ask, b));
	gpurt_gpu_unregister(b->gpu);
	for (i = 1; i < CLIENTS; i++) {
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
		KUNIT_EXPECT_EQ(test, one[i].err, -ENODEV);
	}
	KUNIT_EXPECT_PTR_EQ(test, b->gpu->bus.core.holder, NULL);
	KUNIT_EXPECT_EQ(test, b->gpu->bus.core.waiters, 0U);
	KUNIT_EXPECT_EQ(test, copy_begin(b->clients[0], 10, 0), -ENODEV);
	gpurt_gpu_put(b->gpu);
	bench_free(b);
}

/* A copier between two chunks looks idle; it is taken off the bus at once all the same when its process ends. */
static void best_effort_that_copies_on_is_urgent(struct kunit *test)
{
	struct gpurt_copy next = { .what = GPURT_COPY_NEXT };
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client *client = b->clients[0];

	KUNIT_EXPECT_EQ(test, copy_begin(client, 0, 0), 0);
	KUNIT_EXPECT_FALSE(test, list_empty(&client->urgent.node));
	/* as gpurt_bus_next() has it before the bus is its own again */
	WRITE_ONCE(client->copier.node.state, GPURT_STATE_PENDING);
	gpurt_exits_calm(client);
	WRITE_ONCE(client->copier.node.state, GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, gpurt_bus_go_on(client, &next), 0);
	KUNIT_EXPECT_FALSE(test, list_empty(&client->urgent.node));
	KUNIT_EXPECT_EQ(test, gpurt_bus_end(client, &copy_end), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&client->urgent.node));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case bus_cases[] = {
	KUNIT_CASE(copies_go_by_priority_and_none_is_preempted),
	KUNIT_CASE(a_gpu_that_goes_away_ends_copies_and_waits_for_the_bus),
	KUNIT_CASE(best_effort_that_copies_on_is_urgent),
	{}
};

static struct kunit_suite bus_suite = {
	.name = "gpurt-bus",
	.test_cases = bus_cases,
};
