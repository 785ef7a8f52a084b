// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-workers; part of kunit.c: ordinary workers serve the module also while other work blocks. */
#include <linux/workqueue.h>

#define PLUGS 600		/* more than a work queue of the system carries out at a time */

struct plug {
	struct work_struct work;
	struct completion *go;
};

static void stay(struct work_struct *work)
{
	wait_for_completion(container_of(work, struct plug, work)->go);
}

/* Work items of others that block fill the system's queue; those of the module are carried out all the same. */
static void the_systems_queue_may_be_full(struct kunit *test)
{
	struct plug *plugs = kunit_kcalloc(test, PLUGS, sizeof(*plugs), GFP_KERNEL);
	struct bench *b = bench_make(test, &atomic_driver);
	DECLARE_COMPLETION_ONSTACK(go);
	struct poller *p;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, plugs);
	for (i = 0; i < PLUGS; i++) {
		INIT_WORK(&plugs[i].work, stay);
		plugs[i].go = &go;
		queue_work(system_unbound_wq, &plugs[i].work);
	}
	p = woken_for(test, b, 0);
	KUNIT_EXPECT_FALSE(test, p->in_interrupt);
	complete_all(&go);
	for (i = 0; i < PLUGS; i++)
		flush_work(&plugs[i].work);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* To free a descriptor is to wait for a worker.  A GPU's thread may let go of a client last, and outranks workers. */
static void the_last_to_let_go_of_a_client_does_not_free_its_descriptor(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client *client;
	unsigned int before;
	int reading;

	gpurt_gpu_get(b->gpu->index);	/* the client's */
	client = gpurt_client_open(b->gpu, &b->file);
	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	gpurt_client_gone(client, false);
	before = kref_read(&b->file.ref);
	reading = gpurt_clients_read();	/* the workers wait for its end */
	gpurt_client_put(client);
	KUNIT_EXPECT_EQ(test, kref_read(&b->file.ref), before);
	gpurt_clients_done(reading);
	gpurt_clients_stop();
	KUNIT_EXPECT_EQ(test, kref_read(&b->file.ref), before - 1);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case workers_cases[] = {
	KUNIT_CASE(the_systems_queue_may_be_full),
	KUNIT_CASE(the_last_to_let_go_of_a_client_does_not_free_its_descriptor),
	{}
};

static struct kunit_suite workers_suite = {
	.name = "gpurt-workers",
	.test_cases = workers_cases,
};
