// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/gpurt: descriptors and their owners.
 *
 * A descriptor belongs to the process that opened it.  Another process that holds the descriptor can do nothing with
 * it.  The descriptor's clients end when its owner does, even if another process still holds the descriptor: owner.c
 * reports that the owner exits or executes another program.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "chardev.h"
#include "client.h"
#include "gpu.h"
#include "ioctl.h"
#include "register.h"
#include "wait.h"
#include "workers.h"

#define POLLERS 8	/* that are woken in one go */

/* Ends all clients.  Called when the descriptor is released, and when its owner ends: the first call does the work. */
void gpurt_file_gone(struct gpurt_file *file, bool process)
{
	int i;

	gpurt_owner_over(file);
	mutex_lock(&file->lock);
	WRITE_ONCE(file->gone, true);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i])
			gpurt_client_gone(file->clients[i], process);
	mutex_unlock(&file->lock);
}

/* Waits for ordinary workers, so it is never called by a thread that may outrank them: bury() frees what that had. */
static void file_free(struct kref *ref)
{
	struct gpurt_file *file = container_of(ref, struct gpurt_file, ref);

	irq_work_sync(&file->poll_wake);
	cancel_work_sync(&file->slow_poll_wake);
	mmdrop(file->mm);
	put_pid(file->tgid);
	kfree(file);
}

/* In process context. */
void gpurt_file_put(struct gpurt_file *file)
{
	kref_put(&file->ref, file_free);
}

static int not_woken(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

/* Wakes POLLERS that come after @place in the queue, which moves behind them.  Whether there are more. */
static bool wake_some(wait_queue_head_t *queue, wait_queue_entry_t *place)
{
	wait_queue_entry_t *one, *next;
	unsigned long flags;
	unsigned int count;

	spin_lock_irqsave(&queue->lock, flags);
	next = list_next_entry(place, entry);
	for (count = 0; count < POLLERS && &next->entry != &queue->head; count++) {
		one = next;
		next = list_next_entry(next, entry);
		if (one->func)	/* wake_up_all() has places of its own, without one */
			one->func(one, TASK_NORMAL, 0, NULL);
	}
	list_move_tail(&place->entry, &next->entry);
	spin_unlock_irqrestore(&queue->lock, flags);
	return &next->entry != &queue->head;
}

/* The place is before all calls that wait.  A call that begins to wait later comes before it, and looks afterwards. */
static void add_place(wait_queue_head_t *queue, wait_queue_entry_t *place)
{
	init_waitqueue_func_entry(place, not_woken);
	add_wait_queue(queue, place);
}

/*
 * Wakes the callers of poll() that came last, POLLERS at most, and has a worker wake all if there are more.  The
 * process decides how many they are, and the caller is an interrupt, or a thread that nothing outranks.
 *
 * That bounds the entries of this queue, not the threads behind them.  An entry can be an epoll descriptor's, and the
 * kernel wakes in the same go, with interrupts off unless PREEMPT_RT, all that wait for that descriptor in poll() or by
 * other epolls; it does so for each descriptor of the machine that becomes ready, such as an eventfd.
 */
void gpurt_file_wake_poll(struct gpurt_file *file)
{
	wait_queue_entry_t place;

	add_place(&file->poll, &place);
	if (wake_some(&file->poll, &place))
		queue_work(gpurt_workers, &file->slow_poll_wake);
	remove_wait_queue(&file->poll, &place);
}

static void poll_wake(struct irq_work *work)
{
	gpurt_file_wake_poll(container_of(work, struct gpurt_file, poll_wake));
}

/* As wake_up_all(), but in a kernel without full preemption other tasks of that CPU execute from time to time. */
static void slow_poll_wake(struct work_struct *work)
{
	struct gpurt_file *file = container_of(work, struct gpurt_file, slow_poll_wake);
	wait_queue_entry_t place;

	add_place(&file->poll, &place);
	while (wake_some(&file->poll, &place))
		cond_resched();
	remove_wait_queue(&file->poll, &place);
}

/* What poll() waits in, and what wakes it. */
void gpurt_file_init_poll(struct gpurt_file *file)
{
	init_waitqueue_head(&file->poll);
	init_irq_work(&file->poll_wake, poll_wake);
	INIT_WORK(&file->slow_poll_wake, slow_poll_wake);
}

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
	err = gpurt_owner_watch(file);
	if (err) {
		gpurt_file_put(file);
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
	gpurt_owner_forget(file);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (file->clients[i])
			gpurt_client_put(file->clients[i]);
	gpurt_file_put(file);
	return 0;
}

/*
 * Whether the owner executes the program that opened the descriptor.  file->gone alone does not tell: it is set some
 * time after the owner has executed another program.
 */
static bool is_alive(const struct gpurt_file *file)
{
	return !READ_ONCE(file->gone) && file->mm == current->mm;
}

/* Called with file->lock held. */
static struct gpurt_client *client_make(struct gpurt_file *file, u32 index)
{
	struct gpurt_gpu *gpu = gpurt_gpu_get(index);
	struct gpurt_client *client;

	if (!gpu)
		return ERR_PTR(-ENODEV);
	client = gpurt_client_open(gpu, file);
	if (IS_ERR(client))
		gpurt_gpu_put(gpu);
	else
		/* Pairs with the acquire in gpurt_file_client(). */
		smp_store_release(&file->clients[index], client);
	return client;
}

/*
 * The descriptor's client of that GPU, made on first use.  It lives as long as the descriptor does, hence longer than
 * any call on it.  -EPERM: the caller is not the owner; -ESTALE: the owner executed another program; -ENODEV.
 */
struct gpurt_client *gpurt_file_client(struct gpurt_file *file, u32 index)
{
	struct gpurt_client *client;

	if (file->tgid != task_tgid(current))
		return ERR_PTR(-EPERM);
	if (index >= GPURT_MAX_GPUS)
		return ERR_PTR(-ENODEV);
	if (!is_alive(file))
		return ERR_PTR(-ESTALE);
	client = smp_load_acquire(&file->clients[index]);	/* pairs with client_make() */
	if (client)
		return client;
	mutex_lock(&file->lock);
	client = file->clients[index];
	if (file->gone)
		client = ERR_PTR(-ESTALE);
	else if (!client)
		client = client_make(file, index);
	mutex_unlock(&file->lock);
	return client;
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

	if (file->tgid != task_tgid(current) || !is_alive(file))
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
	int err = gpurt_owners_start();

	if (err)
		return err;
	err = misc_register(&gpurt_device);
	if (err)
		gpurt_owners_stop();
	return err;
}

void gpurt_chardev_stop(void)
{
	misc_deregister(&gpurt_device);
	gpurt_owners_stop();
}
