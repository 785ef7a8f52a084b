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
 * Begins an outermost segment of the process's own handle on @gpu without an answer.  Any error: it has not begun, and
 * gpurt_begin_on() says why.
 */
__attribute__((visibility("hidden")))
int gpurt_begin_posted(unsigned int gpu, unsigned int flags);

/*
 * Does what @what says (enum gpurt_copy_what) on the GPU of the handle's calls.  @handle: NULL for the process's own.
 */
__attribute__((visibility("hidden")))
int gpurt_copy_on(struct gpurt_handle *handle, unsigned int what, unsigned int priority, uint64_t timeout_ns);

/* Sets the GPU of the handle's calls.  @handle: NULL for the process's own.  0 or -errno. */
__attribute__((visibility("hidden")))
int gpurt_handle_gpu(struct gpurt_handle *handle, uint32_t *gpu);

/* The handle is closed: a job that this thread has begun with it is over, and nobody is told. */
__attribute__((visibility("hidden")))
void gpurt_job_forget(const struct gpurt_handle *handle);

/*
 * Carries out ioctl @code.  @argument begins with its own size and names its GPU.  @handle: NULL for the process's own.
 * Returns 0 or -errno.  -EINTR only if @interruptible.
 */
__attribute__((visibility("hidden")))
int gpurt_call(struct gpurt_handle *handle, uint32_t code, void *argument, bool interruptible);

/* Whether descriptor 2 is still what it was when the library was loaded: messages belong into nothing else. */
__attribute__((visibility("hidden")))
bool gpurt_has_stderr(void);

/* The process's id.  That of the parent in a child of vfork(), which shares its memory. */
__attribute__((visibility("hidden")))
pid_t gpurt_pid(void);

/* Memory for one number, which is 0 in a child, however that was made.  NULL: the kernel has none (before 4.14). */
__attribute__((visibility("hidden")))
pid_t *gpurt_wiped(void);

#endif
