// SPDX-License-Identifier: GPL-2.0
/*
 * A program to run as root on a booted kernel with gpurt.ko.  The program tries the data plane end to end, and clients
 * that die or execute another program inside a segment.  Prints one line a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <gpurt.h>
#define CHECK(x) do { if (!(x)) { printf("FAIL %d: %s errno=%d\n", __LINE__, #x, errno); exit(1);} } while (0)
int main(void)
{
	int fd = open("/dev/gpurt", O_RDWR | O_CLOEXEC), i;
	CHECK(fd >= 0);
	struct gpurt_query q = { .size = sizeof q };
	CHECK(!ioctl(fd, GPURT_IOC_QUERY, &q) && q.version == 1 && q.gpus == 1);
	struct gpurt_tsg t = { .size = sizeof t };
	CHECK(!ioctl(fd, GPURT_IOC_TSG_OPEN, &t));
	struct gpurt_begin b = { .size = sizeof b, .priority = 50 };
	CHECK(!ioctl(fd, GPURT_IOC_BEGIN, &b) && b.state == GPURT_STATE_RUNNING);
	struct gpurt_submit s = { .size = sizeof s, .tsg = t.tsg, .duration_ns = 5000000 };
	CHECK(!ioctl(fd, GPURT_IOC_SUBMIT, &s) && s.work == 1);
	struct gpurt_wait w = { .size = sizeof w, .what = GPURT_WAIT_WORK, .tsg = t.tsg, .work = 1, .timeout_ns = GPURT_FOREVER };
	CHECK(!ioctl(fd, GPURT_IOC_WAIT, &w) && w.completed_ns > 0);
	struct gpurt_end e = { .size = sizeof e };
	CHECK(!ioctl(fd, GPURT_IOC_END, &e));
	CHECK(ioctl(fd, GPURT_IOC_END, &e) < 0 && errno == ENOENT);
	CHECK(!ioctl(fd, GPURT_IOC_BEGIN, &b));
	for (i = 0; i < 50; i++) {		/* a client killed inside a segment leaves nothing */
		pid_t pid = fork();
		if (!pid) {
			int f = open("/dev/gpurt", O_RDWR);
			struct gpurt_begin bb = { .size = sizeof bb, .priority = 60 };
			CHECK(ioctl(fd, GPURT_IOC_BEGIN, &bb) < 0 && errno == EPERM);	/* the parent's */
			CHECK(!ioctl(f, GPURT_IOC_BEGIN, &bb));
			if (i & 1)
				execl("/bin/busybox", "sleep", "1", NULL);	/* exec ends it as well */
			for (;;) pause();
		}
		usleep(20000);
		if (i & 1) {
			struct gpurt_wait g = { .size = sizeof g, .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
			CHECK(!ioctl(fd, GPURT_IOC_WAIT, &g));
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		struct gpurt_wait g = { .size = sizeof g, .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER };
		CHECK(!ioctl(fd, GPURT_IOC_WAIT, &g));
	}
	printf("smoke ok\n");
	return 0;
}
