// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU driver with gpurt's port and without a GPU.  The driver has the locks that patched drivers have, and holds
 * them where those do.  Hooks added(), removed() and tsgs() hold a mutex of all GPUs, and added() a GPU's power, which
 * commit() waits for.  The other hooks hold a mutex of the runlist and a spin lock.  A line "BUG: fake_driver" in the
 * kernel's log says that gpurt did what it may not do.
 *
 * A write of a GPU's number to /dev/fake_gpu opens a TSG there, which closes with the descriptor.  A read says whether
 * the TSG is on the runlist: "on" or "off".  The rest is module parameters.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include "port.h"

#define GPUS 4
#define PATIENCE 5000	/* ms that commit() waits for the power before that counts as a bug */

#define wrong(format, ...) pr_err("BUG: fake_driver: " format "\n", ##__VA_ARGS__)

struct fake_gpu {
	char name[16];
	bool there;			/* with gpus_lock held */
	bool known;			/* to gpurt: from added() to the end of removed() */
	struct mutex power;		/* held while the GPU comes */
	struct mutex runlist;		/* what follows */
	struct list_head tsgs;
	atomic_t committing;
};

struct fake_tsg {
	struct list_head node;
	struct fake_gpu *gpu;		/* NULL: not opened, or its GPU has gone */
	struct pid *owner;
	bool on;
};

static uint version = GPURT_PORT_VERSION;
module_param(version, uint, 0444);
static bool backwards;			/* the GPU that comes first has the highest address */
module_param(backwards, bool, 0444);
static char *refuse;
module_param(refuse, charp, 0444);
static uint fail;			/* so many of the next commits fail */
module_param(fail, uint, 0644);
static uint error = 5;			/* with this number */
module_param(error, uint, 0644);
static uint late_ms;			/* a commit takes so much longer */
module_param(late_ms, uint, 0644);
static uint commits;
module_param(commits, uint, 0444);
static uint attached;			/* how often */
module_param(attached, uint, 0444);

static struct fake_gpu gpus[GPUS];
static const struct gpurt_hooks *hooks;	/* changes with both locks held */
static DEFINE_MUTEX(gpus_lock);
static struct task_struct *in_hook;	/* calls added(), removed() or tsgs() */
static DEFINE_SPINLOCK(hooks_lock);

/* With the GPU's runlist held. */
static void rebuild(struct fake_gpu *gpu)
{
	struct fake_tsg *tsg;

	list_for_each_entry(tsg, &gpu->tsgs, node) {
		spin_lock(&hooks_lock);
		tsg->on = !hooks || hooks->may_run(gpu, tsg->owner);
		spin_unlock(&hooks_lock);
	}
}

/* A lock that is never free is one that waits for this commit. */
static void power_up(struct fake_gpu *gpu)
{
	unsigned long until = jiffies + msecs_to_jiffies(PATIENCE);

	while (time_before(jiffies, until)) {
		if (mutex_trylock(&gpu->power)) {
			mutex_unlock(&gpu->power);
			return;
		}
		msleep(1);
	}
	wrong("%s: added() waits for commit()", gpu->name);
}

static int carry_out(struct fake_gpu *gpu)
{
	ulong late_us = 1000UL * READ_ONCE(late_ms);
	uint left = READ_ONCE(fail);
	int err = 0;

	mutex_lock(&gpu->runlist);
	if (late_us)
		usleep_range(late_us, late_us + 1000);	/* msleep() may be too short where ticks are lost */
	if (left) {
		WRITE_ONCE(fail, left - 1);
		err = -(int)READ_ONCE(error);
	} else {
		rebuild(gpu);
	}
	commits++;
	mutex_unlock(&gpu->runlist);
	return err;
}

static int commit(void *handle)
{
	struct fake_gpu *gpu = handle;
	int err;

	might_sleep();
	if (in_atomic() || irqs_disabled())
		wrong("%s: commit() in a context that must not sleep", gpu->name);
	if (!READ_ONCE(gpu->known))
		wrong("%s: commit() for a GPU that is not there", gpu->name);
	if (refuse)
		wrong("%s: commit() for a GPU that was refused", gpu->name);
	if (READ_ONCE(in_hook) == current)
		wrong("%s: commit() in a hook", gpu->name);
	if (atomic_inc_return(&gpu->committing) > 1)
		wrong("%s: two commits at a time", gpu->name);
	power_up(gpu);
	err = carry_out(gpu);
	atomic_dec(&gpu->committing);
	return err;
}

/* With gpus_lock held.  The hooks that may sleep. */
static void tell_added(struct fake_gpu *gpu)
{
	WRITE_ONCE(in_hook, current);
	hooks->added(gpu, gpu->name, refuse);
	WRITE_ONCE(in_hook, NULL);
}

/* With gpus_lock held. */
static void tell_tsgs(struct fake_gpu *gpu, struct pid *owner, int change)
{
	WRITE_ONCE(in_hook, current);
	hooks->tsgs(gpu, owner, change);
	WRITE_ONCE(in_hook, NULL);
}

/* With gpus_lock held. */
static void tell_removed(struct fake_gpu *gpu)
{
	WRITE_ONCE(in_hook, current);
	hooks->removed(gpu);
	WRITE_ONCE(in_hook, NULL);
}

/* With gpus_lock held. */
static void announce(struct fake_gpu *gpu)
{
	struct fake_tsg *tsg;

	mutex_lock(&gpu->power);
	WRITE_ONCE(gpu->known, true);
	tell_added(gpu);
	list_for_each_entry(tsg, &gpu->tsgs, node)
		tell_tsgs(gpu, tsg->owner, 1);
	mutex_unlock(&gpu->power);
}

/* With gpus_lock held. */
static void removed(struct fake_gpu *gpu)
{
	tell_removed(gpu);
	WRITE_ONCE(gpu->known, false);
	if (atomic_read(&gpu->committing))
		wrong("%s: commit() after removed()", gpu->name);
}

/* With gpus_lock held. */
static void set_hooks(const struct gpurt_hooks *new)
{
	spin_lock(&hooks_lock);
	hooks = new;
	spin_unlock(&hooks_lock);
}

static int attach(const struct gpurt_hooks *new)
{
	int err = 0, i;

	might_sleep();
	if (new->version != GPURT_PORT_VERSION)
		return -EINVAL;
	mutex_lock(&gpus_lock);
	if (hooks) {
		wrong("attached to twice");
		err = -EBUSY;
	} else {
		attached++;
		set_hooks(new);
		for (i = 0; i < GPUS; i++)
			if (gpus[i].there)
				announce(&gpus[i]);
	}
	mutex_unlock(&gpus_lock);
	return err;
}

static void detach(void)
{
	int i;

	might_sleep();
	if (THIS_MODULE->state == MODULE_STATE_GOING)
		wrong("detached from while it is unloaded");
	mutex_lock(&gpus_lock);
	if (!hooks)
		wrong("detached without having been attached");
	for (i = 0; hooks && i < GPUS; i++)
		if (gpus[i].there)
			removed(&gpus[i]);
	set_hooks(NULL);
	for (i = 0; i < GPUS; i++) {
		mutex_lock(&gpus[i].runlist);
		rebuild(&gpus[i]);
		mutex_unlock(&gpus[i].runlist);
	}
	mutex_unlock(&gpus_lock);
}

const struct gpurt_port amdgpu_gpurt_port __ro_after_init = {
	.version = GPURT_PORT_VERSION, .owner = THIS_MODULE, .attach = attach, .detach = detach, .commit = commit,
};
EXPORT_SYMBOL_GPL(amdgpu_gpurt_port);

/* With gpus_lock held. */
static void come(struct fake_gpu *gpu)
{
	gpu->there = true;
	if (hooks)
		announce(gpu);
}

/* With gpus_lock held. */
static void go(struct fake_gpu *gpu)
{
	struct fake_tsg *tsg, *next;

	gpu->there = false;
	if (hooks)
		removed(gpu);
	mutex_lock(&gpu->runlist);
	list_for_each_entry_safe(tsg, next, &gpu->tsgs, node) {
		list_del(&tsg->node);
		tsg->gpu = NULL;
	}
	mutex_unlock(&gpu->runlist);
}

static void bring_to(uint count)
{
	uint i;

	mutex_lock(&gpus_lock);
	for (i = 0; i < GPUS; i++) {
		if (i < count && !gpus[i].there)
			come(&gpus[i]);
		else if (i >= count && gpus[i].there)
			go(&gpus[i]);
	}
	mutex_unlock(&gpus_lock);
}

static int tsg_make(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct fake_tsg), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

/* As drivers do: gpurt is told before the TSG can be in a list, and asked when it is born. */
static int tsg_open(struct fake_tsg *tsg, struct fake_gpu *gpu)
{
	if (!gpu->there)
		return -ENODEV;
	if (tsg->owner)
		return -EBUSY;
	tsg->owner = get_pid(task_tgid(current));
	tsg->gpu = gpu;
	if (hooks)
		tell_tsgs(gpu, tsg->owner, 1);
	mutex_lock(&gpu->runlist);
	list_add(&tsg->node, &gpu->tsgs);
	rebuild(gpu);
	mutex_unlock(&gpu->runlist);
	return 0;
}

static ssize_t tsg_write(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	unsigned int number;
	int err = kstrtouint_from_user(text, size, 0, &number);

	if (err || number >= GPUS)
		return -EINVAL;
	mutex_lock(&gpus_lock);
	err = tsg_open(file->private_data, &gpus[number]);
	mutex_unlock(&gpus_lock);
	return err ?: (ssize_t)size;
}

static ssize_t tsg_read(struct file *file, char __user *text, size_t size, loff_t *at)
{
	struct fake_tsg *tsg = file->private_data;
	const char *word = "gone";

	mutex_lock(&gpus_lock);
	if (tsg->gpu) {
		mutex_lock(&tsg->gpu->runlist);
		word = tsg->on ? "on" : "off";
		mutex_unlock(&tsg->gpu->runlist);
	}
	mutex_unlock(&gpus_lock);
	*at = 0;
	return simple_read_from_buffer(text, size, at, word, strlen(word));
}

static int tsg_close(struct inode *inode, struct file *file)
{
	struct fake_tsg *tsg = file->private_data;
	struct fake_gpu *gpu;

	mutex_lock(&gpus_lock);
	gpu = tsg->gpu;
	if (gpu) {
		if (hooks)
			tell_tsgs(gpu, tsg->owner, -1);
		mutex_lock(&gpu->runlist);
		list_del(&tsg->node);
		rebuild(gpu);
		mutex_unlock(&gpu->runlist);
	}
	mutex_unlock(&gpus_lock);
	put_pid(tsg->owner);
	kfree(tsg);
	return 0;
}

static const struct file_operations tsg_operations = {
	.owner = THIS_MODULE, .open = tsg_make, .write = tsg_write, .read = tsg_read, .release = tsg_close,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR, .name = "fake_gpu", .fops = &tsg_operations, .mode = 0666,
};

/* Events of all GPUs, each when its parameter is written. */

static void reset_begins_or_ends(struct fake_gpu *gpu, bool begins)
{
	struct fake_tsg *tsg;

	mutex_lock(&gpu->runlist);
	spin_lock(&hooks_lock);
	if (hooks && gpu->there)
		hooks->reset(gpu, begins);
	if (hooks && gpu->there && begins)
		list_for_each_entry(tsg, &gpu->tsgs, node)
			hooks->killed(gpu, tsg->owner);
	spin_unlock(&hooks_lock);
	mutex_unlock(&gpu->runlist);
}

static void reset(uint ms)
{
	int i;

	for (i = 0; i < GPUS; i++)
		reset_begins_or_ends(&gpus[i], true);
	msleep(ms);
	for (i = 0; i < GPUS; i++)
		reset_begins_or_ends(&gpus[i], false);
}

/* A reset that fails: it never ends. */
static void break_down(uint unused)
{
	int i;

	for (i = 0; i < GPUS; i++)
		reset_begins_or_ends(&gpus[i], true);
}

static void rebuild_all(uint unused)
{
	int i;

	for (i = 0; i < GPUS; i++) {
		mutex_lock(&gpus[i].runlist);
		rebuild(&gpus[i]);
		mutex_unlock(&gpus[i].runlist);
	}
}

static void kill_process(uint number)
{
	struct pid *tgid = find_get_pid((pid_t)number);
	int i;

	for (i = 0; tgid && i < GPUS; i++) {
		mutex_lock(&gpus[i].runlist);
		spin_lock(&hooks_lock);
		if (hooks && gpus[i].there)
			hooks->killed(&gpus[i], tgid);
		spin_unlock(&hooks_lock);
		mutex_unlock(&gpus[i].runlist);
	}
	put_pid(tgid);
}

struct happening {
	void (*happen)(uint number);
};

static bool started;
static uint wanted = 1;

static void count_changes(uint number)
{
	wanted = number;
	if (started)
		bring_to(number);
}

/* The process that has GPUs come is killed meanwhile. */
static void count_changes_killed(uint number)
{
	send_sig(SIGKILL, current, 1);
	count_changes(number);
}

static int happening_set(const char *text, const struct kernel_param *param)
{
	const struct happening *happening = param->arg;
	uint number;
	int err = kstrtouint(text, 0, &number);

	if (!err)
		happening->happen(number);
	return err;
}

static const struct kernel_param_ops happening_ops = { .set = happening_set };
static struct happening count = { count_changes }, count_killed = { count_changes_killed };
static struct happening resets = { reset }, breakdown = { break_down },
	rebuilds = { rebuild_all }, kills = { kill_process };
module_param_cb(gpus, &happening_ops, &count, 0200);
module_param_cb(gpus_killed, &happening_ops, &count_killed, 0200);
module_param_cb(reset, &happening_ops, &resets, 0200);
module_param_cb(break_down, &happening_ops, &breakdown, 0200);
module_param_cb(rebuild, &happening_ops, &rebuilds, 0200);
module_param_cb(kill, &happening_ops, &kills, 0200);

static int __init fake_init(void)
{
	const struct gpurt_port *port = &amdgpu_gpurt_port;
	u32 *seen = (u32 *)&port->version;
	int i;

	OPTIMIZER_HIDE_VAR(seen);
	*seen = version;
	for (i = 0; i < GPUS; i++) {
		snprintf(gpus[i].name, sizeof(gpus[i].name), "fake:%d", backwards ? GPUS - 1 - i : i);
		mutex_init(&gpus[i].power);
		mutex_init(&gpus[i].runlist);
		INIT_LIST_HEAD(&gpus[i].tsgs);
	}
	bring_to(wanted);
	started = true;
	return misc_register(&device);
}

static void __exit fake_exit(void)
{
	misc_deregister(&device);
	bring_to(0);
}

module_init(fake_init);
module_exit(fake_exit);
MODULE_DESCRIPTION("A patched GPU driver without a GPU");
MODULE_LICENSE("GPL");
