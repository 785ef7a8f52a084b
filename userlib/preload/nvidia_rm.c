// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * NVIDIA's driver for discrete GPUs.  The process's own RM_ALLOC calls tell which time-slice groups it has.  Controls
 * on the descriptor that made a group switch it.
 *
 * GPURT_NVIDIA_METHOD: schedule (the default: GPFIFO_SCHEDULE off, then PREEMPT with wait), disable
 * (FIFO_DISABLE_CHANNELS), timeslice (the shortest slice instead of off: a hint, tier T0).
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../nvidia/rm.h"
#include "preload.h"

/* How long the driver waits for a preemption.  The host's answer bound is shorter. */
#define PREEMPT_US	1000000
#define SLICE_LOWEST_US	1
#define SLICE_DEFAULT_US 2000

/* An object that the process has allocated: a client, device, subdevice, group or channel. */
struct object {
	struct object *next;
	uint64_t file;
	uint32_t client, handle, parent, class, instance;
};

static struct object *objects;

/* 1: the control node; 2: a GPU's node; 0: neither. */
static int nvidia_node(const char *path)
{
	const char *rest = path + strlen("/dev/nvidia");

	if (strncmp(path, "/dev/nvidia", strlen("/dev/nvidia")))
		return 0;
	if (!strcmp(rest, "ctl"))
		return 1;
	while (isdigit((unsigned char)*rest))
		rest++;
	return *rest || !isdigit((unsigned char)rest[-1]) ? 0 : 2;
}

static struct object *find(uint64_t file, uint32_t client, uint32_t handle)
{
	struct object *o;

	for (o = objects; o; o = o->next)
		if (o->file == file && o->client == client && o->handle == handle)
			return o;
	return NULL;
}

/* Forgets an object and all objects below it.  All objects of a client are below the client. */
static void forget(struct gpu_file *file, uint32_t client, uint32_t handle)
{
	struct object **link, *o;
	struct tsg *tsg;
	bool more = true;

	tsg = agent_find(file, client, handle);
	if (tsg)
		agent_remove(tsg);
	for (link = &objects; (o = *link) != NULL;) {
		if (o->file == file->id && o->client == client && o->handle == handle) {
			*link = o->next;
			free(o);
		} else {
			link = &o->next;
		}
	}
	while (more) {
		more = false;
		for (o = objects; o && !more; o = o->next)
			more = o->file == file->id && o->client == client && (o->parent == handle || client == handle);
		if (more) {
			for (o = objects; o->file != file->id || o->client != client ||
			     (o->parent != handle && client != handle); o = o->next)
				;
			forget(file, client, o->handle);
		}
	}
}

static void remember(struct gpu_file *file, const struct rm_alloc *a, uint32_t instance)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o)
		return;
	*o = (struct object){
		.next = objects, .file = file->id, .client = a->client, .handle = a->object, .parent = a->parent,
		.class = a->class, .instance = instance,
	};
	objects = o;
}

/* Returns the device above an object, or NULL if its allocation was not seen. */
static struct object *device_of(uint64_t file, uint32_t client, uint32_t handle)
{
	struct object *o = find(file, client, handle);

	while (o && o->class != RM_CLASS_DEVICE)
		o = o->handle == o->parent ? NULL : find(file, client, o->parent);
	return o;
}

static void allocated(struct gpu_file *file, const struct rm_alloc *a)
{
	struct object *device;
	uint32_t instance = 0;

	if (RM_CLASS_IS_ROOT(a->class)) {
		struct rm_alloc root = *a;

		root.client = a->object;
		remember(file, &root, 0);
	} else if (a->class == RM_CLASS_DEVICE) {
		if (a->params)
			memcpy(&instance, (const char *)(uintptr_t)a->params + RM_DEVICE_INSTANCE_AT, sizeof(instance));
		remember(file, a, instance);
	} else if (a->class == RM_CLASS_SUBDEVICE || RM_CLASS_IS_CHANNEL(a->class)) {
		remember(file, a, 0);
	} else if (a->class == RM_CLASS_TSG) {
		remember(file, a, 0);
		device = device_of(file->id, a->client, a->object);
		agent_add(&(struct tsg){
			.file = file, .gpu = device ? device->instance : 0, .client = a->client, .handle = a->object,
			.idle = true,
		});
	}
}

static void controlled(struct gpu_file *file, const struct rm_control *c)
{
	struct rm_schedule schedule;
	struct tsg *tsg;

	if (c->status || c->cmd != A06C_GPFIFO_SCHEDULE || c->size < sizeof(schedule))
		return;
	memcpy(&schedule, (const void *)(uintptr_t)c->params, sizeof(schedule));
	tsg = agent_find(file, c->client, c->object);
	if (tsg && schedule.enable)
		agent_refresh(tsg);
}

static void call(struct gpu_file *file, unsigned int number, size_t size, const void *argument)
{
	const struct rm_alloc_access *access = argument;
	const struct rm_free *f = argument;
	struct rm_alloc a;

	if (number == RM_NR_CONTROL && size == sizeof(struct rm_control)) {
		controlled(file, argument);
	} else if (number == RM_NR_ALLOC && size == sizeof(struct rm_alloc)) {
		memcpy(&a, argument, sizeof(a));
		if (!a.status)
			allocated(file, &a);
	} else if (number == RM_NR_ALLOC && size == sizeof(struct rm_alloc_access)) {
		memcpy(&a, argument, offsetof(struct rm_alloc, size));
		if (!access->status)
			allocated(file, &a);
	} else if (number == RM_NR_FREE && size == sizeof(struct rm_free)) {
		if (!f->status)
			forget(file, f->client, f->object);
	} else if (number == RM_NR_CONTROL || number == RM_NR_ALLOC || number == RM_NR_FREE) {
		preload_count(COUNT_UNKNOWN);	/* another size: a release with other layouts */
	}
}

static void nvidia_after(struct gpu_file *file, int fd, unsigned long request, void *argument, int result)
{
	const struct rm_transfer *t = argument;

	(void)fd;
	if (result < 0 || _IOC_TYPE(request) != RM_IOCTL_TYPE || !argument)
		return;
	if (_IOC_NR(request) == RM_NR_TRANSFER && _IOC_SIZE(request) == sizeof(*t))
		call(file, t->number, t->size, (const void *)(uintptr_t)t->address);
	else
		call(file, _IOC_NR(request), _IOC_SIZE(request), argument);
}

static void nvidia_closed(struct gpu_file *file)
{
	struct object **link = &objects, *o;

	while ((o = *link) != NULL) {
		if (o->file == file->id) {
			*link = o->next;
			free(o);
		} else {
			link = &o->next;
		}
	}
}

static int errno_of(uint32_t status)
{
	switch (status) {
	case RM_STATUS_OK:
		return 0;
	case RM_STATUS_INSUFFICIENT_PERMISSIONS:
		return -EPERM;
	case RM_STATUS_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case RM_STATUS_OBJECT_NOT_FOUND:
		return -ENOENT;
	case RM_STATUS_TIMEOUT:
		return -ETIMEDOUT;
	}
	return -EIO;
}

static int control(int fd, uint32_t client, uint32_t object, uint32_t command, void *params, uint32_t size)
{
	struct rm_control c = {
		.client = client, .object = object, .cmd = command, .params = (uintptr_t)params, .size = size,
	};

	if (real_ioctl(fd, RM_CONTROL, &c) < 0)
		return -errno;
	return errno_of(c.status);
}

static int by_schedule(struct tsg *tsg, int fd, bool on)
{
	struct rm_schedule schedule = { .enable = on };
	struct rm_preempt preempt = { .wait = 1, .manual_timeout = 1, .timeout_us = PREEMPT_US };
	int err = control(fd, tsg->client, tsg->handle, A06C_GPFIFO_SCHEDULE, &schedule, sizeof(schedule));

	if (err || on)
		return err;
	return control(fd, tsg->client, tsg->handle, A06C_PREEMPT, &preempt, sizeof(preempt));
}

static int by_channels(struct tsg *tsg, int fd, bool on)
{
	struct object *o, *device = device_of(tsg->file->id, tsg->client, tsg->handle), *subdevice = NULL;
	struct rm_disable_channels d = { .disable = !on };

	for (o = objects; o; o = o->next) {
		if (o->file != tsg->file->id || o->client != tsg->client)
			continue;
		if (device && o->class == RM_CLASS_SUBDEVICE && o->parent == device->handle)
			subdevice = o;
		if (RM_CLASS_IS_CHANNEL(o->class) && o->parent == tsg->handle && d.count < RM_CHANNELS_MAX) {
			d.clients[d.count] = o->client;
			d.channels[d.count++] = o->handle;
		}
	}
	if (!subdevice)
		return -ENOENT;
	return d.count ? control(fd, tsg->client, subdevice->handle, C2080_DISABLE_CHANNELS, &d, sizeof(d)) : 0;
}

static int by_timeslice(struct tsg *tsg, int fd, bool on)
{
	uint64_t slice_us = on ? SLICE_DEFAULT_US : SLICE_LOWEST_US;

	return control(fd, tsg->client, tsg->handle, A06C_SET_TIMESLICE, &slice_us, sizeof(slice_us));
}

static int nvidia_turn(struct tsg *tsg, int fd, bool on)
{
	const char *method = getenv("GPURT_NVIDIA_METHOD");

	if (method && !strcmp(method, "disable"))
		return by_channels(tsg, fd, on);
	if (method && !strcmp(method, "timeslice"))
		return by_timeslice(tsg, fd, on);
	return by_schedule(tsg, fd, on);
}

/* Whether the release is one whose published sources have the layouts of rm.h. */
static bool nvidia_known(char *why, size_t size)
{
	static const unsigned int releases[] = { 535, 545, 550, 555, 560, 565, 570, 575, 580 };
	FILE *file = fopen("/sys/module/nvidia/version", "re");
	unsigned int major = 0;
	char version[64] = "";
	size_t i;

	if (file) {
		if (!fgets(version, sizeof(version), file))
			version[0] = '\0';
		fclose(file);
	}
	version[strcspn(version, "\n")] = '\0';
	major = (unsigned int)strtoul(version, NULL, 10);
	for (i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		if (releases[i] == major)
			return true;
	snprintf(why, size, "driver release %s is not one whose calls are known", *version ? version : "unknown");
	return false;
}

const struct family family_nvidia_rm = {
	.name = "nvidia-rm",
	.node = nvidia_node,
	.after = nvidia_after,
	.closed = nvidia_closed,
	.turn = nvidia_turn,
	.known = nvidia_known,
	.tier = "tier T1: this process's agent takes its time-slice groups off the GPU; T2 needs a patched driver",
};
