// SPDX-License-Identifier: GPL-2.0
/*
 * A program that does with a GPU what it is told to on stdin, a line each.  The program answers "ok", "busy" or an
 * error a line.  Its first argument says how it finds the driver API: link, default, dlsym, proc or ptsz; or hip.
 * FAKE_CUDA: the version that it asks for, as a program does that was built with that CUDA.  FAKE_LIMIT: how many
 * descriptors it may have.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpurt.h>

#include "program_process.h"
#include "program_work.h"

#define CALLS(X)									\
	X(cuInit, cuInit, (unsigned int))						\
	X(cuCtxCreate, cuCtxCreate_v2, (void **, unsigned int, int))			\
	X(cuCtxDestroy, cuCtxDestroy_v2, (void *))					\
	X(cuCtxSetCurrent, cuCtxSetCurrent, (void *))					\
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **, int))		\
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (int))			\
	X(cuCtxSynchronize, cuCtxSynchronize, (void))					\
	X(cuStreamCreate, cuStreamCreate, (void **, unsigned int))			\
	X(cuStreamDestroy, cuStreamDestroy_v2, (void *))				\
	X(cuStreamSynchronize, cuStreamSynchronize, (void *))				\
	X(cuStreamQuery, cuStreamQuery, (void *))					\
	X(cuStreamWaitEvent, cuStreamWaitEvent, (void *, void *, unsigned int))		\
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (void *, int))			\
	X(cuStreamEndCapture, cuStreamEndCapture, (void *, void **))			\
	X(cuGraphLaunch, cuGraphLaunch, (void *, void *))				\
	X(cuEventCreate, cuEventCreate, (void **, unsigned int))			\
	X(cuEventRecord, cuEventRecord, (void *, void *))				\
	X(cuEventSynchronize, cuEventSynchronize, (void *))				\
	X(cuEventQuery, cuEventQuery, (void *))						\
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (unsigned long long, const void *, size_t, void *)) \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *, unsigned long long, size_t))		\
	X(cuStrange, cuStrange, (int, double, int, int, int, int, int, double, size_t, void *))	\
	X(cuLaunchKernel, cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
					   void *, void **, void **))

#define DECLARE(base, symbol, params) extern int symbol params __attribute__((weak));
CALLS(DECLARE)
#define MEMBER(base, symbol, params) int (*base) params;
static struct { CALLS(MEMBER) } api;

struct dim { unsigned int x, y, z; };
static int (*hip_init)(unsigned int), (*hip_wait)(void), (*hip_device)(int);
static void *driver_api;	/* the library, if it was opened */
static int (*hip_launch)(const void *, struct dim, struct dim, void **, size_t, void *);

static int version = 12000;
static look_up get;
static uint64_t flags;	/* for get() */
static int marked;
static void *streams[8], *events[8], *graphs[8], *contexts[8];

static int resolve_hip(void)
{
	hip_device = dlsym(driver_api, "hipSetDevice");
	hip_init = dlsym(driver_api, "hipInit");
	hip_launch = dlsym(driver_api, "hipLaunchKernel");
	hip_wait = dlsym(driver_api, "hipDeviceSynchronize");
	return 0;
}

static void resolve(const char *how)
{
	void *other, *library = NULL;

	driver_api = !strcmp(how, "hip") ? dlopen("libamdhip64.so", RTLD_NOW) : NULL;
	if (driver_api) {
		resolve_hip();
		return;
	}
	if (getenv("FAKE_CUDA"))
		version = atoi(getenv("FAKE_CUDA"));
	if (strcmp(how, "link") && strcmp(how, "default"))
		library = dlopen("libcuda.so.1", RTLD_NOW);
	flags = !strcmp(how, "ptsz") ? 2 : 1;
	if (!strcmp(how, "proc") || !strcmp(how, "ptsz"))
		get = dlsym(library, "cuGetProcAddress_v2");
#define FIND(base, symbol, params)							\
	if (get)									\
		get(#base, (void **)&api.base, version, flags, NULL);	\
	else										\
		api.base = strcmp(how, "link") ? dlsym(library, #symbol) : (void *)symbol;
	CALLS(FIND)
	if (!get)
		return;
	/* As the CUDA runtime does, it asks for other forms of some functions, too. */
	get("cuStreamBeginCapture", &other, 10000, 0, NULL);
	get("cuStreamBeginCapture", &other, 10010, 0, NULL);
	get("cuCtxSynchronize", &other, 2000, 0, NULL);
}

struct crew { int rounds, failed; void *context; };

/* Launches and waits on the default stream and on a stream of its own. */
static void *worker(void *argument)
{
	struct crew *crew = argument;
	void *stream = NULL, *event = NULL;
	int i, err = api.cuCtxSetCurrent(crew->context) || api.cuStreamCreate(&stream, 1) || api.cuEventCreate(&event, 0);

	for (i = 0; i < crew->rounds && !err; i++)
		err = api.cuLaunchKernel(NULL, 10, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) || api.cuEventRecord(event, stream) ||
		      api.cuLaunchKernel(NULL, 10, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) || api.cuStreamSynchronize(NULL) ||
		      api.cuEventSynchronize(event);
	if (err)
		crew->failed = 1;
	return NULL;
}

static int many_threads(int threads, int rounds)
{
	struct crew crew = { .rounds = rounds, .context = contexts[0] };
	pthread_t all[64];
	int i;

	for (i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, worker, &crew);
	for (i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return crew.failed;
}

/* A child that inherited the descriptors makes a context of its own. */
static int own_context(void)
{
	void *context;

	return api.cuCtxCreate(&context, 0, 0) || api.cuLaunchKernel(NULL, 500, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ||
	       api.cuCtxSynchronize();
}

/* Changes the program's own channels with the driver's calls: "own-disable 0", "own-schedule 1". */
static int on_its_own(const char *what, int value)
{
	int (*own)(const char *, int) = dlsym(driver_api ? driver_api : RTLD_DEFAULT, "fakeOwn");

	return own ? own(what, value) : 64;
}

/* CUDA 13 has another form of this function. */
static int wait_for_all(void *context)
{
	return version >= 13000 ? ((int (*)(void *))(void *)api.cuCtxSynchronize)(context) : api.cuCtxSynchronize();
}

/* CUDA 10.0 has another form of this function. */
static int begin_capture(void *stream)
{
	return version < 10010 ? ((int (*)(void *))(void *)api.cuStreamBeginCapture)(stream) :
	       api.cuStreamBeginCapture(stream, 0);
}

/* Calls HIP's function of that name with zeros.  @look_up: HIP's own look-up finds it. */
static int call(const char *name, const char *look_up)
{
	int (*get)(const char *, void **, int, uint64_t, void *) = look_up ? dlsym(driver_api, look_up) : NULL;
	void *zero = NULL, *function = get ? NULL : dlsym(driver_api, name);

	if (get && get(name, &function, 60000, 0, NULL))
		return 64;
	return function ? ((int (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
				    void *, void *, void *))function)(zero, zero, zero, zero, zero, zero, zero, zero,
								      zero, zero, zero, zero, zero, zero) : 64;
}

static int copy(size_t size, int kind)
{
	int (*f)(void *, const void *, size_t, int, void *) = dlsym(driver_api, "hipMemcpyWithStream");

	return f(NULL, NULL, size, kind, NULL);
}

static int carry_out(const char *what, int a, int b);
static struct { pthread_t thread; char what[48]; int a, b, failed; } aside;

static void *carry_out_aside(void *result)
{
	api.cuCtxSetCurrent(contexts[0]);
	aside.failed = carry_out(aside.what, aside.a, aside.b);
	return result;
}

/* Another thread carries it out, and stops in the driver, before it submits work. */
static int begin_aside(const char *what, int a, int b)
{
	int (*hold)(int) = dlsym(RTLD_DEFAULT, "fakeHold");

	strcpy(aside.what, what);
	aside.a = a;
	aside.b = b;
	return !hold || hold(1) || pthread_create(&aside.thread, NULL, carry_out_aside, NULL) || hold(2);
}

/* The other thread goes on to its end, or is cancelled where it is. */
static int end_aside(int cancel)
{
	int (*hold)(int) = dlsym(RTLD_DEFAULT, "fakeHold");

	return (cancel ? pthread_cancel(aside.thread) : hold(0)) || pthread_join(aside.thread, NULL) || (!cancel && aside.failed);
}

static int carry_out(const char *what, int a, int b)
{
	if (!strncmp(what, "aside-", 6))
		return begin_aside(what + 6, a, b);
	if (!strcmp(what, "join") || !strcmp(what, "cancel"))
		return end_aside(*what == 'c');
	if (!strncmp(what, "call-", 5))
		return call(what + 5, NULL);
	if (!strncmp(what, "proc-", 5))
		return call(what + 5, "hipGetProcAddress");
	if (!strcmp(what, "copy"))
		return copy((size_t)a, b);
	/* a function that gives a stream work, by its name; after "marked" a launch records event 1 */
	if (!strncmp(what, "cu", 2))
		return program_work(get, version, flags, what,
				    &(struct objects){ contexts[0], graphs[1], streams[a], marked ? events[1] : NULL }, (size_t)b);
	if (!strcmp(what, "marked"))
		return !(marked = 1);
	if (!strcmp(what, "primary"))
		return api.cuDevicePrimaryCtxRetain(&contexts[a], 0) || api.cuCtxSetCurrent(contexts[a]);
	if (!strcmp(what, "reset"))
		return api.cuDevicePrimaryCtxReset(0);
	if (!strncmp(what, "own-", 4))
		return on_its_own(what + 4, a);
	if (!strcmp(what, "context"))
		return api.cuCtxCreate(&contexts[a], 0, b);
	if (!strcmp(what, "use"))
		return hip_device ? hip_device(a) : api.cuCtxSetCurrent(contexts[a]);
	if (!strcmp(what, "destroy"))
		return api.cuCtxDestroy(contexts[a]);
	if (!strcmp(what, "stream"))
		return api.cuStreamCreate(&streams[a], (unsigned int)b);
	if (!strcmp(what, "unstream"))
		return api.cuStreamDestroy(streams[a]);
	if (!strcmp(what, "launch"))
		return hip_launch ? hip_launch(NULL, (struct dim){ (unsigned int)b, 1, 1 }, (struct dim){ 1, 1, 1 }, NULL, 0, NULL) :
		       api.cuLaunchKernel(NULL, (unsigned int)b, 1, 1, 1, 1, 1, 0, streams[a], NULL, NULL);
	if (!strcmp(what, "sync"))
		return api.cuStreamSynchronize(streams[a]);
	if (!strcmp(what, "query"))
		return api.cuStreamQuery(streams[a]);
	if (!strcmp(what, "all"))
		return hip_wait ? hip_wait() : wait_for_all(NULL);
	if (!strcmp(what, "all-of"))
		return wait_for_all(contexts[a]);
	if (!strcmp(what, "event"))
		return api.cuEventCreate(&events[a], 0);
	if (!strcmp(what, "record"))
		return api.cuEventRecord(events[a], streams[b]);
	if (!strcmp(what, "await"))
		return api.cuEventSynchronize(events[a]);
	if (!strcmp(what, "after"))
		return api.cuStreamWaitEvent(streams[a], events[b], 0);
	if (!strcmp(what, "capture"))
		return begin_capture(streams[a]);
	if (!strcmp(what, "captured"))
		return api.cuStreamEndCapture(streams[a], &graphs[b]);
	if (!strcmp(what, "graph"))
		return api.cuGraphLaunch(graphs[a], streams[b]);
	if (!strcmp(what, "upload"))
		return api.cuMemcpyHtoDAsync(0, NULL, (size_t)b, streams[a]);
	if (!strcmp(what, "download"))
		return api.cuMemcpyDtoH(NULL, 0, (size_t)b);
	if (!strcmp(what, "strange"))
		return api.cuStrange(1, 2.5, 3, 4, 5, 6, 7, 8.5, (size_t)b, streams[a]);
	if (!strcmp(what, "begin"))
		return gpurt_segment_begin(NULL, 0, (unsigned int)a);
	if (!strcmp(what, "end"))
		return gpurt_segment_end(NULL, 0);
	if (!strcmp(what, "query-host"))
		return gpurt_query_host(NULL, &(struct gpurt_query){ 0 }) > 0;
	if (!strcmp(what, "shuffle"))
		return shuffle();
	if (!strcmp(what, "child"))
		return in_child(a ? own_context : close_all, a > 1);
	if (!strcmp(what, "cancelled"))
		return cancelled();
	if (!strcmp(what, "signals"))
		return a ? handle_signals() : signals_handled();
	if (!strcmp(what, "vfork"))
		return close_in_vfork();
	if (!strcmp(what, "seal"))
		return seal();
	if (!strcmp(what, "steal-stderr"))
		return steal_stderr();
	if (!strcmp(what, "reload"))
		return reload(&driver_api, "libamdhip64.so", "hipInit") || resolve_hip();
	if (!strcmp(what, "threads"))
		return many_threads(a, b);
	if (!strcmp(what, "next"))	/* the call must come from this program: RTLD_NEXT depends on the caller */
		return dlsym(RTLD_NEXT, "main") != NULL || !dlsym(RTLD_NEXT, "getpid");
	return 64;
}

int main(int argc, char **argv)
{
	char line[128], what[48];
	int a, b, result;

	if (getenv("FAKE_LIMIT") && limit_descriptors((unsigned int)atoi(getenv("FAKE_LIMIT"))))
		return 4;
	resolve(argc > 1 ? argv[1] : "link");
	if (hip_init ? hip_init(0) : api.cuInit(0))
		return 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);	/* lines that are not read yet are for the program that "exec" executes */
	while (fgets(line, sizeof(line), stdin)) {
		a = b = 0;
		if (sscanf(line, "%47s %i %i", what, &a, &b) < 1)
			continue;
		if (!strcmp(what, "exec"))
			execv("/proc/self/exe", argv);
		if (!strcmp(what, "quit"))
			break;
		errno = EBUSY;	/* as a call before may have left it: whoever succeeds need not set it */
		result = carry_out(what, a, b);
		if (result)
			printf("%s %d\n", result == 600 ? "busy" : "error", result);
		else
			puts("ok");
	}
	return 0;
}
