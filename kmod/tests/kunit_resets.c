// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-resets: resets, suspend, power; part of kunit.c. */

static void decisions_are_taken_during_a_reset_and_carried_out_after_it(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	gpurt_gpu_reset_begin(b->gpu);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 30), (u32)GPURT_STATE_PENDING);
	gpurt_gpu_reset_begin(b->gpu);
	gpurt_gpu_reset_done(b->gpu);
	let_the_thread_look(b);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0) || is_granted(b, 1));
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	gpurt_gpu_reset_done(b->gpu);
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 1));
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[1]);
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.latency[GPURT_CAUSE_RESET].count, 1ULL);
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 0ULL);
	bench_end(b);
}

static void a_reset_in_the_middle_of_a_commit(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	u64 lost;

	b->late = true;
	begin(b->clients[0], 20);
	lost = b->last.sequence;
	gpurt_gpu_reset_begin(b->gpu);
	let_the_thread_look(b);
	gpurt_gpu_committed(b->gpu, lost, 1, 0);	/* said of a runlist that the reset undoes */
	let_the_thread_look(b);
	b->late = false;
	gpurt_gpu_reset_done(b->gpu);
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 0));
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	bench_end(b);
}

static void a_driver_that_needs_a_reset_is_left_alone_until_then(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	b->failures = 1;
	b->fails_with = -ENOTRECOVERABLE;
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 30), (u32)GPURT_STATE_PENDING);
	msleep(20);	/* any other failure is tried again after 1 ms */
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	gpurt_gpu_reset_begin(b->gpu);
	gpurt_gpu_reset_done(b->gpu);
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 1));
	bench_end(b);
}

/*
 * Agents' calls make their driver ask.  In between the thread would do nothing except take other
 * tasks' time.
 */
static void the_thread_does_not_look_again_before_it_may_try(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	unsigned long before;
	int i;

	b->failures = 1;
	b->fails_with = -ENOTRECOVERABLE;	/* hence no other try */
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	b->gpu->runlist.retry.patient_until = U64_MAX;
	KUNIT_EXPECT_TRUE(test, comes_true(stays_asleep, b));
	before = READ_ONCE(b->gpu->thread->nvcsw);
	for (i = 0; i < 10; i++) {
		gpurt_client_retry(b->clients[0]);
		msleep(20);
	}
	KUNIT_EXPECT_EQ(test, READ_ONCE(b->gpu->thread->nvcsw), before);
	bench_end(b);
}

static int be_suspender(void *data)
{
	struct remover *r = data;

	gpurt_gpu_suspend(r->b->gpu);
	complete(&r->done);
	return 0;
}

static bool is_held(struct bench *b)
{
	return atomic_read(&b->gpu->runlist.holds);
}

static void suspend_waits_for_the_commit_that_is_under_way(struct kunit *test)
{
	struct remover *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_ASSERT_NOT_NULL(test, one);
	b = bench_make(test, &sleeping_driver);
	b->block = true;
	start(test, one, b->clients[0], 20);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	r->b = b;
	init_completion(&r->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(be_suspender, r, "gpurt-kunit")));
	KUNIT_EXPECT_TRUE(test, comes_true(is_held, b));
	/* An ordinary thread, behind which no more urgent client waits until it gets its CPU. */
	KUNIT_EXPECT_TRUE(test, comes_true(best_effort_waits, b));
	KUNIT_EXPECT_FALSE(test, completion_done(&r->done));
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&r->done, msecs_to_jiffies(PATIENCE)));
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	gpurt_gpu_resume(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	bench_end(b);
}

static int bench_power(void *driver, bool on)
{
	struct bench *b = driver;

	b->powered += on;
	if (on && b->power_failures) {
		b->power_failures--;
		return b->power_error ?: -EIO;
	}
	b->power += on ? 1 : -1;
	return on;	/* as pm_runtime_get_sync() says that it was powered before */
}

static int powered_commit(void *driver, const struct gpurt_commit *c)
{
	struct bench *b = driver;

	b->failures += !b->power;
	return bench_commit(driver, c);
}

static void the_gpu_is_powered_before_every_commit(struct kunit *test)
{
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;

	ops->power = bench_power;
	ops->commit = powered_commit;
	b = bench_make(test, ops);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, b->power, 0);
	b->power_failures = 1;
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 30), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_TRUE(test, comes_true(second_is_granted, b));
	/* One for the power: a GPU without power is not touched, else powered_commit() would have failed as well. */
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 1ULL);
	let_the_thread_look(b);
	KUNIT_EXPECT_EQ(test, b->power, 0);
	bench_end(b);
}

/* A GPU whose clients are in the middle of a commit() that @one causes. */
static struct bench *in_the_middle(struct kunit *test, struct beginner *one)
{
	struct bench *b = bench_make(test, &sleeping_driver);

	b->block = true;
	start(test, one, b->clients[0], 20);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	return b;
}

/* The driver says that it was committed, and the reset has undone that. */
static void a_reset_that_begins_during_a_commit_is_seen_when_that_returns(struct kunit *test)
{
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b = in_the_middle(test, one);
	gpurt_gpu_reset_begin(b->gpu);
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_EQ(test, one->state, (u32)GPURT_STATE_PENDING);
	let_the_thread_look(b);
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	gpurt_gpu_reset_done(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.latency[GPURT_CAUSE_BEGIN].count, 0ULL);
	bench_end(b);
}

static void a_reset_that_is_over_before_a_commit_returns_is_seen_too(struct kunit *test)
{
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b = in_the_middle(test, one);
	gpurt_gpu_reset_begin(b->gpu);
	gpurt_gpu_reset_done(b->gpu);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_EQ(test, one->state, (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	bench_end(b);
}

/* As answers to a commit these would mean that it is in progress, or that the GPU must be reset. */
static void every_error_of_power_is_tried_again(struct kunit *test)
{
	static const int errors[] = { -EINPROGRESS, -ENOTRECOVERABLE, -ETIMEDOUT, -EACCES };
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;
	size_t i;

	ops->power = bench_power;
	ops->commit = powered_commit;
	b = bench_make(test, ops);
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		b->power_error = errors[i];
		b->power_failures = 1;
		KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
		KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
		KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	}
	let_the_thread_look(b);
	KUNIT_EXPECT_EQ(test, b->power, 0);
	bench_end(b);
}

static void a_gpu_that_is_suspended_is_not_powered(struct kunit *test)
{
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;
	int before;

	ops->power = bench_power;
	b = bench_make(test, ops);
	before = b->powered;
	gpurt_gpu_suspend(b->gpu);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	let_the_thread_look(b);
	KUNIT_EXPECT_EQ(test, b->powered, before);
	gpurt_gpu_resume(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 0ULL);
	KUNIT_EXPECT_GT(test, b->powered, before);
	bench_end(b);
}

static struct kunit_case reset_cases[] = {
	KUNIT_CASE(decisions_are_taken_during_a_reset_and_carried_out_after_it),
	KUNIT_CASE(a_reset_in_the_middle_of_a_commit),
	KUNIT_CASE(a_driver_that_needs_a_reset_is_left_alone_until_then),
	KUNIT_CASE(the_thread_does_not_look_again_before_it_may_try),
	KUNIT_CASE(suspend_waits_for_the_commit_that_is_under_way),
	KUNIT_CASE(the_gpu_is_powered_before_every_commit),
	KUNIT_CASE(a_reset_that_begins_during_a_commit_is_seen_when_that_returns),
	KUNIT_CASE(a_reset_that_is_over_before_a_commit_returns_is_seen_too),
	KUNIT_CASE(every_error_of_power_is_tried_again),
	KUNIT_CASE(a_gpu_that_is_suspended_is_not_powered),
	{}
};

static struct kunit_suite reset_suite = {
	.name = "gpurt-resets",
	.test_cases = reset_cases,
};
