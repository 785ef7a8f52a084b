// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The functions of libc that this library replaces; see preload.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "preload.h"

static struct {
	int (*open)(const char *, int, ...);
	int (*open64)(const char *, int, ...);
	int (*openat)(int, const char *, int, ...);
	int (*openat64)(int, const char *, int, ...);
	int (*close)(int);
	int (*close_range)(unsigned int, unsigned int, int);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fcntl)(int, int, ...);
	int (*fcntl64)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	void *(*dlsym)(void *, const char *);
} real;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(uint64_t) counts[COUNT_END];

bool preload_flag(const char *variable)
{
	const char *value = getenv(variable);

	return value && !strcmp(value, "1");
}

void preload_say(const char *format, ...)
{
	char line[320];
	va_list arguments;

	if (preload_flag("GPURT_QUIET"))
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fprintf(stderr, "gpurt: %s\n", line);
}

void preload_count(enum count what)
{
	atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed);
}

uint64_t preload_counted(enum count what)
{
	return atomic_load(&counts[what]);
}

/* Finds the real dlsym by its symbol version, because the dlsym below hides it from a plain look-up. */
static void *find_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };
	void *found = NULL;
	size_t i;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]) && !found; i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return found;
}

static void resolve(void)
{
	real.dlsym = (void *(*)(void *, const char *))find_dlsym();
	if (!real.dlsym) {
		fputs("gpurt: this libc has no dlsym that libgpurt-preload knows\n", stderr);
		abort();
	}
#define FIND(name) real.name = (__typeof__(real.name))real.dlsym(RTLD_NEXT, #name)
	FIND(open);
	FIND(open64);
	FIND(openat);
	FIND(openat64);
	FIND(close);
	FIND(close_range);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(fcntl);
	FIND(fcntl64);
	FIND(ioctl);
#undef FIND
	process_begins();
}

__attribute__((constructor)) static void load(void)
{
	pthread_once(&once, resolve);
}

__attribute__((destructor)) static void unload(void)
{
	const char *name;
	uint64_t calls = passed_calls(&name);

	if (!preload_flag("GPURT_VERBOSE") || !preload_own_process() || !counts[COUNT_CALLS])
		return;
	preload_say("%llu driver calls seen, %llu not recognised; %llu orders carried out, %llu refused by the driver; "
		    "%llu launches in %llu automatic segments; %llu calls of functions that are not known%s%s",
		    (unsigned long long)counts[COUNT_CALLS], (unsigned long long)counts[COUNT_UNKNOWN],
		    (unsigned long long)counts[COUNT_ORDERS], (unsigned long long)counts[COUNT_REFUSED],
		    (unsigned long long)counts[COUNT_LAUNCHES], (unsigned long long)counts[COUNT_SEGMENTS],
		    (unsigned long long)calls, name ? ", such as " : "", name ? name : "");
}

/*
 * Whether the caller's descriptor is to be looked at.  A signal handler that interrupted this thread in the library gets
 * the real call only, because the thread may hold the lock.
 */
static bool watches(bool concerned)
{
	return concerned && !preload_entered() && preload_own_process();
}

int real_ioctl(int fd, unsigned long request, void *argument)
{
	return real.ioctl(fd, request, argument);
}

int real_duplicate(int fd, int lowest)
{
	return real.fcntl(fd, F_DUPFD_CLOEXEC, lowest);
}

void *real_dlsym(void *handle, const char *name)
{
	pthread_once(&once, resolve);
	return real.dlsym(handle, name);
}

/*
 * Called after a real call, with the lock held.  Applies the last order to what the call made run, drops the lock, tells
 * the host of new TSGs, restores errno.
 */
static void leave(int call_errno)
{
	bool refused = agent_catch_up();

	preload_unlock();
	if (refused)
		agent_insist();
	agent_settle();
	errno = call_errno;
}

static int opened(int fd, const char *path)
{
	int saved = errno;

	if (watches(fd >= 0 && ((path && !strncmp(path, "/dev/", 5)) || files_tracked(fd)))) {
		preload_lock();
		files_opened(fd, path);
		leave(saved);
	}
	return fd;
}

static int duplicated(int fd, int copy)
{
	int saved = errno;

	if (watches(copy >= 0 && copy != fd && (files_tracked(fd) || files_tracked(copy)))) {
		preload_lock();
		files_duplicated(fd, copy);
		leave(saved);
	}
	return copy;
}

static mode_t mode_of(int flags, va_list arguments)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(arguments, unsigned int) : 0;
}

#define OPEN(name, params, args)						\
PRELOAD_EXPORT int name params							\
{										\
	va_list arguments;							\
	mode_t mode;								\
										\
	pthread_once(&once, resolve);						\
	va_start(arguments, flags);						\
	mode = mode_of(flags, arguments);					\
	va_end(arguments);							\
	return opened(real.name args, path);					\
}

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* A program built with _FORTIFY_SOURCE calls these.  They have no mode, so they make no file. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

PRELOAD_EXPORT int __open_2(const char *path, int flags)
{
	return open(path, flags & ~O_CREAT);
}

PRELOAD_EXPORT int __open64_2(const char *path, int flags)
{
	return open64(path, flags & ~O_CREAT);
}

PRELOAD_EXPORT int __openat_2(int folder, const char *path, int flags)
{
	return openat(folder, path, flags & ~O_CREAT);
}

PRELOAD_EXPORT int __openat64_2(int folder, const char *path, int flags)
{
	return openat64(folder, path, flags & ~O_CREAT);
}

/* Forgets and closes the descriptor under the lock, so that no agent uses it meanwhile. */
PRELOAD_EXPORT int close(int fd)
{
	int result;

	pthread_once(&once, resolve);
	if (!watches(files_tracked(fd))) {
		files_forget(fd);
		return real.close(fd);
	}
	preload_lock();
	files_closed(fd);
	result = real.close(fd);
	leave(errno);
	return result;
}

PRELOAD_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int fd;
	int result;

	pthread_once(&once, resolve);
	if (!real.close_range) {
		errno = ENOSYS;
		return -1;
	}
	/* 4: CLOSE_RANGE_CLOEXEC, which closes nothing now. */
	if (!watches(!(flags & 4)))
		return real.close_range(first, last, flags);
	preload_lock();
	for (fd = first; fd <= last && fd < 65536; fd++)
		if (files_tracked((int)fd))
			files_closed((int)fd);
	result = real.close_range(first, last, flags);
	leave(errno);
	return result;
}

PRELOAD_EXPORT int dup(int fd)
{
	pthread_once(&once, resolve);
	return duplicated(fd, real.dup(fd));
}

/* @copy may be open, and this closes it.  As with close(), the lock keeps agents from using it. */
static int duplicate_onto(int fd, int copy, int flags, bool with_flags)
{
	bool ours = watches(files_tracked(fd) || files_tracked(copy));
	int result;

	if (ours)
		preload_lock();
	result = with_flags ? real.dup3(fd, copy, flags) : real.dup2(fd, copy);
	if (ours && result >= 0 && fd != copy)
		files_duplicated(fd, copy);
	if (ours)
		leave(errno);
	return result;
}

PRELOAD_EXPORT int dup2(int fd, int copy)
{
	pthread_once(&once, resolve);
	return duplicate_onto(fd, copy, 0, false);
}

PRELOAD_EXPORT int dup3(int fd, int copy, int flags)
{
	pthread_once(&once, resolve);
	return duplicate_onto(fd, copy, flags, true);
}

#define FCNTL(name)								\
PRELOAD_EXPORT int name(int fd, int command, ...)				\
{										\
	va_list arguments;							\
	void *argument;								\
	int result;								\
										\
	pthread_once(&once, resolve);						\
	va_start(arguments, command);						\
	argument = va_arg(arguments, void *);					\
	va_end(arguments);							\
	result = (real.name ? real.name : real.fcntl)(fd, command, argument);	\
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, result) : result; \
}

FCNTL(fcntl)
FCNTL(fcntl64)

static bool may_be_ours(unsigned long request)
{
	unsigned int type = _IOC_TYPE(request);

	return type == 'F' || type == 'G' || type == 'K';
}

/* Makes an ioctl on a driver's descriptor.  The family of drivers may make it in its own way. */
static int make(int fd, unsigned long request, void *argument)
{
	int (*call)(int, unsigned long, void *) = real_ioctl;
	struct gpu_file *file;

	preload_lock();
	if (may_be_ours(request))
		files_seen(fd);
	file = files_get(fd);
	if (file && file->family->call)
		call = file->family->call;
	preload_unlock();
	if (file)
		numbers_learn();
	return call(fd, request, argument);
}

/* After an ioctl on a driver's descriptor: the family of drivers updates its list of the process's objects. */
static void note(int fd, unsigned long request, void *argument, int result)
{
	struct gpu_file *file;
	int saved = errno;

	preload_lock();
	file = files_get(fd);
	if (file) {
		preload_count(COUNT_CALLS);
		if (file->family->after)
			file->family->after(file, fd, request, argument, result);
	}
	leave(saved);
}

PRELOAD_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	int result;

	pthread_once(&once, resolve);
	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!watches(files_tracked(fd) || may_be_ours(request)))
		return real.ioctl(fd, request, argument);
	result = make(fd, request, argument);
	note(fd, request, argument, result);
	return result;
}

/*
 * The CUDA runtime finds the driver's entry points by name.  The real dlsym finds its caller by its return address, and
 * that must be this function's caller.  So this function must jump to the real one (a tail call).  A test checks that
 * the compiler makes it a jump.
 */
PRELOAD_EXPORT __attribute__((optimize("O2", "no-stack-protector"))) void *dlsym(void *handle, const char *name)
{
	void *found, *wrapper;

	pthread_once(&once, resolve);
	if (handle == RTLD_NEXT || !((name[0] == 'c' && name[1] == 'u') || !strncmp(name, "hip", 3)))
		return real.dlsym(handle, name);
	found = real.dlsym(handle, name);
	wrapper = found ? cuda_wrapper(name, found) : NULL;
	if (!wrapper && found)
		wrapper = hip_wrapper(name, found);
	return wrapper ? wrapper : found;
}
