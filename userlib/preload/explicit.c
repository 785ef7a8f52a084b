// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A program that uses libgpurt finds these functions before the library's own.  Once it has begun a segment itself, the
 * preload library makes no automatic ones.  Program and agent then share one handle, so the segments are those of the
 * TSGs that the agent switches.  The Makefile renames the library's own two functions.
 */
#include <gpurt.h>

#include "../handle.h"
#include "preload.h"

int library_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority);
int library_segment_end(struct gpurt_handle *handle, unsigned int flags);

PRELOAD_EXPORT int gpurt_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority)
{
	bool yields = false;
	uint32_t gpu;

	segments_explicit();
	if (!handle && !priority && !gpurt_handle_gpu(NULL, &gpu) && agent_begins_freely(gpu, flags, &yields))
		return 0;
	return library_segment_begin(handle, flags, priority);
}

PRELOAD_EXPORT int gpurt_segment_end(struct gpurt_handle *handle, unsigned int flags)
{
	return library_segment_end(handle, flags);
}
