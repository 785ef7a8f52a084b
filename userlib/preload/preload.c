// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The functions of libc that this library replaces; see preload.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../handle.h"
#include "preload.h"

#define SYS_CLOSE_RANGE 436	/* older headers lack it */
/* The version of libc's first dlsym() for the machine. */
#if defined(__x86_64__)
#define OLD_DLSYM "GLIBC_2.2.5"
#else
#define OLD_DLSYM "GLIBC_2.17"
#endif

/* The kernel's own calls.  They are used until this library is ready, because libc's would have to be looked up. */
static int raw_openat(int folder, const char *path, int flags, ...)
{
	va_list arguments;
	unsigned int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, unsigned int);
	va_end(arguments);
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

static int raw_open(const char *path, int flags, ...)
{
	va_list arguments;
	unsigned int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, unsigned int);
	va_end(arguments);
	return raw_openat(AT_FDCWD, path, flags, mode);
}

static int raw_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static int raw_close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)syscall(SYS_CLOSE_RANGE, first, last, flags);
}

static int raw_dup(int fd)
{
	return (int)syscall(SYS_dup, fd);
}

static int raw_dup3(int fd, int copy, int flags)
{
	return (int)syscall(SYS_dup3, fd, copy, flags);
}

static int raw_dup2(int fd, int copy)
{
	return fd != copy ? raw_dup3(fd, copy, 0) : syscall(SYS_fcntl, fd, F_GETFD) < 0 ? -1 : fd;
}

#define RAW(name, kind)								\
static int raw_##name(int fd, kind what, ...)					\
{										\
	va_list arguments;							\
	void *argument;								\
										\
	va_start(arguments, what);						\
	argument = va_arg(arguments, void *);					\
	va_end(arguments);							\
	return (int)syscall(SYS_##name, fd, what, argument);			\
}

RAW(fcntl, int)
RAW(ioctl, unsigned long)

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
	int (*prctl)(int, ...);
} real = {
	raw_open, raw_open, raw_openat, raw_openat, raw_close, raw_close_range, raw_dup, raw_dup2, raw_dup3, raw_fcntl,
	raw_fcntl, raw_ioctl, NULL,
};
typedef void *look_up(void *, const char *);
/* libc's dlsym, and the next library's, which can be libc's. */
static look_up *libc_dlsym, *next_dlsym;
/* A name that only preload_check_chain() looks up, and what is found. */
static const char probe[] = "cuGpurtProbe";
static char probed;
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

	if (preload_flag("GPURT_QUIET") || !gpurt_has_stderr())
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

/*
 * Finds libc's dlsym by its symbol version, because any_dlsym() below hides it from a plain look-up.  Only libc's may
 * be asked for RTLD_NEXT, because it finds its caller by the return address.  Programs get the next library's dlsym,
 * which can be another interposer's.
 *
 * This can be the first call of a process, from a sanitizer that finds its own real functions.  It must call nothing
 * that others replace.  For a missing version libc calls malloc(), so the version that every libc has comes first.
 */
static void find_dlsym(void)
{
	static const char *const versions[] = { OLD_DLSYM, "GLIBC_2.34" };
	void *found = NULL;
	size_t i;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]) && !found; i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!found) {
		fputs("gpurt: this libc has no dlsym that libgpurt-preload knows\n", stderr);
		abort();
	}
	libc_dlsym = (look_up *)found;
	found = libc_dlsym(RTLD_NEXT, "dlsym");
	next_dlsym = found ? (look_up *)found : libc_dlsym;
}

static void resolve(void)
{
	void *found;

	if (!next_dlsym)
		find_dlsym();
	/* An older libc lacks some functions: then the library makes the system call itself. */
#define FIND(name)								\
	do {									\
		found = libc_dlsym(RTLD_NEXT, #name);				\
		if (found)							\
			real.name = (__typeof__(real.name))found;		\
	} while (0)
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
	FIND(prctl);
#undef FIND
	process_begins();
}

bool preload_ready(void)
{
	static atomic_int state;	/* 1: being made ready, 2: ready */
	int none = 0;

	if (atomic_load_explicit(&state, memory_order_acquire) == 2)
		return true;
	if (!atomic_compare_exchange_strong(&state, &none, 1))
		return false;
	resolve();
	atomic_store_explicit(&state, 2, memory_order_release);
	return true;
}

__attribute__((constructor)) static void load(void)
{
	preload_ready();
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
 * Whether the library must look at the caller's descriptor.  A signal handler that interrupted this thread in the
 * library gets the real call only, because the thread may hold the lock.
 */
static bool watches(bool concerned)
{
	return concerned && preload_ready() && !preload_entered() && preload_own_process();
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
	if (!libc_dlsym)
		find_dlsym();
	return libc_dlsym(handle, name);
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

	if (watches(fd >= 0 && (files_driver(path) || files_tracked(fd)))) {
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
	va_start(arguments, flags);						\
	mode = mode_of(flags, arguments);					\
	va_end(arguments);							\
	return opened(real.name args, path);					\
}

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* A program built with _FORTIFY_SOURCE calls these.  They have no mode parameter, so they make no file. */
#define FORTIFIED(name, params, call)						\
int name params;								\
PRELOAD_EXPORT int name params							\
{										\
	return call;								\
}

FORTIFIED(__open_2, (const char *path, int flags), open(path, flags & ~O_CREAT))
FORTIFIED(__open64_2, (const char *path, int flags), open64(path, flags & ~O_CREAT))
FORTIFIED(__openat_2, (int folder, const char *path, int flags), openat(folder, path, flags & ~O_CREAT))
FORTIFIED(__openat64_2, (int folder, const char *path, int flags), openat64(folder, path, flags & ~O_CREAT))

/* Forgets and closes the descriptor under the lock, so that no agent uses it meanwhile. */
PRELOAD_EXPORT int close(int fd)
{
	int result;

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
	return duplicated(fd, real.dup(fd));
}

/* If @copy is open, the call closes it.  As in close(), the lock keeps agents from using it. */
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
	return duplicate_onto(fd, copy, 0, false);
}

PRELOAD_EXPORT int dup3(int fd, int copy, int flags)
{
	return duplicate_onto(fd, copy, flags, true);
}

#define FCNTL(name)								\
PRELOAD_EXPORT int name(int fd, int command, ...)				\
{										\
	va_list arguments;							\
	void *argument;								\
	int result;								\
										\
	va_start(arguments, command);						\
	argument = va_arg(arguments, void *);					\
	va_end(arguments);							\
	result = real.name(fd, command, argument);				\
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

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!watches(files_tracked(fd) || may_be_ours(request)))
		return real.ioctl(fd, request, argument);
	result = make(fd, request, argument);
	note(fd, request, argument, result);
	return result;
}

PRELOAD_EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list arguments;
	size_t i;

	va_start(arguments, option);
	for (i = 0; i < 4; i++)
		a[i] = va_arg(arguments, unsigned long);
	va_end(arguments);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		process_seals();
	return real.prctl ? real.prctl(option, a[0], a[1], a[2], a[3]) :
			    (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

/*
 * The CUDA runtime finds the driver's entry points by name.  The real dlsym finds its caller by its return address,
 * which must be in this function's caller.  So this function must jump to the real one (a tail call).  A test checks
 * that the compiler makes it a jump.
 *
 * Handles other than RTLD_NEXT do not need that, except RTLD_DEFAULT in a library opened with RTLD_LOCAL.
 */
look_up any_dlsym PRELOAD_EXPORT;
__attribute__((optimize("O2", "no-stack-protector"))) void *any_dlsym(void *handle, const char *name)
{
	void *found, *wrapper;

	if (!next_dlsym)
		find_dlsym();
	if (name == probe)
		return &probed;
	if (handle == RTLD_NEXT)
		return libc_dlsym(handle, name);
	if (!((name[0] == 'c' && name[1] == 'u') || (name[0] == 'h' && name[1] == 'i' && name[2] == 'p')))
		return next_dlsym(handle, name);
	found = next_dlsym(handle, name);
	if (!found)
		return next_dlsym(handle, name);
	if (!preload_ready())
		return found;
	wrapper = cuda_wrapper(name, found, __builtin_return_address(0));
	if (!wrapper)
		wrapper = hip_wrapper(name, found, __builtin_return_address(0));
	return wrapper ? wrapper : found;
}

/* Called when the process has GPU work to show: any interposer before this library is ready by then. */
void preload_check_chain(void)
{
	look_up *first = (look_up *)libc_dlsym(RTLD_DEFAULT, "dlsym");
	Dl_info of = { NULL };

	if (first == any_dlsym || first(RTLD_DEFAULT, probe) == &probed)
		return;
	dladdr((void *)first, &of);
	preload_say("the dlsym() of %s comes first and does not call the next one: what the program looks up is not seen; put "
		    "libgpurt-preload.so first in LD_PRELOAD", of.dli_fname ? of.dli_fname : "another library");
}

/* An interposer before this library looks up the next dlsym by one of libc's versions. */
PRELOAD_EXPORT __attribute__((alias("any_dlsym"))) void *old_dlsym(void *handle, const char *name);
__asm__(".symver any_dlsym, dlsym@@GLIBC_2.34");
__asm__(".symver old_dlsym, dlsym@" OLD_DLSYM);
