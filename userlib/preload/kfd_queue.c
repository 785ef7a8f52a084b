// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMD's compute driver (KFD): each user queue of a process is treated as a time-slice group.  Percentage 0 makes a
 * queue inactive.  The percentage that the program asked for makes it active again.
 *
 * With the hardware scheduler, the driver unmaps and maps all queues of all processes for each call that changes a queue
 * (update_queue() in kfd_device_queue_manager.c).  So the library makes no call for a queue that the program itself has
 * made inactive.  A queue that is made or changed while the process is off never becomes active in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"

/* Bits 8 to 15 of a percentage are the XCC that runs PM4 queues (kfd_chardev.c). */
#define PERCENT	0xffu
/* With more queues than the hardware has, the driver runs them by turns, and a queue that is on may not run. */
#define HARDWARE_QUEUES	32

/* In `client` of a queue: the program is destroying it, and the driver may give its number to another one. */
enum { LIVING, LEAVING };

/*
 * A context owns queues and numbers them.  All descriptors of /dev/kfd share the process's own context, which outlives
 * them (kfd_release() in kfd_chardev.c).  Its queues are listed under one open file, `home`, of which the agent keeps a
 * descriptor.  CREATE_PROCESS makes a context of one open file alone, which ends with that file: the agent keeps no
 * descriptor of it.
 */
enum { NODE_PROCESS = 1, NODE_CONTEXT };
static struct gpu_file *home;
static int kept = -1;		/* the agent's descriptor of it */
static bool unsaved;
#define UNSAVED "a queue has no memory to save its waves to: a stop waits until its kernels end"

static int kfd_node(const char *path)
{
	return !strcmp(path, "/dev/kfd") ? NODE_PROCESS : 0;
}

static void kfd_closed(struct gpu_file *file)
{
	if (file == home)
		home = NULL;
}

static void kfd_forked(void)
{
	home = NULL;
	kept = -1;
}

/* The file under which the queues of a descriptor's context are listed, or NULL: there are none. */
static struct gpu_file *context_of(int fd)
{
	struct gpu_file *file = files_get(fd);

	return file && file->kind == NODE_CONTEXT ? file : home;
}

static void keep(int fd)
{
	struct gpu_file *file = files_get(fd);

	if (home || !file || file->kind == NODE_CONTEXT)
		return;
	home = file;
	kept = real_duplicate(fd, KEPT);
	if (kept < 0)
		kept = real_duplicate(fd, 3);
	if (kept >= 0)
		files_duplicated(fd, kept);
}

/*
 * The open file has a context of its own from now on.  The queues that it made before stay the process's: they are
 * listed under another file, which the library opens.
 */
static void separate(int fd)
{
	struct gpu_file *file = files_get(fd);
	int other;

	if (!file)
		return;
	file->kind = NODE_CONTEXT;
	if (file != home)
		return;
	if (kept >= 0) {
		files_closed(kept);
		close(kept);
	}
	home = NULL;
	other = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	kept = other < 0 ? -1 : real_duplicate(other, KEPT);
	if (kept >= 0)
		close(other);
	else
		kept = other;
	if (kept >= 0) {
		files_opened(kept, "/dev/kfd");
		home = files_get(kept);
	}
	if (!home)
		preload_say("kfd-queue: /dev/kfd cannot be opened again: older queues of this process are not managed");
	agent_move_file(file, home);
}

static int create_context(int fd, unsigned long request, void *argument)
{
	int result = real_ioctl(fd, request, argument);

	preload_lock();
	if (result >= 0)
		separate(fd);
	preload_unlock();
	return result;
}

static struct tsg *queue_of(int fd, uint32_t queue, uint32_t state)
{
	struct gpu_file *context = context_of(fd);

	return context ? agent_find(context, state, queue) : NULL;
}

/* The driver gives this number to a new queue, so the one that had it is gone. */
static void forget(int fd, uint32_t queue)
{
	struct tsg *tsg;

	while ((tsg = queue_of(fd, queue, LIVING)) || (tsg = queue_of(fd, queue, LEAVING)))
		agent_remove(tsg);
}

static bool refused_percentage(uint32_t percentage)
{
	return (percentage & PERCENT) > 100;
}

/*
 * Stores the settings that the program wants for its queue, to be restored when it may run.  @held: the driver was not
 * told the percentage, and the queue is inactive.
 */
static void want(struct tsg *tsg, uint64_t ring, uint32_t ring_size, uint32_t percentage, uint32_t priority, bool held)
{
	tsg->address = ring;
	tsg->parent = ring_size;
	tsg->value[0] = percentage;
	tsg->value[1] = priority;
	if (held)
		agent_refresh_off(tsg);
	else
		agent_refresh(tsg);
	tsg->empty = !ring || !ring_size || !(percentage & PERCENT);
}

static int update(int fd, const struct tsg *tsg, uint32_t percentage)
{
	struct kfd_update_queue u = {
		.ring = tsg->address, .queue = tsg->handle, .ring_size = tsg->parent, .percentage = percentage,
		.priority = tsg->value[1],
	};

	return real_ioctl(fd, _IOW('K', KFD_UPDATE_QUEUE, struct kfd_update_queue), &u) < 0 ? -errno : 0;
}

/* The host's number of the GPU with KFD's @id; sets KFD's own number.  Called with the lock held. */
static unsigned int number_of(uint32_t id, unsigned int *own)
{
	*own = kfd_gpu(id);
	if (*own < KFD_GPUS)
		return numbers_of("kfd-queue", kfd_device(*own), *own);
	preload_say("kfd-queue: GPU id %u is not in /sys/class/kfd: its work is not managed", id);
	return NO_GPU;
}

static void warn_of_many(unsigned int gpu)
{
	if (agent_number(gpu) > HARDWARE_QUEUES)
		preload_say_once("GPU %u, kfd-queue: more than %u queues in this process: the driver takes turns with them", gpu,
				 HARDWARE_QUEUES);
}

/* Called with the lock held.  @held: the queue was made inactive.  Returns whether it is listed. */
static bool created(int fd, const struct kfd_create_queue *c, struct tsg like, bool held)
{
	struct tsg *tsg;

	keep(fd);
	forget(fd, c->queue);
	like.file = context_of(fd);
	tsg = like.file ? agent_add(&like) : NULL;
	if (tsg)
		want(tsg, c->ring, c->ring_size, c->percentage, c->priority, held);
	if (tsg && !unsaved && !c->save && (c->type == KFD_COMPUTE || c->type == KFD_COMPUTE_AQL)) {
		preload_say("GPU %u, kfd-queue: tier T0: " UNSAVED, like.gpu);
		unsaved = true;
	}
	warn_of_many(like.gpu);
	return tsg;
}

/* Activates a queue that was made inactive and could not be listed: nothing else would. */
static void activate(int fd, const struct kfd_create_queue *c)
{
	struct tsg like = { .handle = c->queue, .address = c->ring, .parent = c->ring_size, .value[1] = c->priority };
	int err = update(fd, &like, c->percentage);

	if (err)
		preload_say("kfd-queue: queue %u stays inactive: %s", c->queue, strerror(-err));
}

/* Makes the queue inactive if the process is off, or if a mask must be set first. */
static int create(int fd, unsigned long request, struct kfd_create_queue *c)
{
	uint32_t percentage = c->percentage;
	struct tsg like = { 0 };
	bool held, listed;
	int result;

	preload_lock();
	like.gpu = number_of(c->gpu, &like.own);
	like.device = kfd_device(like.own);
	held = (agent_is_off(like.gpu) || (kfd_confines(c->type) && like.own < KFD_GPUS)) &&
	       !refused_percentage(percentage);
	preload_unlock();
	if (held)
		c->percentage &= ~PERCENT;
	result = real_ioctl(fd, request, c);
	c->percentage = percentage;
	if (result < 0)
		return result;
	if (kfd_confines(c->type))
		kfd_confine(fd, c->queue, kfd_chip(like.own));
	preload_lock();
	like.handle = c->queue;
	listed = created(fd, c, like, held);
	preload_unlock();
	if (held && !listed)
		activate(fd, c);
	return result;
}

static int change(int fd, struct kfd_update_queue *u)
{
	struct kfd_update_queue passed = *u;
	struct tsg *tsg;
	bool held;
	int result;

	preload_lock();
	tsg = queue_of(fd, u->queue, LIVING);
	held = tsg && agent_is_off(tsg->gpu) && !refused_percentage(u->percentage);
	preload_unlock();
	if (held)
		passed.percentage &= ~PERCENT;
	result = real_ioctl(fd, _IOW('K', KFD_UPDATE_QUEUE, struct kfd_update_queue), &passed);
	if (result < 0)
		return result;
	preload_lock();
	tsg = queue_of(fd, u->queue, LIVING);
	if (tsg)
		want(tsg, u->ring, u->ring_size, u->percentage, u->priority, held);
	preload_unlock();
	return result;
}

/*
 * The queue is listed until the driver has destroyed it, because it can run until then.  After some errors (of the
 * preemption) the queue is gone although the call failed (pqm_destroy_queue() in kfd_process_queue_manager.c).
 */
static int destroy(int fd, unsigned long request, struct kfd_destroy_queue *d)
{
	struct tsg *tsg;
	int result, err;

	preload_lock();
	tsg = queue_of(fd, d->queue, LIVING);
	if (tsg)
		tsg->client = LEAVING;
	preload_unlock();
	result = real_ioctl(fd, request, d);
	err = result < 0 ? errno : 0;
	preload_lock();
	tsg = queue_of(fd, d->queue, LEAVING);
	if (tsg && (!err || err == ETIME || err == EIO))
		agent_remove(tsg);
	else if (tsg)
		tsg->client = LIVING;
	preload_unlock();
	errno = err ? err : errno;
	return result;
}

static int set_mask(int fd, unsigned long request, const struct kfd_cu_mask *mask)
{
	struct tsg *tsg;
	unsigned int gpu;

	preload_lock();
	tsg = queue_of(fd, mask->queue, LIVING);
	gpu = tsg ? tsg->own : KFD_GPUS;
	preload_unlock();
	return kfd_set_mask(fd, request, mask, kfd_chip(gpu));
}

/* The driver takes arguments of any size: missing bytes are 0, surplus bytes are ignored (kfd_ioctl()). */
static int kfd_call(int fd, unsigned long request, void *argument)
{
	size_t size = _IOC_SIZE(request);

	if (_IOC_TYPE(request) == 'K' && _IOC_NR(request) == KFD_CREATE_PROCESS)
		return create_context(fd, request, argument);
	switch (_IOC_TYPE(request) == 'K' && argument ? _IOC_NR(request) : 0) {
	case KFD_CREATE_QUEUE:
		if (size >= sizeof(struct kfd_create_queue))
			return create(fd, request, argument);
		break;
	case KFD_UPDATE_QUEUE:
		if (size >= sizeof(struct kfd_update_queue))
			return change(fd, argument);
		break;
	case KFD_DESTROY_QUEUE:
		if (size >= sizeof(uint32_t))
			return destroy(fd, request, argument);
		break;
	case KFD_SET_CU_MASK:
		if (size >= sizeof(struct kfd_cu_mask))
			return set_mask(fd, request, argument);
		break;
	default:
		return real_ioctl(fd, request, argument);
	}
	preload_count(COUNT_UNKNOWN);
	return real_ioctl(fd, request, argument);
}

static int kfd_turn(struct tsg *tsg, int fd, bool on)
{
	int err = update(fd, tsg, on ? tsg->value[0] : tsg->value[0] & ~PERCENT);

	if (err == -EFAULT && tsg->client == LEAVING)
		return 0;	/* there is no such queue any more */
	if (err)
		preload_say_once("kfd-queue: the driver did not switch queue %u: %s; said once", tsg->handle, strerror(-err));
	return err;
}

static unsigned int kfd_tier(const char **how)
{
	if (!unsaved && kfd_saves_waves()) {
		*how = "this process's agent stops its queues; with HWS every stop remaps the whole runlist";
		return GPURT_TIER_UNPATCHED;
	}
	*how = unsaved ? UNSAVED :
	       "amdgpu.cwsr_enable=0: a stop waits until kernels end, and resets the GPU if that takes too long";
	return GPURT_TIER_HINTS;
}

const struct family family_kfd_queue = {
	.name = "kfd-queue",
	.node = kfd_node,
	.call = kfd_call,
	.closed = kfd_closed,
	.forked = kfd_forked,
	.turn = kfd_turn,
	/* every release is known: the ioctls are a stable interface of the kernel */
	.tier = kfd_tier,
};
