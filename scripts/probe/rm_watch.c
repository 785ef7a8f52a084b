// SPDX-License-Identifier: GPL-2.0
/*
 * The process's own objects, seen by standing between libcuda and the C library: libcuda calls ioctl() through the
 * dynamic linker, and the program's own definition comes first (it is linked with -rdynamic).
 */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm.h"

#define OBJECTS_MAX 4096
#define SEEN_MAX 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rm_object objects[OBJECTS_MAX];
static struct rm_seen seen[SEEN_MAX];
static size_t object_count, seen_count;

/* Where the allocation parameters of a group or a channel name their engine (nvos.h, alloc_channel.h). */
static uint32_t engine_of(uint32_t class, uint64_t params)
{
	const char *bytes = (const char *)(uintptr_t)params;
	uint32_t engine = 0;

	if (bytes && class == CLASS_TSG)
		memcpy(&engine, bytes + 12, sizeof(engine));
	else if (bytes && IS_CHANNEL(class))
		memcpy(&engine, bytes + 128, sizeof(engine));
	return engine;
}

static void add(int fd, const struct rm_alloc *a, uint32_t size)
{
	if (object_count == OBJECTS_MAX)
		return;
	objects[object_count++] = (struct rm_object){
		.fd = fd, .client = IS_ROOT(a->class) ? a->object : a->client, .parent = a->parent, .handle = a->object,
		.class = a->class, .size = size, .engine = engine_of(a->class, a->params), .live = true,
	};
}

/* What is below an object goes with it: libcuda frees whole trees by their root. */
static void drop(uint32_t client, uint32_t handle)
{
	size_t i;

	for (i = 0; i < object_count; i++) {
		struct rm_object *o = &objects[i];

		if (!o->live || o->client != client || (o->handle != handle && o->parent != handle))
			continue;
		o->live = false;
		if (o->handle != handle)
			drop(client, o->handle);
	}
}

static void count_control(const struct rm_control *c)
{
	size_t i;

	for (i = 0; i < seen_count; i++) {
		if (seen[i].cmd == c->cmd && seen[i].size == c->size && seen[i].status == c->status) {
			seen[i].count++;
			return;
		}
	}
	if (seen_count < SEEN_MAX)
		seen[seen_count++] = (struct rm_seen){ c->cmd, c->size, c->status, 1 };
}

static void look(int fd, uint32_t request, const void *argument)
{
	const struct rm_alloc_access *access = argument;
	const struct rm_alloc *alloc = argument;
	const struct rm_free *freed = argument;

	if (request == RM_ALLOC && !alloc->status)
		add(fd, alloc, alloc->size);
	else if (request == RM_ALLOC_ACCESS && !access->status)
		add(fd, alloc, access->size);	/* the first 24 bytes are the same in both */
	else if (request == RM_FREE && !freed->status)
		drop(freed->client, freed->object);
	else if (request == RM_CONTROL)
		count_control(argument);
}

/* The number that an RM_XFER stands for, so that look() need not know of it. */
static uint32_t unwrapped(uint32_t request, const void **argument)
{
	const struct rm_xfer *xfer = *argument;

	if (request != RM_XFER)
		return request;
	*argument = (const void *)(uintptr_t)xfer->pointer;
	return 0xc0004600u | (xfer->size & 0x3fffu) << 16 | (xfer->cmd & 0xffu);
}

int ioctl(int fd, unsigned long request, ...)
{
	const void *argument;
	uint32_t number;
	va_list list;
	void *given;
	long ret;

	va_start(list, request);
	given = va_arg(list, void *);
	va_end(list);
	ret = syscall(SYS_ioctl, fd, request, given);
	if (ret < 0 || !given || (request >> 8 & 0xff) != 'F')
		return (int)ret;
	argument = given;
	number = unwrapped((uint32_t)request, &argument);
	pthread_mutex_lock(&lock);
	look(fd, number, argument);
	pthread_mutex_unlock(&lock);
	return (int)ret;
}

size_t rm_objects(struct rm_object *out, size_t max)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = object_count < max ? object_count : max;
	memcpy(out, objects, count * sizeof(*out));
	pthread_mutex_unlock(&lock);
	return count;
}

size_t rm_controls_seen(struct rm_seen *out, size_t max)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = seen_count < max ? seen_count : max;
	memcpy(out, seen, count * sizeof(*out));
	pthread_mutex_unlock(&lock);
	return count;
}

static bool has_compute(uint32_t client, uint32_t channel)
{
	size_t i;

	for (i = 0; i < object_count; i++)
		if (objects[i].live && objects[i].client == client && objects[i].parent == channel &&
		    IS_COMPUTE(objects[i].class))
			return true;
	return false;
}

static void fill(struct rm_tsg *tsg, const struct rm_object *group)
{
	size_t i;

	*tsg = (struct rm_tsg){ .fd = group->fd, .client = group->client, .handle = group->handle,
				.engine = group->engine, .size = group->size };
	for (i = 0; i < object_count; i++) {
		const struct rm_object *o = &objects[i];

		if (!o->live || o->client != group->client)
			continue;
		if (o->class == CLASS_SUBDEVICE && o->parent == group->parent)
			tsg->subdevice = o->handle;
		if (o->parent != group->handle || !IS_CHANNEL(o->class) || tsg->channel_count == RM_CHANNELS_MAX)
			continue;
		tsg->channels[tsg->channel_count++] = o->handle;
		tsg->compute |= has_compute(o->client, o->handle);
	}
	/* Engine types 1 to 8 are the graphics engines, which compute runs on (cl2080_notification.h). */
	tsg->compute |= tsg->engine >= 1 && tsg->engine <= 8;
}

size_t rm_tsgs(struct rm_tsg *out, size_t max)
{
	size_t i, count = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < object_count && count < max; i++)
		if (objects[i].live && objects[i].class == CLASS_TSG)
			fill(&out[count++], &objects[i]);
	pthread_mutex_unlock(&lock);
	return count;
}

size_t rm_targets(struct rm_tsg *out, size_t max, bool compute_only)
{
	size_t i, kept = 0, count = rm_tsgs(out, max);

	for (i = 0; i < count; i++)
		if (out[i].channel_count && (out[i].compute || !compute_only))
			out[kept++] = out[i];
	return kept;
}
