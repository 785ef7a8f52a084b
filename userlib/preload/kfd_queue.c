// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMD's compute driver: a process's user queues play the part of a time-slice group.  A queue of percentage 0 is
 * inactive; putting back what the program asked for makes it active again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "preload.h"

#define CREATE_QUEUE	0x02
#define DESTROY_QUEUE	0x03
#define UPDATE_QUEUE	0x07
#define MAX_GPUS	16

/* The part of struct kfd_ioctl_create_queue_args that all releases have. */
struct create_queue {
	uint64_t ring, write_pointer, read_pointer, doorbell;
	uint32_t ring_size, gpu, type, percentage, priority, queue;
};
struct destroy_queue { uint32_t queue, pad; };
struct update_queue { uint64_t ring; uint32_t queue, ring_size, percentage, priority; };

_Static_assert(sizeof(struct update_queue) == 24 && sizeof(struct create_queue) == 56, "layouts of KFD's ioctls");

static uint32_t gpu_ids[MAX_GPUS];
static unsigned int gpu_count;

static int kfd_node(const char *path)
{
	return !strcmp(path, "/dev/kfd");
}

/* GPUs in the order of the kernel's topology, which every process sees alike. */
static void read_topology(void)
{
	unsigned int node, id;
	char path[80];
	FILE *file;

	for (node = 0; node < 4 * MAX_GPUS && gpu_count < MAX_GPUS; node++) {
		snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%u/gpu_id", node);
		file = fopen(path, "re");
		if (!file)
			break;
		if (fscanf(file, "%u", &id) == 1 && id)
			gpu_ids[gpu_count++] = id;
		fclose(file);
	}
}

static unsigned int gpu_index(uint32_t id)
{
	unsigned int i;

	if (!gpu_count)
		read_topology();
	for (i = 0; i < gpu_count; i++)
		if (gpu_ids[i] == id)
			return i;
	if (gpu_count < MAX_GPUS)
		gpu_ids[gpu_count++] = id;
	return i;
}

/* What the program wants of its queue: to be put back when it may run. */
static void want(struct tsg *tsg, uint64_t ring, uint32_t ring_size, uint32_t percentage, uint32_t priority)
{
	tsg->address = ring;
	tsg->parent = ring_size;
	tsg->value[0] = percentage;
	tsg->value[1] = priority;
}

static int update(int fd, const struct tsg *tsg, uint32_t percentage)
{
	struct update_queue u = {
		.ring = tsg->address, .queue = tsg->handle, .ring_size = tsg->parent, .percentage = percentage,
		.priority = tsg->value[1],
	};

	return real_ioctl(fd, _IOW('K', UPDATE_QUEUE, struct update_queue), &u) < 0 ? -errno : 0;
}

static void created(struct gpu_file *file, const struct create_queue *c)
{
	struct tsg like = { .file = file, .gpu = gpu_index(c->gpu), .handle = c->queue }, *tsg;

	want(&like, c->ring, c->ring_size, c->percentage, c->priority);
	tsg = agent_add(&like);
	if (tsg && !tsg->off)
		agent_refresh(tsg);
}

static void updated(struct tsg *tsg, const struct update_queue *u)
{
	want(tsg, u->ring, u->ring_size, u->percentage, u->priority);
	agent_refresh(tsg);
}

static void kfd_after(struct gpu_file *file, int fd, unsigned long request, void *argument, int result)
{
	const struct destroy_queue *d = argument;
	const struct update_queue *u = argument;
	struct tsg *tsg;

	(void)fd;
	if (result < 0 || _IOC_TYPE(request) != 'K' || !argument)
		return;
	if (_IOC_NR(request) == CREATE_QUEUE && _IOC_SIZE(request) >= sizeof(struct create_queue)) {
		created(file, argument);
	} else if (_IOC_NR(request) == DESTROY_QUEUE && _IOC_SIZE(request) == sizeof(*d)) {
		tsg = agent_find(file, 0, d->queue);
		if (tsg)
			agent_remove(tsg);
	} else if (_IOC_NR(request) == UPDATE_QUEUE && _IOC_SIZE(request) == sizeof(*u)) {
		tsg = agent_find(file, 0, u->queue);
		if (tsg)
			updated(tsg, u);
	} else if (_IOC_NR(request) == CREATE_QUEUE || _IOC_NR(request) == DESTROY_QUEUE ||
		   _IOC_NR(request) == UPDATE_QUEUE) {
		preload_count(COUNT_UNKNOWN);
	}
}

static int kfd_turn(struct tsg *tsg, int fd, bool on)
{
	return update(fd, tsg, on ? tsg->value[0] : 0);
}

/* Part of the kernel's stable interface. */
static bool kfd_known(char *why, size_t size)
{
	(void)why;
	(void)size;
	return true;
}

const struct family family_kfd_queue = {
	.name = "kfd-queue",
	.node = kfd_node,
	.after = kfd_after,
	.turn = kfd_turn,
	.known = kfd_known,
	.tier = "tier T1: this process's agent stops its queues; with HWS every stop remaps the whole runlist",
};
