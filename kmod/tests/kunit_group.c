// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-group; part of kunit.c: clients that own GPUs together. */

static int groups_open;		/* that the driver knows */

static int bench_group_open(void *driver, void **ctx)
{
	*ctx = kzalloc(8, GFP_KERNEL);
	if (!*ctx)
		return -ENOMEM;
	groups_open++;
	return 0;
}

static void bench_group_close(void *driver, void *group)
{
	groups_open--;
	kfree(group);
}

static int bench_group_join(void *driver, void *ctx, void *group)
{
	return 0;
}

static const struct gpurt_driver_ops group_driver = {
	GPURT_DRIVER, .name = "kunit", .client_open = bench_open, .client_close = bench_close, .commit = bench_commit,
	.group_open = bench_group_open, .group_close = bench_group_close, .group_join = bench_group_join,
};

static const struct gpurt_driver_ops sleeping_group_driver = {
	GPURT_DRIVER, .name = "kunit", .client_open = bench_open, .client_close = bench_close, .commit = bench_commit,
	.commit_sleeps = true,
	.group_open = bench_group_open, .group_close = bench_group_close, .group_join = bench_group_join,
};

static int sit(struct gpurt_client *client, bool moved)
{
	int err;

	mutex_lock(&client->file->lock);
	err = gpurt_group_seat(client, 0, moved);
	mutex_unlock(&client->file->lock);
	return err;
}

/* A bench whose first @n clients are a group. */
static struct bench *group_make(struct kunit *test, const struct gpurt_driver_ops *ops, int n)
{
	struct bench *b = bench_make(test, ops);
	int i;

	mutex_lock(&b->file.lock);
	KUNIT_ASSERT_EQ(test, gpurt_team_enter(&b->file, "kunit", false), 0);
	mutex_unlock(&b->file.lock);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, sit(b->clients[i], false), 0);
	return b;
}

static void group_free(struct bench *b)
{
	bench_free(b);
	mutex_lock(&b->file.lock);
	gpurt_team_leave(&b->file);
	mutex_unlock(&b->file.lock);
	gpurt_team_put(b->file.team);
}

static void members_own_together(struct kunit *test)
{
	struct bench *b = group_make(test, &group_driver, 2);
	void *group = b->file.team->seats[b->gpu->index].ctx;

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[2], 10), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_TRUE(test, gpurt_may_run(b->gpu, b->clients[1]));
	KUNIT_EXPECT_FALSE(test, gpurt_may_run(b->gpu, b->clients[3]));
	KUNIT_EXPECT_EQ(test, sit(b->clients[2], false), -EBUSY);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	KUNIT_EXPECT_PTR_EQ(test, b->given[0], group);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[1]), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[2]));
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[2]);
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

/* The cure for an owner that waits for another program. */
static void the_administrator_moves_clients_that_are_inside(struct kunit *test)
{
	struct bench *b = group_make(test, &group_driver, 0);

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 10), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, sit(b->clients[0], true), 0);
	KUNIT_EXPECT_EQ(test, sit(b->clients[1], true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[0]));
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_EQ(test, b->file.team->core.open, 2U);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[1]), 0);
	KUNIT_EXPECT_EQ(test, b->file.team->core.open, 0U);
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

/* Whatever dies, the GPU is handed on, and the driver forgets the group with its last member; also if updates fail. */
static void members_die_one_by_one(struct kunit *test)
{
	struct bench *b = group_make(test, &group_driver, 2);

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[2], 10), (u32)GPURT_STATE_PENDING);
	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_TRUE(test, b->clients[0]->leaves);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_FALSE(test, gpurt_client_granted(b->clients[2]));
	KUNIT_EXPECT_EQ(test, groups_open, 1);
	b->failures = 1;
	gpurt_client_gone(b->clients[1], false);
	KUNIT_EXPECT_FALSE(test, b->clients[1]->leaves);
	KUNIT_EXPECT_EQ(test, groups_open, 0);
	KUNIT_EXPECT_EQ(test, b->gpu->groups, 0U);
	KUNIT_EXPECT_EQ(test, b->file.team->core.open, 0U);
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

/* Its group still owns other GPUs. */
static void a_gpu_that_goes_away_takes_its_segments_along(struct kunit *test)
{
	struct bench *b = group_make(test, &sleeping_group_driver, 2), *other = group_make(test, &group_driver, 1);

	KUNIT_ASSERT_PTR_EQ(test, b->file.team, other->file.team);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(other->clients[0], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(other->clients[1], 15), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, b->file.team->core.open, 3U);
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_EQ(test, other->file.team->core.open, 1U);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(other->clients[0]));
	KUNIT_EXPECT_EQ(test, gpurt_client_end(other->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(other->clients[1]));
	gpurt_gpu_unregister(other->gpu);
	KUNIT_EXPECT_EQ(test, groups_open, 0);
	group_free(other);
	group_free(b);
}

static bool another_has_it(struct bench *b)
{
	return gpurt_client_granted(b->clients[1]);
}

/* What is said on one GPU of a group's level holds on the others soon, by their own threads. */
static void all_gpus_follow_a_new_level(struct kunit *test)
{
	struct bench *here = group_make(test, &group_driver, 1), *there = group_make(test, &sleeping_group_driver, 1);
	int reading, token;

	KUNIT_EXPECT_EQ(test, begin(here->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(there->clients[0], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(there->clients[1], 15), (u32)GPURT_STATE_PENDING);
	KUNIT_ASSERT_TRUE(test, gpurt_gpu_hold(here->gpu, &token));
	reading = gpurt_clients_read();
	KUNIT_EXPECT_EQ(test, gpurt_client_priority(here->clients[0], 10), 0);
	gpurt_clients_done(reading);
	gpurt_gpu_release(here->gpu, token);
	KUNIT_EXPECT_TRUE(test, comes_true(another_has_it, there));
	KUNIT_EXPECT_FALSE(test, gpurt_client_granted(there->clients[0]));
	gpurt_gpu_unregister(here->gpu);
	gpurt_gpu_unregister(there->gpu);
	group_free(there);
	group_free(here);
}

#define TENURES 2000

static int be_member(void *data)
{
	struct beginner *one = data;
	int i;

	for (i = 0; i < TENURES && !one->err; i++) {
		one->err = gpurt_client_begin(one->client, one->priority, 0, GPURT_FORM_SELF, &one->state) ?:
			   gpurt_client_end(one->client);
		cond_resched();
	}
	complete(&one->done);
	return 0;
}

/* The last end on one GPU meets the first begin on another one: no segment and no tenure is lost. */
static void tenures_begin_and_end_on_two_gpus_at_once(struct kunit *test)
{
	struct bench *b[] = { group_make(test, &group_driver, 1), group_make(test, &group_driver, 1) };
	struct beginner *one = kunit_kcalloc(test, ARRAY_SIZE(b), sizeof(*one), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	for (i = 0; i < ARRAY_SIZE(b); i++) {
		one[i].priority = 20;
		start_as(test, be_member, &one[i], b[i]->clients[0]);
	}
	for (i = 0; i < ARRAY_SIZE(b); i++) {
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
		KUNIT_EXPECT_EQ(test, one[i].err, 0);
		KUNIT_EXPECT_PTR_EQ(test, b[i]->gpu->sched.runner, NULL);
	}
	KUNIT_EXPECT_EQ(test, b[0]->file.team->core.open, 0U);
	for (i = 0; i < ARRAY_SIZE(b); i++)
		gpurt_gpu_unregister(b[i]->gpu);
	for (i = 0; i < ARRAY_SIZE(b); i++)
		group_free(b[i]);
}

/* Has @look look at the client as it is while a decision makes it a member: its entry is the group's already. */
static int decide_looked_at(struct gpurt_update *u, void (*look)(struct gpurt_client *client))
{
	struct gpurt_client *client = u->client;
	struct gpurt_sched_client group;

	gpurt_sched_client_init(&group);
	WRITE_ONCE(client->core.entry, &group);
	look(client);
	WRITE_ONCE(client->core.entry, &client->core);
	return 0;
}

static int decide_taken_off(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return decide_looked_at(u, gpurt_client_take_off);
}

static int decide_calmed(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return decide_looked_at(u, gpurt_exits_calm);
}

/* A process ends in the middle of the decision that makes its client a member. */
static void an_owner_that_is_moved_meanwhile_is_taken_off(struct kunit *test)
{
	struct bench *b = bench_make(test, &group_driver);
	struct gpurt_update u = { .decide = decide_taken_off, .client = b->clients[0], .level = GPURT_GATE_CONTROL };

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 10), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &u), 0);
	KUNIT_EXPECT_TRUE(test, comes_true(another_has_it, b));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static bool is_urgent(const struct gpurt_client *client)
{
	return !list_empty(&client->urgent.node);
}

static void lock_the_gpu(struct kunit *test, struct bench *b)
{
	const char *why = NULL;

	KUNIT_ASSERT_EQ(test, gpurt_policy_set(b->gpu, GPURT_POLICY_LOCK_PRIORITY, GPURT_NOTICE_POLL,
					       GPURT_POLL_DEFAULT_NS, &why), 0);
}

/* Best effort that owns the GPU as a lock is taken off at once when its process ends, whatever looked at it before. */
static void an_owner_by_a_lock_that_is_moved_meanwhile_stays_urgent(struct kunit *test)
{
	struct bench *b = bench_make(test, &group_driver);
	struct gpurt_update u = { .decide = decide_calmed, .client = b->clients[0], .level = GPURT_GATE_CONTROL };

	lock_the_gpu(test, b);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &u), 0);
	KUNIT_EXPECT_TRUE(test, is_urgent(b->clients[0]));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* Likewise, once it is moved into a group that owns the GPU as a lock. */
static void who_is_moved_into_an_owner_by_a_lock_is_urgent_inside(struct kunit *test)
{
	struct bench *b = group_make(test, &group_driver, 1);

	lock_the_gpu(test, b);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 0), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 0), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, sit(b->clients[1], true), 0);
	KUNIT_EXPECT_EQ(test, sit(b->clients[2], true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_TRUE(test, is_urgent(b->clients[1]));
	KUNIT_EXPECT_FALSE(test, is_urgent(b->clients[2]));
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[1]), 0);
	KUNIT_EXPECT_FALSE(test, is_urgent(b->clients[1]));
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

static int be_seated(void *data)
{
	struct beginner *one = data;

	one->err = sit(one->client, true);
	complete(&one->done);
	return 0;
}

static bool decision_waits(struct bench *b)
{
	return READ_ONCE(b->gpu->gate.turns.count) == 1;
}

static bool decisions_wait(struct bench *b)
{
	return READ_ONCE(b->gpu->gate.turns.count) == 2;
}

/*
 * Likewise, if its client is moved while it begins.  The begin rests after the first one's long update, as best effort
 * does, and the move does not: so the move is decided first.
 */
static void who_is_moved_while_it_begins_is_urgent_inside(struct kunit *test)
{
	struct bench *b = group_make(test, &sleeping_group_driver, 1);
	struct beginner *one = kunit_kcalloc(test, 3, sizeof(*one), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	lock_the_gpu(test, b);
	b->block = true;
	start(test, &one[0], b->clients[0], 0);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	start_as(test, be_seated, &one[1], b->clients[1]);
	KUNIT_EXPECT_TRUE(test, comes_true(decision_waits, b));
	start(test, &one[2], b->clients[1], 0);
	KUNIT_EXPECT_TRUE(test, comes_true(decisions_wait, b));
	complete(&b->go);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
		KUNIT_EXPECT_EQ(test, one[i].err, 0);
	}
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_TRUE(test, is_urgent(b->clients[1]));
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

static void a_driver_without_groups_refuses_members(struct kunit *test)
{
	struct bench *b = group_make(test, &atomic_driver, 0);

	KUNIT_EXPECT_EQ(test, sit(b->clients[0], false), -EOPNOTSUPP);
	KUNIT_EXPECT_PTR_EQ(test, b->clients[0]->seat, NULL);
	gpurt_gpu_unregister(b->gpu);
	group_free(b);
}

static struct kunit_case group_cases[] = {
	KUNIT_CASE(members_own_together),
	KUNIT_CASE(the_administrator_moves_clients_that_are_inside),
	KUNIT_CASE(members_die_one_by_one),
	KUNIT_CASE(a_gpu_that_goes_away_takes_its_segments_along),
	KUNIT_CASE(all_gpus_follow_a_new_level),
	KUNIT_CASE(tenures_begin_and_end_on_two_gpus_at_once),
	KUNIT_CASE(an_owner_that_is_moved_meanwhile_is_taken_off),
	KUNIT_CASE(an_owner_by_a_lock_that_is_moved_meanwhile_stays_urgent),
	KUNIT_CASE(who_is_moved_into_an_owner_by_a_lock_is_urgent_inside),
	KUNIT_CASE(who_is_moved_while_it_begins_is_urgent_inside),
	KUNIT_CASE(a_driver_without_groups_refuses_members),
	{}
};

static struct kunit_suite group_suite = {
	.name = "gpurt-group",
	.test_cases = group_cases,
};
