// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Facts about the process that are learned once: its id and its stderr.  A program may forbid itself getpid(), and
 * close its stderr.  Each begin and end of a segment compares the id with that of the process that opened the handle.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handle.h"

static struct stat first;	/* descriptor 2 when the program began */

__attribute__((constructor)) static void load(void)
{
	if (fstat(2, &first))
		first.st_ino = 0;
}

bool gpurt_has_stderr(void)
{
	struct stat now;

	return first.st_ino && !fstat(2, &now) && now.st_dev == first.st_dev && now.st_ino == first.st_ino;
}

/* These are raw system calls, because another library may replace mmap() and call dlsym() for it. */
pid_t *gpurt_wiped(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || !syscall(SYS_madvise, page, size, MADV_WIPEONFORK))
		return page == MAP_FAILED ? NULL : page;
	syscall(SYS_munmap, page, size);
	return NULL;
}

pid_t gpurt_pid(void)
{
	static _Atomic(pid_t) *_Atomic kept;
	_Atomic(pid_t) *page = atomic_load(&kept);
	pid_t pid;

	if (!page) {
		page = (_Atomic(pid_t) *)gpurt_wiped();
		if (!page)
			return (pid_t)syscall(SYS_getpid);
		atomic_store(&kept, page);	/* if two threads come here, one page is wasted */
	}
	pid = atomic_load(page);
	if (!pid) {
		pid = (pid_t)syscall(SYS_getpid);
		atomic_store(page, pid);
	}
	return pid;
}
