// SPDX-License-Identifier: GPL-2.0
/*
 * A module with mistakes, one a value of `bug`.  The kernel of scripts/debug-run must report each, for otherwise its
 * silence about gpurt.ko would mean nothing.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

static char *bug = "none";
module_param(bug, charp, 0444);

struct thing {
	char text[64];
	struct timer_list timer;
};

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spinning);
static struct thing *last;

static void never(struct timer_list *timer)
{
}

static void none(struct thing *thing)
{
	kfree(thing);
}

static void use_after_free(struct thing *thing)
{
	kfree(thing);
	WRITE_ONCE(thing->text[0], 1);
}

static void overflow(struct thing *thing)
{
	char *end = (char *)(thing + 1);

	OPTIMIZER_HIDE_VAR(end);
	WRITE_ONCE(*end, 1);
	kfree(thing);
}

static void lock_inversion(struct thing *thing)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
	kfree(thing);
}

static void sleep_in_atomic(struct thing *thing)
{
	spin_lock(&spinning);
	msleep(20);
	spin_unlock(&spinning);
	kfree(thing);
}

static void leak(struct thing *thing)
{
	memset(thing, 0, sizeof(*thing));
}

static void active_timer(struct thing *thing)
{
	mod_timer(&thing->timer, jiffies + 1000 * HZ);
	kfree(thing);
}

static void hang(struct thing *thing)
{
	last = thing;
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule();
}

static const struct {
	const char *name;
	void (*make)(struct thing *thing);
} bugs[] = {
	{ "none", none },
	{ "other_type", (void *)kfree },
	{ "use_after_free", use_after_free },
	{ "overflow", overflow },
	{ "lock_inversion", lock_inversion },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "leak", leak },
	{ "active_timer", active_timer },
	{ "hang", hang },
};

static int __init planted_init(void)
{
	struct thing *thing = kmalloc(sizeof(*thing), GFP_KERNEL);
	size_t i;

	if (!thing)
		return -ENOMEM;
	timer_setup(&thing->timer, never, 0);
	for (i = 0; i < ARRAY_SIZE(bugs); i++) {
		if (strcmp(bugs[i].name, bug))
			continue;
		bugs[i].make(thing);
		return 0;
	}
	kfree(thing);
	return -EINVAL;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("Mistakes to be found");
MODULE_LICENSE("GPL");
