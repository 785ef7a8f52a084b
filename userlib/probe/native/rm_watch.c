// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Defines ioctl(), so that libcuda's calls come here before they go to the kernel.  The library calls ioctl() through
 * the dynamic linker.  The linker finds the program's definition first, because the program is linked with -rdynamic.
 */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_watch.h"

#define OBJECTS_MAX 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rm_object objects[OBJECTS_MAX];
static size_t object_count;

/* The engine that the allocation parameters of a group name; 0 for other classes. */
static uint32_t engine_of(uint32_t class, uint64_t params)
{
	uint32_t engine = 0;

	if (params && class == RM_CLASS_TSG)
		memcpy(&engine, (const char *)(uintptr_t)params + RM_TSG_ENGINE_AT, sizeof(engine));
	return engine;
}

static void add(int fd, const struct rm_alloc *a)
{
	if (object_count == OBJECTS_MAX)
		return;
	objects[object_count++] = (struct rm_object){
		.fd = fd, .client = RM_CLASS_IS_ROOT(a->class) ? a->object : a->client, .parent = a->parent,
		.handle = a->object, .class = a->class, .engine = engine_of(a->class, a->params), .live = true,
	};
}

/* Marks an object and all objects below it as freed.  libcuda frees whole trees by their root. */
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

static void look(int fd, uint32_t request, const void *argument)
{
	const struct rm_alloc_access *access = argument;
	const struct rm_alloc *alloc = argument;
	const struct rm_free *freed = argument;

	if (request == RM_ALLOC && !alloc->status)
		add(fd, alloc);
	else if (request == RM_ALLOC_ACCESS && !access->status)
		add(fd, alloc);
	else if (request == RM_FREE && !freed->status)
		drop(freed->client, freed->object);
}

/* The request that an RM_TRANSFER carries, with its argument in *@argument.  Other requests stay as they are. */
static uint32_t unwrapped(uint32_t request, const void **argument)
{
	const struct rm_transfer *transfer = *argument;

	if (request != RM_TRANSFER)
		return request;
	*argument = (const void *)(uintptr_t)transfer->address;
	return _IOC(_IOC_READ | _IOC_WRITE, RM_IOCTL_TYPE, transfer->number & _IOC_NRMASK,
		    transfer->size & _IOC_SIZEMASK);
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
	if (ret < 0 || !given || _IOC_TYPE(request) != RM_IOCTL_TYPE)
		return (int)ret;
	argument = given;
	number = unwrapped((uint32_t)request, &argument);
	pthread_mutex_lock(&lock);
	look(fd, number, argument);
	pthread_mutex_unlock(&lock);
	return (int)ret;
}

static bool has_compute(uint32_t client, uint32_t channel)
{
	size_t i;

	for (i = 0; i < object_count; i++)
		if (objects[i].live && objects[i].client == client && objects[i].parent == channel &&
		    RM_CLASS_IS_COMPUTE(objects[i].class))
			return true;
	return false;
}

static void fill(struct rm_tsg *tsg, const struct rm_object *group)
{
	size_t i;

	*tsg = (struct rm_tsg){ .fd = group->fd, .client = group->client, .handle = group->handle,
				.compute = RM_ENGINE_IS_GRAPHICS(group->engine) };
	for (i = 0; i < object_count; i++) {
		const struct rm_object *o = &objects[i];

		if (!o->live || o->client != group->client)
			continue;
		if (o->class == RM_CLASS_SUBDEVICE && o->parent == group->parent)
			tsg->subdevice = o->handle;
		if (o->parent != group->handle || !RM_CLASS_IS_CHANNEL(o->class) ||
		    tsg->channel_count == RM_CHANNELS_MAX)
			continue;
		tsg->channels[tsg->channel_count++] = o->handle;
		tsg->compute |= has_compute(o->client, o->handle);
	}
}

size_t rm_targets(struct rm_tsg *out, size_t max, bool compute_only)
{
	size_t i, count = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < object_count && count < max; i++) {
		if (!objects[i].live || objects[i].class != RM_CLASS_TSG)
			continue;
		fill(&out[count], &objects[i]);
		count += out[count].channel_count && (out[count].compute || !compute_only);
	}
	pthread_mutex_unlock(&lock);
	return count;
}
