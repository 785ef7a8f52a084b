/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * libgpurt: real-time GPU segments for programs.
 *
 *	gpurt_segment_begin(NULL, 0, 0);	// own SCHED_FIFO priority decides who gets the GPU
 *	... launch kernels, copy, synchronise ...
 *	gpurt_segment_end(NULL, 0);
 *
 * A handle is one client of gpurt's host (the kernel module, or `gpurt emulate`).  NULL stands for the
 * process's own handle, opened on first use and shared by its threads; after fork() the child opens its own.
 * A program whose threads are to be scheduled separately opens a handle a thread.  A handle may be used by
 * several threads at a time.
 *
 * Every function returns 0 or -errno.  Which host: the argument of gpurt_open(), else the environment variable
 * GPURT_DEVICE, else /dev/gpurt if it exists, else the emulator's socket.  A path to a character device is
 * spoken to with ioctls, a path to a socket with packets.  If there is no host, calls on the NULL handle return
 * -ENODEV and one line on stderr says so once, so that the program runs on unmanaged; with GPURT_REQUIRED=1 in
 * the environment gpurt_segment_begin() then prints the reason and calls abort().
 *
 * gpurt_segment_end() on an open handle is async-signal-safe.  A process that dies inside a segment leaves
 * nothing behind.
 */
#ifndef GPURT_H
#define GPURT_H

#ifndef GPURT_CDEF
#include <stdint.h>
#include <gpurt/uapi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct gpurt_handle;

/* Opens a client.  @device NULL: choose as described above.  -ENODEV: no host; -EACCES; -EPROTO: not one. */
int gpurt_open(struct gpurt_handle **handle, const char *device);
void gpurt_close(struct gpurt_handle *handle);

/* Which GPU the handle's calls go to, 0 unless set.  -ENODEV if the host has no such GPU. */
int gpurt_use_gpu(struct gpurt_handle *handle, unsigned int gpu);

/* Version, capabilities, policy.  @query is filled in. */
int gpurt_query_host(struct gpurt_handle *handle, struct gpurt_query *query);

/*
 * Begins a segment; segments nest.  @flags: GPURT_BEGIN_WAIT to block until the GPU is held.  @priority: 0 for
 * the caller's own, else 1..99 (-EPERM if higher than the caller may take for itself).
 */
int gpurt_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority);

/* Ends the innermost segment.  @flags: GPURT_END_DRAIN to hand the GPU on only when submitted work is done. */
int gpurt_segment_end(struct gpurt_handle *handle, unsigned int flags);

/* Blocks until the segment holds the GPU.  @timeout_ns: GPURT_FOREVER for no limit; -ETIMEDOUT. */
int gpurt_segment_wait(struct gpurt_handle *handle, uint64_t timeout_ns);

/* Virtual GPU: a time-slice group, work on it, waiting for work.  @work and @completed_ns may be NULL. */
int gpurt_tsg_open(struct gpurt_handle *handle, uint32_t *tsg);
int gpurt_tsg_close(struct gpurt_handle *handle, uint32_t tsg);
int gpurt_submit_work(struct gpurt_handle *handle, uint32_t tsg, uint32_t engine, unsigned int flags, uint64_t duration_ns,
		      uint64_t *work);
int gpurt_work_wait(struct gpurt_handle *handle, uint32_t tsg, uint64_t work, uint64_t timeout_ns, uint64_t *completed_ns);

#ifdef __cplusplus
}
#endif

#endif /* GPURT_H */
