// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * nvgpu (Tegra): each time-slice group has a descriptor of its own, from the TSG node or from the control node.
 * DISABLE and PREEMPT on it take the group off the GPU.  ENABLE puts it back.  The driver enables a channel that is
 * bound later, so a group that must be off is switched off again after each bind.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "preload.h"

enum { NODE_CONTROL = 1, NODE_TSG, NODE_CHANNEL };

#define OPEN_TSG		9	/* type 'G', on the control node; the answer begins with the new descriptor */
#define TSG_BIND		1
#define TSG_ENABLE		3
#define TSG_DISABLE		4
#define TSG_PREEMPT		5
#define TSG_BIND_EX		11

static int nvgpu_node(const char *path)
{
	static const struct { const char *path; int node; } nodes[] = {
		{ "/dev/nvhost-ctrl-gpu", NODE_CONTROL }, { "/dev/nvgpu/igpu0/ctrl", NODE_CONTROL },
		{ "/dev/nvhost-tsg-gpu", NODE_TSG }, { "/dev/nvgpu/igpu0/tsg", NODE_TSG },
		{ "/dev/nvhost-gpu", NODE_CHANNEL }, { "/dev/nvgpu/igpu0/channel", NODE_CHANNEL },
	};
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!strcmp(path, nodes[i].path))
			return nodes[i].node;
	return 0;
}

static void opened_tsg(int fd)
{
	struct gpu_file *file;

	files_opened(fd, "/dev/nvhost-tsg-gpu");
	file = files_get(fd);
	if (file)
		agent_add(&(struct tsg){ .file = file, .empty = true });
}

static void nvgpu_after(struct gpu_file *file, int fd, unsigned long request, void *argument, int result)
{
	struct tsg *tsg;
	int32_t made;

	(void)fd;
	if (result < 0)
		return;
	if (file->kind == NODE_CONTROL && _IOC_TYPE(request) == 'G' && _IOC_NR(request) == OPEN_TSG && argument) {
		memcpy(&made, argument, sizeof(made));
		opened_tsg(made);
	} else if (file->kind == NODE_TSG && _IOC_TYPE(request) == 'T') {
		tsg = agent_find(file, 0, 0);
		if (!tsg)
			tsg = agent_add(&(struct tsg){ .file = file, .empty = true });
		if (tsg && (_IOC_NR(request) == TSG_BIND || _IOC_NR(request) == TSG_BIND_EX ||
			    _IOC_NR(request) == TSG_ENABLE))
			agent_refresh(tsg);
	}
}

static int nvgpu_turn(struct tsg *tsg, int fd, bool on)
{
	(void)tsg;
	if (on)
		return real_ioctl(fd, _IO('T', TSG_ENABLE), NULL) < 0 ? -errno : 0;
	if (real_ioctl(fd, _IO('T', TSG_DISABLE), NULL) < 0 || real_ioctl(fd, _IO('T', TSG_PREEMPT), NULL) < 0)
		return -errno;
	return 0;
}

/* The numbers are the same from L4T R32 to R39, so every release is known. */
static bool nvgpu_known(char *why, size_t size)
{
	(void)why;
	(void)size;
	return true;
}

static unsigned int nvgpu_tier(const char **how)
{
	*how = "this process's agent disables and preempts its time-slice groups; T2 needs a patched driver";
	return GPURT_TIER_UNPATCHED;
}

const struct family family_nvgpu_tsg = {
	.name = "nvgpu-tsg",
	.node = nvgpu_node,
	.after = nvgpu_after,
	.turn = nvgpu_turn,
	.known = nvgpu_known,
	.tier = nvgpu_tier,
};
