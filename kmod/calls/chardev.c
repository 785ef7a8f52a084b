// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/gpurt: descriptors and the processes that open them.
 *
 * A descriptor belongs to the process that opened it.  Another process that holds it can do nothing with it.  The
 * descriptor's clients end when exits.c reports that the opener exits or executes another program, even if another
 * process still holds the descriptor.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "calls/calls.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "state/clients.h"
#include "state/exits.h"
#include "state/file.h"

static int gpurt_open(struct inode *inode, struct file *filp)
{
	struct gpurt_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	int err;

	if (!file)
		return -ENOMEM;
	kref_init(&file->ref);
	mutex_init(&file->lock);
	gpurt_file_init_poll(file);
	file->tgid = get_pid(task_tgid(current));
	file->uid = current_euid();
	get_task_comm(file->comm, current->group_leader);
	mmgrab(current->mm);
	file->mm = current->mm;
	err = gpurt_exits_watch(file);
	if (err) {
		gpurt_file_close(file);
		return err;
	}
	filp->private_data = file;
	return stream_open(inode, filp);
}

static int gpurt_release(struct inode *inode, struct file *filp)
{
	struct gpurt_file *file = filp->private_data;
	int i;

	gpurt_file_gone(file, false);
	gpurt_exits_forget(file);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i])
			gpurt_client_put(file->clients[i]);
	gpurt_file_close(file);
	return 0;
}

static __poll_t client_poll(struct gpurt_client *client)
{
	__poll_t mask = 0;

	gpurt_wait_polled(client);
	if (READ_ONCE(client->gpu->dying))
		return EPOLLHUP | EPOLLERR;
	if (READ_ONCE(client->core.depth) && gpurt_client_granted(client))
		mask |= EPOLLOUT | EPOLLWRNORM;
	if (atomic_read(&client->completions) != READ_ONCE(client->seen))
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

static __poll_t gpurt_poll(struct file *filp, poll_table *table)
{
	struct gpurt_file *file = filp->private_data;
	struct gpurt_client *client;
	__poll_t mask = 0;
	int i;

	if (file->tgid != task_tgid(current) || !gpurt_file_is_alive(file))
		return EPOLLERR;
	poll_wait(filp, &file->poll, table);
	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		client = smp_load_acquire(&file->clients[i]);	/* pairs with client_make() */
		if (client)
			mask |= client_poll(client);
	}
	return mask;
}

static const struct file_operations gpurt_fops = {
	.owner = THIS_MODULE,
	.open = gpurt_open,
	.release = gpurt_release,
	.unlocked_ioctl = gpurt_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = gpurt_poll,
};

static struct miscdevice gpurt_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = GPURT_DEVICE_NAME,
	.fops = &gpurt_fops,
	.mode = 0660,
};

int gpurt_chardev_start(void)
{
	return misc_register(&gpurt_device);
}

void gpurt_chardev_stop(void)
{
	misc_deregister(&gpurt_device);
}
