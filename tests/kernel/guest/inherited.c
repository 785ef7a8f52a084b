// SPDX-License-Identifier: GPL-2.0
/*
 * inherited FD: FD is of /dev/gpurt, and was opened before this program was executed.  Exits with the error of a begin by
 * it; with 255 unless poll() tells of an error.
 */
#include <errno.h>
#include <gpurt.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
	struct gpurt_begin begin = { .size = sizeof(begin) };
	struct pollfd poller = { .fd = argc > 1 ? atoi(argv[1]) : -1 };

	if (poll(&poller, 1, 0) != 1 || poller.revents != POLLERR)
		return 255;
	return ioctl(poller.fd, GPURT_IOC_BEGIN, &begin) ? errno : 0;
}
