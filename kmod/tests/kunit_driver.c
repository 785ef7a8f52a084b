// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-driver: lifetimes of drivers, and what they may rely on; part of kunit.c. */
#include <linux/cpumask.h>
#include <linux/module.h>

#include "calls/calls.h"
#include "clients/clients.h"

static void a_gpu_that_is_gone_has_no_runner(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_gpu *gpu = gpurt_gpu_get(b->gpu->index);

	/* A reader of the control plane holds the GPU, and is about to look at its runner. */
	KUNIT_ASSERT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
	/* Pairs with carry_out(). */
	KUNIT_EXPECT_TRUE(test, !smp_load_acquire(&gpu->runlist.runner));
	gpurt_gpu_put(gpu);
}

static void a_gpu_that_is_gone_needs_its_driver_no_more(struct kunit *test)
{
	struct gpurt_driver_ops *ops = kunit_kmalloc(test, sizeof(*ops), GFP_KERNEL);
	struct gpurt_agents_facts facts;
	struct gpurt_gpu *gpu;
	struct bench *b;
	u32 state;

	KUNIT_ASSERT_NOT_NULL(test, ops);
	*ops = atomic_driver;
	b = bench_make(test, ops);
	gpu = gpurt_gpu_get(b->gpu->index);
	gpurt_gpu_unregister(b->gpu);
	/* The driver's module is unloaded, and another one is loaded to the same place. */
	*ops = (struct gpurt_driver_ops){ GPURT_DRIVER, .name = "another", .commit_sleeps = true };
	gpurt_gpu_describe(gpu, &facts);
	KUNIT_EXPECT_STREQ(test, facts.driver, "kunit");
	KUNIT_EXPECT_FALSE(test, gpu->ops.commit_sleeps);
	KUNIT_EXPECT_EQ(test, gpurt_client_begin(b->clients[0], 1, 0, GPURT_FORM_SELF, &state), -ENODEV);
	gpurt_gpu_put(gpu);
	bench_free(b);
}

static void the_drivers_module_stays_while_there_are_clients(struct kunit *test)
{
	int before = module_refcount(THIS_MODULE);
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + CLIENTS);
	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + CLIENTS - 1);
	b->failures = 100;
	begin(b->clients[1], 10);
	gpurt_client_gone(b->clients[1], false);
	KUNIT_EXPECT_EQ(test, b->closed, 1);	/* it may be on the runlist */
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + CLIENTS - 2);
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before);
	bench_free(b);
}

/* Operations of a driver that was compiled with a newer drv.h. */
struct newer_ops {
	struct gpurt_driver_ops ops;
	void *more;
};

static long registering(const struct gpurt_driver_ops *ops)
{
	struct gpurt_gpu *gpu;
	int err = gpurt_gpu_register(ops, NULL, &gpu);

	if (!err)
		gpurt_gpu_unregister(gpu);
	return err;
}

/* A GPU without clients. */
static int idle_commit(void *driver, const struct gpurt_commit *c)
{
	return 0;
}

static void drivers_of_other_versions_are_told_apart(struct kunit *test)
{
	struct newer_ops *newer = kunit_kzalloc(test, sizeof(*newer), GFP_KERNEL);
	struct gpurt_driver_ops *ops;

	KUNIT_ASSERT_NOT_NULL(test, newer);
	ops = &newer->ops;
	*ops = atomic_driver;
	ops->commit = idle_commit;
	KUNIT_EXPECT_EQ(test, registering(ops), 0L);
	ops->size = sizeof(*newer);
	KUNIT_EXPECT_EQ(test, registering(ops), 0L);
	newer->more = newer;
	KUNIT_EXPECT_EQ(test, registering(ops), (long)-E2BIG);
	ops->size = GPURT_DRIVER_SIZE_MIN - 1;
	KUNIT_EXPECT_EQ(test, registering(ops), (long)-EINVAL);
	ops->size = sizeof(*ops);
	ops->version++;
	KUNIT_EXPECT_EQ(test, registering(ops), (long)-EINVAL);
	ops->version--;
	ops->commit = NULL;
	KUNIT_EXPECT_EQ(test, registering(ops), (long)-EINVAL);
}

/* A driver that is told of exemptions counts them. */
static int exempted, undone;

static void counting_exempt(void *driver, void *ctx, bool exempt)
{
	exempted += exempt;
	undone += !exempt;
}

static int be_joiner(void *data)
{
	struct beginner *one = data;

	gpurt_exempt_apply(one->client);
	complete(&one->done);
	return 0;
}

static bool two_wait(struct bench *b)
{
	struct list_head *pos;
	int n = 0;

	raw_spin_lock(&b->gpu->gate.lock);
	list_for_each(pos, &b->gpu->gate.turns.waiting.level[GPURT_GATE_CONTROL])
		n++;
	raw_spin_unlock(&b->gpu->gate.lock);
	return n == 2;
}

/* A client that joins while a rule is added is exempted by its own call and by the administrator's. */
static void an_exemption_is_told_to_the_driver_once(struct kunit *test)
{
	struct gpurt_driver_ops *ops = kunit_kmalloc(test, sizeof(*ops), GFP_KERNEL);
	struct beginner *one = kunit_kcalloc(test, 3, sizeof(*one), GFP_KERNEL);
	struct bench *b;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, ops);
	KUNIT_ASSERT_NOT_NULL(test, one);
	*ops = sleeping_driver;
	ops->exempt = counting_exempt;
	b = bench_make(test, ops);
	exempted = 0;
	undone = 0;
	KUNIT_ASSERT_EQ(test, rule(GPURT_A_COMM, "kunit", NULL, true), 0);
	b->block = true;
	start(test, &one[0], b->clients[0], 20);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	for (i = 1; i < 3; i++)
		start_as(test, be_joiner, &one[i], b->clients[1]);
	KUNIT_EXPECT_TRUE(test, comes_true(two_wait, b));
	complete(&b->go);
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
	KUNIT_EXPECT_EQ(test, exempted, 1);
	KUNIT_EXPECT_EQ(test, undone, 0);
	gpurt_rules_clear();
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static bool everyone_may_run(struct bench *b)
{
	return gpurt_may_run(b->gpu, NULL);
}

static bool second_is_granted(struct bench *b)
{
	return gpurt_client_granted(b->clients[1]);
}

/* A process that had TSGs when it became a client. */
static int open_with_tsgs(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	gpurt_client_tsgs_changed(client, 3);
	return bench_open(driver, tgid, client, ctx);
}

static bool first_has_two_tsgs(struct bench *b)
{
	return READ_ONCE(b->clients[0]->core.tsgs) == 2;
}

static bool all_have_three_tsgs(struct bench *b)
{
	int i;

	for (i = 0; i < CLIENTS; i++)
		if (READ_ONCE(b->clients[i]->core.tsgs) != 3)
			return false;
	return true;
}

static void tsgs_are_told_while_an_update_is_under_way(struct kunit *test)
{
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b = bench_make(test, &sleeping_driver);
	b->block = true;
	start(test, one, b->clients[0], 20);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	/* As a driver does that holds a lock for which this commit() waits. */
	gpurt_client_tsgs_changed(b->clients[0], 3);
	gpurt_client_tsgs_changed(b->clients[0], -1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(b->clients[0]->core.tsgs), 0U);
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_TRUE(test, comes_true(first_has_two_tsgs, b));
	gpurt_client_tsgs_changed(b->clients[0], -2);	/* the last ones: its segment is over */
	KUNIT_EXPECT_TRUE(test, comes_true(everyone_may_run, b));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static int be_hearer(void *data)
{
	struct beginner *one = data;

	gpurt_client_hear(one->client);
	complete(&one->done);
	return 0;
}

/* A worker, that is: everyone less urgent than the client would wait until it gets its CPU. */
static void an_ordinary_thread_that_hears_of_tsgs_queues_as_best_effort(struct kunit *test)
{
	struct beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b = bench_make(test, &sleeping_driver);
	begin(b->clients[1], 50);
	b->block = true;
	start(test, &one[0], b->clients[0], 60);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	atomic_inc(&b->clients[1]->tsgs);
	start_as(test, be_hearer, &one[1], b->clients[1]);
	KUNIT_EXPECT_TRUE(test, comes_true(best_effort_waits, b));
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, finished(&one[0]));
	KUNIT_ASSERT_TRUE(test, finished(&one[1]));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static void tsgs_that_are_older_than_the_client_count(struct kunit *test)
{
	struct gpurt_driver_ops *ops = kunit_kmalloc(test, sizeof(*ops), GFP_KERNEL);
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, ops);
	*ops = atomic_driver;
	ops->client_open = open_with_tsgs;
	b = bench_make(test, ops);
	KUNIT_EXPECT_TRUE(test, comes_true(all_have_three_tsgs, b));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static void drivers_learn_whose_tsgs_may_run(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct pid *own = task_tgid(current), *other = find_get_pid(2);

	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_EXPECT_PTR_EQ(test, gpurt_client_find(b->gpu, other), NULL);
	KUNIT_EXPECT_NOT_NULL(test, gpurt_client_find(b->gpu, own));
	KUNIT_EXPECT_TRUE(test, gpurt_may_run(b->gpu, NULL) && gpurt_process_may_run(b->gpu, other));

	KUNIT_ASSERT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_TRUE(test, gpurt_may_run(b->gpu, b->clients[0]) && gpurt_process_may_run(b->gpu, own));
	KUNIT_EXPECT_FALSE(test, gpurt_may_run(b->gpu, b->clients[1]));
	KUNIT_EXPECT_FALSE(test, gpurt_may_run(b->gpu, NULL));
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, other));
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, NULL));

	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_TRUE(test, gpurt_may_run(b->gpu, NULL));
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_PTR_EQ(test, gpurt_client_find(b->gpu, own), NULL);
	put_pid(other);
	bench_free(b);
}

static void a_client_whose_work_was_killed_loses_its_segment(struct kunit *test)
{
	struct gpurt_wait granted = { .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_ASSERT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_ASSERT_EQ(test, begin(b->clients[1], 10), (u32)GPURT_STATE_PENDING);
	gpurt_client_killed(b->clients[0]);
	KUNIT_EXPECT_TRUE(test, comes_true(second_is_granted, b));
	KUNIT_EXPECT_EQ(test, gpurt_wait_for(b->clients[0], &granted), -EIO);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), -EIO);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), -ENOENT);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/*
 * Does what the kernel does when the CPU goes offline.  To take it offline breaks the clock of
 * emulated machines.
 */
static void a_thread_comes_back_to_its_cpu(struct kunit *test)
{
	int before = gpurt_thread_cpu;
	struct task_struct *thread;
	struct bench *b;

	gpurt_thread_cpu = cpumask_last(cpu_online_mask);
	b = bench_make(test, &atomic_driver);
	thread = b->gpu->worker->task;
	KUNIT_EXPECT_TRUE(test, cpumask_equal(thread->cpus_ptr, cpumask_of(gpurt_thread_cpu)));
	set_cpus_allowed_ptr(thread, cpu_possible_mask);
	gpurt_cpu_came(gpurt_thread_cpu);
	KUNIT_EXPECT_TRUE(test, cpumask_equal(thread->cpus_ptr, cpumask_of(gpurt_thread_cpu)));
	gpurt_gpu_unregister(b->gpu);
	gpurt_cpu_came(gpurt_thread_cpu);	/* there is no GPU any more */
	gpurt_thread_cpu = before;
	bench_free(b);
}

/* An exempt process that is no client. */
static int told_of_exemptions;

static void count_exemptions(void *driver)
{
	told_of_exemptions++;
}

static void exemptions_are_for_processes_without_clients_too(struct kunit *test)
{
	struct gpurt_driver_ops *ops = kunit_kmalloc(test, sizeof(*ops), GFP_KERNEL);
	struct pid *other = find_get_pid(2);	/* kthreadd */
	struct bench *b;

	KUNIT_ASSERT_NOT_NULL(test, ops);
	KUNIT_ASSERT_NOT_NULL(test, other);
	*ops = atomic_driver;
	ops->exemptions_changed = count_exemptions;
	told_of_exemptions = 0;
	b = bench_make(test, ops);
	gpurt_exempt_tell(b->gpu);
	KUNIT_EXPECT_EQ(test, told_of_exemptions, 1);
	KUNIT_EXPECT_EQ(test, b->commits, 0);	/* everyone is on the runlist */
	KUNIT_ASSERT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_FALSE(test, gpurt_process_is_exempt(other));
	KUNIT_ASSERT_EQ(test, rule(GPURT_A_COMM, "kthreadd", NULL, true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_process_is_exempt(other));
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, other));
	gpurt_exempt_tell(b->gpu);
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[0]);
	gpurt_rules_clear();
	gpurt_gpu_unregister(b->gpu);
	put_pid(other);
	bench_free(b);
}

static bool has_looked(struct bench *b)
{
	return READ_ONCE(b->gpu->job.rest_until);
}

#define CROWD 1200

static struct gpurt_client **crowd_make(struct kunit *test, struct bench *b)
{
	struct gpurt_client **crowd = kunit_kcalloc(test, CROWD, sizeof(*crowd), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, crowd);
	for (i = 0; i < CROWD; i++) {
		gpurt_gpu_get(b->gpu->index);	/* the client's */
		crowd[i] = gpurt_client_open(b->gpu, &b->file);
		KUNIT_ASSERT_FALSE(test, IS_ERR(crowd[i]));
	}
	return crowd;
}

/* Looks once. */
static void look_once(struct kunit *test, struct bench *b)
{
	const char *why = NULL;
	int err;

	kthread_flush_worker(b->gpu->worker);
	err = gpurt_policy_set(b->gpu, GPURT_POLICY_JOB, GPURT_NOTICE_POLL, GPURT_POLL_MAX_NS, &why);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(has_looked, b));
	kthread_flush_work(&b->gpu->job.look);
}

static void crowd_free(struct bench *b, struct gpurt_client **crowd)
{
	int i;

	gpurt_gpu_unregister(b->gpu);
	for (i = 0; i < CROWD; i++) {
		gpurt_client_gone(crowd[i], false);
		gpurt_client_put(crowd[i]);
	}
	bench_free(b);
}

/* Users choose how many there are, and nothing else executes on the thread's CPU during a look. */
static void a_look_is_bounded_however_many_clients_are_real_time(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client **crowd = crowd_make(test, b);
	int i;

	for (i = 0; i < CROWD; i++) {
		gpurt_client_priority(crowd[i], 20);
		gpurt_client_tsgs_changed(crowd[i], 1);
	}
	look_once(test, b);
	KUNIT_EXPECT_GT(test, b->gpu->job.left[true][true], 0U);
	KUNIT_EXPECT_LT(test, b->gpu->job.left[true][true], (u32)CROWD);
	crowd_free(b, crowd);
}

/* Clients without TSGs count, too: no task of theirs is looked at, but the look passes over them. */
static void best_effort_clients_delay_no_look_at_a_real_time_one(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client **crowd = crowd_make(test, b), *last = crowd[CROWD - 1];

	gpurt_client_priority(last, 20);
	gpurt_client_tsgs_changed(last, 1);
	look_once(test, b);
	KUNIT_EXPECT_EQ(test, gpurt_looks_count(&b->gpu->job.looks, true), 1U);
	KUNIT_EXPECT_EQ(test, b->gpu->job.left[true][true], 0U);
	KUNIT_EXPECT_GT(test, b->gpu->job.left[true][false], 0U);
	KUNIT_EXPECT_LT(test, b->gpu->job.left[true][false], (u32)CROWD);
	crowd_free(b, crowd);
}

static bool has_rested(struct bench *b)
{
	return ktime_get_ns() >= READ_ONCE(b->gpu->job.rest_until);
}

/*
 * Real-time tasks of that CPU wait for a look, so it sees few clients that are best effort.  With `poll` looks at the
 * others need not wait for a period each: one may be the first at a task that has become real-time.
 */
static void best_effort_clients_are_looked_at_in_parts(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client **crowd = crowd_make(test, b);
	/* Where timers expire in ticks, none is set for less. */
	s64 soon = max_t(s64, GPURT_POLL_MIN_NS, hrtimer_resolution);
	struct hrtimer *timer = &b->gpu->job.timer;
	u32 left;

	look_once(test, b);
	left = b->gpu->job.left[true][false];
	KUNIT_EXPECT_GE(test, left, (u32)(CROWD + CLIENTS - 32));
	KUNIT_EXPECT_LT(test, left, (u32)(CROWD + CLIENTS));
	hrtimer_cancel(timer);
	KUNIT_EXPECT_TRUE(test, comes_true(has_rested, b));
	hrtimer_set_expires(timer, ktime_get());
	timer->function(timer);
	KUNIT_EXPECT_LE(test, ktime_sub(hrtimer_get_expires(timer), ktime_get()), soon);
	kthread_flush_work(&b->gpu->job.look);
	KUNIT_EXPECT_LT(test, b->gpu->job.left[true][false], left);
	crowd_free(b, crowd);
}

/* Whether the GPU's thread did not go to sleep, and hence was not awake, for a while. */
static bool stays_asleep(struct bench *b)
{
	unsigned long before = READ_ONCE(b->gpu->thread->nvcsw);

	msleep(50);
	return READ_ONCE(b->gpu->thread->nvcsw) == before;
}

/*
 * The probes know processes by hashes.  The hash of the thread's own process may be that of a
 * client's.
 */
static void the_thread_does_not_look_because_it_looked(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	const char *why = NULL;

	gpurt_job_watch(b->gpu, task_tgid(b->gpu->worker->task), 1);
	KUNIT_ASSERT_EQ(test, gpurt_policy_set(b->gpu, GPURT_POLICY_JOB, GPURT_NOTICE_NOTIFY, NSEC_PER_SEC, &why), 0);
	KUNIT_EXPECT_TRUE(test, comes_true(has_looked, b));
	KUNIT_EXPECT_TRUE(test, comes_true(stays_asleep, b));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case driver_cases[] = {
	KUNIT_CASE(a_gpu_that_is_gone_has_no_runner),
	KUNIT_CASE(a_gpu_that_is_gone_needs_its_driver_no_more),
	KUNIT_CASE(the_drivers_module_stays_while_there_are_clients),
	KUNIT_CASE(drivers_of_other_versions_are_told_apart),
	KUNIT_CASE(a_thread_comes_back_to_its_cpu),
	KUNIT_CASE(an_exemption_is_told_to_the_driver_once),
	KUNIT_CASE(tsgs_are_told_while_an_update_is_under_way),
	KUNIT_CASE(an_ordinary_thread_that_hears_of_tsgs_queues_as_best_effort),
	KUNIT_CASE(tsgs_that_are_older_than_the_client_count),
	KUNIT_CASE(drivers_learn_whose_tsgs_may_run),
	KUNIT_CASE(exemptions_are_for_processes_without_clients_too),
	KUNIT_CASE(a_look_is_bounded_however_many_clients_are_real_time),
	KUNIT_CASE(best_effort_clients_delay_no_look_at_a_real_time_one),
	KUNIT_CASE(best_effort_clients_are_looked_at_in_parts),
	KUNIT_CASE(the_thread_does_not_look_because_it_looked),
	KUNIT_CASE(a_client_whose_work_was_killed_loses_its_segment),
	{}
};

static struct kunit_suite driver_suite = {
	.name = "gpurt-driver",
	.test_cases = driver_cases,
};
