// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The library's process; and the library in a child, in a thread that is cancelled, and in a signal handler.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../handle.h"
#include "../inherit.h"
#include "preload.h"

/* The process that files.c tracks.  Every child finds 0 there. */
static pid_t *process;
/* How many nested parts of the library this thread has entered, and whether it could be cancelled before. */
static _Thread_local volatile unsigned int entered;
static _Thread_local int cancellable;
static _Thread_local bool forking;
static atomic_bool seals;

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

/* A child that was forked in a signal handler returns into the part that its parent had entered. */
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
 * Before Linux 4.14 no page is wiped in children: a child made without fork() is taken for a child of vfork().
 */
static void note_process(void)
{
	static pid_t copied;
	pid_t *page = gpurt_wiped();

	process = page ? page : &copied;
	*process = (pid_t)syscall(SYS_getpid);
}

/*
 * The program forbids itself system calls (seccomp), or is about to: an unprivileged program must first declare that it
 * gains no privileges.  From here on the library makes only the calls that it must.  It does not check whether the
 * program goes on to seccomp, because the kernel can kill the program for the check.
 */
void process_seals(void)
{
	atomic_store(&seals, true);
}

bool process_sealed(void)
{
	return atomic_load(&seals);
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
 * another program, but its descriptors are its own.  A child made without fork(), whose libc called no pthread_atfork()
 * handlers, becomes that process here.  Where the program may have forbidden itself getpid(), libc's id of the thread
 * tells: in a child of vfork() it is the parent's.
 */
bool preload_own_process(void)
{
	if (!*process)
		in_child();
	return process_sealed() ? gpurt_thread_is_known() : (pid_t)syscall(SYS_getpid) == *process;
}
