// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-commits: commits that complete later; part of kunit.c. */

static bool is_granted(struct bench *b, int client)
{
	return gpurt_client_granted(b->clients[client]);
}

/* A driver with an own copy of its operations. */
static struct gpurt_driver_ops *own_ops(struct kunit *test, const struct gpurt_driver_ops *from)
{
	struct gpurt_driver_ops *ops = kunit_kmalloc(test, sizeof(*ops), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ops);
	*ops = *from;
	return ops;
}

/* Decisions of the GPU's thread that were caused before have been taken when this returns. */
static void let_the_thread_look(struct bench *b)
{
	kthread_flush_worker(b->gpu->worker);
}

static void bench_end(struct bench *b)
{
	b->late = false;
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static void a_commit_that_completes_later_grants_the_gpu_then(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	b->late = true;
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_TRUE(test, gpurt_may_run(b->gpu, b->clients[0]));
	gpurt_gpu_committed(b->gpu, b->last.sequence - 1, 1, 0);
	gpurt_gpu_committed(b->gpu, b->last.sequence + 1, 1, 0);
	let_the_thread_look(b);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 0));
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 0ULL);
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.latency[GPURT_CAUSE_BEGIN].count, 1ULL);
	bench_end(b);
}

static void a_newer_decision_supersedes_the_commit_in_progress(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	u64 first;

	b->late = true;
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	first = b->last.sequence;
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 30), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[1]);
	gpurt_gpu_committed(b->gpu, first, 1, -EIO);
	gpurt_gpu_committed(b->gpu, first, 1, 0);
	let_the_thread_look(b);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0) || is_granted(b, 1));
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 1));
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 0ULL);
	bench_end(b);
}

static void a_client_that_leaves_while_a_commit_is_in_progress_is_closed_after_it(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	int tries;

	b->late = true;
	begin(b->clients[0], 20);
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	let_the_thread_look(b);
	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], NULL);
	KUNIT_EXPECT_EQ(test, b->closed, 0);	/* it may still be on the runlist */
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	for (tries = 0; tries < PATIENCE && !READ_ONCE(b->closed); tries++)
		usleep_range(900, 1100);
	KUNIT_EXPECT_EQ(test, b->closed, 1);
	bench_end(b);
}

static void a_commit_that_is_never_completed_is_tried_again(struct kunit *test)
{
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;
	u64 first;

	ops->bound_ns = 20 * NSEC_PER_MSEC;
	b = bench_make(test, ops);
	b->late = true;
	b->once = true;
	begin(b->clients[0], 20);
	first = b->last.sequence;
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 1ULL);
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	gpurt_gpu_committed(b->gpu, first, 1, -EIO);	/* too late */
	let_the_thread_look(b);
	KUNIT_EXPECT_TRUE(test, is_granted(b, 0));
	bench_end(b);
}

static bool second_runlist_is_asked_for(struct bench *b)
{
	return READ_ONCE(b->last.runlists) == 2;
}

static void runlists_are_committed_one_by_one(struct kunit *test)
{
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;

	ops->runlists = 3;
	b = bench_make(test, ops);
	b->late = true;
	begin(b->clients[0], 20);
	KUNIT_EXPECT_EQ(test, b->last.runlists, 3U);
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	let_the_thread_look(b);
	KUNIT_EXPECT_FALSE(test, is_granted(b, 0));
	gpurt_gpu_committed(b->gpu, b->last.sequence, 2, -EIO);
	KUNIT_EXPECT_TRUE(test, comes_true(second_runlist_is_asked_for, b));	/* only that one is tried again */
	gpurt_gpu_committed(b->gpu, b->last.sequence, 2, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 1ULL);
	bench_end(b);
}

static void a_gpu_goes_away_while_a_commit_is_in_progress(struct kunit *test)
{
	struct gpurt_driver_ops *ops = own_ops(test, &atomic_driver);
	struct bench *b;

	ops->bound_ns = 20 * NSEC_PER_MSEC;
	b = bench_make(test, ops);
	b->late = true;
	begin(b->clients[0], 20);
	gpurt_gpu_unregister(b->gpu);	/* none of its commits ever completes */
	KUNIT_EXPECT_EQ(test, b->closed, CLIENTS);
	KUNIT_EXPECT_PTR_EQ(test, b->last.only, NULL);
	bench_free(b);
}

static struct kunit_case commit_cases[] = {
	KUNIT_CASE(a_commit_that_completes_later_grants_the_gpu_then),
	KUNIT_CASE(a_newer_decision_supersedes_the_commit_in_progress),
	KUNIT_CASE(a_client_that_leaves_while_a_commit_is_in_progress_is_closed_after_it),
	KUNIT_CASE(a_commit_that_is_never_completed_is_tried_again),
	KUNIT_CASE(runlists_are_committed_one_by_one),
	KUNIT_CASE(a_gpu_goes_away_while_a_commit_is_in_progress),
	{}
};

static struct kunit_suite commit_suite = {
	.name = "gpurt-commits",
	.test_cases = commit_cases,
};
