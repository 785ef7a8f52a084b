// SPDX-License-Identifier: GPL-2.0
/*
 * agent DESCRIPTOR: registers as its process's agent on GPU 1, under the name "new", writes the error number, or 0, to
 * that descriptor, and stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpurt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct gpurt_agent agent = { .size = sizeof(agent), .gpu = 1, .tsgs = 1, .driver = "new" };
	int fd = open("/dev/gpurt", O_RDWR), error;

	if (argc != 2)
		return 2;
	error = ioctl(fd, GPURT_IOC_AGENT, &agent) ? errno : 0;
	dprintf(atoi(argv[1]), "%d", error);
	for (;;)
		pause();
}
