// SPDX-License-Identifier: GPL-2.0
/* The gate is handed to the GPU's thread.  Part of kunit.c. */

/* A task of the caller's CPU that preempts it as soon as it can, and looks whether the thread has been told. */
struct intruder {
	struct gpurt_update u;
	struct bench *b;
	struct completion wake, done, over;
	bool forgotten;
};

static int be_intruder(void *data)
{
	struct intruder *i = data;
	struct gpurt_gate *gate = &i->b->gpu->gate;
	struct kthread_worker *worker = i->b->gpu->worker;

	wait_for_completion(&i->wake);
	raw_spin_lock_irq(&worker->lock);
	i->forgotten = READ_ONCE(gate->handed) && list_empty(&gate->work.node) && worker->current_work != &gate->work;
	raw_spin_unlock_irq(&worker->lock);
	complete(&i->done);
	return 0;
}

static int decide_and_wake(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct intruder *i = container_of(u, struct intruder, u);

	gpurt_begin(&gpu->sched, &u->client->core, 20, 0, now);
	complete(&i->wake);
	return 0;
}

static int be_caller(void *data)
{
	struct intruder *i = data;
	int token;

	if (gpurt_gpu_hold(i->b->gpu, &token)) {
		gpurt_gate_update(i->b->gpu, &i->u);
		gpurt_gpu_release(i->b->gpu, token);
	}
	complete(&i->over);
	return 0;
}

static struct task_struct *on_this_cpu(struct kunit *test, int (*body)(void *data), struct intruder *i, int cpu)
{
	struct task_struct *task = kthread_create(body, i, "gpurt-kunit");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	kthread_bind(task, cpu);
	return task;
}

/* An ordinary caller that is preempted would keep the gate from everyone until it gets its CPU again. */
static void a_caller_that_is_preempted_has_told_the_thread(struct kunit *test)
{
	struct intruder *i = kunit_kzalloc(test, sizeof(*i), GFP_KERNEL);
	struct bench *b = bench_make(test, &sleeping_driver);
	struct task_struct *urgent, *caller;
	int cpu = raw_smp_processor_id();

	KUNIT_ASSERT_NOT_NULL(test, i);
	i->b = b;
	i->u = (struct gpurt_update){ .decide = decide_and_wake, .client = b->clients[0], .level = 20 };
	init_completion(&i->wake);
	init_completion(&i->done);
	init_completion(&i->over);
	urgent = on_this_cpu(test, be_intruder, i, cpu);
	caller = on_this_cpu(test, be_caller, i, cpu);
	sched_set_fifo(urgent);
	wake_up_process(urgent);
	wake_up_process(caller);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&i->over, msecs_to_jiffies(PATIENCE)));
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&i->done, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_FALSE(test, i->forgotten);
	KUNIT_EXPECT_EQ(test, b->commits, 1);
	gpurt_client_end(b->clients[0]);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case gate_cases[] = {
	KUNIT_CASE(a_caller_that_is_preempted_has_told_the_thread),
	{}
};

static struct kunit_suite gate_suite = {
	.name = "gpurt-gate",
	.test_cases = gate_cases,
};
