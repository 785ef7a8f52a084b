// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * How a group of NVIDIA's driver, or a channel that the program put into no group, is taken off the GPU.
 *
 * GPURT_NVIDIA_METHOD:
 *	disable		FIFO_DISABLE_CHANNELS.  The driver documents that the channels are preempted and stay off
 *			(ctrl2080fifo.h).  The driver's UVM part does the same (nv_gpu_ops.c).  The call is marked to
 *			take the driver's system-wide lock for reading only.  The driver has the call only where GSP
 *			firmware runs the GPU (kernel_fifo_ctrl.c; all of release 570.86.15).
 *	schedule	GPFIFO_SCHEDULE off, then PREEMPT with wait.  Both take that lock for writing.  Under GSP firmware
 *			the group runs on (H200, release 580.159.04: docs/hardware), so this is a hint there, tier T0.
 * The default is disable; where the driver does not support it, schedule.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvidia.h"

/* How long the driver waits for a preemption: its maximum.  The host's answer bound is shorter. */
#define PREEMPT_US	1000000

uint32_t nvidia_schedule_size;

/* The statuses that mean something to the host or to the reader of a message.  All others are EIO. */
static const struct { uint32_t status; const char *name; int err; } statuses[] = {
	{ RM_STATUS_GPU_IS_LOST, "GPU_IS_LOST", ENODEV },
	{ RM_STATUS_IN_USE, "IN_USE", EBUSY },
	{ RM_STATUS_INSUFFICIENT_PERMISSIONS, "INSUFFICIENT_PERMISSIONS", EPERM },
	{ RM_STATUS_INVALID_ARGUMENT, "INVALID_ARGUMENT", EINVAL },
	{ RM_STATUS_INVALID_CHANNEL, "INVALID_CHANNEL", ENOENT },
	{ RM_STATUS_INVALID_CLIENT, "INVALID_CLIENT", ENOENT },
	{ RM_STATUS_INVALID_OBJECT, "INVALID_OBJECT", ENOENT },
	{ RM_STATUS_INVALID_OBJECT_HANDLE, "INVALID_OBJECT_HANDLE", ENOENT },
	{ RM_STATUS_INVALID_OWNER, "INVALID_OWNER", EACCES },
	{ RM_STATUS_INVALID_PARAM_STRUCT, "INVALID_PARAM_STRUCT", EINVAL },
	{ RM_STATUS_INVALID_STATE, "INVALID_STATE", EAGAIN },
	{ RM_STATUS_NOT_SUPPORTED, "NOT_SUPPORTED", EOPNOTSUPP },
	{ RM_STATUS_OBJECT_NOT_FOUND, "OBJECT_NOT_FOUND", ENOENT },
	{ RM_STATUS_TIMEOUT, "TIMEOUT", ETIMEDOUT },
	{ RM_STATUS_TIMEOUT_RETRY, "TIMEOUT_RETRY", ETIMEDOUT },
};

/* Says once on stderr why the driver refused a control.  NOT_SUPPORTED is for the caller to say. */
static int refused(uint32_t command, uint32_t status)
{
	const char *name = "status";
	int err = EIO;
	size_t i;

	for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status) {
			name = statuses[i].name;
			err = statuses[i].err;
		}
	if (status != RM_STATUS_NOT_SUPPORTED)
		preload_say_once("nvidia-rm: the driver refused control %#x: %s (%#x); said once", command, name, status);
	return -err;
}

static int control(int fd, uint32_t client, uint32_t object, uint32_t command, void *params, uint32_t size)
{
	struct rm_control c = {
		.client = client, .object = object, .cmd = command, .params = (uintptr_t)params, .size = size,
	};

	if (real_ioctl(fd, RM_CONTROL, &c) < 0)
		return -errno;
	return c.status == RM_STATUS_OK ? 0 : refused(command, c.status);
}

/* Says once that a TSG cannot be taken off the GPU. */
static int cannot(const char *what)
{
	preload_say_once("nvidia-rm: %s cannot be taken off the GPU: this process is not isolated from others", what);
	return -EOPNOTSUPP;
}

/* The size in the program's own call, or before its first call the size in the driver's release. */
static uint32_t schedule_size(void)
{
	char version[64];

	if (nvidia_schedule_size)
		return nvidia_schedule_size;
	nvidia_release(version, sizeof(version));
	return strtoul(version, NULL, 10) < RM_SCHEDULE_LONG_SINCE ? RM_SCHEDULE_SHORT : sizeof(struct rm_schedule);
}

static bool belongs(const struct rm_object *o, const struct tsg *tsg)
{
	return o->file == tsg->file->id && o->client == tsg->client && RM_CLASS_IS_CHANNEL(o->class) &&
	       (o->parent == tsg->handle || o->handle == tsg->handle);
}

/* GPFIFO_SCHEDULE has enabled all channels: disables again the channels that the program itself had disabled. */
static int stop_again(const struct tsg *tsg, int fd)
{
	struct rm_schedule off = { .enable = 0 };
	struct rm_object *o;
	int err = 0, one;

	for (o = rm_objects; o; o = o->next) {
		if (!o->stopped || !belongs(o, tsg))
			continue;
		one = control(fd, tsg->client, o->handle, A06F_GPFIFO_SCHEDULE, &off, schedule_size());
		err = err ? err : one;
	}
	return err;
}

static int by_schedule(struct tsg *tsg, int fd, bool on)
{
	struct rm_schedule schedule = { .enable = on };
	struct rm_preempt preempt = { .wait = 1, .manual_timeout = 1, .timeout_us = PREEMPT_US };
	int err;

	if (TSG_IS_BARE(tsg))	/* there is no handle of its hidden group to preempt */
		return on ? 0 : cannot("a channel without a group");
	if (schedule_size() > sizeof(schedule))
		return on ? 0 : cannot("a group of this driver release");
	if (on && !TSG_WANTED(tsg))	/* the program has not scheduled it, or has taken it off itself */
		return 0;
	err = control(fd, tsg->client, tsg->handle, A06C_GPFIFO_SCHEDULE, &schedule, schedule_size());
	if (err || on)
		return err ? err : stop_again(tsg, fd);
	return control(fd, tsg->client, tsg->handle, A06C_PREEMPT, &preempt, sizeof(preempt));
}

static struct rm_object *subdevice_of(const struct tsg *tsg)
{
	struct rm_object *o, *device = rm_device_of(tsg->file->id, tsg->client, tsg->handle);

	for (o = rm_objects; o && device; o = o->next)
		if (o->file == device->file && o->client == device->client && o->class == RM_CLASS_SUBDEVICE &&
		    o->parent == device->handle)
			return o;
	return NULL;
}

/* Whether a channel is switched with the TSG.  A channel that the program itself has disabled is not enabled. */
static bool switches(const struct rm_object *o, const struct tsg *tsg, bool on)
{
	return belongs(o, tsg) && !(on && o->stopped);
}

/* Disables all channels, or enables those that the program has not disabled itself, in as few calls as possible. */
static int by_channels(struct tsg *tsg, int fd, bool on)
{
	struct rm_object *o = rm_objects, *subdevice = subdevice_of(tsg);
	struct rm_disable_channels d;
	int err = 0, one;

	if (!subdevice)
		return -EOPNOTSUPP;
	while (o) {
		d = (struct rm_disable_channels){ .disable = !on };
		for (; o && d.count < RM_CHANNELS_MAX; o = o->next) {
			if (!switches(o, tsg, on))
				continue;
			d.clients[d.count] = o->client;
			d.channels[d.count++] = o->handle;
		}
		one = d.count ? control(fd, tsg->client, subdevice->handle, C2080_DISABLE_CHANNELS, &d, sizeof(d)) : 0;
		err = err ? err : one;
	}
	return err;
}

/* Sets the slice.  0 restores the group's own, which is read before the first change. */
int nvidia_slice(struct tsg *tsg, int fd, unsigned int us)
{
	uint64_t slice_us = us ? us : TSG_SLICE_US(tsg);
	int err;

	if (!slice_us)
		return 0;
	if (!TSG_SLICE_US(tsg)) {
		err = control(fd, tsg->client, tsg->handle, A06C_GET_TIMESLICE, &TSG_SLICE_US(tsg), sizeof(uint64_t));
		if (err)
			return err;
	}
	err = control(fd, tsg->client, tsg->handle, A06C_SET_TIMESLICE, &slice_us, sizeof(slice_us));
	if (!us && !err)
		TSG_SLICE_US(tsg) = 0;
	return err;
}

/*
 * Groups of copy engines are on runlists of their own.  A second handle of a group counts as a second group.  No part
 * of a divided GPU was seen to keep to slices.  A channel without a group has no slice that can be set.
 */
bool nvidia_single(const struct tsg *tsgs)
{
	unsigned int groups = 0;
	const struct tsg *tsg;

	for (tsg = tsgs; tsg; tsg = tsg->next) {
		groups += !tsg->copies;
		if (tsg->file->family != &family_nvidia_rm || tsg->part || TSG_IS_BARE(tsg))
			return false;
	}
	return groups <= 1 && nvidia_method() != RM_METHOD_SCHEDULE;
}

enum rm_method nvidia_method(void)
{
	const char *wanted = getenv("GPURT_NVIDIA_METHOD");

	if (wanted && !strcmp(wanted, "disable"))
		return RM_METHOD_DISABLE;
	return wanted && !strcmp(wanted, "schedule") ? RM_METHOD_SCHEDULE : RM_METHOD_DEFAULT;
}

/*
 * A TSG keeps the method that was found for it: the method that took the TSG off also puts it back.  If the driver does
 * not support a call, it has changed nothing.
 */
int nvidia_turn(struct tsg *tsg, int fd, bool on)
{
	enum rm_method method = TSG_METHOD(tsg) ? TSG_METHOD(tsg) : nvidia_method();
	int err;

	if (method != RM_METHOD_DEFAULT) {
		TSG_METHOD(tsg) = method;
		err = method == RM_METHOD_DISABLE ? by_channels(tsg, fd, on) : by_schedule(tsg, fd, on);
		return err == -EOPNOTSUPP && method == RM_METHOD_DISABLE ? cannot("without GSP firmware a channel") : err;
	}
	if (TSG_IS_BARE(tsg) && !subdevice_of(tsg))	/* the program may make one later */
		return on ? 0 : cannot("a channel without a group or a subdevice");
	err = by_channels(tsg, fd, on);
	TSG_METHOD(tsg) = err == -EOPNOTSUPP ? RM_METHOD_SCHEDULE : RM_METHOD_DISABLE;
	return err == -EOPNOTSUPP ? by_schedule(tsg, fd, on) : err;
}

/* TSGs that one call switches, with all their channels. */
struct batch {
	struct rm_disable_channels call;
	struct tsg *tsgs[RM_CHANNELS_MAX];
	unsigned int count;
};

/* Adds all channels of a TSG that by_channels() would switch; if they do not all fit, adds none. */
static void batch_add(struct batch *batch, struct tsg *tsg, bool on)
{
	uint32_t before = batch->call.count;
	const struct rm_object *o;

	for (o = rm_objects; o; o = o->next) {
		if (!switches(o, tsg, on))
			continue;
		if (batch->call.count == RM_CHANNELS_MAX) {
			batch->call.count = before;
			return;
		}
		batch->call.clients[batch->call.count] = o->client;
		batch->call.channels[batch->call.count++] = o->handle;
	}
	if (batch->call.count > before)
		batch->tsgs[batch->count++] = tsg;
}

/* Whether FIFO_DISABLE_CHANNELS switches the TSG, as far as is known. */
static bool by_channels_first(const struct tsg *tsg)
{
	return (TSG_METHOD(tsg) ? TSG_METHOD(tsg) : nvidia_method()) != RM_METHOD_SCHEDULE;
}

static void batch_run(struct batch *batch, const struct rm_object *subdevice, int fd, bool on)
{
	unsigned int i;
	int err;

	for (i = 0; i < batch->count; i++)
		batch->tsgs[i]->state = TSG_UNSURE;
	err = control(fd, subdevice->client, subdevice->handle, C2080_DISABLE_CHANNELS, &batch->call, sizeof(batch->call));
	for (i = 0; i < batch->count && !err; i++) {
		batch->tsgs[i]->state = on ? TSG_ON : TSG_OFF;
		TSG_METHOD(batch->tsgs[i]) = RM_METHOD_DISABLE;
	}
}

/*
 * A call to the firmware takes a tenth of a millisecond and more, and CUDA makes groups for copies beside the one for
 * kernels.  So the groups of a process are switched by one call: those of the first TSG's subdevice.  If the driver
 * refuses, each group is tried by itself, so that a broken group keeps no other on the GPU.
 */
void nvidia_together(struct tsg *tsgs, bool on)
{
	struct batch batch = { .call.disable = !on };
	const struct rm_object *subdevice = NULL, *own;
	struct gpu_file *file = NULL;
	struct tsg *tsg;

	for (tsg = tsgs; tsg; tsg = tsg->next) {
		if (tsg->empty || tsg->state == (on ? TSG_ON : TSG_OFF) || !by_channels_first(tsg))
			continue;
		own = subdevice_of(tsg);
		if (!own || (subdevice && (own != subdevice || tsg->file != file)))
			continue;
		subdevice = own;
		file = tsg->file;
		batch_add(&batch, tsg, on);
	}
	if (batch.count > 1)
		batch_run(&batch, subdevice, files_descriptor(file), on);
}

/* The firmware switches channels of any process.  Channels that the program itself has disabled are left out. */
void nvidia_channels(struct tsg *tsgs, struct gpurt_channels *channels)
{
	struct batch batch = { .call.disable = 1 };
	unsigned int before;
	struct tsg *tsg;

	for (tsg = tsgs; tsg; tsg = tsg->next) {
		if (tsg->empty)
			continue;
		before = batch.count;
		if (by_channels_first(tsg) && subdevice_of(tsg))
			batch_add(&batch, tsg, true);
		if (batch.count == before)
			return;
	}
	_Static_assert(GPURT_MAX_CHANNELS == RM_CHANNELS_MAX, "as many as one call takes");
	channels->count = batch.call.count;
	memcpy(channels->clients, batch.call.clients, sizeof(channels->clients));
	memcpy(channels->channels, batch.call.channels, sizeof(channels->channels));
}

/*
 * The call was seen to stop others on one GPU with one release (docs/hardware).  No GPU has run agents that rely on it.
 * A release whose call did nothing for others would isolate nobody.
 */
bool nvidia_for_others(void)
{
	return preload_flag("GPURT_NVIDIA_MANY");
}

/*
 * Refuses channels of this process: another process has then lied to the host.  The program may close its descriptors
 * and free its objects meanwhile.  If the call fails for that reason, the host has the other processes switch
 * themselves.
 */
int nvidia_switch_others(struct tsg *tsgs, const struct gpurt_channels *channels, bool on)
{
	struct rm_disable_channels d = { .disable = !on, .count = channels->count };
	const struct rm_object *subdevice = NULL, *o;
	uint32_t i, client, object;
	struct tsg *tsg;
	int fd, copy, err;

	for (i = 0; i < channels->count && i < RM_CHANNELS_MAX; i++)
		for (o = rm_objects; o; o = o->next)
			if (o->client == channels->clients[i])
				return -ENOENT;
	for (tsg = tsgs; tsg && !subdevice; tsg = subdevice ? tsg : tsg->next)
		subdevice = tsg->empty ? NULL : subdevice_of(tsg);
	if (!subdevice || channels->count > RM_CHANNELS_MAX)
		return -EOPNOTSUPP;
	memcpy(d.clients, channels->clients, sizeof(d.clients));
	memcpy(d.channels, channels->channels, sizeof(d.channels));
	client = subdevice->client;
	object = subdevice->handle;
	fd = files_descriptor(tsg->file);
	copy = process_sealed() ? -1 : real_duplicate(fd, KEPT);
	if (copy < 0)
		return control(fd, client, object, C2080_DISABLE_CHANNELS, &d, sizeof(d));
	preload_unlock();
	err = control(copy, client, object, C2080_DISABLE_CHANNELS, &d, sizeof(d));
	syscall(SYS_close, copy);
	preload_lock();
	return err;
}
