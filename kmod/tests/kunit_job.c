// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-job; part of kunit.c: how policy `job` notices changes, and that it ends. */

/*
 * A thread that opened a TSG saw that policy `job` looks at tasks, and was kept from its CPU until the policy was
 * another one.
 */
static void who_is_late_for_policy_job_has_no_gpu_polled(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_job *job = &b->gpu->job;
	const char *why = NULL;

	KUNIT_ASSERT_EQ(test, gpurt_policy_set(b->gpu, GPURT_POLICY_JOB, GPURT_NOTICE_NOTIFY, GPURT_POLL_DEFAULT_NS,
					       &why), 0);
	KUNIT_ASSERT_EQ(test, gpurt_policy_set(b->gpu, GPURT_POLICY_SEGMENT, GPURT_NOTICE_POLL, GPURT_POLL_DEFAULT_NS,
					       &why), 0);
	WRITE_ONCE(job->rest_until, ktime_get_ns() + 50 * NSEC_PER_MSEC);
	irq_work_queue(&job->irq);
	irq_work_sync(&job->irq);
	msleep(200);
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&job->timer));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case job_cases[] = {
	KUNIT_CASE(who_is_late_for_policy_job_has_no_gpu_polled),
	{}
};

static struct kunit_suite job_suite = {
	.name = "gpurt-job",
	.test_cases = job_cases,
};
