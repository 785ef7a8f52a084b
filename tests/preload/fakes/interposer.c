// SPDX-License-Identifier: GPL-2.0
/*
 * Libraries of others that see a program's launches, each in its way.  WRAPS: they define cuLaunchKernel, and find the
 * next one by RTLD_NEXT; HANDLE: or in the driver's library.  Otherwise they replace dlsym, as GPU-sharing libraries do,
 * and find the next one by its version; PAST: or in libc itself.  OWN: they replace both, and look their own function up.
 * VARIABLE: they only have a variable of that name, as programs that look all of the driver up.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static int launches;
#ifdef VARIABLE
void *cuLaunchKernel;
#else
static launch *next;
#endif
#ifndef OPTIMIZED
#define OPTIMIZED "O2"
#endif

__attribute__((destructor)) static void end(void)
{
	fprintf(stderr, "interposer: %d launches\n", launches);
}

#ifndef VARIABLE
typedef void *look_up(void *, const char *);

static inline look_up *next_look_up(void)
{
	static const char *const versions[] = { "GLIBC_2.2.5", "GLIBC_2.17" };
	static look_up *real;
	void *library = RTLD_NEXT;
	size_t i;

#ifdef PAST
	library = dlopen("libdl.so.2", RTLD_NOW);	/* or libc, on which it depends */
#endif
	for (i = 0; i < 2 && !real; i++)
		real = (look_up *)dlvsym(library, "dlsym", versions[i]);
	return real;
}

#ifdef WRAPS
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, void *stream,
		   void **params, void **extra)
{
#ifdef OWN
	next = (launch *)next_look_up()(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
#elif defined(HANDLE)
	next = (launch *)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
#else
	next = (launch *)dlsym(RTLD_NEXT, "cuLaunchKernel");
#endif
	launches++;
	return next ? next(f, a, b, c, d, e, g, h, stream, params, extra) : 500;
}
#endif

#ifdef OWN
static void *self(void)
{
	Dl_info own;

	return dladdr(&launches, &own) ? dlopen(own.dli_fname, RTLD_NOW) : NULL;
}

/* A jump to the next one keeps the caller, on which RTLD_NEXT depends.  Unoptimized code calls it instead. */
__attribute__((optimize(OPTIMIZED))) void *dlsym(void *handle, const char *name)
{
	if (strcmp(name, "cuLaunchKernel") || handle == RTLD_NEXT)
		return next_look_up()(handle, name);
	return next_look_up()(self(), name);
}
#elif !defined(WRAPS)
static int (*next_get)(const char *, void **, int, uint64_t, void *);

static int my_launch(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, void *stream,
		     void **params, void **extra)
{
	launches++;
	return next(f, a, b, c, d, e, g, h, stream, params, extra);
}

static void *mine(const char *name, void *found)
{
	if (!found || (strcmp(name, "cuLaunchKernel") && strcmp(name, "hipGraphLaunch")))
		return found;
	next = (launch *)found;
	return (void *)my_launch;
}

static int my_get(const char *name, void **found, int version, uint64_t flags, void *status)
{
	int err = next_get(name, found, version, flags, status);

	if (!err)
		*found = mine(name, *found);
	return err;
}

__attribute__((optimize("O2"))) void *dlsym(void *handle, const char *name)
{
	look_up *real = next_look_up();
	void *found;

	if (handle == RTLD_NEXT)
		return real(handle, name);
	found = real(handle, name);
	if (!found || (strcmp(name, "cuGetProcAddress_v2") && strcmp(name, "hipGetProcAddress")))
		return mine(name, found);
	next_get = (int (*)(const char *, void **, int, uint64_t, void *))found;
	return (void *)my_get;
}
#endif
#endif
