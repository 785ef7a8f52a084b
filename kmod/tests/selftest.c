// SPDX-License-Identifier: GPL-2.0
/*
 * Self-tests at load time, in modules built with GPURT_DEBUG=y.  They test what user-space tests of core/ cannot: that
 * core/ works as compiled for this kernel, and the gate, which exists only in the kernel.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "compat.h"
#include "decide/decide.h"
#include "drv/drv.h"
#include "tests/selftest.h"

#define CHECK(holds) do { \
	if (!(holds)) { \
		pr_err("gpurt: self-test failed: %s:%d: %s\n", __func__, __LINE__, #holds); \
		return false; \
	} \
} while (0)

static bool __init test_queue(void)
{
	/* Not on the stack: the nodes alone are 1,600 bytes. */
	struct { struct gpurt_queue q; struct list_head node[GPURT_LEVELS], late; } *all;
	struct list_head *node, *late;
	struct gpurt_queue *q;
	bool sorted = true;
	int i;

	all = kmalloc(sizeof(*all), GFP_KERNEL);
	if (!all)
		return true;
	q = &all->q;
	node = all->node;
	late = &all->late;
	gpurt_queue_init(q);
	for (i = 0; i < GPURT_LEVELS; i++)
		gpurt_queue_add(q, &node[i * 37 % GPURT_LEVELS], i * 37 % GPURT_LEVELS);
	gpurt_queue_add(q, late, 50);
	for (i = GPURT_LEVELS - 1; i >= 0; i--) {
		sorted = sorted && gpurt_queue_first(q) == &node[i];
		gpurt_queue_del(q, &node[i], i);
		if (i == 50) {
			sorted = sorted && gpurt_queue_first(q) == late;
			gpurt_queue_del(q, late, 50);
		}
	}
	sorted = sorted && !gpurt_queue_first(q);
	kfree(all);
	CHECK(sorted);
	return true;
}

static bool __init test_histogram(void)
{
	u32 bucket;
	u64 ns;

	for (bucket = 1; bucket < GPURT_HIST_BUCKETS; bucket++) {
		ns = gpurt_hist_floor(bucket);
		CHECK(gpurt_hist_bucket(ns) == bucket);
		CHECK(gpurt_hist_bucket(ns - 1) == bucket - 1);
	}
	CHECK(gpurt_hist_bucket(U64_MAX) == GPURT_HIST_BUCKETS - 1);
	return true;
}

/* The gate: visitors that arrive while it is held enter by level, and by arrival among equals. */

#define VISITORS 6

struct visitor {
	struct gpurt_update u;
	struct gpurt_gpu *gpu;
	struct completion done;
	int place;
};

static atomic_t places = ATOMIC_INIT(0);

static int decide_visit(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	container_of(u, struct visitor, u)->place = atomic_inc_return(&places);
	return IS_ENABLED(CONFIG_PREEMPT_COUNT) && preemptible() ? -EINVAL : 0;
}

static int visit(void *data)
{
	struct visitor *v = data;

	gpurt_update(v->gpu, &v->u);
	complete(&v->done);
	return 0;
}

static bool is_waiting(struct gpurt_gate *gate, struct visitor *v)
{
	bool waiting;

	raw_spin_lock(&gate->lock);
	waiting = !list_empty(&v->u.turn.node);
	raw_spin_unlock(&gate->lock);
	return waiting;
}

static bool __init arrive(struct gpurt_gpu *gpu, struct visitor *v, u32 level)
{
	int tries;

	*v = (struct visitor){ .u = { .decide = decide_visit, .level = level }, .gpu = gpu };
	INIT_LIST_HEAD(&v->u.turn.node);
	init_completion(&v->done);
	if (IS_ERR(kthread_run(visit, v, "gpurt-visitor")))
		return false;
	for (tries = 0; tries < 1000000 && !is_waiting(&gpu->gate, v); tries++)
		usleep_range(200, 400);
	return true;
}

static void __init hold(struct gpurt_gate *gate, bool hold)
{
	struct gpurt_turn *first;

	raw_spin_lock(&gate->lock);
	gate->turns.held = hold;
	gate->holder = hold ? current : NULL;
	first = gpurt_turns_first(&gate->turns);
	if (!hold && first)
		wake_up_process(container_of(first, struct gpurt_update, turn)->task);
	raw_spin_unlock(&gate->lock);
}

static int no_open(void *driver, struct pid *tgid, struct gpurt_client *client, void **ctx)
{
	return 0;
}

static void no_close(void *driver, void *ctx)
{
}

static int no_commit(void *driver, const struct gpurt_commit *c)
{
	return 0;
}

static const struct gpurt_driver_ops no_driver = {
	GPURT_DRIVER, .name = "none", .client_open = no_open, .client_close = no_close, .commit = no_commit,
};

static bool __init test_gate(void)
{
	static const u32 level[VISITORS] = { 0, 20, 99, 20, 7, 99 };
	static const int place[VISITORS] = { 6, 3, 1, 4, 5, 2 };
	struct visitor *v = kcalloc(VISITORS, sizeof(*v), GFP_KERNEL);
	struct gpurt_gpu *gpu;
	bool right = true;
	int i, come = 0;

	if (!v)
		return true;
	if (gpurt_gpu_register(&no_driver, NULL, &gpu)) {
		kfree(v);
		return true;
	}
	hold(&gpu->gate, true);
	while (come < VISITORS && arrive(gpu, &v[come], level[come]))
		come++;
	hold(&gpu->gate, false);
	for (i = 0; i < come; i++) {
		wait_for_completion(&v[i].done);
		right = right && !v[i].u.ret && (come < VISITORS || v[i].place == place[i]);
	}
	gpurt_gpu_unregister(gpu);
	kfree(v);
	CHECK(right);
	return true;
}

static void no_work(struct irq_work *work)
{
}

/* Under PREEMPT_RT other irq work is a thread's, of low priority. */
static bool __init test_hard_irq_work(void)
{
	struct irq_work work;

	compat_irq_work_init_hard(&work, no_work);
	CHECK(atomic_read(&work.node.a_flags) & IRQ_WORK_HARD_IRQ);
	return true;
}

/* 0, or -EINVAL after a message that says what failed.  A lack of memory is no failure. */
int __init gpurt_selftest(void)
{
	if (!test_queue() || !test_histogram() || !test_hard_irq_work() || !test_gate())
		return -EINVAL;
	pr_info("gpurt: self-tests passed\n");
	return 0;
}
