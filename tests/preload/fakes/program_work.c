// SPDX-License-Identifier: GPL-2.0
/* Work that program.c gives to streams by name, with what CUDA's headers of the asked version declare. */
#include <string.h>

#include "program_work.h"

typedef unsigned long long pointer;

struct location { int kind, id; };
struct attributes { int order; struct location from, to; unsigned int flags; };
struct attribute { unsigned int id, pad; union { void *event; char bytes[64]; } value; };
struct config {
	unsigned int grid[3], block[3], shared;
	void *stream;
	struct attribute *attributes;
	unsigned int number;
};

struct node { int type, reserved[3]; void *event; };	/* type 7: it records an event */

static pointer memory[4] = { 0x10000, 0x20000, 0x30000, 0x40000 };

static void nothing(void *data)
{
	(void)data;
}

static int batch(void *function, int version, void *stream, size_t us)
{
	struct attributes attributes = { 1, { 1, 0 }, { 1, 0 }, 0 };
	size_t sizes[2] = { us / 2, us - us / 2 }, begin = 0, failed;

	if (version >= 13000)
		return ((int (*)(pointer *, pointer *, size_t *, size_t, void *, size_t *, size_t, void *))function)(
			memory, memory + 2, sizes, 2, &attributes, &begin, 1, stream);
	return ((int (*)(pointer *, pointer *, size_t *, size_t, void *, size_t *, size_t, size_t *, void *))function)(
		memory, memory + 2, sizes, 2, &attributes, &begin, 1, &failed, stream);
}

static int prefetch(void *function, int version, void *stream, size_t us)
{
	struct location to = { 1, 1 };

	if (version >= 12020)
		return ((int (*)(pointer, size_t, struct location, unsigned int, void *))function)(memory[0], us, to, 0, stream);
	return ((int (*)(pointer, size_t, int, void *))function)(memory[0], us, 1, stream);
}

static int host_function(void *function, int version, void *stream, size_t us)
{
	if (version >= 13010)
		return ((int (*)(void *, void *, void *, unsigned int))function)(stream, nothing, (void *)us, 1);
	return ((int (*)(void *, void *, void *))function)(stream, nothing, (void *)us);
}

/* With an @event the launch records it: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT. */
static int launch_ex(void *function, void *stream, void *event, size_t us)
{
	struct attribute attributes[2] = { { 1, 0, { NULL } }, { 7, 0, { event } } };
	struct config config = { { (unsigned int)us, 1, 1 }, { 1, 1, 1 }, 0, stream, attributes, event ? 2 : 1 };

	return ((int (*)(const struct config *, void *, void **, void **))function)(&config, NULL, NULL, NULL);
}

/* Calls the function @name, in the form that @version has, with @us of work for the stream. */
int program_work(look_up get, int version, uint64_t flags, const char *name, const struct objects *o, size_t us)
{
	void *context = o->context, *graph = o->graph, *stream = o->stream;
	void *f = NULL, *semaphore = memory, *node;
	uint64_t value = us;

	if (!get || get(name, &f, version, flags, NULL) || !f)
		return 500;
	if (!strcmp(name, "cuMemsetD2D8"))
		return ((int (*)(pointer, size_t, unsigned char, size_t, size_t))f)(memory[0], us, 7, us, 1);
	if (!strcmp(name, "cuMemcpyPeer"))
		return ((int (*)(pointer, void *, pointer, void *, size_t))f)(memory[0], context, memory[1], context, us);
	if (!strcmp(name, "cuMemcpyBatchAsync"))
		return batch(f, version, stream, us);
	if (!strcmp(name, "cuMemPrefetchAsync"))
		return prefetch(f, version, stream, us);
	if (!strcmp(name, "cuLaunchHostFunc"))
		return host_function(f, version, stream, us);
	if (!strcmp(name, "cuLaunchKernelEx"))
		return launch_ex(f, stream, o->event, us);
	if (!strcmp(name, "cuStreamWriteValue32"))
		return ((int (*)(void *, pointer, unsigned int, unsigned int))f)(stream, memory[0], (unsigned int)us, 0);
	if (!strcmp(name, "cuSignalExternalSemaphoresAsync"))
		return ((int (*)(void **, uint64_t *, unsigned int, void *))f)(&semaphore, &value, 1, stream);
	if (!strcmp(name, "cuGraphUpload"))
		return ((int (*)(void *, void *))f)(graph, stream);
	if (!strcmp(name, "cuGraphAddEventRecordNode"))
		return ((int (*)(void **, void *, void **, size_t, void *))f)(&node, graph, NULL, 0, o->event);
	if (!strcmp(name, "cuGraphAddNode"))
		return ((int (*)(void **, void *, void **, void *, size_t, struct node *))f)(
			&node, graph, NULL, NULL, 0, &(struct node){ 7, { 0 }, o->event });
	if (!strcmp(name, "cuMemAllocAsync"))
		return ((int (*)(pointer *, size_t, void *))f)(&memory[3], us, stream);
	if (!strcmp(name, "cuMemFreeAsync"))
		return ((int (*)(pointer, void *))f)(memory[3], stream);
	if (!strcmp(name, "cuStreamBeginCaptureToGraph"))
		return ((int (*)(void *, void *, void **, void *, size_t, int))f)(stream, graph, NULL, NULL, 0, 0);
	return 64;
}
