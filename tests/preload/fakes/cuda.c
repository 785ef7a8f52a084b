// SPDX-License-Identifier: GPL-2.0
/*
 * A minimal libcuda.so.1 over the fake GPU.  FAKE_MPS=1: another process makes its groups, as MPS's server does: the
 * preload library sees nothing of them.  A context is one time-slice group, made with the driver's own ioctls
 * (FAKE_FAMILY: nvidia or nvgpu).  A kernel of N blocks runs N microseconds; work of a context completes in order.
 * FAKE_CHANNELS: how many channels the group has.  FAKE_GROUPS: how many groups, the others for copies, which have half
 * as many channels, as with CUDA on an H200 (docs/hardware: 8, and three of 4).  FAKE_BARE=1:
 * one channel without a group instead.  FAKE_BARE=late: there is no subdevice until the program makes one.
 * FAKE_MIG=GPU.INSTANCE.COMPUTE: the device belongs to that GPU instance, and to its compute instance if one is named.
 * CUDA_VISIBLE_DEVICES=2,1: the program's devices 0 and 1 are these.  Device N is on bus 4 + N, as nvidia.py has it;
 * FAKE_NO_ADDRESS=1: that cannot be found out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "cuda_fake.h"
#include "hardware.h"
#include "wire.h"

#define NOT_READY 600

static int (*direct_ioctl)(int, unsigned long, ...), (*direct_open)(const char *, int, ...);
#define ioctl (direct_ioctl ? direct_ioctl : ioctl)
#define open (direct_open ? direct_open : open)

static void go_past_the_library(void)
{
	void *driver = dlopen("libdriver.so", RTLD_NOW);

	direct_ioctl = (int (*)(int, unsigned long, ...))dlsym(driver, "ioctl");
	direct_open = (int (*)(const char *, int, ...))dlsym(driver, "open");
}

struct context { int device, fd, tsg_fd, channels[8]; uint32_t client, tsg; uint64_t last; };
struct stream { struct context *context; uint64_t last; int captured; uint64_t graph_us; };

static __thread struct context *current;
static struct stream defaults[64];	/* of contexts, by their order */
static struct context *contexts[64];
static int count;
static struct stream *unused;	/* the last stream that was destroyed: the next one gets its handle */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct rm_alloc { uint32_t root, parent, object, class; uint64_t params, rights; uint32_t size, flags, status, pad; };
struct rm_control { uint32_t client, object, command, flags; uint64_t params; uint32_t size, status; };
struct rm_free { uint32_t root, parent, object, status; };

/* FAKE_TRANSFER=1: each call is behind a pointer of another, as for a structure that is too large for a request. */
static int rm_call(int fd, unsigned long request, void *argument)
{
	struct { uint32_t number, size; uint64_t address; } of = { _IOC_NR(request), _IOC_SIZE(request), (uintptr_t)argument };

	return getenv("FAKE_TRANSFER") ? ioctl(fd, _IOWR('F', 211, of), &of) : ioctl(fd, request, argument);
}

static int rm_alloc_with(int fd, uint32_t root, uint32_t parent, uint32_t object, uint32_t class, void *params, size_t size)
{
	struct rm_alloc a = { root, parent, object, class, (uintptr_t)params, 0, (uint32_t)size, 0, 0, 0 };

	return rm_call(fd, _IOWR('F', 0x2b, struct rm_alloc), &a) < 0 || a.status ? -1 : (int)a.object;
}

static int rm_alloc(int fd, uint32_t root, uint32_t parent, uint32_t object, uint32_t class)
{
	return rm_alloc_with(fd, root, parent, object, class, NULL, 0);
}

#define DEVICE		0x5c000001
#define SUBDEVICE	0x5c000002
#define GROUP		0x5c000003
#define GPU_INSTANCE	0x5c100000
#define COMPUTE_INSTANCE	0x5c100001
#define TWIN		0x5b000001	/* another handle of the group */
#define CHANNEL		0x5c000004	/* the first one; the others follow */

static int rm_control(const struct context *c, uint32_t object, uint32_t command, void *params, uint32_t size)
{
	struct rm_control call = { c->client, object, command, 0, (uintptr_t)params, size, 0 };

	return rm_call(c->fd, _IOWR('F', 0x2a, struct rm_control), &call) < 0 || call.status ? -1 : 0;
}

static int rm_free(const struct context *c, uint32_t object)
{
	struct rm_free f = { c->client, 0, object, 0 };

	return rm_call(c->fd, _IOWR('F', 0x29, struct rm_free), &f) < 0 || f.status;
}

static int major_release(void)
{
	const char *path = getenv("FAKE_NVIDIA_VERSION");
	FILE *file = path ? fopen(path, "r") : NULL;
	int major = 570;

	if (file) {
		if (fscanf(file, "%d", &major) != 1)
			major = 570;
		fclose(file);
	}
	return major;
}

/* GPFIFO_SCHEDULE has 2 bytes, and 3 from release 575.51.02 on (ctrla06fgpfifo.h). */
static int rm_schedule(const struct context *c, uint32_t object, int on)
{
	uint8_t enable[3] = { (uint8_t)on, 0, 0 };

	return rm_control(c, object, object >= CHANNEL ? 0xa06f0103 : 0xa06c0101, enable, major_release() < 575 ? 2 : 3);
}

/* The descriptor of the node that permits to use an instance: nv-caps.c counts them from 3 on, 9 a GPU instance. */
static int capability(int gpu, int instance, int compute)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/nvidia-caps/nvidia-cap%d", 3 + 9 * (15 * gpu + instance) + compute + 1);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Makes the instances that FAKE_MIG names, below the device's subdevice. */
static int join_instance(const struct context *c)
{
	struct { uint64_t capability; uint32_t id, pad; } params = { 0 };
	int gpu, instance, compute, parts, fds[2] = { -1, -1 }, err = 0;
	const char *mig = getenv("FAKE_MIG");

	parts = mig ? sscanf(mig, "%d.%d.%d", &gpu, &instance, &compute) : 0;
	if (parts >= 2) {
		params.capability = (uint64_t)(fds[0] = capability(gpu, instance, -1));
		params.id = (uint32_t)instance;
		err = rm_alloc_with(c->fd, c->client, SUBDEVICE, GPU_INSTANCE, 0xc637, &params, sizeof(params)) < 0;
	}
	if (parts == 3 && !err) {
		params.capability = (uint64_t)(fds[1] = capability(gpu, instance, compute));
		params.id = (uint32_t)compute;
		err = rm_alloc_with(c->fd, c->client, GPU_INSTANCE, COMPUTE_INSTANCE, 0xc638, &params, sizeof(params)) < 0;
	}
	close(fds[0]), close(fds[1]);	/* the driver keeps what they permit */
	return err;
}

static uint32_t number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? (uint32_t)atoi(text) : 1;
}

/* Groups on copy engines, as CUDA makes three. */
static int add_groups(const struct context *c)
{
	uint32_t i, j, groups = number_of("FAKE_GROUPS"), channels = (number_of("FAKE_CHANNELS") + 1) / 2;
	uint32_t group[8] = { 0 }, channel[64] = { 0 };

	for (i = 1; i < groups; i++) {
		group[3] = channel[32] = 10 + i;	/* engine types of copy engines */
		if (rm_alloc_with(c->fd, c->client, DEVICE, 0x1000 + i, 0xa06c, group, sizeof(group)) < 0)
			return -1;
		for (j = 0; j < channels; j++)
			if (rm_alloc_with(c->fd, c->client, 0x1000 + i, FAKE_COPIES * i + j, 0xc86f, channel, sizeof(channel)) < 0)
				return -1;
		if (rm_schedule(c, 0x1000 + i, 1))
			return -1;
	}
	return 0;
}

/* The driver's number of the GPU that the program calls @device. */
static int physical(int device)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	size_t at = 2 * (size_t)device;

	return visible && strlen(visible) > at ? visible[at] - '0' : device;
}

EXPORT int cuDeviceGetPCIBusId(char *text, int size, int device)
{
	if (getenv("FAKE_NO_ADDRESS") || device < 0 || device > 1)
		return 101;
	snprintf(text, (size_t)size, "0000:%02X:00.0", 4 + physical(device));
	return 0;
}

static int make_nvidia(struct context *c, int device)
{
	uint32_t i, channels = number_of("FAKE_CHANNELS");
	int bare = getenv("FAKE_BARE") != NULL, late = bare && !strcmp(getenv("FAKE_BARE"), "late"), root;
	struct { uint32_t instance, share, more[12]; } params = { 0 };
	const char *mig = getenv("FAKE_MIG");
	uint32_t group[8] = { [3] = 1 }, channel[64] = { 0 };

	channel[major_release() < 610 ? 32 : 34] = 1;	/* engine type GR0 */
	params.instance = (uint32_t)physical(device);
	if (mig && *mig)	/* the program sees nothing else, and calls it device 0 */
		params.instance = (uint32_t)atoi(mig);
	c->fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	if (c->fd < 0)
		return -1;
	root = rm_alloc(c->fd, 0, 0, 0, 0x41);
	if (root < 0)
		return -1;
	c->client = params.share = (uint32_t)root;
	if (hardware_open())
		hardware_add(hardware_open(), c->client);
	c->tsg = bare ? CHANNEL : GROUP;
	if (rm_alloc_with(c->fd, c->client, c->client, DEVICE, 0x80, &params, sizeof(params)) < 0 ||
	    (!late && rm_alloc(c->fd, c->client, DEVICE, SUBDEVICE, 0x2080) < 0) || join_instance(c) ||
	    (!bare && rm_alloc_with(c->fd, c->client, DEVICE, GROUP, 0xa06c, group, sizeof(group)) < 0))
		return -1;
	for (i = 0; i < channels; i++)
		if (rm_alloc_with(c->fd, c->client, bare ? DEVICE : GROUP, CHANNEL + i, 0xc86f, channel, sizeof(channel)) < 0)
			return -1;
	return rm_schedule(c, c->tsg, 1) || add_groups(c) ? -1 : 0;
}

struct setup_bind { uint32_t entries, jobs, flags; int32_t fds[2]; uint32_t token; uint64_t addresses[5]; uint32_t reserved[9]; };

/*
 * From the control node, or with FAKE_CHANNEL_NODE=1 from the channels' own.  FAKE_BELOW=1: all from nodes of their own,
 * below /dev/nvgpu.  FAKE_SHARED=1: the group is another process's.
 */
static int add_channel(struct context *c, int n)
{
	struct setup_bind setup = { .entries = 1024 };
	int32_t made[4] = { -1 };

	if (getenv("FAKE_CHANNEL_NODE") || getenv("FAKE_BELOW"))
		made[0] = open(getenv("FAKE_BELOW") ? "/dev/nvgpu/igpu0/channel" : "/dev/nvhost-gpu", O_RDWR | O_CLOEXEC);
	else if (ioctl(c->fd, _IOWR('G', 11, made), made) < 0)
		return -1;
	c->channels[n] = made[0];
	return made[0] < 0 || ioctl(c->tsg_fd, _IOW('T', 1, int32_t), &c->channels[n]) < 0 ? -1 :
	       ioctl(c->channels[n], _IOWR('H', 128, struct setup_bind), &setup);
}

static int make_nvgpu(struct context *c)
{
	int32_t args[6] = { -1, getenv("FAKE_SHARED") != NULL };

	if (getenv("FAKE_BELOW")) {
		c->fd = -1;
		c->tsg_fd = open("/dev/nvgpu/igpu0/tsg", O_RDWR | O_CLOEXEC);
		return c->tsg_fd < 0 ? -1 : add_channel(c, 0);
	}
	c->fd = open("/dev/nvhost-ctrl-gpu", O_RDWR | O_CLOEXEC);
	if (c->fd < 0 || ioctl(c->fd, _IOWR('G', 9, args), args) < 0)
		return -1;
	c->tsg_fd = args[0];
	return add_channel(c, 0);
}

static int own_nvgpu(const char *what, int n)
{
	uint64_t object[2] = { 0 }, submit[3] = { 0 }, mode = 0;

	if (!strcmp(what, "channel"))
		return add_channel(current, n);
	if (!strcmp(what, "close"))
		return close(current->channels[n]);
	if (!strcmp(what, "unbind"))
		return ioctl(current->tsg_fd, _IOW('T', 2, int32_t), &current->channels[n]);
	if (!strcmp(what, "share"))
		return ioctl(current->tsg_fd, _IOWR('T', 20, uint64_t[3]), submit);
	if (!strcmp(what, "submit"))
		return ioctl(current->channels[n], _IOWR('H', 107, uint64_t[3]), submit);
	if (!strcmp(what, "object"))
		return ioctl(current->channels[n], _IOWR('H', 108, object), object);
	if (!strcmp(what, "mode"))
		return ioctl(current->channels[n], _IOW('H', 122, uint64_t), &mode);
	return strcmp(what, "enable") ? -1 : ioctl(current->channels[n], _IO('H', 113), NULL);
}

struct rm_disable { uint8_t off, pad[3]; uint32_t count; uint8_t hint, rewind, more[6]; uint64_t event; uint32_t clients[64], channels[64]; };

/* Calls 25 and 26 of the UVM driver register an address space and end that; 0 closes the node (uvm_ioctl.h). */
static int uvm(int call)
{
	static int fd = -1;

	if (!call)
		return close(fd);
	if (fd < 0)
		fd = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
	return ioctl(fd, (unsigned long)call, &call);
}

/* Calls of which the driver, or its firmware, enables channels: each with parameters of the size that it has. */
static int own_control(const char *what)
{
	static const struct { const char *what; uint32_t object, command, size; } all[] = {
		{ "volta", CHANNEL, 0xc36f0103, 2 }, { "start", DEVICE, 0x801705, 48 }, { "reset", CHANNEL, 0x906f0102, 16 },
		{ "preemption-mode", SUBDEVICE, 0x20801210, 32 }, { "preempt", GROUP, 0xa06c0105, 8 },
	};
	uint8_t params[64] = { 1 };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(what, all[i].what))
			return rm_control(current, all[i].object, all[i].command, params, all[i].size);
	return -1;
}

/* A second handle of the group, and a channel below that. */
static int duplicate(const struct context *c)
{
	uint32_t dup[7] = { c->client, DEVICE, TWIN, c->client, GROUP }, channel = CHANNEL + 32;

	return ioctl(c->fd, _IOWR('F', 0x34, uint32_t[7]), dup) < 0 || dup[6] ||
	       rm_alloc(c->fd, c->client, TWIN, channel, 0xc86f) < 0 || rm_schedule(c, channel, 1);
}

/* Calls of a program on its own channels and groups: see program.c. */
EXPORT int fakeOwn(const char *what, int value)
{
	struct rm_disable d = { .off = !strcmp(what, "disable"), .count = 1 };
	uint64_t slice = (uint64_t)value;

	if (current->tsg_fd >= 0)
		return own_nvgpu(what, value);
	if (!strcmp(what, "uvm"))
		return uvm(value);
	if (!strcmp(what, "disable") || !strcmp(what, "enable")) {
		d.clients[0] = current->client;
		d.channels[0] = CHANNEL + (uint32_t)value;
		return rm_control(current, SUBDEVICE, 0x2080110b, &d, sizeof(d));
	}
	if (!strcmp(what, "subdevice"))
		return rm_alloc(current->fd, current->client, DEVICE, SUBDEVICE, 0x2080) < 0;
	if (!strcmp(what, "duplicate"))
		return duplicate(current);
	if (!strcmp(what, "leave"))	/* 0: its GPU instance, 1: its compute instance */
		return rm_free(current, value ? COMPUTE_INSTANCE : GPU_INSTANCE);
	if (!strcmp(what, "free"))
		return rm_free(current, CHANNEL + (uint32_t)value);
	if (!strcmp(what, "schedule"))
		return rm_schedule(current, GROUP, value);
	if (!strcmp(what, "slice"))
		return rm_control(current, GROUP, 0xa06c0103, &slice, sizeof(slice));
	return own_control(what);
}

EXPORT int cuInit(unsigned int flags)
{
	if (getenv("FAKE_MPS"))
		go_past_the_library();
	return (int)flags;
}
EXPORT int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
EXPORT int cuDeviceGetCount(int *n) { *n = 2; return 0; }

EXPORT int cuCtxCreate_v2(struct context **made, unsigned int flags, int device)
{
	const char *family = getenv("FAKE_FAMILY");
	struct context *c = calloc(1, sizeof(*c));

	(void)flags;
	c->device = device;
	c->tsg_fd = -1;
	if (family && !strcmp(family, "nvgpu") ? make_nvgpu(c) : make_nvidia(c, device))
		return FAILED;
	defaults[count].context = c;
	contexts[count++] = c;
	*made = current = c;
	return 0;
}

static int make_context(struct context **made, int device)
{
	return cuCtxCreate_v2(made, 0, device);
}

static struct context *primary;
static int retained;

EXPORT int cuDevicePrimaryCtxRetain(struct context **made, int device)
{
	if (!primary && make_context(&primary, device))
		return FAILED;
	retained++;
	*made = primary;
	return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	return retained-- > 0 ? 0 : INVALID_CONTEXT;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
	(void)device;
	*flags = 0;
	*active = primary != NULL;
	return 0;
}

EXPORT int cuCtxGetCurrent(struct context **c) { *c = current; return 0; }
EXPORT int cuCtxSetCurrent(struct context *c) { current = c; return 0; }
EXPORT int cuCtxGetDevice(int *device) { *device = current ? current->device : 0; return current ? 0 : 201; }

static struct fake_request about(const struct context *c, uint32_t type, uint64_t value)
{
	int fd = c->tsg_fd >= 0 ? c->tsg_fd : c->fd;

	return (struct fake_request){ .type = type, .cookie = fake_cookie(fd), .client = c->client, .handle = c->tsg,
				      .value = value };
}

/* As fake_ask(), or by the model of the hardware where that is used. */
static int ask(const struct context *c, struct fake_request *q, struct fake_answer *a)
{
	struct hardware *h = hardware_open();

	if (!h)
		return fake_ask(q, a);
	a->result = 0;
	if (q->type == FAKE_SUBMIT)
		a->value = hardware_submit(h, c->client, (int64_t)q->value);
	else if (q->type == FAKE_WAIT)
		hardware_wait(h, c->client, q->value);
	else
		a->value = (uint64_t)hardware_done(h, c->client, q->value);
	return 0;
}

static int wait_for(const struct context *c, uint64_t work)
{
	struct fake_request q = about(c, FAKE_WAIT, work);
	struct fake_answer a;

	return work && (ask(c, &q, &a) || a.result < 0) ? FAILED : 0;
}

static int ready(const struct context *c, uint64_t work)
{
	struct fake_request q = about(c, FAKE_DONE, work);
	struct fake_answer a;

	return !work ? 0 : ask(c, &q, &a) ? FAILED : a.value ? 0 : NOT_READY;
}

/* For benchmarks: for how long the context's work has executed, us, or -1 if that is not known. */
EXPORT long fakeExecuted(void) { return hardware_open() ? hardware_executed(hardware_open(), current->client) / 1000 : -1; }
/* For benchmarks: until the context's last work has ended, as memory that a kernel writes would tell. */
EXPORT int fakeEnded(void) { return wait_for(current, current->last); }

static struct stream *stream_of(struct stream *s)
{
	int i;

	if ((uintptr_t)s > 2)
		return s;
	for (i = 0; i < count && contexts[i] != current; i++)
		;
	return &defaults[i];
}

static int arrivals[2], departures[2];
static volatile int holds;

/* 1: the next thread that submits work stops before it does.  2: returns once it has stopped.  0: lets it go on. */
EXPORT int fakeHold(int what)
{
	char byte = 0;

	if (what == 1)
		return pipe(arrivals) || pipe(departures) || !(holds = 1);
	return what ? read(arrivals[0], &byte, 1) != 1 : write(departures[1], &byte, 1) != 1;
}

static void be_held(void)
{
	char byte = 0;

	holds = 0;
	if (write(arrivals[1], &byte, 1) != 1 || read(departures[0], &byte, 1) != 1)	/* a cancellation point */
		abort();
}

int fake_submit(struct stream *s, uint64_t us)
{
	struct fake_request q;
	struct fake_answer a;

	if (holds)
		be_held();
	s = stream_of(s);
	if (s->captured) {
		s->graph_us += us;
		return 0;
	}
	q = about(s->context, FAKE_SUBMIT, us * 1000);
	pthread_mutex_lock(&lock);
	if (ask(s->context, &q, &a) || a.result < 0)
		a.value = 0;
	s->last = s->context->last = a.value;
	pthread_mutex_unlock(&lock);
	return a.value ? 0 : FAILED;
}

EXPORT int cuCtxDestroy_v2(struct context *c)
{
	wait_for(c, c->last);
	if (c->tsg_fd >= 0)
		close(c->channels[0]), close(c->tsg_fd);
	else
		rm_free(c, c->client);
	close(c->fd);
	return 0;
}

/* Destroys the primary context, which stays retained. */
EXPORT int cuDevicePrimaryCtxReset_v2(int device)
{
	struct context *c = primary;

	(void)device;
	primary = NULL;
	return c ? cuCtxDestroy_v2(c) : INVALID_CONTEXT;
}

EXPORT int cuCtxSynchronize(void) { return wait_for(current, current->last); }

EXPORT int cuCtxSynchronize_v2(struct context *c) { c = c ? c : current; return wait_for(c, c->last); }

EXPORT int cuStreamCreate(struct stream **made, unsigned int flags)
{
	(void)flags;
	*made = unused ? unused : calloc(1, sizeof(**made));
	unused = NULL;
	**made = (struct stream){ .context = current };
	return 0;
}

EXPORT int cuStreamDestroy_v2(struct stream *s) { unused = s; return 0; }

EXPORT int cuStreamSynchronize(struct stream *s) { s = stream_of(s); return wait_for(s->context, s->last); }
EXPORT int cuStreamQuery(struct stream *s) { s = stream_of(s); return ready(s->context, s->last); }
EXPORT int cuEventCreate(struct event **made, unsigned int flags) { (void)flags; *made = calloc(1, sizeof(**made)); return 0; }
EXPORT int cuEventDestroy_v2(struct event *e) { free(e); return 0; }
EXPORT int cuEventRecord(struct event *e, struct stream *s) { e->stream = stream_of(s); e->work = e->stream->last; return 0; }
EXPORT int cuEventSynchronize(struct event *e) { return e->stream ? wait_for(e->stream->context, e->work) : 0; }
EXPORT int cuEventQuery(struct event *e) { return e->stream ? ready(e->stream->context, e->work) : 0; }
EXPORT int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned int flags)
{
	(void)flags;
	s = stream_of(s);
	s->last = s->last > e->work ? s->last : e->work;
	return 0;
}

EXPORT int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
			  unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra)
{
	(void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
	if (f != (void *)2)
		return fake_submit(s, gx);
	/* struct beat of userlib/probe/native/kernels.h: it has started */
	((volatile uint32_t *)(uintptr_t)*(uint64_t *)params[0])[9] = 1;
	return fake_submit(s, gx * *(uint64_t *)params[1] / 1000);
}

EXPORT int cuLaunchKernel_ptsz(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
			       unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra)
{
	return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}

EXPORT int cuStreamSynchronize_ptsz(struct stream *s) { return cuStreamSynchronize(s); }

EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, struct stream *s)
{
	(void)to, (void)from;
	return fake_submit(s, size);
}

EXPORT int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size)
{
	(void)to, (void)from;
	return fake_submit(NULL, size) ? FAILED : cuStreamSynchronize(NULL);
}

/* For userlib/probe: one multiprocessor that holds one block, and kernels that watch the clock. */
EXPORT int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
EXPORT int cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, (size_t)size, "fake"); return 0; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute, (void)device; *value = 1; return 0; }
EXPORT int cuModuleLoadData(void **module, const void *text) { (void)text; *module = (void *)1; return 0; }
EXPORT int cuModuleLoad(void **module, const char *file) { return access(file, R_OK) ? FAILED : cuModuleLoadData(module, file); }
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)module;
	*function = (void *)(uintptr_t)(!strcmp(name, "clock_kernel") ? 2 : 3);
	return 0;
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
	(void)function, (void)threads, (void)shared;
	*blocks = 1;
	return 0;
}
EXPORT int cuStreamCreateWithPriority(struct stream **made, unsigned int flags, int priority)
{
	(void)priority;
	return cuStreamCreate(made, flags);
}
EXPORT int cuMemAlloc_v2(unsigned long long *device, size_t size) { *device = (uintptr_t)calloc(1, size); return 0; }
EXPORT int cuMemHostAlloc(void **host, size_t size, unsigned int flags) { (void)flags; *host = calloc(1, size); return 0; }
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned int flags)
{
	(void)flags;
	*device = (uintptr_t)host;
	return 0;
}
EXPORT int cuMemsetD32_v2(unsigned long long to, unsigned int value, size_t n) { (void)to, (void)value; return fake_submit(NULL, n); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, struct stream *s)
{
	(void)to, (void)from;
	return fake_submit(s, size);
}
EXPORT int cuGetErrorName(int result, const char **name) { (void)result; *name = "an error"; return 0; }

/* A function that no CUDA has.  Its parameters are strange, too. */
EXPORT int cuStrange(int a, double b, int c, int d, int e, int f, int g, double h, size_t size, struct stream *s)
{
	return a == 1 && b == 2.5 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8.5 ? fake_submit(s, size) : FAILED;
}

int fake_begin_capture(struct stream *s) { s->captured = 1; s->graph_us = 0; return 0; }
EXPORT int cuStreamBeginCapture(struct stream *s) { return fake_begin_capture(s); }
EXPORT int cuStreamBeginCapture_v2(struct stream *s, int mode)
{
	return mode < 0 || mode > 2 ? 1 : cuStreamBeginCapture(s);	/* there are three modes */
}
EXPORT int cuStreamIsCapturing(struct stream *s, int *status) { *status = (uintptr_t)s > 2 && s->captured; return 0; }
EXPORT int cuStreamEndCapture(struct stream *s, struct graph **made)
{
	*made = calloc(1, sizeof(**made));
	(*made)->us = s->graph_us;
	s->captured = 0;
	return 0;
}
EXPORT int cuGraphLaunch(struct graph *g, struct stream *s)
{
	int err = fake_submit(s, g->us);

	if (g->event)
		cuEventRecord(g->event, s);
	return err;
}

EXPORT int cuGraphAddEventRecordNode(void **node, struct graph *g, void **after, size_t count, struct event *e)
{
	(void)node, (void)after, (void)count;
	g->event = e;
	return 0;
}

struct node { int type, reserved[3]; struct event *event; };

EXPORT int cuGraphAddNode_v2(void **node, struct graph *g, void **after, void *edges, size_t count, struct node *what)
{
	(void)edges;
	return what->type == 7 ? cuGraphAddEventRecordNode(node, g, after, count, what->event) : INVALID_VALUE;
}

static const struct fake_form *form_of(const struct fake_form *forms, const char *name, int version)
{
	for (; forms->name; forms++)
		if (!strcmp(forms->name, name) && version >= forms->since)
			return forms;
	return NULL;
}

/*
 * As cuda.h documents it: the newest form of the function that @version has.  The versions are those of cudaTypedefs.h.
 * The form for the per-thread default stream, if there is one, has version 7000 at least.
 */
EXPORT int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
	static const struct fake_form all[] = {
		{ "cuInit", 2000, cuInit, NULL }, { "cuDeviceGet", 2000, cuDeviceGet, NULL },
		{ "cuCtxCreate", 3020, cuCtxCreate_v2, NULL }, { "cuCtxDestroy", 4000, cuCtxDestroy_v2, NULL },
		{ "cuCtxSetCurrent", 4000, cuCtxSetCurrent, NULL },
		{ "cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain, NULL },
		{ "cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset_v2, NULL },
		{ "cuCtxSynchronize", 13000, cuCtxSynchronize_v2, NULL }, { "cuCtxSynchronize", 2000, cuCtxSynchronize, NULL },
		{ "cuStreamCreate", 2000, cuStreamCreate, NULL }, { "cuStreamDestroy", 4000, cuStreamDestroy_v2, NULL },
		{ "cuStreamSynchronize", 2000, cuStreamSynchronize, cuStreamSynchronize_ptsz },
		{ "cuStreamQuery", 2000, cuStreamQuery, cuStreamQuery }, { "cuEventCreate", 2000, cuEventCreate, NULL },
		{ "cuEventRecord", 2000, cuEventRecord, cuEventRecord }, { "cuEventQuery", 2000, cuEventQuery, NULL },
		{ "cuEventSynchronize", 2000, cuEventSynchronize, NULL },
		{ "cuStreamWaitEvent", 3020, cuStreamWaitEvent, cuStreamWaitEvent },
		{ "cuLaunchKernel", 4000, cuLaunchKernel, cuLaunchKernel_ptsz },
		{ "cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2 },
		{ "cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2 },
		{ "cuStrange", 12000, cuStrange, NULL },
		{ "cuStreamBeginCapture", 10010, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2 },
		{ "cuStreamBeginCapture", 10000, cuStreamBeginCapture, cuStreamBeginCapture },
		{ "cuStreamEndCapture", 10000, cuStreamEndCapture, cuStreamEndCapture },
		{ "cuGraphLaunch", 10000, cuGraphLaunch, cuGraphLaunch },
		{ "cuGraphAddEventRecordNode", 11010, cuGraphAddEventRecordNode, NULL },
		{ "cuGraphAddNode", 12030, cuGraphAddNode_v2, NULL },
		{ "cuGetProcAddress", 12000, cuGetProcAddress_v2, NULL }, { NULL, 0, NULL, NULL },
	};
	const struct fake_form *form = form_of(all, name, version);

	(void)status;
	form = form ? form : form_of(fake_work, name, version);
	*found = !form ? NULL : flags & 2 && version >= 7000 && form->per_thread ? form->per_thread : form->plain;
	return form ? 0 : NOT_FOUND;
}
