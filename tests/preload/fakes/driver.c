// SPDX-License-Identifier: GPL-2.0
/*
 * A library under the preload library that plays the kernel: driver nodes are connections to the fake GPU, and ioctls
 * on them are requests.  Everything else goes to libc.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "hardware.h"
#include "wire.h"

#define EXPORT __attribute__((visibility("default")))

static int is_node(const char *path)
{
	return !strncmp(path, "/dev/nvidia", 11) || !strncmp(path, "/dev/nvhost-", 12) || !strncmp(path, "/dev/nvgpu/", 11) ||
	       !strcmp(path, "/dev/kfd") || !strncmp(path, "/dev/dri/", 9);
}

/* The kernel's files about GPUs are in a folder beside the fake GPU's socket. */
static const char *redirected(const char *path, char *to, size_t size)
{
	static const char *const subtrees[] = { "/sys/devices/virtual/kfd/", "/sys/class/kfd/", "/sys/module/amdgpu/",
						"/sys/bus/pci/", "/sys/class/drm/" };
	const char *gpu = getenv("FAKE_GPU");
	size_t i, stem = gpu ? strlen(gpu) : 0;

	if (stem < 5 || strcmp(gpu + stem - 5, ".sock"))
		return path;
	for (i = 0; i < sizeof(subtrees) / sizeof(subtrees[0]); i++)
		if (!strncmp(path, subtrees[i], strlen(subtrees[i]))) {
			snprintf(to, size, "%.*s.sys/%s", (int)stem - 5, gpu, path + 5);
			return to;
		}
	return path;
}

static int open_node(const char *path)
{
	struct fake_request q = { .type = FAKE_OPEN, .size = (uint32_t)strlen(path) };
	struct fake_answer a;
	int fd = fake_connect();

	if (fd < 0)
		return -1;
	q.cookie = fake_cookie(fd);
	memcpy(q.bytes, path, q.size);
	if (fake_exchange(fd, &q, &a) || a.result < 0) {
		close(fd);
		errno = a.error;
		return -1;
	}
	return fd;
}

static int is_fake(int fd)
{
	struct sockaddr_un peer;
	socklen_t size = sizeof(peer);
	const char *path = getenv("FAKE_GPU");

	return path && !getpeername(fd, (struct sockaddr *)&peer, &size) && peer.sun_family == AF_UNIX &&
	       size > sizeof(sa_family_t) && !strcmp(peer.sun_path, path);
}

/* KFD's calls whose arguments have a pointer: to an array of which another member has the length. */
static void *nested_of_kfd(unsigned int number, unsigned char *argument, uint32_t *size)
{
	static const struct { unsigned int number, pointer, count, bits; } calls[] = {
		{ 0x1a, 8, 4, 1 }, { 0x14, 0, 8, 8 * 56 }, { 0x0c, 0, 8, 8 * 48 }, { 0x18, 8, 16, 32 }, { 0x19, 8, 16, 32 },
	};
	uint64_t address = 0;
	uint32_t count = 0;
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number != number)
			continue;
		memcpy(&address, argument + calls[i].pointer, sizeof(address));
		memcpy(&count, argument + calls[i].count, sizeof(count));
		*size = (uint32_t)((uint64_t)count * calls[i].bits / 8);
	}
	if (!address || *size > 1500)
		*size = 0;
	return (void *)(uintptr_t)address;
}

/*
 * Parameters for RM_ALLOC of a GPU instance or a compute instance.  The driver copies what the class has, whatever
 * size it is told (rmapiParamsCopyInit() in param_copy.c).  In place of the descriptor that permits it, its cookie
 * goes to the fake GPU.
 */
static void *nested_of_instance(uint64_t address, uint32_t *size)
{
	static __thread struct { uint64_t capability; uint32_t id, pad; } params;

	memcpy(&params, (void *)(uintptr_t)address, sizeof(params));
	params.capability = fake_cookie((int)params.capability);
	*size = sizeof(params);
	return &params;
}

/*
 * The parameters of RM_CONTROL and RM_ALLOC, and a bitmap of groups are behind a pointer at a fixed place.  The fake
 * GPU gets the cookie of the channel that nvgpu binds to a group or unbinds, in place of the channel.
 */
static void *nested_of(unsigned long request, unsigned char *argument, uint32_t *size)
{
	static __thread uint64_t channel;
	uint64_t address;
	uint32_t class;
	int32_t fd;

	*size = 0;
	if (_IOC_TYPE(request) == 'T' && (_IOC_NR(request) <= 2 || _IOC_NR(request) == 11)) {
		memcpy(&fd, argument, sizeof(fd));
		channel = fake_cookie(fd);
		*size = sizeof(channel);
		return &channel;
	}
	if (_IOC_TYPE(request) == 'S' && (_IOC_NR(request) == 1 || _IOC_NR(request) == 3)) {
		unsigned char *where = argument + (_IOC_NR(request) == 1 ? 0 : 8);

		memcpy(size, where, sizeof(*size));
		memcpy(&address, where + 8, sizeof(address));
		return (void *)(uintptr_t)address;
	}
	if (_IOC_TYPE(request) == 'K')
		return nested_of_kfd(_IOC_NR(request), argument, size);
	if (_IOC_TYPE(request) != 'F' || (_IOC_NR(request) != 0x2a && _IOC_NR(request) != 0x2b))
		return NULL;
	memcpy(&address, argument + 16, sizeof(address));
	memcpy(&class, argument + 12, sizeof(class));
	if (_IOC_NR(request) == 0x2b && (class == 0xc637 || class == 0xc638) && address)
		return nested_of_instance(address, size);
	memcpy(size, argument + (_IOC_SIZE(request) == 48 ? 32 : 24), sizeof(*size));
	if (!address || *size > 1500)
		*size = 0;
	return (void *)(uintptr_t)address;
}

/*
 * FAKE_CARDS=1 is for use beside the module of tests/kernel/guest/kfd_driver.  With each queue of KFD the process
 * makes one in that module, too, on the card with the same number.  The queue there goes when KFD's queue is
 * destroyed.  It says whether the patched driver lets the process run.
 */
static void on_card(unsigned int number, const void *argument)
{
	static int queues[64];	/* descriptors, by the numbers of KFD's queues; 0: none */
	uint32_t words[14];
	char card[12];

	memcpy(words, argument, number == 2 ? sizeof(words) : sizeof(*words));
	if (number == 3 && *words < 64 && queues[*words]) {
		close(queues[*words]);
		queues[*words] = 0;
	}
	if (number != 2 || words[13] >= 64)
		return;
	snprintf(card, sizeof(card), "%u", words[9] - 4711);
	queues[words[13]] = open("/dev/fake_gpu", O_RDWR | O_CLOEXEC);
	if (write(queues[words[13]], card, strlen(card)) < 0)
		perror("/dev/fake_gpu");
}

struct rm_control { uint32_t client, object, command, flags; uint64_t params; uint32_t size, status; };

/* The controls whose time counts, where the model of the hardware is used.  Whether it carried out the request. */
static int timed(unsigned long request, void *argument)
{
	struct hardware *h = argument && request == _IOWR('F', 0x2a, struct rm_control) ? hardware_open() : NULL;
	struct rm_control *c = argument;
	const void *params;

	if (!h)
		return 0;
	params = (const void *)(uintptr_t)c->params;
	if (c->command == 0x2080110b)
		c->status = hardware_switch(h, params);
	else if (c->command == 0xa06c0103 && c->object >= 0x5c000000)
		c->status = hardware_set_slice(h, c->client, *(const uint64_t *)params);
	else
		return 0;
	return 1;
}

static int fake_ioctl(int fd, unsigned long request, unsigned char *argument)
{
	struct fake_request q = { .type = FAKE_IOCTL, .code = (uint32_t)request, .cookie = fake_cookie(fd) };
	struct { uint32_t number, size; uint64_t address; } inner;
	struct fake_answer a;
	void *nested = NULL;

	if (argument && request == _IOWR('F', 211, inner)) {	/* NV_ESC_IOCTL_XFER_CMD */
		memcpy(&inner, argument, sizeof(inner));
		return fake_ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', inner.number, inner.size),
				  (unsigned char *)(uintptr_t)inner.address);
	}
	if (timed(request, argument))
		return 0;
	q.size = argument ? _IOC_SIZE(request) : 0;
	if (argument) {
		nested = nested_of(request, argument, &q.nested);
		memcpy(q.bytes, argument, q.size);
		memcpy(q.bytes + q.size, nested, q.nested);
	}
	if (fake_ask(&q, &a)) {
		errno = ENODEV;
		return -1;
	}
	memcpy(argument, a.bytes, q.size);
	if (q.nested)
		memcpy(nested, a.bytes + q.size, q.nested);
	if (a.result < 0) {
		errno = a.error;
		return -1;
	}
	if (_IOC_TYPE(request) == 'K' && (_IOC_NR(request) & ~1u) == 2 && getenv("FAKE_CARDS"))
		on_card(_IOC_NR(request), argument);
	if (_IOC_TYPE(request) == 'G') {	/* OPEN_TSG and OPEN_CHANNEL: the answer is a descriptor */
		int made = open_node(_IOC_NR(request) == 9 ? "/dev/nvhost-tsg-gpu" : "/dev/nvhost-gpu");

		memcpy(argument, &made, sizeof(made));
	}
	return a.result;
}

#define OPEN(name)							\
EXPORT int name(const char *path, int flags, ...)			\
{									\
	static int (*real)(const char *, int, ...);			\
	va_list arguments;						\
	char to[512];							\
	mode_t mode;							\
									\
	va_start(arguments, flags);					\
	mode = va_arg(arguments, mode_t);				\
	va_end(arguments);						\
	if (!real)							\
		real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
	return is_node(path) ? open_node(path) : real(redirected(path, to, sizeof(to)), flags, mode); \
}

OPEN(open)
OPEN(open64)	/* as programs with large file offsets call it */

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return is_fake(fd) ? fake_ioctl(fd, request, argument) : real(fd, request, argument);
}

/* Memory of a driver is the process's own here. */
#define MMAP(name)							\
EXPORT void *name(void *at, size_t size, int protection, int flags, int fd, off_t offset) \
{									\
	static void *(*real)(void *, size_t, int, int, int, off_t);	\
									\
	if (!real)							\
		real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, #name); \
	return fd >= 0 && is_fake(fd) ? real(at, size, protection, flags | MAP_ANONYMOUS, -1, 0) : \
	       real(at, size, protection, flags, fd, offset);		\
}

MMAP(mmap)
MMAP(mmap64)

static ssize_t forbidden(void *cookie, char *to, size_t size)
{
	(void)cookie, (void)to, (void)size;
	errno = EPERM;
	return -1;
}

/* A file whose whole text is EPERM can be opened and not be read. */
static FILE *unless_forbidden(FILE *file, const char *mode)
{
	char text[8] = "";

	if (!file || fread(text, 1, 6, file) != 5 || strncmp(text, "EPERM", 5)) {
		if (file)
			rewind(file);
		return file;
	}
	fclose(file);
	return fopencookie(NULL, mode, (cookie_io_functions_t){ .read = forbidden });
}

/* The release of NVIDIA's driver and what concerns AMD's, as sysfs reports them. */
EXPORT FILE *fopen(const char *path, const char *mode)
{
	static FILE *(*real)(const char *, const char *);
	const char *version = getenv("FAKE_NVIDIA_VERSION"), *from;
	char to[512];

	if (!real)
		real = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	if (version && !strcmp(path, "/sys/module/nvidia/version"))
		return real(version, mode);
	from = redirected(path, to, sizeof(to));
	return from == path ? real(path, mode) : unless_forbidden(real(from, mode), "r");
}

EXPORT DIR *opendir(const char *path)
{
	static DIR *(*real)(const char *);
	char to[512];

	if (!real)
		real = (DIR *(*)(const char *))dlsym(RTLD_NEXT, "opendir");
	return real(redirected(path, to, sizeof(to)));
}
