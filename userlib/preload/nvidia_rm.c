// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * NVIDIA's driver for discrete GPUs.  The process's own calls tell which time-slice groups and channels it has, and
 * what it has scheduled and disabled itself.  A channel without a group has a group that only the driver knows
 * (kernel_channel.c), so the library switches the channel itself.
 *
 * On a GPU that is divided (MIG), a device belongs to the GPU instance that is allocated below its subdevice.  The
 * driver puts the device's groups on the engines of that instance (kmigmgrGetInstanceRefFromDevice() in
 * kernel_mig_manager.c, kernel_channel_group_api.c).  It refuses groups of a device that belongs to none.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../mig.h"
#include "nvidia.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

enum { NODE_CONTROL = 1, NODE_GPU, NODE_UVM };

/*
 * Calls of the UVM driver, whose requests are bare numbers (uvm_ioctl.h).  After each the driver enables all channels
 * of an address space (uvm_va_space.c, and nv_gpu_ops.c: nvGpuOpsSetPageDirectory, nvGpuOpsUnsetPageDirectory;
 * 570.86.15).
 */
#define UVM_REGISTER_GPU_VASPACE	25
#define UVM_UNREGISTER_GPU_VASPACE	26
#define UVM_UNREGISTER_GPU		38

static int nvidia_node(const char *path)
{
	const char *rest = path + strlen("/dev/nvidia");

	if (strncmp(path, "/dev/nvidia", strlen("/dev/nvidia")))
		return 0;
	if (!strcmp(rest, "ctl"))
		return NODE_CONTROL;
	if (!strcmp(rest, "-uvm"))
		return NODE_UVM;
	while (isdigit((unsigned char)*rest))
		rest++;
	return *rest || !isdigit((unsigned char)rest[-1]) ? 0 : NODE_GPU;
}

/* The host's number of a GPU instance.  If there is none, says so once. */
static unsigned int instance_number(uint32_t device, uint32_t instance)
{
	static unsigned int gpus;
	unsigned int number;

	gpus = gpus ? gpus : gpurt_mig_gpus(PCI_DEVICES);
	number = gpurt_mig_number(device, instance, gpus);
	if (number == GPURT_MAX_GPUS)
		preload_say_once("nvidia-rm: GPU instance %u of device %u has no number (%s): its work is not managed", instance,
				 device, gpus ? "the host cannot have so many GPUs" : "this process sees no GPU in " PCI_DEVICES);
	return number;
}

/* Major releases with the layouts of rm.h: first the published ones, then releases known from a second source. */
static const unsigned int releases[] = { 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595, 610, 615, 620 };
#define SECOND_SOURCE 610

static bool nvidia_known(char *why, size_t size)
{
	unsigned int major;
	char version[64];
	size_t i;

	nvidia_release(version, sizeof(version));
	major = (unsigned int)strtoul(version, NULL, 10);
	for (i = 0; i < sizeof(releases) / sizeof(releases[0]) && releases[i] != major; i++)
		;
	if (i == sizeof(releases) / sizeof(releases[0])) {
		snprintf(why, size, "driver release %s is not one whose calls are known", *version ? version : "unknown");
		return false;
	}
	if (major >= SECOND_SOURCE)
		preload_say_once("nvidia-rm: the calls of driver release %s are known from a second source only", version);
	return true;
}

/*
 * With GPURT_FORCE=1 the library tries an unknown release.  A structure's size does not show where its members are.  So
 * another call must confirm the device's instance: it lists a GPU of that instance.
 */
static bool verified(const struct tsg *tsg)
{
	char why[160];

	if (tsg->device || nvidia_known(why, sizeof(why)))
		return true;
	preload_say_once("nvidia-rm: %s, and the device that the program allocated cannot be verified: its work is not managed",
			 why);
	return false;
}

static void add_tsg(struct gpu_file *file, const struct rm_alloc *a, bool bare, bool copies)
{
	struct rm_object *device = rm_device_of(file->id, a->client, a->object), *instance = rm_gpu_instance_of(device);
	struct tsg like = {
		.file = file, .gpu = device ? device->instance : 0, .client = a->client, .handle = a->object,
		.empty = !bare, .copies = copies,
	}, *tsg;

	if (!device)
		preload_say_once("nvidia-rm: the device of a time-slice group or channel was not seen: it counts as on GPU 0");
	TSG_IS_BARE(&like) = bare;
	if (instance) {
		like.gpu = instance_number(device->instance, instance->instance);
		like.part = instance->instance + 1;
		if (like.gpu == GPURT_MAX_GPUS)
			return;
	}
	like.device = device ? nvidia_address(files_descriptor(file), a->client, device->instance) : NULL;
	like.gpu = numbers_of("nvidia-rm", like.device, like.gpu);
	tsg = verified(&like) ? agent_add(&like) : NULL;
	if (tsg && bare)
		agent_refresh(tsg);
}

/* The 32-bit number at @offset of an allocation's parameters.  RM reads them by the class, whatever their size. */
static uint32_t parameter(const struct rm_alloc *a, size_t offset)
{
	uint32_t value = 0;

	if (a->params)
		memcpy(&value, (const char *)(uintptr_t)a->params + offset, sizeof(value));
	return value;
}

static void allocated(struct gpu_file *file, const struct rm_alloc *a)
{
	struct tsg *tsg;
	uint32_t engine;

	if (RM_CLASS_IS_ROOT(a->class)) {
		struct rm_alloc root = *a;

		root.client = a->object;
		rm_remember(file, &root, 0);
	} else if (a->class == RM_CLASS_DEVICE) {
		rm_remember(file, a, parameter(a, RM_DEVICE_INSTANCE_AT));
	} else if (a->class == RM_CLASS_GPU_INSTANCE) {
		rm_remember(file, a, parameter(a, RM_GPU_INSTANCE_AT));
	} else if (a->class == RM_CLASS_SUBDEVICE || a->class == RM_CLASS_COMPUTE_INSTANCE) {
		rm_remember(file, a, 0);
	} else if (a->class == RM_CLASS_TSG) {
		rm_remember(file, a, 0);
		engine = parameter(a, RM_TSG_ENGINE_AT);
		add_tsg(file, a, false, engine && !RM_ENGINE_IS_GRAPHICS(engine));
	} else if (RM_CLASS_IS_CHANNEL(a->class)) {
		rm_remember(file, a, 0);
		tsg = agent_find(file, a->client, a->parent);
		if (tsg)
			agent_refresh(tsg);
		else
			add_tsg(file, a, true, false);
	}
}

/*
 * A duplicate is a second handle of the same group (kchangrpapiCopyConstruct() in kernel_channel_group_api.c), with channels
 * of its own.  The library switches these channels as those of another group.  Channels have no duplicates.
 */
static void duplicated(struct gpu_file *file, const struct rm_dup *d)
{
	const struct rm_alloc a = {
		.client = d->client, .parent = d->parent, .object = d->object, .class = RM_CLASS_TSG,
	};
	const struct rm_object *o;

	for (o = rm_objects; o; o = o->next)
		if (o->client == d->source_client && o->handle == d->source && o->class == RM_CLASS_TSG) {
			allocated(file, &a);
			return;
		}
}

/* Notes what the program has asked for: all channels of a group, or one channel. */
static void wants(struct tsg *tsg, struct rm_object *what, bool group, bool enable)
{
	struct rm_object *o;

	if (group || enable)
		TSG_WANTED(tsg) = enable;
	if (!group)
		what->stopped = !enable;
	for (o = rm_objects; group && enable && o; o = o->next)
		if (o->file == what->file && o->client == what->client && o->parent == what->handle)
			o->stopped = false;
}

/* GPFIFO_SCHEDULE of a group, or of one channel.  A call that failed may have done a part of its work. */
static void scheduled(struct gpu_file *file, const struct rm_control *c)
{
	struct rm_object *what = rm_find(file->id, c->client, c->object);
	struct tsg *tsg = what ? rm_tsg_of(file, what) : NULL;
	uint8_t enable = 1;

	if (c->params && c->size)
		memcpy(&enable, (const void *)(uintptr_t)c->params, sizeof(enable));
	if (!c->status)
		nvidia_schedule_size = c->size;
	if (!tsg)
		return;
	if (!c->status)
		wants(tsg, what, c->cmd == A06C_GPFIFO_SCHEDULE, enable);
	if (enable)
		agent_refresh(tsg);
	else
		agent_relist(tsg);
}

/*
 * START_CHANNELS has put channels on the runlist, so GPFIFO_SCHEDULE must put their groups back later.  All groups of
 * the client count, because it is not documented which channels the call lists.
 */
static void started(struct gpu_file *file, const struct rm_control *c)
{
	const struct rm_object *o;
	struct tsg *tsg;

	for (o = rm_objects; o && !c->status; o = o->next) {
		tsg = o->file == file->id && o->client == c->client ? agent_find(file, o->client, o->handle) : NULL;
		if (tsg)
			TSG_WANTED(tsg) = 1;
	}
}

/* The program's own FIFO_DISABLE_CHANNELS. */
static void disabled(struct gpu_file *file, const struct rm_control *c)
{
	const struct rm_disable_channels *d = (const void *)(uintptr_t)c->params;
	struct rm_object *channel;
	struct tsg *tsg;
	uint32_t i;

	if (!d || c->size != sizeof(*d)) {
		preload_count(COUNT_UNKNOWN);
		return;
	}
	for (i = 0; i < d->count && i < RM_CHANNELS_MAX; i++) {
		channel = rm_find(file->id, d->clients[i], d->channels[i]);
		if (!channel)
			continue;
		if (!c->status)
			channel->stopped = d->disable;
		tsg = rm_tsg_of(file, channel);
		if (tsg && d->disable)
			agent_relist(tsg);
		else if (tsg)
			agent_refresh(tsg);
	}
}

/* Notes the program's own time slice, which holds again when the group is put back. */
static void sliced(struct gpu_file *file, const struct rm_control *c)
{
	struct tsg *tsg = agent_find(file, c->client, c->object);

	if (c->status || !tsg || c->size != sizeof(uint64_t) || !tsg->slice_us)
		return;
	memcpy(&TSG_SLICE_US(tsg), (const void *)(uintptr_t)c->params, sizeof(uint64_t));
	tsg->resliced = true;
}

/*
 * Firmware carries these calls out, and the sources do not say whether channels that are off stay off.  START_CHANNELS
 * is documented to put them on the runlist.  PREEMPT with wait disables a group, and enables it in the end
 * (kernel_channel_group_api.c, 615.71.09).  nvgpu, an open driver, does the same when it changes a context.  A program
 * makes few of these calls, most of them when it starts.
 */
static bool may_enable(uint32_t command)
{
	static const uint32_t commands[] = {
		A06C_PREEMPT, C0080_START_CHANNELS, C0080_IDLE_CHANNELS, C0080_SET_PROPERTIES, C2080_ZCULL_MODE,
		C2080_PM_MODE, C2080_BIND_ZCULL, C2080_BIND_PM, C2080_SMPC_MODE, C2080_SET_PREEMPTION,
		C2080_BIND_PREEMPTION, C2080_BIND_SETUP, C506F_RESET_CHANNEL, C83DE_RESUME_CONTEXT,
	};
	size_t i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i] == command)
			return true;
	return RM_IS_CHANNEL_RESET(command);
}

static void controlled(struct gpu_file *file, const struct rm_control *c)
{
	if (c->cmd == A06C_GPFIFO_SCHEDULE || RM_IS_CHANNEL_SCHEDULE(c->cmd))
		scheduled(file, c);
	else if (may_enable(c->cmd))
		agent_refresh_all(&family_nvidia_rm);
	else if (c->cmd == C2080_DISABLE_CHANNELS)
		disabled(file, c);
	else if (c->cmd == A06C_SET_TIMESLICE)
		sliced(file, c);
	if (c->cmd == C0080_START_CHANNELS)
		started(file, c);
}

static void call(struct gpu_file *file, unsigned int number, size_t size, const void *argument)
{
	const struct rm_alloc_access *access = argument;
	const struct rm_free *f = argument;
	const struct rm_dup *d = argument;
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
	} else if (number == RM_NR_DUP && size == sizeof(struct rm_dup)) {
		if (!d->status)
			duplicated(file, d);
	} else if (number == RM_NR_FREE && size == sizeof(struct rm_free)) {
		if (!f->status)
			rm_freed(file, f->client, f->object);
	} else if (number == RM_NR_IDLE) {
		agent_refresh_all(&family_nvidia_rm);
	} else if (number == RM_NR_CONTROL || number == RM_NR_ALLOC || number == RM_NR_FREE) {
		preload_count(COUNT_UNKNOWN);	/* another size: a release with other layouts */
	}
}

static void nvidia_after(struct gpu_file *file, int fd, unsigned long request, void *argument, int result)
{
	const struct rm_transfer *t = argument;

	(void)fd;
	if (file->kind == NODE_UVM) {
		if (request == UVM_REGISTER_GPU_VASPACE || request == UVM_UNREGISTER_GPU_VASPACE ||
		    request == UVM_UNREGISTER_GPU)
			agent_refresh_all(&family_nvidia_rm);
		return;
	}
	if (result < 0 || _IOC_TYPE(request) != RM_IOCTL_TYPE || !argument)
		return;
	if (_IOC_NR(request) == RM_NR_TRANSFER && _IOC_SIZE(request) == sizeof(*t))
		call(file, t->number, t->size, (const void *)(uintptr_t)t->address);
	else
		call(file, _IOC_NR(request), _IOC_SIZE(request), argument);
}

static void nvidia_closed(struct gpu_file *file)
{
	rm_forget_file(file);
	if (file->kind == NODE_UVM)	/* its end unregisters the address spaces */
		agent_refresh_all(&family_nvidia_rm);
}

static void nvidia_forked(void)
{
	rm_objects = NULL;
}

void nvidia_release(char *version, size_t size)
{
	FILE *file = fopen("/sys/module/nvidia/version", "re");

	version[0] = '\0';
	if (!file)
		return;
	if (!fgets(version, (int)size, file))
		version[0] = '\0';
	fclose(file);
	version[strcspn(version, "\n")] = '\0';
}

static unsigned int nvidia_tier(const char **how)
{
	if (nvidia_method() == RM_METHOD_SCHEDULE) {
		*how = "GPFIFO_SCHEDULE stops nothing where firmware runs the GPU: nothing is isolated";
		return GPURT_TIER_HINTS;
	}
	*how = "this process's agent takes its channels off the GPU; T2 needs a patched driver";
	return GPURT_TIER_UNPATCHED;
}

const struct family family_nvidia_rm = {
	.name = "nvidia-rm",
	.node = nvidia_node,
	.after = nvidia_after,
	.closed = nvidia_closed,
	.forked = nvidia_forked,
	.turn = nvidia_turn,
	.together = nvidia_together,
	.slice = nvidia_slice,
	.single = nvidia_single,
	.channels = nvidia_channels,
	.for_others = nvidia_for_others,
	.switch_others = nvidia_switch_others,
	.known = nvidia_known,
	.tier = nvidia_tier,
};
