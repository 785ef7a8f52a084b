// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Copies over the bus that the host hands out by priority, whole and in chunks. */
#include <errno.h>

#include <gpurt.h>

#include "handle.h"

int gpurt_copy_begin(struct gpurt_handle *h, unsigned int priority, uint64_t timeout_ns)
{
	return gpurt_copy_on(h, GPURT_COPY_BEGIN, priority, timeout_ns);
}

int gpurt_copy_next(struct gpurt_handle *h, uint64_t timeout_ns)
{
	return gpurt_copy_on(h, GPURT_COPY_NEXT, 0, timeout_ns);
}

int gpurt_copy_end(struct gpurt_handle *h)
{
	return gpurt_copy_on(h, GPURT_COPY_END, 0, 0);
}

/* After a signal the caller has to ask anew. */
static int begin(struct gpurt_handle *h, unsigned int priority)
{
	int err;

	do
		err = gpurt_copy_begin(h, priority, GPURT_FOREVER);
	while (err == -EINTR);
	return err;
}

static int next(struct gpurt_handle *h, unsigned int priority)
{
	int err = gpurt_copy_next(h, GPURT_FOREVER);

	/* A best-effort copy may have lost the bus in the middle of a chunk; then the copy asks for the bus again. */
	return err == -EINTR || err == -ENOENT ? begin(h, priority) : err;
}

int gpurt_copy_chunks(struct gpurt_handle *h, unsigned int priority, size_t size, size_t chunk,
		      int (*copy)(void *context, size_t offset, size_t length), void *context)
{
	size_t at, length = 0;
	int err, ended;

	if (!chunk)
		return -EINVAL;
	if (!size)
		return 0;
	err = begin(h, priority);
	if (err == -ENODEV && !h)
		return copy(context, 0, size);		/* unmanaged, like a segment without a host */
	if (err)
		return err;
	for (at = 0; !err && at < size; at += length) {
		if (at)
			err = next(h, priority);
		if (err)
			return err;
		length = size - at < chunk ? size - at : chunk;
		err = copy(context, at, length);
	}
	ended = gpurt_copy_end(h);
	return err || ended == -ENOENT ? err : ended;
}
