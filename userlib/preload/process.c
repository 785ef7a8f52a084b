// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The library's process; and the library in a child, in a thread that is cancelled, and in a signal handler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"

/* The process that files.c tracks.  A child of fork() finds 0, however it was made, because its copy of the page is empty. */
static pid_t *process;
/* How often this thread has entered a part of the library that it must leave again, and whether it could be cancelled. */
static _Thread_local volatile unsigned int entered;
static _Thread_local int cancellable;
static _Thread_local bool forking;

void preload_enter(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	if (!entered)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (!entered++)
		cancellable = before;
}

bool preload_entered(void)
{
	return entered;
}

/* A child that a signal handler made returns from there into what its parent had entered. */
void preload_leave(void)
{
	if (entered && !--entered)
		pthread_setcancelstate(cancellable, NULL);
}

/* In a signal handler that interrupted the library, the thread may hold the locks itself. */
static void before_fork(void)
{
	if (entered)
		return;
	segments_lock();
	preload_lock();
	forking = true;
}

static void after_fork(void)
{
	if (!forking)
		return;
	forking = false;
	preload_unlock();
	segments_unlock();
}

/* Takes no lock and frees nothing: another thread of the parent may have held any lock, that of malloc() too. */
static void in_child(void)
{
	*process = (pid_t)syscall(SYS_getpid);
	forking = false;
	if (entered)
		pthread_setcancelstate(cancellable, NULL);
	entered = 0;
	agent_begins();
	files_forked();
	segments_begin();
}

/*
 * Kernels before 4.14 copy the page.  There a child that was made without fork() is taken for one of vfork().  These are
 * raw system calls, because another library may replace mmap() and call dlsym() for it.
 */
static void note_process(void)
{
	static pid_t copied;
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED)
		syscall(SYS_madvise, page, size, MADV_WIPEONFORK);
	process = page == MAP_FAILED ? &copied : page;
	*process = (pid_t)syscall(SYS_getpid);
}

void process_begins(void)
{
	note_process();
	agent_begins();
	segments_begin();
	pthread_atfork(before_fork, after_fork, in_child);
}

/*
 * Whether the caller is the process that files.c tracks.  A child of vfork() shares this memory until it executes
 * another program, but its descriptors are its own.  A child that was made without fork(), which calls the handlers of
 * pthread_atfork(), becomes one here.
 */
bool preload_own_process(void)
{
	if (!*process)
		in_child();
	return (pid_t)syscall(SYS_getpid) == *process;
}
