// SPDX-License-Identifier: GPL-2.0
/*
 * amdgpu's queue manager as the patches leave it, with gpurt's port and its packets, as a module.  This file has what
 * is above the queue manager, processes and resets; hardware.c has what is below, the hardware.  All of amdgpu needs a
 * card.
 *
 * A write of a card's number to /dev/fake_gpu, which is fake_driver's, makes a queue there; the queue goes with the
 * descriptor.  A read says whether the hardware has the queue mapped: "on" or "off".  A line "BUG: kfd_driver" in the
 * kernel's log says that something happened that must not happen.
 */
#include "kfd_device_queue_manager.c"
#include "kfd_gpurt.c"
#include "kfd_packet_manager.c"
#include "kfd_packet_manager_v9.c"

#include <linux/device.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/timer.h>
#include <linux/uaccess.h>

#define CARDS 4
#define SLOTS 8		/* queues that the hardware executes at a time */

#define wrong(format, ...) printk(KERN_ERR "BUG: kfd_driver: " format "\n", ##__VA_ARGS__)

#include "hardware.c"

static bool mes;
module_param(mes, bool, 0444);
static struct card cards[CARDS];
static DECLARE_RWSEM(cards_sem);	/* held to read while a card is used */
static LIST_HEAD(programs);
static DEFINE_MUTEX(programs_lock);	/* the list; held while all are evicted */

/* KFD's knowledge of a process, while the process has descriptors. */
struct program {
	struct kfd_process process;	/* first */
	struct list_head node;
	struct kfd_process_device pdds[CARDS];
	DECLARE_BITMAP(doorbells, KFD_MAX_NUM_OF_QUEUES_PER_PROCESS);
	int users;
	bool over;			/* the process ended: it has no queues */
	struct list_head queues;	/* with process.mutex held */
};

/* A descriptor. */
struct user_queue {
	struct list_head node;
	struct program *program;
	struct queue *queue;		/* NULL: none was made, or it is gone */
	int card;
};

struct kfd_process_device *kfd_get_process_device_data(struct kfd_dev *kfd, struct kfd_process *p)
{
	return &((struct program *)p)->pdds[card_of(kfd) - cards];
}

static struct program *program_make(void)
{
	static u32 last_pasid;
	struct program *p = kvzalloc(sizeof(*p), GFP_KERNEL);
	int i;

	if (!p)
		return NULL;
	mutex_init(&p->process.mutex);
	p->process.lead_thread = get_task_struct(current->group_leader);
	p->process.mm = current->mm;
	p->process.pasid = ++last_pasid & 0xffff;
	p->process.pqm.process = &p->process;
	INIT_LIST_HEAD(&p->queues);
	for (i = 0; i < CARDS; i++) {
		struct qcm_process_device *qpd = &p->pdds[i].qpd;

		p->pdds[i].process = &p->process;
		p->pdds[i].dev = &cards[i].kfd;
		p->pdds[i].drm_priv = p;
		qpd->pqm = &p->process.pqm;
		qpd->doorbell_bitmap = p->doorbells;
		INIT_LIST_HEAD(&qpd->queues_list);
		INIT_LIST_HEAD(&qpd->priv_queue_list);
	}
	list_add(&p->node, &programs);
	return p;
}

/* The program of the current process, which is made if there is none. */
static struct program *program_get(void)
{
	struct program *p, *found = NULL;

	mutex_lock(&programs_lock);
	list_for_each_entry(p, &programs, node)
		if (p->process.mm == current->mm && p->process.lead_thread == current->group_leader)
			found = p;
	if (!found)
		found = program_make();
	if (found)
		found->users++;
	mutex_unlock(&programs_lock);
	return found;
}

/* With cards_sem and the process's mutex held.  The card forgets the process, as at its end. */
static void leave(struct program *p, int card)
{
	struct device_queue_manager *dqm = cards[card].kfd.dqm;
	struct user_queue *u;

	if (!cards[card].there)
		return;
	dqm->ops.process_termination(dqm, &p->pdds[card].qpd);
	list_for_each_entry(u, &p->queues, node)
		if (u->queue && u->card == card) {
			kfree(u->queue);
			u->queue = NULL;
		}
}

static void program_put(struct program *p)
{
	bool last;
	int i;

	mutex_lock(&programs_lock);
	last = !--p->users;
	if (last)
		list_del(&p->node);
	mutex_unlock(&programs_lock);
	if (!last)
		return;
	mutex_lock(&p->process.mutex);
	for (i = 0; i < CARDS; i++)
		leave(p, i);
	mutex_unlock(&p->process.mutex);
	put_task_struct(p->process.lead_thread);
	kvfree(p);
}

static int queue_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct user_queue), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

/* As pqm_create_queue() does.  With cards_sem and the process's mutex held. */
static int queue_make(struct user_queue *u, struct card *card)
{
	struct device_queue_manager *dqm = card->kfd.dqm;
	struct qcm_process_device *qpd = &u->program->pdds[card - cards].qpd;
	struct queue *q;
	int err = 0;

	if (!card->there)
		return -ENODEV;
	q = kzalloc(sizeof(*q), GFP_KERNEL);
	if (!q)
		return -ENOMEM;
	q->device = &card->kfd;
	q->process = &u->program->process;
	q->properties.type = KFD_QUEUE_TYPE_COMPUTE;
	q->properties.format = KFD_QUEUE_FORMAT_AQL;
	q->properties.queue_size = q->properties.queue_address = PAGE_SIZE;
	q->properties.queue_percent = 100;
	qpd->dqm = dqm;
	if (list_empty(&qpd->queues_list))
		err = dqm->ops.register_process(dqm, qpd);
	err = err ?: dqm->ops.create_queue(dqm, q, qpd, NULL, NULL, NULL);
	if (err) {
		if (list_empty(&qpd->queues_list))
			dqm->ops.unregister_process(dqm, qpd);
		kfree(q);
		return err;
	}
	q->gang_ctx_gpu_addr = q->gart_mqd_addr;
	u->queue = q;
	u->card = card - cards;
	return 0;
}

/* As pqm_destroy_queue() does.  Likewise. */
static void queue_destroy(struct user_queue *u)
{
	struct device_queue_manager *dqm = cards[u->card].kfd.dqm;
	struct qcm_process_device *qpd = &u->program->pdds[u->card].qpd;
	int err = dqm->ops.destroy_queue(dqm, qpd, u->queue);

	kfree(u->queue);
	u->queue = NULL;
	if ((!err || err == -ETIME) && list_empty(&qpd->queues_list))
		dqm->ops.unregister_process(dqm, qpd);
}

static ssize_t queue_write(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	struct user_queue *u = file->private_data;
	unsigned int number;
	int err = kstrtouint_from_user(text, size, 0, &number);

	if (err || number >= CARDS)
		return -EINVAL;
	down_read(&cards_sem);
	if (!u->program) {
		u->program = program_get();
		if (u->program) {
			mutex_lock(&u->program->process.mutex);
			list_add(&u->node, &u->program->queues);
			mutex_unlock(&u->program->process.mutex);
		}
	}
	if (!u->program || u->queue) {
		err = u->queue ? -EBUSY : -ENOMEM;
	} else {
		mutex_lock(&u->program->process.mutex);
		err = queue_make(u, &cards[number]);
		mutex_unlock(&u->program->process.mutex);
	}
	up_read(&cards_sem);
	return err ?: (ssize_t)size;
}

static bool is_mapped(struct queue *q)
{
	bool mapped;

	spin_lock_irq(&hardware_lock);
	mapped = ((struct mqd *)q->mqd)->mapped;
	spin_unlock_irq(&hardware_lock);
	return mapped;
}

static ssize_t queue_read(struct file *file, char __user *text, size_t size, loff_t *at)
{
	struct user_queue *u = file->private_data;
	const char *word = "gone";

	if (u->program) {
		mutex_lock(&u->program->process.mutex);
		if (u->queue)
			word = is_mapped(u->queue) ? "on" : "off";
		mutex_unlock(&u->program->process.mutex);
	}
	*at = 0;
	return simple_read_from_buffer(text, size, at, word, strlen(word));
}

/* With cards_sem and the process's mutex held.  A process that ends loses all queues at once. */
static void give_up(struct user_queue *u)
{
	struct program *p = u->program;
	int i;

	if ((current->flags & PF_EXITING) && p->process.lead_thread == current->group_leader && !p->over) {
		p->over = true;
		for (i = 0; i < CARDS; i++)
			leave(p, i);
	}
	if (u->queue)
		queue_destroy(u);
	list_del(&u->node);
}

static int queue_close(struct inode *inode, struct file *file)
{
	struct user_queue *u = file->private_data;

	if (u->program) {
		down_read(&cards_sem);
		mutex_lock(&u->program->process.mutex);
		give_up(u);
		mutex_unlock(&u->program->process.mutex);
		program_put(u->program);
		up_read(&cards_sem);
	}
	kfree(u);
	return 0;
}

static const struct file_operations queue_operations = {
	.owner = THIS_MODULE, .open = queue_open, .write = queue_write, .read = queue_read, .release = queue_close,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR, .name = "fake_gpu", .fops = &queue_operations, .mode = 0666,
};

/* Evicts or restores the process of that number (0: all) on the card, as MMU notifiers do, which reclaim calls. */
static void evict_or_restore(struct card *card, pid_t number, bool evict)
{
	struct device_queue_manager *dqm = card->kfd.dqm;
	struct program *p;

	mutex_lock(&programs_lock);
	list_for_each_entry(p, &programs, node) {
		struct qcm_process_device *qpd = &p->pdds[card - cards].qpd;

		if (number && p->process.lead_thread->tgid != number)
			continue;
		if (evict)
			dqm->ops.evict_process_queues(dqm, qpd);
		else if (READ_ONCE(qpd->evicted) > READ_ONCE(qpd->off))
			dqm->ops.restore_process_queues(dqm, qpd);
	}
	mutex_unlock(&programs_lock);
}

/* kgd2kfd_pre_reset() and kgd2kfd_post_reset(): processes stay evicted until they end. */
static void reset_card(struct card *card)
{
	struct device_queue_manager *dqm = card->kfd.dqm;

	mutex_lock(&card->reset_lock);
	dqm->ops.pre_reset(dqm);
	kfd_gpurt_reset(dqm, true);
	evict_or_restore(card, 0, true);
	dqm->ops.stop(dqm);
	spin_lock_irq(&hardware_lock);
	unmap_all(card);
	card->hangs = false;
	spin_unlock_irq(&hardware_lock);
	if (dqm->ops.start(dqm))
		wrong("%s does not start", dev_name(&card->dev));
	kfd_gpurt_reset(dqm, false);
	resets++;
	mutex_unlock(&card->reset_lock);
}

/* Called by the queue manager's work, which is cancelled before the card goes. */
void amdgpu_amdkfd_gpu_reset(struct amdgpu_device *adev)
{
	reset_card(container_of(adev->dev, struct card, dev));
}

/* Cards come and go. */

static int card_come(struct card *card)
{
	struct device_queue_manager *dqm;

	card->adev = kvzalloc(sizeof(*card->adev), GFP_KERNEL);
	if (!card->adev)
		return -ENOMEM;
	card->adev->dev = &card->dev;
	card->adev->asic_type = CHIP_VEGA10;
	card->adev->ip_versions[GC_HWIP][0] = IP_VERSION(9, 0, 1);
	card->adev->mes.adev = card->adev;
	card->adev->mes.funcs = &mes_functions;
	mutex_init(&card->adev->mes.mutex_hidden);
	card->kfd.adev = card->adev;
	card->kfd.kfd2kgd = &kgd_calls;
	card->kfd.max_proc_per_quantum = 4;
	card->kfd.shared_resources.enable_mes = mes;
	card->kfd.shared_resources.num_pipe_per_mec = 4;
	card->kfd.shared_resources.num_queue_per_pipe = SLOTS / 4;
	bitmap_set(card->kfd.shared_resources.cp_queue_bitmap, 0, SLOTS);
	dqm = device_queue_manager_init(&card->kfd);
	card->kfd.dqm = dqm;
	if (!dqm || dqm->ops.start(dqm)) {
		wrong("%s does not start", dev_name(&card->dev));
		return -EIO;
	}
	card->there = true;
	return 0;
}

/* With cards_sem held to write. */
static void card_go(struct card *card)
{
	struct device_queue_manager *dqm = card->kfd.dqm;
	struct program *p;

	mutex_lock(&programs_lock);
	list_for_each_entry(p, &programs, node) {
		mutex_lock(&p->process.mutex);
		leave(p, card - cards);
		/* the card that comes back is another one to it */
		p->pdds[card - cards].qpd.evicted = 0;
		p->pdds[card - cards].qpd.off = false;
		mutex_unlock(&p->process.mutex);
	}
	mutex_unlock(&programs_lock);
	card->there = false;
	/* without queues the firmware has no reason to hang any more */
	if (dqm->sched_policy != KFD_SCHED_POLICY_NO_HWS)
		cancel_work_sync(&dqm->hw_exception_work);
	dqm->ops.stop(dqm);
	card->hangs = false;
	/* 6.1 counts queues of MES when they come, and forgets to when they go */
	if (mes)
		dqm->active_queue_count = 0;
	device_queue_manager_uninit(dqm);
	if (card->computing)
		wrong("%s: %d processes are still counted", dev_name(&card->dev), card->computing);
	kvfree(card->adev);
}

static void bring_to(uint count)
{
	uint i;

	down_write(&cards_sem);
	for (i = 0; i < CARDS; i++) {
		if (i < count && !cards[i].there)
			card_come(&cards[i]);
		else if (i >= count && cards[i].there)
			card_go(&cards[i]);
	}
	up_write(&cards_sem);
}

/* Events, each when its parameter is written. */

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

static void for_each_card(void (*happen)(struct card *card, uint number), uint number)
{
	int i;

	down_read(&cards_sem);
	for (i = 0; i < CARDS; i++)
		if (cards[i].there)
			happen(&cards[i], number);
	up_read(&cards_sem);
}

static void reset_one(struct card *card, uint unused)
{
	reset_card(card);
}

static void evict_one(struct card *card, uint number)
{
	evict_or_restore(card, number, true);
}

static void restore_one(struct card *card, uint number)
{
	evict_or_restore(card, number, false);
}

static void all_reset(uint unused)
{
	for_each_card(reset_one, unused);
}

static void evictions(uint number)
{
	for_each_card(evict_one, number);
}

static void restores(uint number)
{
	for_each_card(restore_one, number);
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
static struct happening count = { count_changes }, reset_all = { all_reset }, evict = { evictions }, restore = { restores };
module_param_cb(gpus, &happening_ops, &count, 0200);
module_param_cb(reset, &happening_ops, &reset_all, 0200);
module_param_cb(evict, &happening_ops, &evict, 0200);
module_param_cb(restore, &happening_ops, &restore, 0200);

static int __init kfd_driver_init(void)
{
	static const char * const names[CARDS] = {
		"0000:03:00.0", "0000:04:00.0", "0000:05:00.0", "0000:06:00.0",
	};
	int i;

	for (i = 0; i < CARDS; i++) {
		cards[i].dev.init_name = names[i];
		INIT_LIST_HEAD(&cards[i].mqds);
		timer_setup(&cards[i].late, write_late, 0);
		mutex_init(&cards[i].reset_lock);
	}
	bring_to(wanted);
	started = true;
	return misc_register(&device);
}

static void __exit kfd_driver_exit(void)
{
	misc_deregister(&device);
	bring_to(0);
}

module_init(kfd_driver_init);
module_exit(kfd_driver_exit);
MODULE_DESCRIPTION("amdgpu's queue manager without a card");
MODULE_LICENSE("GPL and additional rights");
