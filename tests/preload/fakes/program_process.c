// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program_process.h"

#define DESCRIPTORS 32
/* The headers of older C libraries do not name these. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static volatile sig_atomic_t handled;

int in_child(int (*work)(void), bool raw)
{
	pid_t child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	int status;

	if (!child)
		_exit(work());
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int close_all(void)
{
	int fd;

	for (fd = 3; fd < 256; fd++)
		close(fd);
	return 0;
}

int shuffle(void)
{
	int fd, copy;

	for (fd = 3; fd < DESCRIPTORS; fd++) {
		copy = dup(fd);
		if (copy < 0)
			continue;
		close(fd);
		if (dup2(copy, fd) != fd)
			return 1;
		close(copy);
	}
	return 0;
}

static void *cancelled_in_close(void *argument)
{
	pthread_cancel(pthread_self());
	close(*(int *)argument);	/* a cancellation point */
	return NULL;
}

int cancelled(void)
{
	pthread_t thread;
	int fd, copy;

	for (fd = 3; fd < DESCRIPTORS; fd++) {
		copy = dup(fd);
		if (copy < 0)
			continue;
		if (pthread_create(&thread, NULL, cancelled_in_close, &copy) || pthread_join(thread, NULL))
			return 1;
	}
	return 0;
}

static void on_signal(int number)
{
	int fd = open("/dev/null", O_RDWR), copy = dup(fd);
	pid_t child = fork();

	(void)number;
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	close(copy);
	close(fd);
	handled = 1;
}

int limit_descriptors(unsigned int number)
{
	return setrlimit(RLIMIT_NOFILE, &(struct rlimit){ number, number });
}

int handle_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	return sigaction(SIGUSR1, &action, NULL);
}

int signals_handled(void)
{
	return !handled;
}

int reload(void **library, const char *name, const char *symbol)
{
	Dl_info there;

	if (!dladdr(dlsym(*library, symbol), &there))
		return 1;
	dlclose(*library);
	/* If the library is still there, this fails. */
	mmap(there.dli_fbase, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	*library = dlopen(name, RTLD_NOW);
	return !*library;
}

#define KILL(name)									\
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* From here on the kernel ends the process if it makes one of these calls. */
int seal(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL(getpid), KILL(sched_setscheduler), KILL(sched_getscheduler), KILL(sched_getparam), KILL(prctl),
		KILL(clone), KILL(clone3),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),	/* as the preload library reads files */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDONLY | O_CLOEXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The child shares the memory, not the descriptors. */
int close_in_vfork(void)
{
	pid_t child = vfork();
	int status;

	if (!child)
		_exit(close_all());
	return waitpid(child, &status, 0) != child || status;
}

int steal_stderr(void)
{
	close(2);
	return open(getenv("FAKE_STOLEN"), O_CREAT | O_RDWR, 0600) != 2;
}
