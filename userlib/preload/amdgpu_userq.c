// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMD's graphics driver: user queues of /dev/dri (kernel 6.16 and later, amdgpu.user_queue=1 or 2).  They are not on
 * KFD's runlist.  The driver's interface can only make and free them (AMDGPU_USERQ_OP_CREATE and _FREE in amdgpu_drm.h,
 * 7.2.13).  So nothing outside of the driver takes them off the GPU: their work runs at any time.
 *
 * The library lists them all the same: a host learns that the process reached tier T0, and refused an order off.
 */
#include <string.h>

#include "kfd.h"

#define DRI_NODES		"/dev/dri/"
#define RENDER		128
#define USERQ_WHY "user queues of /dev/dri (amdgpu.user_queue): nothing takes them off the GPU, and their work runs at any time"

/* The kind of a node: 1 + its minor number, which is at least RENDER for renderD nodes. */
static int userq_node(const char *path)
{
	int minor;
	char rest;

	return sscanf(path, DRI_NODES "renderD%d%c", &minor, &rest) == 1 || sscanf(path, DRI_NODES "card%d%c", &minor, &rest) == 1 ?
	       1 + minor : 0;
}

/* The PCI address of a node's GPU, or NULL. */
static const char *address_of(const struct gpu_file *file)
{
	static char address[GPURT_NAME_LEN];
	char path[96], line[128];
	FILE *facts;

	snprintf(path, sizeof(path), "/sys/class/drm/%s%d/device/uevent", file->kind > RENDER ? "renderD" : "card",
		 file->kind - 1);
	facts = fopen(path, "re");
	*address = '\0';
	while (facts && fgets(line, sizeof(line), facts))
		sscanf(line, "PCI_SLOT_NAME=%31s", address);
	if (facts)
		fclose(facts);
	return *address ? address : NULL;
}

static void made(struct gpu_file *file, uint32_t queue)
{
	struct tsg like = { .file = file, .handle = queue, .device = address_of(file) };

	like.gpu = like.device ? numbers_of("amdgpu-userq", like.device, kfd_gpu_at(like.device)) : NO_GPU;
	agent_add(&like);
	preload_say_once("amdgpu-userq: tier T0: %s", USERQ_WHY);
}

/* The answer overwrites the request. */
static int userq_call(int fd, unsigned long request, void *argument)
{
	struct userq asked = { 0 }, answer;
	struct gpu_file *file;
	struct tsg *tsg;
	int result;

	if (_IOC_TYPE(request) != 'd' || _IOC_NR(request) != USERQ || _IOC_SIZE(request) < sizeof(asked) || !argument)
		return real_ioctl(fd, request, argument);
	memcpy(&asked, argument, sizeof(asked));
	result = real_ioctl(fd, request, argument);
	if (result < 0)
		return result;
	memcpy(&answer, argument, sizeof(answer));
	preload_lock();
	file = files_get(fd);
	if (file && asked.op == USERQ_CREATE)
		made(file, answer.op);
	tsg = file && asked.op == USERQ_FREE ? agent_find(file, 0, asked.queue) : NULL;
	if (tsg)
		agent_remove(tsg);
	preload_unlock();
	return result;
}

static unsigned int userq_tier(const char **how)
{
	*how = USERQ_WHY;
	return GPURT_TIER_HINTS;
}

const struct family family_amdgpu_userq = {
	.name = "amdgpu-userq",
	.node = userq_node,
	.call = userq_call,
	.tier = userq_tier,
};
