// SPDX-License-Identifier: GPL-2.0
/*
 * A libcuda.so.1 for green contexts: a GPU of FAKE_SMS SMs, of which one split has FAKE_GROUPS groups of FAKE_STEP.
 *
 * Kernels take no time.  A stream has a clock of its own, which a launch moves on by the kernel's time: work / SMs,
 * but no less than its floor.  Queued work of another stream of the same context multiplies that time by FAKE_SAME
 * thousandths.  Queued work of another context multiplies it by FAKE_APART thousandths, if both are memory-bound.
 * FAKE_LOG names a file that has each context made.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAMS 64

struct context {
	unsigned int first, count;	/* groups */
};

struct stream {
	struct context *context;
	double now;			/* ns */
	unsigned int launched, over, memory;
};

struct event {
	struct stream *stream;
	double time;
	unsigned int launched;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[STREAMS];
static unsigned int made;
static struct context whole;
static _Thread_local struct context *current;

static bool queued(const struct stream *stream) { return stream->launched != stream->over; }

static unsigned int setting(const char *name, unsigned int usual)
{
	const char *text = getenv(name);

	return text ? (unsigned int)atoi(text) : usual;
}

static unsigned int step(void) { return setting("FAKE_STEP", 8); }
static unsigned int groups(void) { return setting("FAKE_GROUPS", 15); }
static unsigned int sms(void) { return setting("FAKE_SMS", 132); }

CUresult cuInit(unsigned int flags) { return flags || getenv("FAKE_NO_GPU") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = (CUcontext)&whole;
	return (CUresult)device;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	current = (struct context *)context;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	resource->type = type;
	resource->sm.smCount = sms();
	return (CUresult)device;
}

/* A group's place in the split is kept where the driver keeps what is its own. */
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *count, const CUdevResource *input,
				     CUdevResource *rest, unsigned int flags, unsigned int least)
{
	unsigned int size = (least + step() - 1) / step() * step(), i;
	unsigned int most = groups() * step() / size;

	if (flags || input->sm.smCount != sms())
		return CUDA_ERROR_INVALID_VALUE;
	if (*count > most)
		*count = most;
	for (i = 0; i < *count; i++) {
		result[i].type = CU_DEV_RESOURCE_TYPE_SM;
		result[i].sm.smCount = size;
		*(unsigned int *)result[i]._internal_padding = i;
	}
	rest->sm.smCount = sms() - *count * size;
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned int count)
{
	struct context *context = malloc(sizeof(*context));

	context->first = *(unsigned int *)resources->_internal_padding;
	context->count = count;
	*description = (CUdevResourceDesc)context;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned int flags)
{
	struct context *context = (struct context *)description;
	FILE *log = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "a") : NULL;

	*green = (CUgreenCtx)context;
	if (log) {
		fprintf(log, "%u %u\n", context->first * step(), context->count * step());
		fclose(log);
	}
	return device || flags != CU_GREEN_CTX_DEFAULT_STREAM ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
	resource->type = type;
	resource->sm.smCount = ((struct context *)green)->count * step() + setting("FAKE_MORE", 0);
	return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
	*context = (CUcontext)green;
	return CUDA_SUCCESS;
}

static CUresult new_stream(CUstream *stream, struct context *context)
{
	pthread_mutex_lock(&lock);
	streams[made].context = context;
	*stream = (CUstream)&streams[made++];
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
	return flags != CU_STREAM_NON_BLOCKING || priority ? CUDA_ERROR_INVALID_VALUE
							   : new_stream(stream, (struct context *)green);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return flags != CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE : new_stream(stream, &whole);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	*event = calloc(1, sizeof(struct event));
	return (CUresult)flags;
}

/* A launch of the program: @work ns on one SM, @floor ns at least. */
void fake_kernel(CUstream which, double work, double floor, unsigned int memory)
{
	struct stream *stream = (struct stream *)which, *other;
	struct context *on = stream->context;
	double time = work / (on == &whole ? sms() : on->count * step());

	if (current != on)
		abort();	/* the program has not entered the context */
	if (time < floor)
		time = floor;
	pthread_mutex_lock(&lock);
	for (other = streams; other < streams + made; other++)
		if (other != stream && queued(other) && other->context == on)
			time *= setting("FAKE_SAME", 1800) / 1000.0;
		else if (other != stream && queued(other) && memory && other->memory)
			time *= setting("FAKE_APART", 1250) / 1000.0;
	stream->now += time;
	stream->launched++;
	stream->memory = memory;
	pthread_mutex_unlock(&lock);
}

CUresult cuEventRecord(CUevent which, CUstream on)
{
	struct event *event = (struct event *)which;
	struct stream *other;

	pthread_mutex_lock(&lock);
	event->stream = (struct stream *)on;
	/* idle streams have one time */
	for (other = streams; other < streams + made; other++)
		if (!queued(event->stream) && !queued(other) && other->now > event->stream->now)
			event->stream->now = other->now;
	event->time = event->stream->now;
	event->launched = event->stream->launched;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream which, CUevent event, unsigned int flags)
{
	struct stream *stream = (struct stream *)which;

	pthread_mutex_lock(&lock);
	if (stream->now < ((struct event *)event)->time)
		stream->now = ((struct event *)event)->time;
	pthread_mutex_unlock(&lock);
	return (CUresult)flags;
}

CUresult cuEventSynchronize(CUevent which)
{
	struct event *event = (struct event *)which;

	pthread_mutex_lock(&lock);
	if (event->stream->over < event->launched)
		event->stream->over = event->launched;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream which)
{
	struct stream *stream = (struct stream *)which;

	pthread_mutex_lock(&lock);
	stream->over = stream->launched;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	*ms = (float)((((struct event *)to)->time - ((struct event *)from)->time) / 1e6);
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
	*name = result == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR";
	return CUDA_SUCCESS;
}
