/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the preload library needs of libgpurt beyond gpurt.h. */
#ifndef GPURT_HANDLE_H
#define GPURT_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

struct gpurt_handle;

/*
 * Carries out ioctl @code on @argument, which begins with its size and names its GPU; @handle NULL: the process's own.
 * Returns 0 or -errno, -EINTR only where @interruptible.
 */
__attribute__((visibility("hidden"))) int gpurt_call(struct gpurt_handle *handle, uint32_t code, void *argument, bool interruptible);

#endif
