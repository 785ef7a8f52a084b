/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Functions of libgpurt that the preload library uses besides gpurt.h. */
#ifndef GPURT_HANDLE_H
#define GPURT_HANDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gpurt_handle;

/*
 * Begins a segment on @gpu, or ends the innermost one: gpurt_segment_begin() and gpurt_segment_end() without their
 * messages.  @handle: NULL for the process's own.
 */
__attribute__((visibility("hidden")))
int gpurt_begin_on(struct gpurt_handle *handle, unsigned int gpu, unsigned int flags, unsigned int priority);
__attribute__((visibility("hidden")))
int gpurt_end_on(struct gpurt_handle *handle, unsigned int gpu, unsigned int flags);

/*
 * Begins an outermost segment of the process's own handle on @gpu without an answer.  After any error the segment has
 * not begun, and gpurt_begin_on() returns the reason.
 */
__attribute__((visibility("hidden")))
int gpurt_begin_posted(unsigned int gpu, unsigned int flags);

/*
 * Makes copy call @what (enum gpurt_copy_what) on the GPU of the handle's calls.  @handle: NULL for the process's own.
 */
__attribute__((visibility("hidden")))
int gpurt_copy_on(struct gpurt_handle *handle, unsigned int what, unsigned int priority, uint64_t timeout_ns);

/* Sets the GPU of the handle's calls.  @handle: NULL for the process's own.  0 or -errno. */
__attribute__((visibility("hidden")))
int gpurt_handle_gpu(struct gpurt_handle *handle, uint32_t *gpu);

/* Called when the handle is closed: forgets the job that this thread has begun with it, and reports no end. */
__attribute__((visibility("hidden")))
void gpurt_job_forget(const struct gpurt_handle *handle);

/*
 * Carries out ioctl @code.  @argument begins with its own size and names its GPU.  @handle: NULL for the process's own.
 * Returns 0 or -errno.  -EINTR only if @interruptible.
 */
__attribute__((visibility("hidden")))
int gpurt_call(struct gpurt_handle *handle, uint32_t code, void *argument, bool interruptible);

/* Whether descriptor 2 is still what it was when the library was loaded: messages must go nowhere else. */
__attribute__((visibility("hidden")))
bool gpurt_has_stderr(void);

/* The process's id.  In a child of vfork(), which shares the parent's memory, the parent's id. */
__attribute__((visibility("hidden")))
pid_t gpurt_pid(void);

/* Memory for one number that reads 0 in every child process.  NULL: the kernel has no such memory (before 4.14). */
__attribute__((visibility("hidden")))
pid_t *gpurt_wiped(void);

#endif
