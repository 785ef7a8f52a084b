/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The macros of the papers' listings on top of libgpurt, for programs that use them.
 *
 *	cudaStreamBegin(getpid());		thesis, listing 4.1
 *	cudaMemcpyAsync(...); kernel<<<...>>>(...);
 *	cudaStreamEnd(getpid(), stream);
 *
 *	gcapsGpuSegBegin(fd, getpid());		ECRTS'24, listing 1; a third argument is the GPU priority
 *	gcapsGpuSegEnd(fd, getpid());
 *
 * A process can act only for itself: another pid gives -EPERM.  The GCAPS macros ignore their descriptor.
 * cudaStreamEnd() synchronises the stream before it ends the segment, so include <cuda_runtime_api.h> first.
 */
#ifndef GPURT_CUDA_H
#define GPURT_CUDA_H

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include <gpurt.h>

static inline int gpurt_compat_begin(pid_t pid, unsigned int priority)
{
	return pid == getpid() ? gpurt_segment_begin(NULL, 0, priority) : -EPERM;
}

static inline int gpurt_compat_end(pid_t pid)
{
	return pid == getpid() ? gpurt_segment_end(NULL, 0) : -EPERM;
}

#define cudaStreamBegin(pid) gpurt_compat_begin((pid), 0)

/* Ends the segment in any case.  -EIO if the stream failed. */
#define cudaStreamEnd(pid, stream) gpurt_compat_stream_end((pid), (int)cudaStreamSynchronize(stream))

static inline int gpurt_compat_stream_end(pid_t pid, int cuda_error)
{
	int err = gpurt_compat_end(pid);

	return err ? err : cuda_error ? -EIO : 0;
}

#define gcapsGpuSegBegin(fd, ...) \
	((void)(fd), gpurt_compat_begin(GPURT_FIRST(__VA_ARGS__, 0), GPURT_SECOND(__VA_ARGS__, 0, 0)))
#define gcapsGpuSegEnd(fd, ...) ((void)(fd), gpurt_compat_end(GPURT_FIRST(__VA_ARGS__, 0)))
#define GPURT_FIRST(pid, ...) (pid)
#define GPURT_SECOND(pid, priority, ...) (priority)

#endif /* GPURT_CUDA_H */
