// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A program that uses libgpurt finds these functions first: its segments win over automatic ones, and the process's
 * own handle is the one whose TSGs the agent switches.  (Built with the library's own two under other names.)
 */
#include <gpurt.h>

#include "preload.h"

int library_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority);
int library_segment_end(struct gpurt_handle *handle, unsigned int flags);

PRELOAD_EXPORT int gpurt_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority)
{
	segments_explicit();
	return library_segment_begin(handle, flags, priority);
}

PRELOAD_EXPORT int gpurt_segment_end(struct gpurt_handle *handle, unsigned int flags)
{
	return library_segment_end(handle, flags);
}
