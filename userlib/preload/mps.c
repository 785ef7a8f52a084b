// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Clients of NVIDIA's MPS.  The MPS server's process has the channels on which their work executes, so no agent of
 * theirs takes it off the GPU.  A driver that is patched switches the server: all clients together.  CUDA becomes a
 * client where the control daemon listens (CUDA_MPS_PIPE_DIRECTORY, by default /tmp/nvidia-mps).  Anyone can make files
 * in /tmp.  So a process is a client only if it has no channels of its own, and a daemon is behind the socket.
 *
 * A client begins no segment.  If it had the GPU alone, the server would be off, and with it the client's own work, for
 * which the segment waits.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../mig.h"
#include "board.h"

#define MPS_WHY "a client of MPS: its work is on channels of the MPS server, which serves others, too; no segments are made"

/* The MPS server.  It has no descriptor, so the library makes no ioctl. */
static struct gpu_file server = { .family = &family_nvidia_mps };

/*
 * Whether a daemon is behind the socket.  Connects a datagram socket: the kernel refuses its type only where a process
 * has the socket (unix_find_bsd() in net/unix/af_unix.c).  The daemon does not notice.
 */
static bool runs(void)
{
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int length, fd;
	bool there;

	length = snprintf(to.sun_path, sizeof(to.sun_path), "%s/control", folder && *folder ? folder : "/tmp/nvidia-mps");
	if (length >= (int)sizeof(to.sun_path))
		return false;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	there = fd >= 0 && (!connect(fd, (const struct sockaddr *)&to, sizeof(to)) || errno == EPROTOTYPE);
	close(fd);
	return there;
}

/* Whether the process has something on a GPU that can be switched. */
static bool has_its_own(void)
{
	unsigned int gpu;
	bool has = false;

	preload_lock();
	for (gpu = 0; gpu < GPURT_MAX_GPUS; gpu++)
		has |= boards[gpu].tsgs != NULL;
	preload_unlock();
	return has;
}

/*
 * The host's number of a device on which the process has no objects of its own, or NO_GPU.  Called with the lock held.
 */
static unsigned int number_of(const char *address)
{
	bool only = gpurt_mig_gpus("/sys/bus/pci/devices") == 1;	/* else a host with agents cannot tell */

	return numbers_of("nvidia-mps", *address ? address : NULL, only ? 0 : NO_GPU);
}

/* Called without the lock, before the first work on a device. */
void mps_look(int device, pci_bus_id *ask)
{
	static atomic_bool looked;
	struct tsg like = { .file = &server };
	const char *address;

	if (atomic_exchange(&looked, true) || has_its_own() || process_sealed() || !runs())
		return;
	segments_explicit();
	preload_say("nvidia-mps: tier T0: " MPS_WHY);
	numbers_learn();
	address = numbers_address(device, ask);
	like.gpu = numbers_of_device(device, ask);
	preload_lock();
	like.gpu = like.gpu == NO_GPU ? number_of(address) : like.gpu;
	like.device = address;
	agent_add(&like);
	preload_unlock();
	agent_settle();
}

static unsigned int mps_tier(const char **how)
{
	*how = MPS_WHY;
	return GPURT_TIER_HINTS;
}

const struct family family_nvidia_mps = {
	.name = "nvidia-mps",
	.tier = mps_tier,
};
