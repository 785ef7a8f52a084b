// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Handles, the process's own handle, and the public functions of gpurt.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpurt.h>

#include "handle.h"
#include "place.h"
#include "transport.h"

struct gpurt_handle {
	const struct gpurt_transport *transport;
	void *state;
	pid_t owner;
	unsigned int gpu;
};

static _Atomic(struct gpurt_handle *) own_handle;
static atomic_bool warned;
/* Set while this thread is in a transport's call.  A signal handler that interrupts it must not wait for the thread. */
static _Thread_local volatile int inside;

static int open_path(const char *path, const struct gpurt_transport **transport, void **state)
{
	struct stat info;

	if (stat(path, &info) < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ENODEV : -errno;
	if (S_ISCHR(info.st_mode))
		*transport = &gpurt_transport_ioctl;
	else if (S_ISSOCK(info.st_mode))
		*transport = &gpurt_transport_socket;
	else
		return -EPROTO;
	return (*transport)->open(path, state);
}

static int open_any(const char *device, const struct gpurt_transport **transport, void **state)
{
	char buffer[GPURT_PLACE_SIZE];
	unsigned int i;
	int err = -ENODEV;

	device = gpurt_named_place(device);
	if (device)
		return open_path(device, transport, state);
	for (i = 0; err == -ENODEV && gpurt_usual_place(i, buffer); i++)
		err = open_path(buffer, transport, state);
	return err;
}

static int call(struct gpurt_handle *h, uint32_t code, void *argument, bool interruptible)
{
	int err;

	inside++;
	err = h->transport->call(h->state, code, argument, interruptible);
	inside--;
	return err;
}

int gpurt_open(struct gpurt_handle **handle, const char *device)
{
	struct gpurt_query query = { .size = sizeof(query) };
	struct gpurt_handle *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->owner = getpid();
	err = open_any(device, &h->transport, &h->state);
	if (err) {
		free(h);
		return err;
	}
	err = call(h, GPURT_IOC_QUERY, &query, false);
	if (!err && query.version < GPURT_VERSION)
		err = -EPROTO;
	if (err == -ENOTTY)
		err = -EPROTO;
	if (err) {
		gpurt_close(h);
		return err;
	}
	*handle = h;
	return 0;
}

void gpurt_close(struct gpurt_handle *h)
{
	if (!h)
		return;
	if (h->owner == getpid())
		h->transport->close(h->state);
	else
		h->transport->abandon(h->state);
	free(h);
}

static void warn_once(int err)
{
	char why[1024];

	if (atomic_exchange(&warned, true))
		return;
	gpurt_explain(NULL, err, why, sizeof(why));
	fprintf(stderr, "gpurt: GPU work runs unmanaged: %s\n", why);
}

/* The process's own handle.  The first thread that needs it opens it.  A child opens its own. */
static int own(struct gpurt_handle **handle)
{
	struct gpurt_handle *h = atomic_load(&own_handle), *fresh;
	int err;

	if (h && h->owner == getpid()) {
		*handle = h;
		return 0;
	}
	if (inside)
		return -ENOENT;		/* in a signal handler, before the handle was opened */
	err = gpurt_open(&fresh, NULL);
	if (err) {
		warn_once(err);
		return err;
	}
	if (atomic_compare_exchange_strong(&own_handle, &h, fresh)) {
		if (h)
			gpurt_close(h);	/* inherited from the parent */
		*handle = fresh;
		return 0;
	}
	gpurt_close(fresh);
	*handle = h;
	return 0;
}

/* Replaces a NULL handle by the process's own.  -ESTALE: another process opened the handle. */
static int resolve(struct gpurt_handle **handle)
{
	if (!*handle)
		return own(handle);
	return (*handle)->owner == getpid() ? 0 : -ESTALE;
}

int gpurt_call(struct gpurt_handle *h, uint32_t code, void *argument, bool interruptible)
{
	int err = resolve(&h);

	return err ? err : call(h, code, argument, interruptible);
}

int gpurt_query_host(struct gpurt_handle *h, struct gpurt_query *query)
{
	int err = resolve(&h);

	if (err)
		return err;
	memset(query, 0, sizeof(*query));
	query->size = sizeof(*query);
	query->gpu = h->gpu;
	return call(h, GPURT_IOC_QUERY, query, false);
}

int gpurt_use_gpu(struct gpurt_handle *h, unsigned int gpu)
{
	struct gpurt_query query = { .size = sizeof(query), .gpu = gpu };
	int err = resolve(&h);

	if (!err)
		err = call(h, GPURT_IOC_QUERY, &query, false);
	if (!err)
		h->gpu = gpu;
	return err;
}

static int begin(struct gpurt_handle *h, unsigned int flags, unsigned int priority)
{
	struct gpurt_begin b = { .size = sizeof(b), .flags = flags, .priority = priority };
	int err = resolve(&h);

	if (err)
		return err;
	b.gpu = h->gpu;
	return call(h, GPURT_IOC_BEGIN, &b, flags & GPURT_BEGIN_WAIT);
}

int gpurt_segment_begin(struct gpurt_handle *h, unsigned int flags, unsigned int priority)
{
	const char *required = getenv("GPURT_REQUIRED");
	int err = begin(h, flags, priority);

	if (err && err != -EINTR && required && !strcmp(required, "1")) {
		fprintf(stderr, "gpurt: cannot begin a GPU segment: %s (GPURT_REQUIRED=1)\n", strerror(-err));
		abort();
	}
	return err;
}

int gpurt_segment_end(struct gpurt_handle *h, unsigned int flags)
{
	struct gpurt_end e = { .size = sizeof(e), .flags = flags };
	int err = resolve(&h);

	if (err)
		return err;
	e.gpu = h->gpu;
	if (inside)
		return h->transport->post(h->state, GPURT_IOC_END, &e);
	return call(h, GPURT_IOC_END, &e, flags & GPURT_END_DRAIN);
}

static int wait_for(struct gpurt_handle *h, struct gpurt_wait *w, uint64_t *completed_ns)
{
	int err = resolve(&h);

	if (err)
		return err;
	w->size = sizeof(*w);
	w->gpu = h->gpu;
	err = call(h, GPURT_IOC_WAIT, w, true);
	if (!err && completed_ns)
		*completed_ns = w->completed_ns;
	return err;
}

int gpurt_segment_wait(struct gpurt_handle *h, uint64_t timeout_ns)
{
	struct gpurt_wait w = { .what = GPURT_WAIT_GRANT, .timeout_ns = timeout_ns };

	return wait_for(h, &w, NULL);
}

int gpurt_work_wait(struct gpurt_handle *h, uint32_t tsg, uint64_t work, uint64_t timeout_ns, uint64_t *completed_ns)
{
	struct gpurt_wait w = { .what = GPURT_WAIT_WORK, .tsg = tsg, .work = work, .timeout_ns = timeout_ns };

	return wait_for(h, &w, completed_ns);
}

int gpurt_tsg_open(struct gpurt_handle *h, uint32_t *tsg)
{
	struct gpurt_tsg t = { .size = sizeof(t) };
	int err = resolve(&h);

	if (err)
		return err;
	t.gpu = h->gpu;
	err = call(h, GPURT_IOC_TSG_OPEN, &t, false);
	if (!err)
		*tsg = t.tsg;
	return err;
}

int gpurt_tsg_close(struct gpurt_handle *h, uint32_t tsg)
{
	struct gpurt_tsg t = { .size = sizeof(t), .tsg = tsg };
	int err = resolve(&h);

	if (err)
		return err;
	t.gpu = h->gpu;
	return call(h, GPURT_IOC_TSG_CLOSE, &t, false);
}

int gpurt_submit_work(struct gpurt_handle *h, uint32_t tsg, uint32_t engine, unsigned int flags, uint64_t duration_ns,
		      uint64_t *work)
{
	struct gpurt_submit s = {
		.size = sizeof(s), .tsg = tsg, .engine = engine, .flags = flags, .duration_ns = duration_ns,
	};
	int err = resolve(&h);

	if (err)
		return err;
	s.gpu = h->gpu;
	err = call(h, GPURT_IOC_SUBMIT, &s, false);
	if (!err && work)
		*work = s.work;
	return err;
}
