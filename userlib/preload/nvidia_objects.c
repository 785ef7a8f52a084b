// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The objects that the process has allocated in NVIDIA's resource manager: a tree for each client. */
#include <stdlib.h>

#include "nvidia.h"

struct rm_object *rm_objects;

struct rm_object *rm_find(uint64_t file, uint32_t client, uint32_t handle)
{
	struct rm_object *o;

	for (o = rm_objects; o; o = o->next)
		if (o->file == file && o->client == client && o->handle == handle)
			return o;
	return NULL;
}

void rm_remember(struct gpu_file *file, const struct rm_alloc *a, uint32_t instance)
{
	struct rm_object *o = calloc(1, sizeof(*o));

	if (!o) {
		preload_say("nvidia-rm: out of memory: an object of class %#x is not managed", a->class);
		return;
	}
	*o = (struct rm_object){
		.next = rm_objects, .file = file->id, .client = a->client, .handle = a->object, .parent = a->parent,
		.class = a->class, .instance = instance,
	};
	rm_objects = o;
}

static void drop(uint64_t file, uint32_t client, uint32_t handle)
{
	struct rm_object **link, *o;

	for (link = &rm_objects; (o = *link) != NULL;) {
		if (o->file == file && o->client == client && o->handle == handle) {
			*link = o->next;
			free(o);
		} else {
			link = &o->next;
		}
	}
}

/* Returns an object right below another one.  All objects of a client are below the client. */
static struct rm_object *child_of(uint64_t file, uint32_t client, uint32_t handle)
{
	struct rm_object *o;

	for (o = rm_objects; o; o = o->next)
		if (o->file == file && o->client == client && (o->parent == handle || client == handle))
			return o;
	return NULL;
}

/* Forgets an object and all objects below it. */
void rm_forget(struct gpu_file *file, uint32_t client, uint32_t handle)
{
	struct tsg *tsg = agent_find(file, client, handle);
	struct rm_object *child, *o = rm_find(file->id, client, handle);

	if (tsg)
		agent_remove(tsg);
	else if (o && RM_CLASS_IS_CHANNEL(o->class) && (tsg = rm_tsg_of(file, o)) != NULL)
		agent_refresh(tsg);	/* the driver for Tegra enables the group's other channels in the end */
	drop(file->id, client, handle);
	while ((child = child_of(file->id, client, handle)) != NULL)
		rm_forget(file, client, child->handle);
}

void rm_forget_file(struct gpu_file *file)
{
	struct rm_object **link = &rm_objects, *o;

	while ((o = *link) != NULL) {
		if (o->file == file->id) {
			*link = o->next;
			free(o);
		} else {
			link = &o->next;
		}
	}
}

struct rm_object *rm_device_of(uint64_t file, uint32_t client, uint32_t handle)
{
	struct rm_object *o = rm_find(file, client, handle);

	while (o && o->class != RM_CLASS_DEVICE)
		o = o->handle == o->parent ? NULL : rm_find(file, client, o->parent);
	return o;
}

struct rm_object *rm_gpu_instance_of(const struct rm_object *device)
{
	struct rm_object *o;

	for (o = rm_objects; o && device; o = o->next)
		if (o->file == device->file && o->client == device->client && o->class == RM_CLASS_GPU_INSTANCE &&
		    rm_device_of(o->file, o->client, o->handle) == device)
			return o;
	return NULL;
}

static struct rm_object *work_below(const struct rm_object *device)
{
	struct rm_object *o;

	for (o = rm_objects; o; o = o->next)
		if (o->file == device->file && o->client == device->client &&
		    (o->class == RM_CLASS_TSG || RM_CLASS_IS_CHANNEL(o->class)) &&
		    rm_device_of(o->file, o->client, o->handle) == device)
			return o;
	return NULL;
}

/*
 * A device that leaves its GPU instance or compute instance loses all that is below it, except its subdevices and
 * instances.  The driver's gisubscriptionCleanupOnUnsubscribe() does that (gpu_instance_subscription.c, 535.43.02 to
 * 595.45.04).
 */
void rm_freed(struct gpu_file *file, uint32_t client, uint32_t handle)
{
	struct rm_object *o = rm_find(file->id, client, handle), *device = NULL;

	if (o && (o->class == RM_CLASS_GPU_INSTANCE || o->class == RM_CLASS_COMPUTE_INSTANCE))
		device = rm_device_of(file->id, client, handle);
	rm_forget(file, client, handle);
	while (device && (o = work_below(device)) != NULL)
		rm_forget(file, client, o->handle);
}

struct tsg *rm_tsg_of(struct gpu_file *file, const struct rm_object *channel)
{
	struct tsg *tsg = agent_find(file, channel->client, channel->parent);

	return tsg ? tsg : agent_find(file, channel->client, channel->handle);
}
