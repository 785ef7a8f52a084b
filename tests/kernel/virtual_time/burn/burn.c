// SPDX-License-Identifier: GPL-2.0
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "burn.h"

/* Before time goes on, timers that are due go off (a delay of nothing lets them), and more urgent tasks run. */
static void settle(void)
{
	do {
		ndelay(0);
	} while (cond_resched());
}

static bool is_over(u64 left, struct file *until)
{
	return until ? vfs_poll(until, NULL) & EPOLLIN : !left;
}

/* Executes for @left, or with @until until that file can be read. */
static int burn(u64 left, struct file *until)
{
	settle();
	while (!is_over(left, until)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		ndelay(BURN_GRAIN_NS);
		left -= BURN_GRAIN_NS;
		settle();
	}
	return 0;
}

static long burn_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct fd until;
	u64 value;
	long ret;

	if (cmd != BURN_RUN && cmd != BURN_SPIN)
		return -ENOTTY;
	if (copy_from_user(&value, (void __user *)arg, sizeof(value)))
		return -EFAULT;
	if (cmd == BURN_RUN)
		return value % BURN_GRAIN_NS ? -EINVAL : burn(value, NULL);
	until = fdget(value);
	if (!until.file)
		return -EBADF;
	ret = burn(0, until.file);
	fdput(until);
	return ret;
}

static const struct file_operations burn_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = burn_ioctl,
};

static struct miscdevice burn_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "burn",
	.fops = &burn_fops,
};

module_misc_device(burn_device);
MODULE_DESCRIPTION("Execution that takes virtual time");
MODULE_LICENSE("GPL");
