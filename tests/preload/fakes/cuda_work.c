// SPDX-License-Identifier: GPL-2.0
/*
 * The fake libcuda.so.1's functions that give work to streams, beside those of cuda.c.  How long the work is, in
 * microseconds, is in a parameter that has another meaning for CUDA: a size or a value.  Signatures and what is checked are
 * those of cuda.h of CUDA 12.9 and 13.5.
 */
#include "cuda_fake.h"

typedef unsigned long long pointer;

struct location { int kind, id; };
struct attributes { int order; struct location from, to; unsigned int flags; };

EXPORT int cuMemsetD2D8_v2(pointer to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	(void)value;
	return !to || pitch < width ? INVALID_VALUE : fake_submit(NULL, width * height);
}

EXPORT int cuMemcpyPeer(pointer to, void *to_context, pointer from, void *from_context, size_t size)
{
	return !to_context || !from_context ? INVALID_CONTEXT : !to || !from ? INVALID_VALUE : fake_submit(NULL, size);
}

static int batch(pointer *to, pointer *from, const size_t *sizes, size_t count, const struct attributes *attributes,
		 const size_t *begins, size_t kinds, struct stream *s)
{
	size_t i, us = 0;

	if (!count || !kinds || kinds > count || begins[0] || attributes[0].order < 1 || attributes[0].order > 3)
		return INVALID_VALUE;
	for (i = 0; i < count; i++) {
		if (!to[i] || !from[i])
			return INVALID_VALUE;
		us += sizes[i];
	}
	return fake_submit(s, us);
}

EXPORT int cuMemcpyBatchAsync(pointer *to, pointer *from, const size_t *sizes, size_t count,
			      const struct attributes *attributes, const size_t *begins, size_t kinds, size_t *failed,
			      struct stream *s)
{
	*failed = (size_t)-1;
	return s ? batch(to, from, sizes, count, attributes, begins, kinds, s) : INVALID_VALUE;
}

EXPORT int cuMemcpyBatchAsync_v2(pointer *to, pointer *from, const size_t *sizes, size_t count,
				 const struct attributes *attributes, const size_t *begins, size_t kinds, struct stream *s)
{
	return s ? batch(to, from, sizes, count, attributes, begins, kinds, s) : INVALID_VALUE;
}

EXPORT int cuMemPrefetchAsync(pointer at, size_t size, int device, struct stream *s)
{
	return !at || device < -1 || device > 1 ? INVALID_VALUE : fake_submit(s, size);
}

EXPORT int cuMemPrefetchAsync_v2(pointer at, size_t size, struct location to, unsigned int flags, struct stream *s)
{
	return !at || flags || to.kind < 1 || to.kind > 4 || to.id > 1 ? INVALID_VALUE : fake_submit(s, size);
}

EXPORT int cuLaunchHostFunc(struct stream *s, void (*function)(void *), void *data)
{
	return function ? fake_submit(s, (uintptr_t)data) : INVALID_VALUE;
}

EXPORT int cuLaunchHostFunc_v2(struct stream *s, void (*function)(void *), void *data, unsigned int mode)
{
	return mode > 1 ? INVALID_VALUE : cuLaunchHostFunc(s, function, data);
}

EXPORT int cuStreamWriteValue32_v2(struct stream *s, pointer at, unsigned int value, unsigned int flags)
{
	return !at || at % 4 || flags > 1 ? INVALID_VALUE : fake_submit(s, value);
}

struct signal { uint64_t value; };

EXPORT int cuSignalExternalSemaphoresAsync(void *const *which, const struct signal *what, unsigned int count, struct stream *s)
{
	return !count || !which[0] ? INVALID_VALUE : fake_submit(s, what[0].value);
}

EXPORT int cuGraphUpload(struct graph *g, struct stream *s) { return g ? fake_submit(s, g->us) : INVALID_VALUE; }

struct attribute { unsigned int id, pad; union { struct event *event; char bytes[64]; } value; };
struct config {
	unsigned int grid[3], block[3], shared;
	struct stream *stream;
	struct attribute *attributes;
	unsigned int number;
};

/* The launch may record an event (attributes 7 and 12), which here is done at once. */
EXPORT int cuLaunchKernelEx(const struct config *c, void *f, void **params, void **extra)
{
	unsigned int i;

	(void)f, (void)params, (void)extra;
	for (i = 0; i < c->number; i++)
		if (c->attributes[i].id == 7 || c->attributes[i].id == 12)
			*c->attributes[i].value.event = (struct event){ 0 };
	return c->grid[0] && c->block[0] ? fake_submit(c->stream, c->grid[0]) : INVALID_VALUE;
}

EXPORT int cuMemAllocAsync(pointer *made, size_t size, struct stream *s) { *made = 4096; return size ? fake_submit(s, 1) : INVALID_VALUE; }
EXPORT int cuMemFreeAsync(pointer at, struct stream *s) { return at ? fake_submit(s, 1) : INVALID_VALUE; }

EXPORT int cuStreamBeginCaptureToGraph(struct stream *s, struct graph *g, void **nodes, void *edges, size_t count, int mode)
{
	return !g || count || nodes || edges || mode < 0 || mode > 2 ? INVALID_VALUE : fake_begin_capture(s);
}

const struct fake_form fake_work[] = {
	{ "cuMemsetD2D8", 3020, cuMemsetD2D8_v2, NULL }, { "cuMemcpyPeer", 4000, cuMemcpyPeer, NULL },
	{ "cuMemcpyBatchAsync", 13000, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2 },
	{ "cuMemcpyBatchAsync", 12080, cuMemcpyBatchAsync, cuMemcpyBatchAsync },
	{ "cuMemPrefetchAsync", 12020, cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2 },
	{ "cuMemPrefetchAsync", 8000, cuMemPrefetchAsync, cuMemPrefetchAsync },
	{ "cuLaunchHostFunc", 13010, cuLaunchHostFunc_v2, cuLaunchHostFunc_v2 },
	{ "cuLaunchHostFunc", 10000, cuLaunchHostFunc, cuLaunchHostFunc },
	{ "cuStreamWriteValue32", 11070, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2 },
	{ "cuSignalExternalSemaphoresAsync", 10000, cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync },
	{ "cuGraphUpload", 11010, cuGraphUpload, cuGraphUpload }, { "cuLaunchKernelEx", 11060, cuLaunchKernelEx, cuLaunchKernelEx },
	{ "cuMemAllocAsync", 11020, cuMemAllocAsync, cuMemAllocAsync }, { "cuMemFreeAsync", 11020, cuMemFreeAsync, cuMemFreeAsync },
	{ "cuStreamBeginCaptureToGraph", 12030, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph },
	{ NULL, 0, NULL, NULL },
};
