// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * nvgpu (Tegra): each time-slice group has a descriptor of its own, from the TSG node or from the control node.
 * DISABLE and PREEMPT on it take the group off the GPU.  ENABLE puts it back.
 *
 * The driver enables groups on many other occasions, and it does not remember that they were disabled.  Binding a
 * channel to a group enables nothing.  These calls enable, in L4T r32.7.1, 35.6.0 and r36.4.
 *	SETUP_BIND and its older forms, on the channel: from then on it runs (common/fifo/channel.c, tsg_gv11b_fusa.c).
 *	UNBIND, and the end of a channel's last descriptor: the group's other channels (common/fifo/tsg.c).
 *	On a channel: PREEMPT, SET_PREEMPTION_MODE, ALLOC_OBJ_CTX (common/gr/gr_setup.c), ENABLE, SET_BOOSTED_CTX, and
 *	ZCULL_BIND in r32.
 *	Every call that finds the GPU without power: all channels of all processes (common/fifo/channel.c,
 *	nvgpu_channel_resume_all_serviceable_ch(), in r32 gk20a_channel_resume()).  Work that is submitted with SUBMIT keeps
 *	the power on until it is done.  So a group that is off can be enabled then only if it has no such work, and is
 *	switched again when it gets some.
 * Some of these calls enable groups even when they fail.  So the library switches all groups again after each call that
 * is not known to leave them alone.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "preload.h"

enum { NODE_CONTROL = 1, NODE_TSG, NODE_CHANNEL };

/*
 * Calls of the control node, type 'G'.  Their answers, like the answer to OPEN of a channel node, begin with a new
 * descriptor.
 */
#define OPEN_TSG		9
#define OPEN_CHANNEL		11
#define OPEN_TSG_SHARED		1	/* in the second word of OPEN_TSG, from r36.2 on: another process's group */
/* Of a group, type 'T'. */
#define TSG_BIND		1
#define TSG_ENABLE		3
#define TSG_DISABLE		4
#define TSG_PREEMPT		5
#define TSG_BIND_EX		11
#define TSG_SHARE		20	/* from r36.2 on: makes a token, with which another process can open the group */
/* Calls of a channel, type 'H', that a program may make often and that leave groups alone. */
#define CHANNEL_WAIT		102
#define CHANNEL_OPEN		112

/* The names of the nodes below /dev: nvhost-tsg-gpu; since R35 also nvgpu/igpu0/tsg, or below a slice of the GPU. */
static int nvgpu_node(const char *path)
{
	static const struct { const char *old, *name; int node; } nodes[] = {
		{ "/dev/nvhost-ctrl-gpu", "ctrl", NODE_CONTROL }, { "/dev/nvhost-tsg-gpu", "tsg", NODE_TSG },
		{ "/dev/nvhost-gpu", "channel", NODE_CHANNEL },
	};
	const char *last = strrchr(path, '/');
	bool below = !strncmp(path, "/dev/nvgpu/", strlen("/dev/nvgpu/"));
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!strcmp(path, nodes[i].old) || (below && !strcmp(last + 1, nodes[i].name)))
			return nodes[i].node;
	return 0;
}

/*
 * The process shares a group with another process.  The driver switches all channels of a group, so each process also
 * switches the other's channels.
 */
static bool shared;
#define SHARED "a group is shared with another process: each of them switches the work of both"

static void share(struct tsg *tsg)
{
	if (!shared)
		preload_say("nvgpu-tsg: tier T0: " SHARED);
	shared = true;
	if (tsg)
		agent_retell(tsg);
}

static struct tsg *add(struct gpu_file *file)
{
	return agent_add(&(struct tsg){ .file = file, .gpu = numbers_of("nvgpu-tsg", "", 0), .empty = true });
}

/* The driver has made a descriptor without a call of open(). */
static struct tsg *made(const void *answer, const char *path)
{
	struct gpu_file *file;
	int32_t fd;

	memcpy(&fd, answer, sizeof(fd));
	files_opened(fd, path);
	file = files_get(fd);
	return file && file->kind == NODE_TSG ? add(file) : NULL;
}

static void made_tsg(const void *answer, size_t size)
{
	struct tsg *tsg = made(answer, "/dev/nvhost-tsg-gpu");
	uint32_t words[2] = { 0 };

	memcpy(words, answer, size < sizeof(words) ? size : sizeof(words));
	if (words[1] & OPEN_TSG_SHARED)
		share(tsg);
}

static void on_tsg(struct gpu_file *file, unsigned int number, bool done)
{
	struct tsg *tsg = agent_find(file, 0, 0);
	bool bound = done && (number == TSG_BIND || number == TSG_BIND_EX);

	if (!tsg)
		tsg = add(file);
	if (number == TSG_SHARE && done)
		share(tsg);
	if (tsg && (bound || (!tsg->empty && number != TSG_DISABLE && number != TSG_PREEMPT)))
		agent_refresh(tsg);
}

static void nvgpu_after(struct gpu_file *file, int fd, unsigned long request, void *argument, int result)
{
	unsigned int type = _IOC_TYPE(request), number = _IOC_NR(request);

	(void)fd;
	if (file->kind == NODE_CONTROL && type == 'G' && result >= 0 && argument) {
		if (number == OPEN_TSG)
			made_tsg(argument, _IOC_SIZE(request));
		else if (number == OPEN_CHANNEL)
			made(argument, "/dev/nvhost-gpu");
	} else if (file->kind == NODE_TSG && type == 'T') {
		on_tsg(file, number, result >= 0);
	} else if (file->kind == NODE_CHANNEL && type == 'H') {
		if (number == CHANNEL_OPEN && result >= 0 && argument)
			made(argument, "/dev/nvhost-gpu");
		else if (number != CHANNEL_WAIT)
			agent_refresh_all(&family_nvgpu_tsg);
	}
}

static void nvgpu_closed(struct gpu_file *file)
{
	if (file->kind == NODE_CHANNEL)
		agent_refresh_all(&family_nvgpu_tsg);
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

static unsigned int nvgpu_tier(const char **how)
{
	*how = shared ? SHARED :
	       "this process's agent disables and preempts its time-slice groups; T2 needs a patched driver";
	return shared ? GPURT_TIER_HINTS : GPURT_TIER_UNPATCHED;
}

const struct family family_nvgpu_tsg = {
	.name = "nvgpu-tsg",
	.node = nvgpu_node,
	.after = nvgpu_after,
	.closed = nvgpu_closed,
	.turn = nvgpu_turn,
	/* every release is known: the numbers are the same from L4T R32 to R39 */
	.tier = nvgpu_tier,
};
