// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suites, in modules built with GPURT_KUNIT=y for kernels with CONFIG_KUNIT, where they run at load time.  They
 * test what exists in the kernel only, with a driver that fails and blocks on demand.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "base/raised.h"
#include "base/rules.h"
#include "calls/calls.h"
#include "clients/clients.h"
#include "compat.h"
#include "core/agents.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/events.h"
#include "state/exits.h"
#include "state/file.h"
#include "state/team.h"
#include "state/process.h"
#include "state/wake.h"
#include "tests/selftest.h"

#define CLIENTS 4
#define PATIENCE 200000		/* ms; a starved machine */

/* A GPU, and a driver that records for which client each commit was. */
struct bench {
	struct gpurt_gpu *gpu;
	struct gpurt_file file;
	struct gpurt_client *clients[CLIENTS];
	struct completion entered, go;
	bool block, block_open;
	int failures;		/* so many commits to come fail */
	int commits, closed;
	int fails_with;		/* what they return; 0: -EIO */
	int err;		/* of the last commit */
	bool late;		/* commits complete when the test says so */
	bool once;		/* only the next one is late */
	struct gpurt_commit last;
	int power, power_failures;	/* references to its power now; so many attempts to come fail */
	int power_error, powered;	/* what those return; 0: -EIO.  How often it was asked for */
	struct task_struct *committer;	/* that called it */
	bool work_done;		/* what it says of all work */
	void *given[16];
};

static int bench_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	struct bench *b = driver;

	if (b->block_open) {
		b->block_open = false;
		complete(&b->entered);
		wait_for_completion(&b->go);
	}
	*ctx = client;
	return 0;
}

static void bench_close(void *driver, void *ctx)
{
	struct bench *b = driver;

	b->closed++;
}

static int bench_commit(void *driver, const struct gpurt_commit *c)
{
	struct bench *b = driver;

	if (b->commits < ARRAY_SIZE(b->given))
		b->given[b->commits] = c->only;
	b->commits++;
	b->committer = current;
	if (b->block) {
		b->block = false;
		complete(&b->entered);
		wait_for_completion(&b->go);
	}
	b->last = *c;
	b->err = b->failures ? (b->fails_with ?: -EIO) : b->late ? -EINPROGRESS : 0;
	b->failures -= !!b->failures;
	if (b->once)
		b->late = false;
	return b->err;
}

static void bench_exempt(void *driver, void *ctx, bool exempt)
{
}

static const struct gpurt_driver_ops atomic_driver = {
	GPURT_DRIVER, .name = "kunit", .client_open = bench_open, .client_close = bench_close, .commit = bench_commit,
	.exempt = bench_exempt,
};

static const struct gpurt_driver_ops sleeping_driver = {
	GPURT_DRIVER, .name = "kunit", .client_open = bench_open, .client_close = bench_close, .commit = bench_commit,
	.commit_sleeps = true,
};

/* Called with memory that holds nothing. */
static void file_make(struct kunit *test, struct gpurt_file *file, struct pid *tgid)
{
	kref_init(&file->ref);	/* is never given back */
	mutex_init(&file->lock);
	gpurt_file_init_poll(file);
	file->tgid = tgid;
	strscpy(file->comm, "kunit", sizeof(file->comm));
	KUNIT_ASSERT_EQ(test, gpurt_exits_watch(file), 0);
}

static struct bench *bench_make(struct kunit *test, const struct gpurt_driver_ops *ops)
{
	struct bench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, b);
	init_completion(&b->entered);
	init_completion(&b->go);
	file_make(test, &b->file, task_tgid(current));
	KUNIT_ASSERT_EQ(test, gpurt_gpu_register(ops, b, &b->gpu), 0);
	for (i = 0; i < CLIENTS; i++) {
		gpurt_gpu_get(b->gpu->index);	/* the client's */
		b->clients[i] = gpurt_client_open(b->gpu, &b->file);
		KUNIT_ASSERT_FALSE(test, IS_ERR(b->clients[i]));
	}
	return b;
}

/* The clients leave after their GPU has gone: that is allowed. */
static void bench_free(struct bench *b)
{
	int i;

	gpurt_exits_over(&b->file);
	for (i = 0; i < CLIENTS; i++) {
		gpurt_client_gone(b->clients[i], false);
		kthread_flush_work(&b->clients[i]->boost.work);	/* which has a reference of it */
		gpurt_client_put(b->clients[i]);
	}
	gpurt_exits_forget(&b->file);
	irq_work_sync(&b->file.poll_wake);
	cancel_work_sync(&b->file.slow_poll_wake);
	gpurt_clients_stop();	/* the last use of the file by a client */
}

static u32 begin(struct gpurt_client *client, u32 priority)
{
	u32 state = GPURT_STATE_IDLE;

	return gpurt_client_begin(client, priority, 0, GPURT_FORM_SELF, &state) ? GPURT_STATE_IDLE : state;
}

/* A thread that acts for a client, and may have to wait: see start() and start_as(). */
struct beginner {
	struct gpurt_client *client;
	u32 priority, state;
	int err;
	struct completion done;
};

static int be_beginner(void *data)
{
	struct beginner *one = data;

	one->err = gpurt_client_begin(one->client, one->priority, 0, GPURT_FORM_SELF, &one->state);
	complete(&one->done);
	return 0;
}

static void start_as(struct kunit *test, int (*body)(void *), struct beginner *one, struct gpurt_client *client)
{
	one->client = client;
	init_completion(&one->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(body, one, "gpurt-kunit")));
}

static void start(struct kunit *test, struct beginner *one, struct gpurt_client *client, u32 priority)
{
	one->priority = priority;
	start_as(test, be_beginner, one, client);
}

static bool finished(struct beginner *one)
{
	return wait_for_completion_timeout(&one->done, msecs_to_jiffies(PATIENCE));
}

static int waiting(struct gpurt_gate *gate, u32 level)
{
	struct gpurt_turn *first;
	int found;

	raw_spin_lock(&gate->lock);
	first = gpurt_turns_first(&gate->turns);
	found = first && first->level == level;
	raw_spin_unlock(&gate->lock);
	return found;
}

static bool comes_true(bool (*holds)(struct bench *b), struct bench *b)
{
	int tries;

	for (tries = 0; tries < PATIENCE && !holds(b); tries++)
		usleep_range(900, 1100);
	return holds(b);
}

static void the_most_urgent_gets_the_gpu_and_hands_it_on(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 10), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[2], 30), (u32)GPURT_STATE_RUNNING);
	gpurt_client_gone(b->clients[2], false);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[0]));
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[0]), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_client_granted(b->clients[1]));
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[1]), 0);
	KUNIT_EXPECT_EQ(test, gpurt_client_end(b->clients[1]), -ENOENT);
	KUNIT_ASSERT_EQ(test, b->commits, 5);
	KUNIT_EXPECT_PTR_EQ(test, b->given[0], (void *)b->clients[0]);
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[2]);
	KUNIT_EXPECT_PTR_EQ(test, b->given[2], (void *)b->clients[0]);
	KUNIT_EXPECT_PTR_EQ(test, b->given[3], (void *)b->clients[1]);
	KUNIT_EXPECT_PTR_EQ(test, b->given[4], NULL);
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_EQ(test, b->closed, CLIENTS);
	bench_free(b);
}

static bool most_urgent_waits(struct bench *b)
{
	return waiting(&b->gpu->gate, 99);
}

/* In order of arrival there would be an update for each of them. */
static void waiters_for_a_driver_that_sleeps_are_served_by_priority(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	struct beginner *one = kunit_kcalloc(test, CLIENTS, sizeof(*one), GFP_KERNEL);
	static const u32 priority[CLIENTS] = { 10, 20, 50, 99 };
	int i;

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	start(test, &one[0], b->clients[0], priority[0]);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	for (i = 1; i < CLIENTS; i++)
		start(test, &one[i], b->clients[i], priority[i]);
	KUNIT_EXPECT_TRUE(test, comes_true(most_urgent_waits, b));
	/* the others had time to come as well, and may still do so: their begins change nothing then */
	complete(&b->go);
	for (i = 0; i < CLIENTS; i++)
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
	KUNIT_EXPECT_EQ(test, b->commits, 2);
	KUNIT_EXPECT_PTR_EQ(test, b->given[1], (void *)b->clients[3]);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static bool first_is_granted(struct bench *b)
{
	return gpurt_client_granted(b->clients[0]);
}

static void an_update_that_failed_is_tried_again(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	ktime_t start = ktime_get();

	b->failures = 3;
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	KUNIT_EXPECT_TRUE(test, comes_true(first_is_granted, b));
	/* after 1, 2 and 4 ms */
	KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), start), 7LL);
	KUNIT_EXPECT_EQ(test, b->commits, 4);
	KUNIT_EXPECT_EQ(test, b->gpu->runlist.faults, 3ULL);
	KUNIT_EXPECT_PTR_EQ(test, b->given[3], (void *)b->clients[0]);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

struct remover {
	struct bench *b;
	struct completion done;
};

static int be_remover(void *data)
{
	struct remover *r = data;

	gpurt_gpu_unregister(r->b->gpu);
	complete(&r->done);
	return 0;
}

static bool is_dying(struct bench *b)
{
	return READ_ONCE(b->gpu->dying);
}

static void a_gpu_that_goes_away_keeps_nobody(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	struct remover *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct beginner *one = kunit_kcalloc(test, CLIENTS, sizeof(*one), GFP_KERNEL);
	u32 state;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_ASSERT_NOT_NULL(test, one);
	gpurt_gpu_get(b->gpu->index);	/* to look at it afterwards */
	b->block = true;
	for (i = 0; i < CLIENTS; i++)
		start(test, &one[i], b->clients[i], 10 + i);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	r->b = b;
	init_completion(&r->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(be_remover, r, "gpurt-kunit")));
	KUNIT_EXPECT_TRUE(test, comes_true(is_dying, b));
	KUNIT_EXPECT_FALSE(test, completion_done(&r->done));	/* an update is under way */
	complete(&b->go);
	for (i = 0; i < CLIENTS; i++) {
		KUNIT_ASSERT_TRUE(test, finished(&one[i]));
		KUNIT_EXPECT_TRUE(test, !one[i].err || one[i].err == -ENODEV);
	}
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&r->done, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_EQ(test, b->closed, CLIENTS);
	KUNIT_EXPECT_PTR_EQ(test, b->given[b->commits - 1], NULL);
	KUNIT_EXPECT_EQ(test, gpurt_client_begin(b->clients[0], 1, 0, GPURT_FORM_SELF, &state), -ENODEV);
	gpurt_gpu_put(b->gpu);
	bench_free(b);
}

/* A decision that says who takes it. */
struct seen {
	struct gpurt_update u;
	struct task_struct *by;
};

static int decide_nothing(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	container_of(u, struct seen, u)->by = current;
	return 0;
}

static void a_decision_is_its_callers_and_an_update_the_threads(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	struct seen one = { .u = { .decide = decide_nothing } }, other = one;

	other.u.flags = GPURT_UPDATE_IN_THREAD;
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &one.u), 0);
	KUNIT_EXPECT_PTR_EQ(test, one.by, current);
	KUNIT_EXPECT_EQ(test, gpurt_update(b->gpu, &other.u), 0);
	KUNIT_EXPECT_PTR_EQ(test, other.by, b->gpu->worker->task);
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_PTR_EQ(test, b->committer, b->gpu->worker->task);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static void the_last_update_of_a_driver_is_tried_again(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	struct task_struct *thread = b->gpu->worker->task;

	begin(b->clients[0], 20);
	b->failures = 3;
	gpurt_gpu_unregister(b->gpu);
	KUNIT_EXPECT_EQ(test, b->err, 0);
	KUNIT_EXPECT_EQ(test, b->commits, 5);
	KUNIT_EXPECT_PTR_EQ(test, b->given[4], NULL);
	KUNIT_EXPECT_PTR_EQ(test, b->committer, thread);
	bench_free(b);
}

static int be_leaver(void *data)
{
	struct beginner *one = data;

	gpurt_client_gone(one->client, true);
	complete(&one->done);
	return 0;
}

static bool best_effort_waits(struct bench *b)
{
	return waiting(&b->gpu->gate, 0);
}

/* Its task may be kept from its CPU for long, and everyone that is less urgent than its decision waits for it. */
static void a_client_leaves_at_its_own_level(struct kunit *test)
{
	struct bench *b = bench_make(test, &sleeping_driver);
	struct beginner *one = kunit_kcalloc(test, 2, sizeof(*one), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->block = true;
	start(test, &one[0], b->clients[0], 10);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	start_as(test, be_leaver, &one[1], b->clients[1]);
	KUNIT_EXPECT_TRUE(test, comes_true(best_effort_waits, b));
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, finished(&one[0]));
	KUNIT_ASSERT_TRUE(test, finished(&one[1]));
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* The driver succeeds from now on, also if the last failure is being counted at this moment. */
static bool one_is_closed(struct bench *b)
{
	WRITE_ONCE(b->failures, 0);
	return READ_ONCE(b->closed) == 1;
}

static void a_client_is_closed_once_an_update_without_it_succeeded(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);

	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_RUNNING);
	KUNIT_EXPECT_EQ(test, begin(b->clients[1], 10), (u32)GPURT_STATE_PENDING);
	gpurt_client_gone(b->clients[1], false);	/* was never on the runlist alone */
	KUNIT_EXPECT_EQ(test, b->closed, 1);
	b->closed = 0;
	b->failures = INT_MAX;
	gpurt_client_gone(b->clients[0], false);
	KUNIT_EXPECT_EQ(test, b->closed, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(one_is_closed, b));
	KUNIT_EXPECT_EQ(test, b->err, 0);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static int be_waiter(void *data)
{
	struct gpurt_wait granted = { .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
	struct beginner *one = data;

	one->err = gpurt_wait_for(one->client, &granted);
	complete(&one->done);
	return 0;
}

static bool one_waits(struct bench *b)
{
	return atomic_read(&b->gpu->waiting) == 1;
}

static bool next_try_is_far_away(struct bench *b)
{
	return READ_ONCE(b->gpu->runlist.retry.delay) == GPURT_RETRY_LAST_NS;
}

struct exemption {
	struct gpurt_update u;
	bool exempt;
};

static int decide_to_exempt(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_set_exempt(&gpu->sched, &u->client->core, container_of(u, struct exemption, u)->exempt, now);
	return 0;
}

/* The update of an exemption succeeds before the one that failed is tried again: the owner must learn of it. */
static void an_owner_learns_of_an_update_with_another_cause(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct exemption e = { .u = { .decide = decide_to_exempt, .client = b->clients[1] }, .exempt = true };
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, one);
	b->failures = 1000;
	KUNIT_EXPECT_EQ(test, begin(b->clients[0], 20), (u32)GPURT_STATE_PENDING);
	start_as(test, be_waiter, one, b->clients[0]);
	KUNIT_EXPECT_TRUE(test, comes_true(one_waits, b));
	KUNIT_EXPECT_TRUE(test, comes_true(next_try_is_far_away, b));
	b->failures = 0;
	gpurt_update(b->gpu, &e.u);
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_EQ(test, one->err, 0);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static bool first_has_left(struct bench *b)
{
	return READ_ONCE(b->clients[0]->gone);
}

/* If a process ends, a stuck driver does not delay the release of its other GPUs. */
static void each_gpu_of_a_process_is_handed_on_by_itself(struct kunit *test)
{
	struct bench *stuck = bench_make(test, &sleeping_driver), *other = bench_make(test, &atomic_driver);
	struct beginner *one = kunit_kzalloc(test, sizeof(*one), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, one);
	begin(stuck->clients[0], 20);
	begin(other->clients[0], 20);
	stuck->block = true;
	start(test, one, stuck->clients[1], 30);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&stuck->entered, msecs_to_jiffies(PATIENCE)));
	gpurt_client_take_off(stuck->clients[0]);
	gpurt_client_take_off(other->clients[0]);
	KUNIT_EXPECT_TRUE(test, comes_true(first_has_left, other));
	KUNIT_EXPECT_FALSE(test, first_has_left(stuck));
	complete(&stuck->go);
	KUNIT_ASSERT_TRUE(test, finished(one));
	KUNIT_EXPECT_TRUE(test, comes_true(first_has_left, stuck));
	gpurt_gpu_unregister(stuck->gpu);
	gpurt_gpu_unregister(other->gpu);
	bench_free(stuck);
	bench_free(other);
}

/* A poll() that notes who wakes it. */
struct poller {
	wait_queue_entry_t entry;
	struct completion woken;
	bool in_interrupt, real_time;
};

static int note_waker(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	struct poller *p = container_of(entry, struct poller, entry);

	p->in_interrupt = hardirq_count();
	p->real_time = rt_task(current);
	complete(&p->woken);
	return 0;
}

static struct poller *woken_for(struct kunit *test, struct bench *b, u32 priority)
{
	struct poller *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	init_completion(&p->woken);
	init_waitqueue_func_entry(&p->entry, note_waker);
	begin(b->clients[0], priority);
	add_wait_queue(&b->file.poll, &p->entry);
	gpurt_client_work_done(b->clients[0], 0, 0);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&p->woken, msecs_to_jiffies(PATIENCE)));
	remove_wait_queue(&b->file.poll, &p->entry);
	gpurt_client_end(b->clients[0]);
	return p;
}

/* The user of a client may have any number of threads and epoll descriptors wait in poll(). */
static void an_ordinary_thread_wakes_poll_of_best_effort(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct poller *p;

	p = woken_for(test, b, 0);
	KUNIT_EXPECT_FALSE(test, p->in_interrupt);
	KUNIT_EXPECT_FALSE(test, p->real_time);
	p = woken_for(test, b, 20);
	KUNIT_EXPECT_TRUE(test, IS_ENABLED(CONFIG_PREEMPT_RT) ? p->real_time : p->in_interrupt);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

#define SLEEPERS 5

/* A thread that waits until it is woken, and then says how many were woken before. */
struct sleeper {
	struct gpurt_waiters *queue;
	struct gpurt_waiter waiter;
	int nice;
	atomic_t *woken;
	int place;
	bool waits;
	struct completion done;
};

static int be_sleeper(void *data)
{
	struct sleeper *s = data;

	set_user_nice(current, s->nice);
	gpurt_waiters_add(s->queue, &s->waiter);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		WRITE_ONCE(s->waits, true);
		if (READ_ONCE(s->waiter.woken))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	s->place = atomic_inc_return(s->woken);
	gpurt_waiters_remove(s->queue, &s->waiter);
	complete(&s->done);
	return 0;
}

static void the_most_urgent_waiter_is_woken_first(struct kunit *test)
{
	static const int nice[SLEEPERS] = { 5, -5, 19, -5, 0 }, place[SLEEPERS] = { 4, 1, 5, 2, 3 };
	struct sleeper *s = kunit_kcalloc(test, SLEEPERS, sizeof(*s), GFP_KERNEL);
	struct gpurt_waiters *queue = kunit_kzalloc(test, sizeof(*queue), GFP_KERNEL);
	atomic_t woken = ATOMIC_INIT(0);
	int i, tries;

	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_NOT_NULL(test, queue);
	gpurt_waiters_init(queue);
	for (i = 0; i < SLEEPERS; i++) {
		s[i].queue = queue;
		s[i].nice = nice[i];
		s[i].woken = &woken;
		init_completion(&s[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(be_sleeper, &s[i], "gpurt-kunit")));
		for (tries = 0; tries < PATIENCE && !READ_ONCE(s[i].waits); tries++)
			usleep_range(900, 1100);
	}
	gpurt_waiters_wake(queue);
	for (i = 0; i < SLEEPERS; i++) {
		KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&s[i].done, msecs_to_jiffies(PATIENCE)));
		KUNIT_EXPECT_EQ(test, s[i].place, place[i]);
	}
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&queue->tree.rb_root));
}

struct opener {
	struct bench *b;
	struct gpurt_client *client;
	struct completion done;
};

static int be_opener(void *data)
{
	struct opener *o = data;

	gpurt_gpu_get(o->b->gpu->index);	/* the client's */
	o->client = gpurt_client_open(o->b->gpu, &o->b->file);
	complete(&o->done);
	return 0;
}

/* A dump goes on after the highest id that it has shown. */
static void clients_are_in_order_of_ids_however_long_they_take_to_open(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct opener slow = { .b = b }, quick = { .b = b };
	struct gpurt_client *client;
	u64 last = 0;
	int count = 0;

	init_completion(&slow.done);
	init_completion(&quick.done);
	b->block_open = true;
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(be_opener, &slow, "gpurt-kunit")));
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	be_opener(&quick);
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&slow.done, msecs_to_jiffies(PATIENCE)));
	KUNIT_ASSERT_FALSE(test, IS_ERR(slow.client) || IS_ERR(quick.client));
	rt_mutex_lock(&b->gpu->clients_lock);
	list_for_each_entry(client, &b->gpu->clients, node) {
		KUNIT_EXPECT_GT(test, client->id, last);
		last = client->id;
		count++;
	}
	rt_mutex_unlock(&b->gpu->clients_lock);
	KUNIT_EXPECT_EQ(test, count, CLIENTS + 2);
	gpurt_client_gone(slow.client, false);
	gpurt_client_gone(quick.client, false);
	gpurt_client_put(slow.client);
	gpurt_client_put(quick.client);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

/* An ordinary thread that is kept from its CPU while it opens a client. */
static int hold_clients(void *data)
{
	struct bench *b = data;

	rt_mutex_lock(&b->gpu->clients_lock);
	b->committer = current;
	complete(&b->entered);
	wait_for_completion(&b->go);
	rt_mutex_unlock(&b->gpu->clients_lock);
	complete(&b->entered);
	return 0;
}

static bool has_real_time_priority(struct bench *b)
{
	return rt_prio(READ_ONCE(b->committer->prio));
}

/* Else a real-time thread's first call of a GPU waits for whatever keeps an ordinary thread from its CPU. */
static void a_real_time_thread_that_opens_a_client_lends_its_priority(struct kunit *test)
{
	struct bench *b = bench_make(test, &atomic_driver);
	struct opener urgent = { .b = b };
	struct task_struct *task;

	init_completion(&urgent.done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(hold_clients, b, "gpurt-kunit")));
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_FALSE(test, has_real_time_priority(b));
	task = kthread_create(be_opener, &urgent, "gpurt-kunit");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	sched_set_fifo(task);
	wake_up_process(task);
	KUNIT_EXPECT_TRUE(test, comes_true(has_real_time_priority, b));
	complete(&b->go);
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&b->entered, msecs_to_jiffies(PATIENCE)));
	KUNIT_ASSERT_TRUE(test, wait_for_completion_timeout(&urgent.done, msecs_to_jiffies(PATIENCE)));
	KUNIT_ASSERT_FALSE(test, IS_ERR(urgent.client));
	gpurt_client_gone(urgent.client, false);
	gpurt_client_put(urgent.client);
	gpurt_gpu_unregister(b->gpu);
	bench_free(b);
}

static struct kunit_case gpu_cases[] = {
	KUNIT_CASE(each_gpu_of_a_process_is_handed_on_by_itself),
	KUNIT_CASE(an_ordinary_thread_wakes_poll_of_best_effort),
	KUNIT_CASE(the_most_urgent_waiter_is_woken_first),
	KUNIT_CASE(an_owner_learns_of_an_update_with_another_cause),
	KUNIT_CASE(a_decision_is_its_callers_and_an_update_the_threads),
	KUNIT_CASE(the_last_update_of_a_driver_is_tried_again),
	KUNIT_CASE(a_client_leaves_at_its_own_level),
	KUNIT_CASE(a_client_is_closed_once_an_update_without_it_succeeded),
	KUNIT_CASE(the_most_urgent_gets_the_gpu_and_hands_it_on),
	KUNIT_CASE(waiters_for_a_driver_that_sleeps_are_served_by_priority),
	KUNIT_CASE(an_update_that_failed_is_tried_again),
	KUNIT_CASE(a_gpu_that_goes_away_keeps_nobody),
	KUNIT_CASE(clients_are_in_order_of_ids_however_long_they_take_to_open),
	KUNIT_CASE(a_real_time_thread_that_opens_a_client_lends_its_priority),
	{}
};

static struct kunit_suite gpu_suite = {
	.name = "gpurt-gpu",
	.test_cases = gpu_cases,
};

/* Exemptions.  The rules are the module's own, and empty when it has just been loaded. */

static int rule(u32 attr, const char *text, struct pid *pid, bool add)
{
	const char *why = NULL;

	return gpurt_rule_change(GPURT_RULE_EXEMPT, attr, text, pid, add, &why);
}

static void rules_match_process_and_name(struct kunit *test)
{
	struct gpurt_client *client = kunit_kzalloc(test, sizeof(*client), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, client);
	client->tgid = task_tgid(current);
	strscpy(client->comm, "kunit", sizeof(client->comm));
	KUNIT_EXPECT_FALSE(test, gpurt_exempt_matches(client));

	KUNIT_EXPECT_EQ(test, rule(GPURT_A_COMM, "kuni", NULL, true), 0);
	KUNIT_EXPECT_FALSE(test, gpurt_exempt_matches(client));
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_COMM, "kunit", NULL, true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_exempt_matches(client));
	gpurt_rules_clear();

	KUNIT_EXPECT_EQ(test, rule(GPURT_A_PID, "", client->tgid, true), 0);
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_PID, "", client->tgid, true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_exempt_matches(client));
	/* a rule says one thing */
	KUNIT_EXPECT_FALSE(test, gpurt_rule_holds(GPURT_RULE_BARRED, client->tgid, client->comm));
	/* added twice it is there once */
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_PID, "", client->tgid, false), 0);
	KUNIT_EXPECT_FALSE(test, gpurt_exempt_matches(client));
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_PID, "", client->tgid, false), 0);

	gpurt_rules_clear();
}

static void rules_by_cgroup_match_or_are_refused(struct kunit *test)
{
	struct gpurt_client *client = kunit_kzalloc(test, sizeof(*client), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, client);
	client->tgid = task_tgid(current);
	if (rule(GPURT_A_CGROUP, "/no-such-group", NULL, true) == -EOPNOTSUPP)
		kunit_skip(test, "no cgroups of version 2");
	KUNIT_EXPECT_FALSE(test, gpurt_exempt_matches(client));
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_CGROUP, "/", NULL, true), 0);
	KUNIT_EXPECT_TRUE(test, gpurt_exempt_matches(client));
	gpurt_rules_clear();
	KUNIT_EXPECT_FALSE(test, gpurt_exempt_matches(client));
}

static void rules_are_limited(struct kunit *test)
{
	char name[GPURT_COMM_LEN];
	int i, err = 0;

	for (i = 0; i < 100000 && !err; i++) {
		snprintf(name, sizeof(name), "%d", i);
		err = rule(GPURT_A_COMM, name, NULL, true);
	}
	KUNIT_EXPECT_EQ(test, err, -ENOBUFS);
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_COMM, "0", NULL, false), 0);
	KUNIT_EXPECT_EQ(test, rule(GPURT_A_COMM, "another", NULL, true), 0);
	gpurt_rules_clear();
}

static struct kunit_case exempt_cases[] = {
	KUNIT_CASE(rules_match_process_and_name),
	KUNIT_CASE(rules_by_cgroup_match_or_are_refused),
	KUNIT_CASE(rules_are_limited),
	{}
};

static struct kunit_suite exempt_suite = {
	.name = "gpurt-exempt",
	.test_cases = exempt_cases,
};

#include "kunit_driver.c"
#include "kunit_commits.c"
#include "kunit_resets.c"
#include "kunit_boost.c"
#include "kunit_processes.c"
#include "kunit_workers.c"
#include "kunit_dumps.c"
#include "kunit_gate.c"
#include "kunit_bus.c"
#include "kunit_vgpu.c"
#include "kunit_job.c"
#include "kunit_group.c"

static struct kunit_suite *suites[] = {
	&gpu_suite, &driver_suite, &commit_suite, &reset_suite, &boost_suite, &processes_suite, &workers_suite,
	&dumps_suite, &gate_suite, &bus_suite, &vgpu_suite, &job_suite, &group_suite, &exempt_suite,
	&gpurt_ring_suite,
};

/* Not kunit_test_suites(), whose suites run before the module is initialised (up to 6.1). */
void gpurt_kunit_start(void)
{
	__kunit_test_suites_init(suites, ARRAY_SIZE(suites));
}

void gpurt_kunit_stop(void)
{
	__kunit_test_suites_exit(suites, ARRAY_SIZE(suites));
}
