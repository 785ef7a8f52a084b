// SPDX-License-Identifier: GPL-2.0
/*
 * marks COUNT: tells of so many beginnings of jobs as fast as it can.  After a pause in which its share is whole
 * again, the program tells of an end and prints "done".  The program ends with its input.  Exits with the error of a
 * call.
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
	struct gpurt_job_mark m = { .size = sizeof(m), .what = GPURT_MARK_BEGIN, .task = "flood" };
	int fd = open("/dev/gpurt", O_RDWR), count = argc > 1 ? atoi(argv[1]) : 0;

	if (fd < 0)
		return errno;
	while (count--)
		if (ioctl(fd, GPURT_IOC_JOB_MARK, &m))
			return errno;
	usleep(2 * GPURT_MARKS * GPURT_MARK_NS / 1000);
	m.what = GPURT_MARK_END;
	if (ioctl(fd, GPURT_IOC_JOB_MARK, &m))
		return errno;
	puts("done");
	fflush(stdout);
	return getchar() != EOF;
}
