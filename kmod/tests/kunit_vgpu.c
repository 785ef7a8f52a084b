// SPDX-License-Identifier: GPL-2.0
/* KUnit suite gpurt-vgpu; part of kunit.c: users choose how much happens on a virtual GPU, with interrupts off. */
#include "drv/devices.h"
#include "drv/vgpu.h"

#define AT_ONCE 16		/* completions while interrupts stay off, at most */
#define IN_A_CALL 272		/* completions in one call, at most */
#define SHARE_REST 9		/* the timer's interrupts rest so many times as long as they took */
#define INTERRUPTED (5 * AT_ONCE)
#define CALLED (IN_A_CALL + 100)
#define KEPT 1024		/* work items whose numbers are all multiples of the number of places */
#define PLACES BIT(VGPU_QUEUED_BITS)
#define MARK 1			/* of vgpu_whole.armed: every interrupt overwrites it */

/* A virtual GPU whose completions are watched. */
struct vbench {
	struct vgpu *dev;
	struct gpurt_file file;
	struct gpurt_client *client;
	struct vgpu_ctx *ctx;
	struct vgpu_tsg *tsg;
	struct gpurt_vgpu_ops ops;
	/* With whole->lock held: */
	u32 seen, most;		/* completions in this interrupt, and in the one that had most of them */
	u32 interrupts;
	u64 first, rest_until;	/* of this interrupt: its first completion; when the next one may come */
	bool early;		/* one came before */
	struct completion idle;
};

/* Called by core/vgpu.c with whole->lock held.  Slow enough for the clock to tell how long an interrupt took. */
static void watch_done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u64 when)
{
	struct vbench *b = container_of(v->ops, struct vbench, ops);
	u64 now = ktime_get_ns();

	if (b->dev->whole->armed != MARK) {
		b->dev->whole->armed = MARK;
		b->early |= now < b->rest_until;
		b->first = now;
		b->seen = 0;
		b->interrupts++;
	}
	b->most = max(b->most, ++b->seen);
	ndelay(10 * NSEC_PER_USEC);
	now = ktime_get_ns();
	b->rest_until = now + SHARE_REST * (now - b->first);
	vgpu_core_ops.done(v, t, w, when);
	if (!b->ctx->queued)
		complete(&b->idle);
}

static struct vgpu_tsg *vbench_tsg(struct kunit *test, struct vbench *b)
{
	u32 id;

	KUNIT_ASSERT_EQ(test, vgpu_work_ops.tsg_open(b->dev, b->ctx, &id), 0);
	return xa_load(&b->ctx->tsgs, id);
}

static u64 queue_item(struct kunit *test, struct vbench *b, struct vgpu_tsg *tsg, u64 ns)
{
	struct gpurt_submit s = { .tsg = tsg->id, .engine = GPURT_ENGINE_EXEC, .duration_ns = ns };

	KUNIT_ASSERT_EQ(test, vgpu_work_ops.submit(b->dev, b->ctx, &s), 0);
	return s.work;
}

/* Its first work item takes an hour, and others wait behind it. */
static struct vbench *vbench_make(struct kunit *test, u32 others)
{
	struct vbench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, b);
	init_completion(&b->idle);
	file_make(test, &b->file, task_tgid(current));
	b->dev = vgpus.create(GPURT_MAX_GPUS - 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(b->dev));
	b->ops.done = watch_done;
	b->dev->core.ops = &b->ops;
	gpurt_gpu_get(b->dev->gpu->index);	/* the client's */
	b->client = gpurt_client_open(b->dev->gpu, &b->file);
	KUNIT_ASSERT_FALSE(test, IS_ERR(b->client));
	b->ctx = b->client->ctx;
	b->tsg = vbench_tsg(test, b);
	queue_item(test, b, b->tsg, GPURT_MAX_WORK_NS);
	while (others--)
		queue_item(test, b, b->tsg, GPURT_MIN_WORK_NS);
	return b;
}

static void vbench_free(struct vbench *b)
{
	gpurt_exits_over(&b->file);
	gpurt_client_gone(b->client, false);
	kthread_flush_work(&b->client->boost.work);	/* which has a reference of it */
	gpurt_client_put(b->client);
	gpurt_exits_forget(&b->file);
	irq_work_sync(&b->file.poll_wake);
	cancel_work_sync(&b->file.slow_poll_wake);
	gpurt_clients_stop();	/* the last use of the file by a client */
	vgpus.destroy(b->dev);
}

/* Called with whole->lock held.  All work is due at the time that the GPU has reached. */
static void all_is_due(struct vbench *b)
{
	struct gpurt_vgpu_work *w;

	list_for_each_entry(w, &b->tsg->core.queue[GPURT_ENGINE_EXEC], node)
		w->pace.left = 0;
}

static void an_interrupt_completes_some_work_and_rests(struct kunit *test)
{
	struct vbench *b = vbench_make(test, INTERRUPTED - 1);
	unsigned long flags;

	raw_spin_lock_irqsave(&b->dev->whole->lock, flags);
	all_is_due(b);
	vgpu_unlock(b->dev, flags);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&b->idle, msecs_to_jiffies(PATIENCE)));
	KUNIT_EXPECT_LE(test, b->most, (u32)AT_ONCE);
	KUNIT_EXPECT_GE(test, b->interrupts, (u32)(INTERRUPTED / AT_ONCE));
	KUNIT_EXPECT_FALSE(test, b->early);
	vbench_free(b);
}

/* The GPU stands still for what it is late with then. */
static void a_call_completes_some_work(struct kunit *test)
{
	struct vbench *b = vbench_make(test, CALLED - 1);
	u64 now, reached;
	unsigned long flags;
	u32 left;

	raw_spin_lock_irqsave(&b->dev->whole->lock, flags);
	all_is_due(b);
	raw_spin_unlock_irqrestore(&b->dev->whole->lock, flags);	/* the timer is set to the end of the hour */
	now = vgpu_lock(b->dev, &flags);
	left = b->ctx->queued;
	reached = b->dev->core.now;
	vgpu_unlock(b->dev, flags);
	KUNIT_EXPECT_EQ(test, left, (u32)(CALLED - IN_A_CALL));
	KUNIT_EXPECT_EQ(test, reached, now);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&b->idle, msecs_to_jiffies(PATIENCE)));
	vbench_free(b);
}

/* The slot with the work item of that number; NULL: no slot has it. */
static struct hlist_node *place_of(struct vgpu_tsg *tsg, u64 number, u32 *place)
{
	struct vgpu_work *work;

	for (*place = 0; *place < PLACES; ++*place)
		hlist_for_each_entry(work, &tsg->queued[*place], by_number)
			if (work->core.number == number)
				return &work->by_number;
	return NULL;
}

static u32 longest(struct vgpu_tsg *tsg)
{
	struct hlist_node *node;
	u32 i, count, most = 0;

	for (i = 0; i < PLACES; i++) {
		count = 0;
		hlist_for_each(node, &tsg->queued[i])
			count++;
		most = max(most, count);
	}
	return most;
}

/*
 * Users choose which numbers are queued together, because they know which work completes.  The seeds differ from run to
 * run; that a place has four times its share by chance has a probability of less than 10^-16.
 */
static void work_is_found_without_a_look_at_all_that_is_queued(struct kunit *test)
{
	struct vbench *b = vbench_make(test, 0);
	struct vgpu_tsg *tsgs[2] = { b->tsg, vbench_tsg(test, b) };
	u32 i, place, other, differ = 0;
	struct hlist_node *node;
	u64 when;

	for (i = 1; i <= KEPT; i++) {
		/* All others have completed. */
		tsgs[0]->core.submitted = (u64)i * PLACES - 1;
		tsgs[1]->core.submitted = (u64)i * PLACES - 1;
		KUNIT_ASSERT_EQ(test, queue_item(test, b, tsgs[0], GPURT_MIN_WORK_NS), (u64)i * PLACES);
		queue_item(test, b, tsgs[1], GPURT_MAX_WORK_NS);
		KUNIT_ASSERT_NOT_NULL(test, place_of(tsgs[0], (u64)i * PLACES, &place));
		KUNIT_ASSERT_NOT_NULL(test, place_of(tsgs[1], (u64)i * PLACES, &other));
		differ += place != other;
	}
	KUNIT_EXPECT_LE(test, longest(tsgs[0]), (u32)(4 * KEPT / PLACES));
	KUNIT_EXPECT_GT(test, differ, (u32)(KEPT / 2));	/* each TSG has a seed of its own */
	/* An item is found at its place only. */
	KUNIT_EXPECT_EQ(test, vgpu_work_ops.work_done(b->dev, b->ctx, b->tsg->id, KEPT * PLACES, &when), 0);
	node = place_of(b->tsg, KEPT * PLACES, &place);
	hlist_del(node);
	hlist_add_head(node, &b->tsg->queued[(place + 1) % PLACES]);
	KUNIT_EXPECT_EQ(test, vgpu_work_ops.work_done(b->dev, b->ctx, b->tsg->id, KEPT * PLACES, &when), 1);
	vbench_free(b);
}

static struct kunit_case vgpu_cases[] = {
	KUNIT_CASE(an_interrupt_completes_some_work_and_rests),
	KUNIT_CASE(a_call_completes_some_work),
	KUNIT_CASE(work_is_found_without_a_look_at_all_that_is_queued),
	{}
};

static struct kunit_suite vgpu_suite = {
	.name = "gpurt-vgpu",
	.test_cases = vgpu_cases,
};
