// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMD's compute driver (KFD): each user queue of a process is treated as a time-slice group.  Percentage 0 makes a
 * queue inactive.  The percentage that the program asked for makes it active again.
 *
 * GPURT_CU_MASK: the compute units that the process's compute queues may use: a hexadecimal mask, bit 0 on the right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "preload.h"

#define CREATE_QUEUE	0x02
#define DESTROY_QUEUE	0x03
#define UPDATE_QUEUE	0x07
#define SET_CU_MASK	0x1a
#define TYPE_COMPUTE	0
#define TYPE_COMPUTE_AQL 2
#define MAX_GPUS	16
#define MASK_WORDS	32	/* 1,024 compute units */
/* With more queues than the hardware has, the driver runs them by turns, and a queue that is on may not run. */
#define HARDWARE_QUEUES	32

/* The part of struct kfd_ioctl_create_queue_args that all releases have. */
struct create_queue {
	uint64_t ring, write_pointer, read_pointer, doorbell;
	uint32_t ring_size, gpu, type, percentage, priority, queue;
};
struct destroy_queue { uint32_t queue, pad; };
struct cu_mask { uint32_t queue, bits; uint64_t address; };
struct update_queue { uint64_t ring; uint32_t queue, ring_size, percentage, priority; };

_Static_assert(sizeof(struct cu_mask) == 16, "layout of SET_CU_MASK");
_Static_assert(sizeof(struct update_queue) == 24 && sizeof(struct create_queue) == 56, "layouts of KFD's ioctls");

static uint32_t gpu_ids[MAX_GPUS];
static unsigned int gpu_count;

static int kfd_node(const char *path)
{
	return !strcmp(path, "/dev/kfd");
}

/* Lists the GPUs in the order of the kernel's topology, which is the same for every process. */
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

/* Stores the settings that the program wants for its queue, to be restored when it may run. */
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

/* Converts hexadecimal text to words, lowest first.  Returns how many, or 0 if the text is no mask or an empty one. */
static unsigned int parse_mask(const char *text, uint32_t *words)
{
	size_t length, i;
	uint32_t any = 0;
	char digit[2] = "";

	text += !strncmp(text, "0x", 2) ? 2 : 0;
	length = strlen(text);
	if (!length || length > 8 * MASK_WORDS || strspn(text, "0123456789abcdefABCDEF") != length)
		return 0;
	memset(words, 0, MASK_WORDS * sizeof(*words));
	for (i = 0; i < length; i++) {
		digit[0] = text[length - 1 - i];
		words[i / 8] |= (uint32_t)strtoul(digit, NULL, 16) << 4 * (i % 8);
	}
	for (i = 0; i < MASK_WORDS; i++)
		any |= words[i];
	return any ? (unsigned int)(length + 7) / 8 : 0;
}

/* Applies GPURT_CU_MASK to a new queue. */
static void confine(int fd, const struct create_queue *c)
{
	const char *text = getenv("GPURT_CU_MASK");
	struct cu_mask mask = { .queue = c->queue };
	uint32_t words[MASK_WORDS];
	static bool told;

	if (!text || (c->type != TYPE_COMPUTE && c->type != TYPE_COMPUTE_AQL))
		return;
	mask.bits = 32 * parse_mask(text, words);
	mask.address = (uintptr_t)words;
	if (mask.bits && real_ioctl(fd, _IOW('K', SET_CU_MASK, struct cu_mask), &mask) >= 0)
		return;
	if (!told)
		preload_say("GPURT_CU_MASK=%s: %s; the queue may use every compute unit", text,
			    mask.bits ? strerror(errno) : "not a hexadecimal mask of 1 to 1024 bits");
	told = true;
}

static void warn_of_many(unsigned int gpu)
{
	static bool told;

	if (!told && agent_number(gpu) > HARDWARE_QUEUES) {
		preload_say("GPU %u, kfd-queue: more than %u queues in this process: the driver takes turns with them", gpu,
			    HARDWARE_QUEUES);
		told = true;
	}
}

static void created(struct gpu_file *file, const struct create_queue *c)
{
	struct tsg like = { .file = file, .gpu = gpu_index(c->gpu), .handle = c->queue }, *tsg;

	want(&like, c->ring, c->ring_size, c->percentage, c->priority);
	tsg = agent_add(&like);
	if (tsg)
		agent_refresh(tsg);
	warn_of_many(like.gpu);
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

	if (result < 0 || _IOC_TYPE(request) != 'K' || !argument)
		return;
	if (_IOC_NR(request) == CREATE_QUEUE && _IOC_SIZE(request) >= sizeof(struct create_queue)) {
		created(file, argument);
		confine(fd, argument);
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

/* KFD's ioctls are a stable interface of the kernel, so every release is known. */
static bool kfd_known(char *why, size_t size)
{
	(void)why;
	(void)size;
	return true;
}

static unsigned int kfd_tier(const char **how)
{
	*how = "this process's agent stops its queues; with HWS every stop remaps the whole runlist";
	return GPURT_TIER_UNPATCHED;
}

const struct family family_kfd_queue = {
	.name = "kfd-queue",
	.node = kfd_node,
	.after = kfd_after,
	.turn = kfd_turn,
	.known = kfd_known,
	.tier = kfd_tier,
};
