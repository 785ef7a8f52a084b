// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-processes; part of kunit.c: what is found by process, however many processes users make. */
#include <linux/hash.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>

#include "clients/clients.h"
#include "state/process.h"

#define STRANGERS 64
#define BITS 8			/* of a hash of processes */
#define LOOKS 14		/* the depth of a balanced tree of STRANGERS and one more, at most */

/* A process that exists only here, and its descriptor. */
struct stranger {
	struct pid *tgid;
	struct gpurt_file file, another;
	struct gpurt_client *client;
};

/* Processes that all have the same hash.  They are in @memory, which the caller frees. */
static struct stranger *strangers_make(struct kunit *test, struct bench *b, struct pid **memory)
{
	struct stranger *all = kvcalloc(STRANGERS, sizeof(*all), GFP_KERNEL);
	struct pid *next = kvcalloc(STRANGERS << (BITS + 1), sizeof(*next), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, all);
	KUNIT_ASSERT_NOT_NULL(test, next);
	*memory = next;
	for (i = 0; i < STRANGERS; i++, next++) {
		while (hash_ptr(next, BITS))
			next++;
		refcount_set(&next->count, 1);	/* is never given back */
		all[i].tgid = next;
		file_make(test, &all[i].file, next);
		gpurt_gpu_get(b->gpu->index);	/* the client's */
		all[i].client = gpurt_client_open(b->gpu, &all[i].file);
		KUNIT_ASSERT_FALSE(test, IS_ERR(all[i].client));
	}
	return all;
}

static void strangers_free(struct stranger *all, struct pid *memory)
{
	int i;

	for (i = 0; i < STRANGERS; i++) {
		gpurt_exits_over(&all[i].file);
		gpurt_client_gone(all[i].client, false);
		gpurt_client_put(all[i].client);
		gpurt_exits_forget(&all[i].file);
	}
	gpurt_clients_stop();
	for (i = 0; i < STRANGERS; i++) {
		irq_work_sync(&all[i].file.poll_wake);
		cancel_work_sync(&all[i].file.slow_poll_wake);
	}
	kvfree(all);
	kvfree(memory);
}

static void a_process_is_found_soon_among_those_of_the_same_hash(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_file *another;
	struct stranger *all;
	struct pid *memory;
	unsigned int before;
	int i;

	all = strangers_make(test, b, &memory);
	for (i = 0; i < STRANGERS; i++) {
		before = gpurt_processes_seen;
		KUNIT_EXPECT_PTR_EQ(test, gpurt_client_find(b->gpu, all[i].tgid), all[i].client);
		KUNIT_EXPECT_LE(test, gpurt_processes_seen - before, LOOKS);
		before = gpurt_processes_seen;
		another = &all[i].another;
		file_make(test, another, all[i].tgid);
		KUNIT_EXPECT_LE(test, gpurt_processes_seen - before, LOOKS);
		KUNIT_EXPECT_PTR_EQ(test, another->opened.opener, all[i].file.opened.opener);
		gpurt_exits_over(another);
		gpurt_exits_forget(another);
	}
	strangers_free(all, memory);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* However many clients a process has, all of them count, and none is looked at. */
static void a_process_is_exempt_while_one_of_its_clients_is(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct stranger *all;
	struct pid *memory;

	all = strangers_make(test, b, &memory);
	KUNIT_ASSERT_EQ(test, begin(all[0].client, 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_TRUE(test, gpurt_process_may_run(b->gpu, all[0].tgid));
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, b->file.tgid));
	KUNIT_ASSERT_EQ(test, rule(GPURT_A_COMM, "kunit", NULL, true), 0);
	gpurt_exempt_apply(b->clients[1]);
	gpurt_exempt_apply(b->clients[2]);
	KUNIT_EXPECT_TRUE(test, gpurt_process_may_run(b->gpu, b->file.tgid));
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, all[1].tgid));
	gpurt_client_gone(b->clients[1], false);
	KUNIT_EXPECT_TRUE(test, gpurt_process_may_run(b->gpu, b->file.tgid));
	gpurt_rules_clear();
	gpurt_exempt_apply(b->clients[2]);
	KUNIT_EXPECT_FALSE(test, gpurt_process_may_run(b->gpu, b->file.tgid));
	strangers_free(all, memory);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct gpurt_gpu *looked_at;
static u32 listed;		/* most clients of that GPU which others could meet while somebody looked */

static void count_listed(void)
{
	struct gpurt_client *client;
	u32 count = 0;

	list_for_each_entry(client, &looked_at->clients, node)
		count++;
	listed = max(listed, count);
}

/*
 * The known entry of its process replaces the one that the client had brought along, which is
 * freed.
 */
static void nobody_meets_a_client_before_its_process_is_known(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct gpurt_client *client;

	looked_at = b->gpu;
	listed = 0;
	gpurt_gpu_get(b->gpu->index);	/* the client's */
	gpurt_processes_look = count_listed;
	client = gpurt_client_open(b->gpu, &b->file);
	gpurt_processes_look = NULL;
	KUNIT_ASSERT_FALSE(test, IS_ERR(client));
	KUNIT_EXPECT_PTR_EQ(test, client->process, b->clients[0]->process);
	KUNIT_EXPECT_EQ(test, listed, (u32)CLIENTS);
	gpurt_client_gone(client, false);
	gpurt_client_put(client);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* A descriptor counts from when it is closed until it is freed, for its user only. */
static void who_has_many_unfinished_ends_is_known(struct kunit *test)
{
	struct gpurt_file **all = kvcalloc(GPURT_MANY_ENDS, sizeof(*all), GFP_KERNEL);
	kuid_t uid = KUIDT_INIT(4242), another = KUIDT_INIT(4243);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, all);
	for (i = 0; i < GPURT_MANY_ENDS; i++) {
		KUNIT_EXPECT_FALSE(test, gpurt_file_many_end(uid));
		all[i] = kzalloc(sizeof(**all), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, all[i]);
		file_make(test, all[i], get_pid(task_tgid(current)));
		all[i]->uid = uid;
		mmgrab(current->active_mm);	/* a thread of the kernel has none of its own */
		all[i]->mm = current->active_mm;
		gpurt_file_gone(all[i], true);
		KUNIT_EXPECT_FALSE(test, gpurt_file_many_end(uid));
		gpurt_file_gone(all[i], false);
		gpurt_exits_forget(all[i]);
		gpurt_file_close(gpurt_file_get(all[i]));
	}
	KUNIT_EXPECT_TRUE(test, gpurt_file_many_end(uid));
	KUNIT_EXPECT_FALSE(test, gpurt_file_many_end(another));
	for (i = 0; i < GPURT_MANY_ENDS; i++) {
		gpurt_file_put(all[i]);
		KUNIT_EXPECT_FALSE(test, gpurt_file_many_end(uid));
	}
	kvfree(all);
}

static struct kunit_case processes_cases[] = {
	KUNIT_CASE(nobody_meets_a_client_before_its_process_is_known),
	KUNIT_CASE(a_process_is_found_soon_among_those_of_the_same_hash),
	KUNIT_CASE(a_process_is_exempt_while_one_of_its_clients_is),
	KUNIT_CASE(who_has_many_unfinished_ends_is_known),
	{}
};

static struct kunit_suite processes_suite = {
	.name = "gpurt-processes",
	.test_cases = processes_cases,
};
