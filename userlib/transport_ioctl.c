// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The transport to the kernel module: ioctls on its device. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transport.h"

/* The state is the descriptor plus one, so that descriptor 0 is not NULL. */
static int fd_of(void *state)
{
	return (int)(intptr_t)state - 1;
}

static int ioctl_open(const char *path, void **state)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*state = (void *)(intptr_t)(fd + 1);
	return 0;
}

static void ioctl_close(void *state)
{
	close(fd_of(state));
}

static int ioctl_call(void *state, uint32_t code, void *argument, enum gpurt_patience patience)
{
	int ret;

	do
		ret = ioctl(fd_of(state), code, argument);
	while (ret < 0 && errno == EINTR && patience != GPURT_WAITS);
	return ret < 0 ? -errno : 0;
}

static int ioctl_post(void *state, uint32_t code, void *argument, bool patient)
{
	(void)patient;
	return ioctl_call(state, code, argument, GPURT_IS_ANSWERED);
}

const struct gpurt_transport gpurt_transport_ioctl = {
	.open = ioctl_open,
	.close = ioctl_close,
	.abandon = ioctl_close,
	.call = ioctl_call,
	.post = ioctl_post,
};
