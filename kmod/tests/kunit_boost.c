// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-boost: policy `boosted` raises and lowers threads; part of kunit.c. */

#define OWN 10

static void be_fifo(struct kunit *test, u32 priority)
{
	const struct sched_param param = { .sched_priority = priority };

	KUNIT_ASSERT_EQ(test, compat_find_setscheduler()(current, SCHED_FIFO, &param), 0);
}

static int boosted_work_done(void *driver, void *ctx, u32 tsg, u64 work, u64 *when)
{
	struct bench *b = driver;

	return READ_ONCE(b->work_done);
}

static int boosted_idle(void *driver, void *ctx, u64 *when)
{
	struct bench *b = driver;

	return READ_ONCE(b->work_done);
}

static const struct gpurt_work_ops boosted_work = { .work_done = boosted_work_done, .idle = boosted_idle };

static const struct gpurt_driver_ops working_driver = {
	GPURT_DRIVER, .name = "kunit", .client_open = bench_open, .client_close = bench_close, .commit = bench_commit,
	.work = &boosted_work,
};

/* A GPU with that policy, for the calling thread of priority OWN. */
static struct bench *boosted_bench_of(struct kunit *test, const struct gpurt_driver_ops *ops)
{
	struct bench *b = bench_make(test, ops);
	const char *why = NULL;

	KUNIT_ASSERT_EQ(test, 0, gpurt_policy_set(b->gpu, GPURT_POLICY_BOOSTED, GPURT_NOTICE_POLL,
						  GPURT_POLL_DEFAULT_NS, &why));
	be_fifo(test, OWN);
	return b;
}

static struct bench *boosted_bench(struct kunit *test)
{
	return boosted_bench_of(test, &sleeping_driver);
}

static void boosted_bench_free(struct bench *b)
{
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
	sched_set_normal(current, 0);
}

/* As the ioctl does it. */
static int boosted_begin_as(struct gpurt_client *client, u32 flags, u32 hint)
{
	const struct gpurt_begin begin = { .flags = flags, .priority = hint };
	u32 own = gpurt_raised_own(current), state;
	bool raised;
	int err;

	err = gpurt_boost_begins(client, own, &begin, &raised);
	if (err)
		return err;
	err = gpurt_client_begin(client, own, hint, gpurt_boost_stated(flags), &state);
	gpurt_boost_returns(client, raised);
	return err;
}

static int boosted_begin(struct gpurt_client *client, u32 hint)
{
	return boosted_begin_as(client, 0, hint);
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

static bool is_raised(struct bench *b)
{
	return current->rt_priority == gpurt_normal + OWN;
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

/* Each client has a structure of its own by which raised.c can describe its next thread. */
static bool each_has_a_spare(struct bench *b)
{
	int i, j;

	for (i = 0; i < CLIENTS; i++) {
		if (b->clients[i]->boost.raised.thread || !b->clients[i]->boost.raised.spare)
			return false;
		for (j = 0; j < i; j++)
			if (b->clients[j]->boost.raised.spare == b->clients[i]->boost.raised.spare)
				return false;
	}
	return true;
}

/* The client that brought it along may end its segment, and be freed, while others still have theirs. */
static void what_describes_a_thread_is_passed_on(struct kunit *test)
{
	struct bench *b = boosted_bench(test);
	int first, i;

	for (first = 0; first < CLIENTS; first++) {
		for (i = 0; i < CLIENTS; i++)
			KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[i], 0), 0);
		for (i = 0; i < CLIENTS; i++) {
			KUNIT_EXPECT_TRUE(test, is_raised(b));
			KUNIT_EXPECT_EQ(test, boosted_end(b->clients[(first + i) % CLIENTS]), 0);
		}
		KUNIT_EXPECT_TRUE(test, is_lowered(b));
		KUNIT_EXPECT_TRUE(test, each_has_a_spare(b));
	}
	for (i = 0; i < CLIENTS; i++)
		KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[i], 0), 0);
	boosted_bench_free(b);
	KUNIT_EXPECT_EQ(test, gpurt_raised_own(current), 0U);
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

static void an_owner_is_raised_while_it_owns_the_gpu(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 0), 0);
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_FALSE(test, gpurt_boost_is_owners(b->clients[0]));	/* not in other calls: nothing would lower it */
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[1], GPURT_BEGIN_OWNER, 20), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 20);
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[2], GPURT_BEGIN_OWNER, 15), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 20);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[2]), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[1]), 0);
	KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static void an_owner_is_raised_once_its_update_has_succeeded(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	b->failures = 1;
	b->fails_with = -ENOTRECOVERABLE;	/* it is not tried again before a reset */
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 0), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	gpurt_gpu_reset_begin(b->gpu);
	gpurt_gpu_reset_done(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
	b->late = true;
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[1], GPURT_BEGIN_OWNER, 0), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	gpurt_gpu_committed(b->gpu, b->last.sequence, 1, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
	b->late = false;
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[1]), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static void a_gpu_that_is_being_reset_has_no_raised_owner(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 0), 0);
	gpurt_gpu_reset_begin(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(is_lowered, b));
	gpurt_gpu_reset_done(b->gpu);
	KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
	gpurt_gpu_reset_begin(b->gpu);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	gpurt_gpu_reset_done(b->gpu);
	boosted_bench_free(b);
}

static void form_fence_is_raised_when_its_work_is_done(struct kunit *test)
{
	static const struct gpurt_wait kinds[] = { { .what = GPURT_WAIT_WORK }, { .what = GPURT_WAIT_IDLE } };
	static const struct gpurt_wait grant = { .what = GPURT_WAIT_GRANT };
	struct bench *b = boosted_bench_of(test, &working_driver);
	int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		b->work_done = false;
		KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_FENCE, 0), 0);
		gpurt_boost_works(b->clients[0], &grant);
		KUNIT_EXPECT_TRUE(test, is_raised(b));
		gpurt_boost_works(b->clients[0], &kinds[i]);
		KUNIT_EXPECT_TRUE(test, is_lowered(b));
		gpurt_client_work_done(b->clients[0], 0, 0);	/* other work */
		KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);	/* has it looked at */
		KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
		KUNIT_EXPECT_TRUE(test, is_lowered(b));
		b->work_done = true;
		gpurt_client_work_done(b->clients[0], 0, 0);
		KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
		gpurt_boost_works(b->clients[0], &kinds[i]);	/* nothing to wait for */
		KUNIT_EXPECT_TRUE(test, is_raised(b));
		KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
		KUNIT_EXPECT_TRUE(test, is_lowered(b));
	}
	/* form owner is raised while it waits */
	b->work_done = false;
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 0), 0);
	gpurt_boost_works(b->clients[0], &kinds[0]);
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	boosted_bench_free(b);
}

/* gpurt-boost is not told of a completion here: it would be late. */
static void form_fence_is_raised_once_its_thread_has_seen_the_completion(struct kunit *test)
{
	static const struct gpurt_wait idle = { .what = GPURT_WAIT_IDLE };
	static const struct gpurt_wait grant = { .what = GPURT_WAIT_GRANT };
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_FENCE, 0), 0);
	gpurt_boost_works(b->clients[0], &idle);
	gpurt_boost_worked(b->clients[0], &grant);
	gpurt_boost_submits(b->clients[0]);	/* more work, while there still is some */
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	b->work_done = true;
	gpurt_boost_submits(b->clients[0]);
	b->work_done = false;
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	gpurt_client_work_done(b->clients[0], 0, 0);
	gpurt_boost_works(b->clients[0], &idle);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	gpurt_boost_worked(b->clients[0], &idle);
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	boosted_bench_free(b);
}

static void a_client_that_goes_while_it_waits_for_its_work_is_not_asked_for_it(struct kunit *test)
{
	static const struct gpurt_wait idle = { .what = GPURT_WAIT_IDLE };
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_FENCE, 0), 0);
	gpurt_boost_works(b->clients[0], &idle);
	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_EQ(test, b->closed, 1);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	gpurt_boost_look(b->clients[0]);
	KUNIT_EXPECT_PTR_EQ(test, b->clients[0]->boost.raised.task, NULL);
	boosted_bench_free(b);
}

/* A thread of priority OWN that begins, or does something else, and says so. */
struct boosted_beginner {
	struct gpurt_client *client;
	struct task_struct *task;
	int (*does)(struct gpurt_client *client, u32 flags, u32 hint);	/* NULL: begins */
	u32 flags, hint;
	int err;
	struct completion done;
};

static int be_boosted_beginner(void *data)
{
	struct boosted_beginner *one = data;
	const struct sched_param param = { .sched_priority = OWN };

	one->err = compat_find_setscheduler()(current, SCHED_FIFO, &param) ?:
		   (one->does ?: boosted_begin_as)(one->client, one->flags, one->hint);
	complete(&one->done);
	return 0;
}

static void start_boosted(struct kunit *test, struct boosted_beginner *one, struct gpurt_client *client, u32 flags)
{
	one->client = client;
	one->flags = flags;
	init_completion(&one->done);
	one->task = kthread_create(be_boosted_beginner, one, "gpurt-kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(one->task));
	get_task_struct(one->task);
	kthread_bind(one->task, 0);
	wake_up_process(one->task);
}

static void finish_boosted(struct kunit *test, struct boosted_beginner *one)
{
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&one->done, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_EQ(test, one->err, 0);
	put_task_struct(one->task);
}

static bool second_asks(struct bench *b)
{
	return waiting(&b->gpu->gate, OWN) && READ_ONCE(b->clients[1]->boost.asker);
}

/* The update of the first client is under way. */
static void it_is_raised_while_it_waits_at_the_gate(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	start_boosted(test, &one[0], b->clients[0], 0);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	start_boosted(test, &one[1], b->clients[1], 0);
	KUNIT_EXPECT_TRUE(test, comes_true(second_asks, b));
	KUNIT_EXPECT_EQ(test, one[1].task->rt_priority, gpurt_normal + OWN);
	complete(&b->go);
	finish_boosted(test, &one[0]);
	finish_boosted(test, &one[1]);
	boosted_bench_free(b);
}

static struct task_struct *boosted_second;	/* that second_has_the_gate() looks at */

static bool second_waits(struct bench *b)
{
	return waiting(&b->gpu->gate, 20) && boosted_second->rt_priority == OWN;
}

static bool second_is_on_top(struct bench *b)
{
	return boosted_second->rt_priority == 2 * gpurt_normal + 1;
}

/* It waits at its own priority, and is above all others from the hand-over until its update is over. */
static void an_owner_to_be_is_raised_when_it_is_handed_the_gate(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	start_boosted(test, &one[0], b->clients[0], GPURT_BEGIN_OWNER);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	one[1].hint = 20;
	start_boosted(test, &one[1], b->clients[1], GPURT_BEGIN_OWNER);
	boosted_second = one[1].task;
	KUNIT_EXPECT_TRUE(test, comes_true(second_waits, b));
	b->block = true;
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_TRUE(test, comes_true(second_is_on_top, b));
	complete(&b->go);
	finish_boosted(test, &one[0]);
	finish_boosted(test, &one[1]);
	KUNIT_EXPECT_FALSE(test, b->clients[1]->boost.call == GPURT_BOOST_HANDED);
	boosted_bench_free(b);
}

static int decide_nothing_boosted(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return 0;
}

static void hold_gate(struct gpurt_gate *gate, bool held)
{
	raw_spin_lock(&gate->lock);
	gate->turns.held = held;
	raw_spin_unlock(&gate->lock);
}

/* It keeps its CPU for a time and sleeps then; a decision that passes it opens the gate for it. */
static void a_thread_that_spins_at_the_gate_does_so_at_its_own_priority(struct kunit *test)
{
	struct gpurt_update urgent = { .decide = decide_nothing_boosted, .level = GPURT_GATE_URGENT };
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);
	struct gpurt_gate *gate = &b->gpu->gate;

	KUNIT_ASSERT_NOT_NULL(test, one);
	hold_gate(gate, true);
	one->hint = 20;
	start_boosted(test, one, b->clients[0], GPURT_BEGIN_FENCE);
	boosted_second = one->task;
	KUNIT_EXPECT_TRUE(test, comes_true(second_waits, b));
	KUNIT_EXPECT_TRUE(test, test_bit(GPURT_BOOST_SPINS, &b->clients[0]->boost.flags));
	hold_gate(gate, false);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &urgent), 0);
	finish_boosted(test, one);
	KUNIT_EXPECT_FALSE(test, b->clients[0]->boost.call == GPURT_BOOST_HANDED);
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	boosted_bench_free(b);
}

/* The test's thread is above it and keeps their CPU from then on; without the raise this would go on for ever. */
static void a_thread_that_lost_its_cpu_has_it_when_it_is_handed_the_gate(struct kunit *test)
{
	struct gpurt_update urgent = { .decide = decide_nothing_boosted, .level = GPURT_GATE_URGENT };
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);
	ktime_t end;

	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(0)), 0);
	be_fifo(test, gpurt_normal);
	hold_gate(&b->gpu->gate, true);
	one->hint = 20;
	start_boosted(test, one, b->clients[0], GPURT_BEGIN_OWNER);
	boosted_second = one->task;
	KUNIT_EXPECT_TRUE(test, comes_true(second_waits, b));
	hold_gate(&b->gpu->gate, false);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &urgent), 0);
	end = ktime_add_ms(ktime_get(), PATIENCE);
	while (!completion_done(&one->done) && ktime_before(ktime_get(), end))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, completion_done(&one->done));
	finish_boosted(test, one);
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpu_possible_mask), 0);
	boosted_bench_free(b);
}

static bool somebody_waits(struct bench *b)
{
	return waiting(&b->gpu->gate, 0) || waiting(&b->gpu->gate, 20);
}

static bool second_sleeps(struct bench *b)
{
	return somebody_waits(b) && compat_task_state(boosted_second) != TASK_RUNNING;
}

/* Nobody raises its thread, so it must not keep real-time clients waiting. */
static void waits_as_best_effort(struct kunit *test, struct bench *b, struct boosted_beginner *one)
{
	struct gpurt_update urgent = { .decide = decide_nothing_boosted, .level = GPURT_GATE_URGENT };

	start_boosted(test, one, b->clients[0], GPURT_BEGIN_OWNER);
	boosted_second = one->task;
	KUNIT_ASSERT_TRUE(test, comes_true(second_sleeps, b));
	KUNIT_EXPECT_TRUE(test, waiting(&b->gpu->gate, 0));
	/* it did not spin, and is not raised when it is handed the gate */
	KUNIT_EXPECT_EQ(test, container_of(gpurt_turns_first(&b->gpu->gate.turns), struct gpurt_update, turn)->caller,
			GPURT_CALLER_SLEEPS);
	hold_gate(&b->gpu->gate, false);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &urgent), 0);
	finish_boosted(test, one);
}

static void a_nested_begin_of_best_effort_waits_as_best_effort(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_ASSERT_NOT_NULL(test, one);
	begin(b->clients[0], 0);
	hold_gate(&b->gpu->gate, true);
	one->hint = 20;
	waits_as_best_effort(test, b, one);
	boosted_bench_free(b);
}

static int end_boosted(struct gpurt_client *client, u32 flags, u32 hint)
{
	return boosted_end(client);
}

static void an_end_by_a_thread_that_is_not_raised_waits_as_best_effort(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 20), 0);
	hold_gate(&b->gpu->gate, true);
	one->does = end_boosted;
	waits_as_best_effort(test, b, one);
	KUNIT_EXPECT_TRUE(test, comes_true(is_lowered, b));
	boosted_bench_free(b);
}

static int end_demoted(struct gpurt_client *client, u32 flags, u32 hint)
{
	int err = boosted_begin_as(client, flags, hint) ?: gpurt_client_priority(client, 0);

	hold_gate(&client->gpu->gate, true);
	return err ?: boosted_end(client);
}

static void a_demoted_owner_does_not_spin_at_its_end(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_ASSERT_NOT_NULL(test, one);
	one->does = end_demoted;
	waits_as_best_effort(test, b, one);
	KUNIT_EXPECT_EQ(test, b->clients[0]->core.depth, 0U);
	boosted_bench_free(b);
}

/* Between the check of a nested begin and its decision another thread may end the segment. */
static void no_begin_becomes_the_outermost_one_unchecked(struct kunit *test)
{
	const struct gpurt_begin inner = { .flags = GPURT_BEGIN_OWNER, .priority = 20 };
	struct bench *b = boosted_bench(test);
	bool raised;
	u32 state;

	set_bit(GPURT_BOOST_BARRED, &b->clients[0]->boost.flags);
	begin(b->clients[0], 0);
	KUNIT_EXPECT_EQ(test, gpurt_boost_begins(b->clients[0], OWN, &inner, &raised), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_NE(test, gpurt_client_begin(b->clients[0], OWN, 20, GPURT_FORM_OWNER, &state), 0);
	KUNIT_EXPECT_EQ(test, b->clients[0]->core.level, 0);
	KUNIT_EXPECT_PTR_EQ(test, b->gpu->sched.runner, NULL);
	boosted_bench_free(b);
}

static bool second_is_raised(struct bench *b)
{
	return waiting(&b->gpu->gate, 20) && boosted_second->rt_priority == gpurt_normal + 20;
}

/* Those behind it in the queue wait for its CPU. */
static void barred_while_it_waits_at_the_gate(struct kunit *test, u32 flags, bool (*waits)(struct bench *b),
					      u32 with_gate)
{
	struct boosted_beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	start_boosted(test, &one[0], b->clients[0], flags);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	one[1].hint = 20;
	start_boosted(test, &one[1], b->clients[1], flags);
	boosted_second = one[1].task;
	KUNIT_EXPECT_TRUE(test, comes_true(waits, b));
	set_bit(GPURT_BOOST_BARRED, &b->clients[1]->boost.flags);
	gpurt_boost_have_looked(b->clients[1]);
	KUNIT_EXPECT_TRUE(test, waits(b));
	b->block = true;
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	if (flags)
		KUNIT_EXPECT_TRUE(test, comes_true(second_is_on_top, b));
	KUNIT_EXPECT_EQ(test, boosted_second->rt_priority, with_gate);
	complete(&b->go);
	finish_boosted(test, &one[0]);
	finish_boosted(test, &one[1]);
	KUNIT_EXPECT_PTR_EQ(test, b->clients[1]->boost.asker, NULL);
	KUNIT_EXPECT_PTR_EQ(test, b->clients[1]->boost.raised.task, NULL);
	boosted_bench_free(b);
}

static void a_barred_owner_to_be_is_raised_when_it_is_handed_the_gate(struct kunit *test)
{
	barred_while_it_waits_at_the_gate(test, GPURT_BEGIN_OWNER, second_waits, 2 * gpurt_normal + 1);
}

static void a_barred_thread_of_form_self_is_raised_until_it_has_left_the_gate(struct kunit *test)
{
	barred_while_it_waits_at_the_gate(test, 0, second_is_raised, gpurt_normal + 20);
}

static bool second_is_asleep(struct bench *b)
{
	return compat_task_state(boosted_second) != TASK_RUNNING;
}

/* Two threads begin at once: the one that asked first begins the outermost segment, and is raised for it. */
static void the_thread_that_asked_first_is_raised(struct kunit *test)
{
	const struct gpurt_begin begin = { .flags = GPURT_BEGIN_OWNER };
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);
	bool raised;
	u32 state;

	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_ASSERT_EQ(test, gpurt_boost_begins(b->clients[0], OWN, &begin, &raised), 0);
	start_boosted(test, one, b->clients[0], 0);
	boosted_second = one->task;
	KUNIT_EXPECT_TRUE(test, comes_true(second_is_asleep, b));
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_EQ(test, gpurt_client_begin(b->clients[0], OWN, 0, GPURT_FORM_OWNER, &state), 0);
	gpurt_boost_returns(b->clients[0], raised);
	finish_boosted(test, one);
	KUNIT_EXPECT_EQ(test, b->clients[0]->core.depth, 2U);
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

/* The kernel checks the thread's right itself; the module knows only the rights that it had to look up. */
static void what_the_user_sets_in_the_middle_of_a_segment_stays(struct kunit *test)
{
	const struct sched_param param = { .sched_priority = gpurt_normal + OWN + 6 };
	struct bench *b = boosted_bench(test);

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	KUNIT_EXPECT_EQ(test, gpurt_client_priority(b->clients[0], 20), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + 20);
	KUNIT_EXPECT_EQ(test, compat_find_setscheduler()(current, SCHED_FIFO | SCHED_RESET_ON_FORK, &param), 0);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + OWN + 6);
	boosted_bench_free(b);
}

static bool first_is_gone(struct bench *b)
{
	return READ_ONCE(b->clients[0]->gone);
}

static int leave_boosted(struct gpurt_client *client, u32 flags, u32 hint)
{
	gpurt_client_gone(client, true);
	return 0;
}

/* Its thread is best effort at the gate, where others may follow each other without end. */
static void a_process_that_was_taken_off_does_not_wait_at_the_gate(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench_of(test, &working_driver);

	KUNIT_ASSERT_NOT_NULL(test, one);
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	gpurt_client_take_off(b->clients[0]);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_gone, b));
	hold_gate(&b->gpu->gate, true);
	one->does = leave_boosted;
	start_boosted(test, one, b->clients[0], 0);
	finish_boosted(test, one);
	hold_gate(&b->gpu->gate, false);
	KUNIT_EXPECT_EQ(test, b->closed, 1);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static void set_policy_boosted(struct kunit *test, struct bench *b, u32 policy)
{
	const char *why = NULL;

	KUNIT_EXPECT_EQ(test, gpurt_policy_set(b->gpu, policy, GPURT_NOTICE_POLL, GPURT_POLL_DEFAULT_NS, &why), 0);
}

static int boosted_commits;

static bool is_tried_again(struct bench *b)
{
	return READ_ONCE(b->commits) > boosted_commits;
}

static void a_change_of_policy_raises_nobody_while_updates_fail(struct kunit *test)
{
	struct bench *b = boosted_bench(test);

	b->failures = INT_MAX;
	KUNIT_EXPECT_EQ(test, boosted_begin_as(b->clients[0], GPURT_BEGIN_OWNER, 0), 0);
	set_policy_boosted(test, b, GPURT_POLICY_SEGMENT);
	boosted_commits = READ_ONCE(b->commits);
	KUNIT_EXPECT_TRUE(test, comes_true(is_tried_again, b));
	set_policy_boosted(test, b, GPURT_POLICY_BOOSTED);
	KUNIT_EXPECT_EQ(test, b->clients[0]->boost.level, 0U);
	KUNIT_EXPECT_TRUE(test, comes_true(is_lowered, b));
	WRITE_ONCE(b->failures, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(is_raised, b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	boosted_bench_free(b);
}

/* A thread that is no real-time thread may be kept from its CPU by all that are: nobody may wait for it at the gate. */
static void one_that_is_not_real_time_any_more_waits_as_best_effort(struct kunit *test)
{
	struct bench *b = boosted_bench(test);
	struct gpurt_client *first = b->clients[0];
	bool raised;

	/* pending, hence not raised */
	b->failures = INT_MAX;
	KUNIT_EXPECT_EQ(test, boosted_begin_as(first, GPURT_BEGIN_OWNER, 5), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	sched_set_normal(current, 0);
	raised = gpurt_boost_ends(first);
	KUNIT_EXPECT_EQ(test, current->rt_priority, 0U);
	KUNIT_EXPECT_EQ(test, gpurt_client_queues_at(first, READ_ONCE(first->core.level)), 0U);
	KUNIT_EXPECT_FALSE(test, gpurt_boost_is_owners(first));
	gpurt_boost_returns(first, raised);
	WRITE_ONCE(b->failures, 0);
	be_fifo(test, OWN);
	KUNIT_EXPECT_EQ(test, boosted_end(first), 0);
	boosted_bench_free(b);
}

static bool first_is_in_its_segment(struct bench *b)
{
	return READ_ONCE(b->clients[0]->core.depth);
}

/*
 * The caller stands for a thread that has lost its CPU to a more urgent one in the middle of a change.  No thread of
 * another client, which may have a CPU for itself, is to wait for that CPU.
 */
static void threads_of_different_clients_share_no_lock(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);

	KUNIT_ASSERT_NOT_NULL(test, one);
	rt_mutex_lock(&b->clients[1]->boost.lock);
	start_boosted(test, one, b->clients[0], 0);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_in_its_segment, b));
	rt_mutex_unlock(&b->clients[1]->boost.lock);
	finish_boosted(test, one);
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	boosted_bench_free(b);
}

/* Else threads that are raised higher on its CPU would delay all that are less urgent than its place in the queue. */
static void a_thread_queues_no_higher_than_it_is_raised(struct kunit *test)
{
	struct bench *b = boosted_bench(test);
	bool raised;

	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	b->clients[0]->boost.raised.right = gpurt_normal + OWN + 2;	/* as with that RLIMIT_RTPRIO */
	KUNIT_EXPECT_EQ(test, gpurt_client_priority(b->clients[0], 20), 0);
	KUNIT_EXPECT_EQ(test, current->rt_priority, gpurt_normal + OWN + 2);
	raised = gpurt_boost_ends(b->clients[0]);
	KUNIT_EXPECT_TRUE(test, raised);
	KUNIT_EXPECT_EQ(test, gpurt_client_queues_at(b->clients[0], 20), (u32)OWN + 2);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	gpurt_boost_returns(b->clients[0], raised);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static unsigned long looks_of_gpurt_boost(void)
{
	struct task_struct *p;
	unsigned long n = 0;

	rcu_read_lock();
	for_each_process(p)
		if (!strcmp(p->comm, "gpurt-boost"))
			n += p->nvcsw;
	rcu_read_unlock();
	return n;
}

static int nest(void *data)
{
	struct boosted_beginner *one = data;
	int i;

	for (i = 0; i < 100 && !one->err; i++) {
		one->err = boosted_begin(one->client, 0);
		if (!one->err)
			one->err = boosted_end(one->client);
	}
	complete(&one->done);
	return 0;
}

/* A thread without a priority cannot get a thread of the highest priority to look. */
static void another_thread_that_changes_nothing_has_nobody_look(struct kunit *test)
{
	struct boosted_beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b = boosted_bench(test);
	unsigned long before;

	KUNIT_ASSERT_NOT_NULL(test, one);
	one->client = b->clients[0];
	init_completion(&one->done);
	KUNIT_EXPECT_EQ(test, boosted_begin(b->clients[0], 0), 0);
	before = looks_of_gpurt_boost();
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(nest, one, "kunit")));
	wait_for_completion(&one->done);
	KUNIT_EXPECT_EQ(test, one->err, 0);
	/* The thread gpurt-boost may fall asleep only now, after what happened before. */
	KUNIT_EXPECT_LT(test, looks_of_gpurt_boost(), before + 10);
	KUNIT_EXPECT_TRUE(test, is_raised(b));
	KUNIT_EXPECT_EQ(test, boosted_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, is_lowered(b));
	boosted_bench_free(b);
}

static struct kunit_case boost_cases[] = {
	KUNIT_CASE(another_thread_that_changes_nothing_has_nobody_look),
	KUNIT_CASE(a_thread_queues_no_higher_than_it_is_raised),
	KUNIT_CASE(a_thread_is_raised_for_its_segment),
	KUNIT_CASE(it_needs_the_most_of_what_its_clients_need),
	KUNIT_CASE(what_describes_a_thread_is_passed_on),
	KUNIT_CASE(decisions_of_others_lower_it),
	KUNIT_CASE(what_the_thread_did_meanwhile_stays),
	KUNIT_CASE(a_begin_that_fails_leaves_nothing_raised),
	KUNIT_CASE(an_owner_is_raised_while_it_owns_the_gpu),
	KUNIT_CASE(an_owner_is_raised_once_its_update_has_succeeded),
	KUNIT_CASE(a_gpu_that_is_being_reset_has_no_raised_owner),
	KUNIT_CASE(form_fence_is_raised_when_its_work_is_done),
	KUNIT_CASE(form_fence_is_raised_once_its_thread_has_seen_the_completion),
	KUNIT_CASE(a_client_that_goes_while_it_waits_for_its_work_is_not_asked_for_it),
	KUNIT_CASE(it_is_raised_while_it_waits_at_the_gate),
	KUNIT_CASE(an_owner_to_be_is_raised_when_it_is_handed_the_gate),
	KUNIT_CASE(a_thread_that_spins_at_the_gate_does_so_at_its_own_priority),
	KUNIT_CASE(a_thread_that_lost_its_cpu_has_it_when_it_is_handed_the_gate),
	KUNIT_CASE(a_nested_begin_of_best_effort_waits_as_best_effort),
	KUNIT_CASE(an_end_by_a_thread_that_is_not_raised_waits_as_best_effort),
	KUNIT_CASE(a_demoted_owner_does_not_spin_at_its_end),
	KUNIT_CASE(no_begin_becomes_the_outermost_one_unchecked),
	KUNIT_CASE(a_barred_owner_to_be_is_raised_when_it_is_handed_the_gate),
	KUNIT_CASE(a_barred_thread_of_form_self_is_raised_until_it_has_left_the_gate),
	KUNIT_CASE(the_thread_that_asked_first_is_raised),
	KUNIT_CASE(what_the_user_sets_in_the_middle_of_a_segment_stays),
	KUNIT_CASE(a_process_that_was_taken_off_does_not_wait_at_the_gate),
	KUNIT_CASE(one_that_is_not_real_time_any_more_waits_as_best_effort),
	KUNIT_CASE(threads_of_different_clients_share_no_lock),
	KUNIT_CASE(a_change_of_policy_raises_nobody_while_updates_fail),
	{}
};

static struct kunit_suite boost_suite = {
	.name = "gpurt-boost",
	.test_cases = boost_cases,
};
