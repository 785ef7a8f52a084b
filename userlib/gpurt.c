// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Handles, the process's own handle, and the public functions of gpurt.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpurt.h>

#include "handle.h"
#include "place.h"
#include "raise.h"
#include "transport.h"

/* How often a thread raises itself as demanded before its begin fails: its client's other threads change the demand. */
#define MOST_DEMANDS 100

struct gpurt_handle {
	const struct gpurt_transport *transport;
	void *state;
	pid_t owner;
	unsigned int gpu;
	bool raises;			/* the host raises threads */
	struct gpurt_raising raising[GPURT_MAX_GPUS];
	_Atomic bool spins[GPURT_MAX_GPUS];	/* the outermost begin stated form `owner` or `fence` */
	_Atomic bool posts[GPURT_MAX_GPUS];	/* the host's answer to the last begin permits a posted end */
};

static _Atomic(struct gpurt_handle *) own_handle;
static atomic_bool warned, refused;
static _Atomic uint32_t requests = 1;		/* number of the next call that asks for the bus */
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

/* No segment is open any more. */
static void lower_all(struct gpurt_handle *h)
{
	unsigned int gpu;

	for (gpu = 0; gpu < GPURT_MAX_GPUS; gpu++)
		gpurt_raising_over(&h->raising[gpu]);
}

static int call(struct gpurt_handle *h, uint32_t code, void *argument, enum gpurt_patience patience)
{
	int err;

	inside++;
	err = h->transport->call(h->state, code, argument, patience);
	inside--;
	if (err == -ENODEV && h->transport->lost && h->transport->lost(h->state))
		lower_all(h);
	return err;
}

/* The GPU that the environment names: 0 if it names none, -EINVAL if the value is not a GPU's number. */
static int environment_gpu(uint32_t *gpu)
{
	const char *text = getenv("GPURT_GPU");
	char *end;
	unsigned long number;

	*gpu = 0;
	if (!text)
		return 0;
	number = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || number >= GPURT_MAX_GPUS)
		return -EINVAL;
	*gpu = (uint32_t)number;
	return 0;
}

static int join_group(struct gpurt_handle *h, const char *name, unsigned int flags)
{
	struct gpurt_group_join join = { .size = sizeof(join), .flags = flags };

	if (strlen(name) >= sizeof(join.name))
		return -EINVAL;
	strcpy(join.name, name);
	return call(h, GPURT_IOC_GROUP_JOIN, &join, GPURT_IS_ANSWERED);
}

int gpurt_open(struct gpurt_handle **handle, const char *device)
{
	struct gpurt_query query = { .size = sizeof(query) };
	const char *group = getenv("GPURT_GROUP");
	struct gpurt_handle *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->owner = gpurt_pid();
	err = environment_gpu(&h->gpu);
	if (!err)
		err = open_any(device, &h->transport, &h->state);
	if (err) {
		free(h);
		return err;
	}
	query.gpu = h->gpu;
	err = call(h, GPURT_IOC_QUERY, &query, GPURT_IS_ANSWERED);
	if (err == -ENODEV && h->gpu)
		err = -ENXIO;
	if (!err && query.version < GPURT_VERSION)
		err = -EPROTO;
	if (err == -ENOTTY)
		err = -EPROTO;
	if (!err && group && *group)
		err = join_group(h, group, 0);
	if (err) {
		gpurt_close(h);
		return err;
	}
	h->raises = query.caps & GPURT_CAP_RAISES;
	*handle = h;
	return 0;
}

void gpurt_close(struct gpurt_handle *h)
{
	if (!h)
		return;
	gpurt_job_forget(h);
	if (h->owner == gpurt_pid()) {
		h->transport->close(h->state);
		lower_all(h);
	} else {
		h->transport->abandon(h->state);
	}
	free(h);
}

static void warn_once(int err)
{
	char why[1024];

	if (atomic_exchange(&warned, true))
		return;
	gpurt_explain(NULL, err, why, sizeof(why));
	/* Without a host begin does nothing.  The program gets any other error: Python raises it. */
	if (gpurt_has_stderr())
		fprintf(stderr, "gpurt: %s: %s\n", err == -ENODEV ? "GPU work runs unmanaged" : "no GPU segment begins", why);
}

/* The process's own handle.  The first thread that needs it opens it.  A child process opens its own. */
static int own(struct gpurt_handle **handle)
{
	struct gpurt_handle *h = atomic_load(&own_handle), *fresh;
	int err;

	if (h && h->owner == gpurt_pid()) {
		*handle = h;
		return 0;
	}
	if (inside)
		return -ENOENT;		/* a signal handler does not open the handle */
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
	return (*handle)->owner == gpurt_pid() ? 0 : -ESTALE;
}

int gpurt_call(struct gpurt_handle *h, uint32_t code, void *argument, bool interruptible)
{
	int err = resolve(&h);

	return err ? err : call(h, code, argument, interruptible ? GPURT_WAITS : GPURT_IS_ANSWERED);
}

/* A call on the handle's GPU, whose number goes into the argument's field @gpu. */
static int call_on_gpu(struct gpurt_handle *h, uint32_t code, void *argument, uint32_t *gpu, enum gpurt_patience patience)
{
	int err = resolve(&h);

	if (err)
		return err;
	*gpu = h->gpu;
	return call(h, code, argument, patience);
}

int gpurt_handle_gpu(struct gpurt_handle *h, uint32_t *gpu)
{
	int err = resolve(&h);

	if (!err)
		*gpu = h->gpu;
	return err;
}

int gpurt_group_join(struct gpurt_handle *h, const char *name, unsigned int flags)
{
	int err = resolve(&h);

	return err ? err : join_group(h, name, flags);
}

int gpurt_query_host(struct gpurt_handle *h, struct gpurt_query *query)
{
	*query = (struct gpurt_query){ .size = sizeof(*query) };
	return call_on_gpu(h, GPURT_IOC_QUERY, query, &query->gpu, GPURT_IS_ANSWERED);
}

int gpurt_use_gpu(struct gpurt_handle *h, unsigned int gpu)
{
	struct gpurt_query query = { .size = sizeof(query), .gpu = gpu };
	int err = resolve(&h);

	if (!err)
		err = call(h, GPURT_IOC_QUERY, &query, GPURT_IS_ANSWERED);
	if (!err)
		h->gpu = gpu;
	return err;
}

/* Adds the environment's form if the program states no form.  For an unknown word the host returns EINVAL. */
static unsigned int with_form(unsigned int flags)
{
	const char *form = getenv("GPURT_FORM");

	if (!form || flags & (GPURT_BEGIN_OWNER | GPURT_BEGIN_FENCE) || !strcmp(form, "self"))
		return flags;
	if (!strcmp(form, "owner"))
		return flags | GPURT_BEGIN_OWNER;
	return flags | GPURT_BEGIN_FENCE | (strcmp(form, "fence") ? GPURT_BEGIN_OWNER : 0);
}

/* A begin or an end on @gpu that does not wait for the GPU. */
static enum gpurt_patience decides(struct gpurt_handle *h, unsigned int gpu)
{
	return h->spins[gpu] ? GPURT_SPINS : GPURT_IS_ANSWERED;
}

/* The thread raises itself as the host demands, and begins.  The demand can change before the segment has begun. */
static int begin_raised(struct gpurt_handle *h, struct gpurt_begin *b)
{
	unsigned int tries;
	int err = -EAGAIN;

	pthread_mutex_lock(&gpurt_raise_lock);
	for (tries = 0; err == -EAGAIN && tries < MOST_DEMANDS; tries++) {
		b->raised = 0;
		err = call(h, GPURT_IOC_BEGIN, b, decides(h, b->gpu));
		if (err == -EAGAIN && b->raised && gpurt_raise_self(&h->raising[b->gpu], b->raised))
			err = -EPERM;
	}
	pthread_mutex_unlock(&gpurt_raise_lock);
	return err;
}

/*
 * If the host raises threads, a begin that waits is one call.  Otherwise begin and wait are two calls: the thread must
 * raise itself in between, and after a signal it must know whether the segment has begun.
 */
static int begin(struct gpurt_handle *h, struct gpurt_begin *b)
{
	struct gpurt_wait granted = {
		.size = sizeof(granted), .gpu = b->gpu, .what = GPURT_WAIT_GRANT, .timeout_ns = GPURT_FOREVER,
	};
	bool wait = b->flags & GPURT_BEGIN_WAIT;
	int err;

	if (h->raises)
		return call(h, GPURT_IOC_BEGIN, b, wait ? GPURT_WAITS : decides(h, b->gpu));
	b->flags &= ~(unsigned int)GPURT_BEGIN_WAIT;
	err = call(h, GPURT_IOC_BEGIN, b, decides(h, b->gpu));
	if (err == -EAGAIN)
		err = begin_raised(h, b);
	return err || !wait || b->state == GPURT_STATE_RUNNING ? err : call(h, GPURT_IOC_WAIT, &granted, GPURT_WAITS);
}

/* Says once why policy `boosted` refuses the segments and copies of this thread. */
static void explain_refusal(struct gpurt_handle *h, unsigned int gpu, int err, bool copies)
{
	struct gpurt_query query = { .size = sizeof(query), .gpu = gpu };
	const char *why = NULL;

	if (err == -EPERM)
		why = "the thread may not be raised: raise RLIMIT_RTPRIO (ulimit -r) or grant CAP_SYS_NICE, unless the "
		      "administrator has barred it (gpurt set rule bar)";
	else if (err == -ERANGE)
		why = "the thread needs a SCHED_FIFO or SCHED_RR priority that is not above the normal ones (gpurt status)";
	else if (err == -EOPNOTSUPP && copies)
		why = "this host cannot raise threads that copy; run it as root";
	else if (err == -EOPNOTSUPP)
		why = "this host cannot raise threads at their form; run it as root, or use form self if they never spin";
	if (!why || call(h, GPURT_IOC_QUERY, &query, GPURT_IS_ANSWERED) || query.policy != GPURT_POLICY_BOOSTED)
		return;
	if (!atomic_exchange(&refused, true) && gpurt_has_stderr())
		fprintf(stderr, "gpurt: policy boosted: no %s begins: %s\n", copies ? "copy" : "GPU segment", why);
}

int gpurt_begin_on(struct gpurt_handle *h, unsigned int gpu, unsigned int flags, unsigned int priority)
{
	struct gpurt_begin b = { .size = sizeof(b), .gpu = gpu, .flags = with_form(flags), .priority = priority };
	int err = resolve(&h);

	if (err)
		return err;
	if (gpu >= GPURT_MAX_GPUS)
		return -ENODEV;
	if (gpurt_raising_begins(&h->raising[gpu]))
		h->spins[gpu] = b.flags & (GPURT_BEGIN_OWNER | GPURT_BEGIN_FENCE) && !(b.flags & GPURT_BEGIN_WAIT);
	err = begin(h, &b);
	if (!err)
		h->posts[gpu] = b.flags & GPURT_BEGIN_POST;
	if (err && err != -EINTR)
		gpurt_raising_ended(&h->raising[gpu]);
	if (err)
		explain_refusal(h, gpu, err, false);
	return err;
}

/* The real-time priority of this thread; 0: it has none. */
static unsigned int own_priority(void)
{
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	struct sched_param own;

	if ((policy != SCHED_FIFO && policy != SCHED_RR) || sched_getparam(0, &own))
		return 0;
	return (unsigned int)own.sched_priority;
}

int gpurt_begin_posted(unsigned int gpu, unsigned int flags)
{
	struct gpurt_begin b = { .size = sizeof(b), .gpu = gpu, .flags = with_form(flags), .raised = own_priority() };
	struct gpurt_handle *h = atomic_load(&own_handle);
	int err = -EBUSY;

	if (!h || h->owner != gpurt_pid() || gpu >= GPURT_MAX_GPUS || b.flags & ~(unsigned int)(GPURT_BEGIN_OWNER | GPURT_BEGIN_YIELD))
		return -EINVAL;
	b.flags |= GPURT_BEGIN_POST;
	if (gpurt_raising_begins(&h->raising[gpu]))
		err = h->transport->post(h->state, GPURT_IOC_BEGIN, &b, false);
	if (err) {
		gpurt_raising_ended(&h->raising[gpu]);
		return err;
	}
	h->spins[gpu] = b.flags & GPURT_BEGIN_OWNER;
	h->posts[gpu] = true;
	return 0;
}

/*
 * Waits for the client's work before the end.  If the end itself waited, the caller would not know after a signal
 * whether the segment will still end: the user-space host continues with the end.
 */
static int drain(struct gpurt_handle *h, unsigned int gpu)
{
	struct gpurt_wait idle = {
		.size = sizeof(idle), .gpu = gpu, .what = GPURT_WAIT_IDLE, .timeout_ns = GPURT_FOREVER,
	};

	return call(h, GPURT_IOC_WAIT, &idle, GPURT_WAITS);
}

/* Tells the host of an end.  Posts it if the host permits that and a segment is open: then no error can result. */
static int tell_end(struct gpurt_handle *h, struct gpurt_end *e)
{
	bool posts = h->posts[e->gpu] && atomic_load(&h->raising[e->gpu].open);

	if (inside)
		return h->transport->post(h->state, GPURT_IOC_END, e, true);
	if (posts && !h->transport->post(h->state, GPURT_IOC_END, e, false))
		return 0;
	return call(h, GPURT_IOC_END, e, decides(h, e->gpu));
}

int gpurt_end_on(struct gpurt_handle *h, unsigned int gpu, unsigned int flags)
{
	struct gpurt_end e = { .size = sizeof(e), .gpu = gpu, .flags = flags };
	int err = resolve(&h);

	if (err)
		return err;
	if (gpu >= GPURT_MAX_GPUS)
		return -ENODEV;
	if (flags & GPURT_END_DRAIN && !inside) {
		err = drain(h, gpu);
		e.flags &= ~(unsigned int)GPURT_END_DRAIN;
	}
	if (inside || !err)
		err = tell_end(h, &e);
	if (!err)
		gpurt_raising_ended(&h->raising[gpu]);
	else if (err == -ENOENT || err == -EIO || err == -ENODEV)
		gpurt_raising_over(&h->raising[gpu]);	/* the segment ended with its TSGs, its work, or the host */
	return err;
}

int gpurt_segment_begin(struct gpurt_handle *h, unsigned int flags, unsigned int priority)
{
	const char *required = getenv("GPURT_REQUIRED");
	int err = resolve(&h);

	if (!err)
		err = gpurt_begin_on(h, h->gpu, flags, priority);
	if (err && err != -EINTR && required && !strcmp(required, "1")) {
		if (gpurt_has_stderr())
			fprintf(stderr, "gpurt: cannot begin a GPU segment: %s (GPURT_REQUIRED=1)\n", strerror(-err));
		abort();
	}
	return err;
}

int gpurt_segment_end(struct gpurt_handle *h, unsigned int flags)
{
	int err = resolve(&h);

	return err ? err : gpurt_end_on(h, h->gpu, flags);
}

static int wait_for(struct gpurt_handle *h, struct gpurt_wait *w, uint64_t *completed_ns)
{
	int err;

	w->size = sizeof(*w);
	err = call_on_gpu(h, GPURT_IOC_WAIT, w, &w->gpu, GPURT_WAITS);
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

int gpurt_copy_on(struct gpurt_handle *h, unsigned int what, unsigned int priority, uint64_t timeout_ns)
{
	struct gpurt_copy c = { .size = sizeof(c), .what = what, .priority = priority, .timeout_ns = timeout_ns };
	int err = resolve(&h);

	if (err)
		return err;
	c.gpu = h->gpu;
	while (what != GPURT_COPY_END && !c.request)
		c.request = atomic_fetch_add(&requests, 1);
	err = call(h, GPURT_IOC_COPY, &c, what == GPURT_COPY_END ? GPURT_IS_ANSWERED : GPURT_WAITS);
	if (err && err != -EINTR && what == GPURT_COPY_BEGIN)
		explain_refusal(h, h->gpu, err, true);
	return err;
}

int gpurt_tsg_open(struct gpurt_handle *h, uint32_t *tsg)
{
	struct gpurt_tsg t = { .size = sizeof(t) };
	int err = call_on_gpu(h, GPURT_IOC_TSG_OPEN, &t, &t.gpu, GPURT_IS_ANSWERED);

	if (!err)
		*tsg = t.tsg;
	return err;
}

int gpurt_tsg_close(struct gpurt_handle *h, uint32_t tsg)
{
	struct gpurt_tsg t = { .size = sizeof(t), .tsg = tsg };

	return call_on_gpu(h, GPURT_IOC_TSG_CLOSE, &t, &t.gpu, GPURT_IS_ANSWERED);
}

int gpurt_tsg_shape(struct gpurt_handle *h, uint32_t tsg, uint32_t level, uint64_t slice_ns)
{
	struct gpurt_tsg_shape s = { .size = sizeof(s), .tsg = tsg, .level = level, .slice_ns = slice_ns };

	return call_on_gpu(h, GPURT_IOC_TSG_SHAPE, &s, &s.gpu, GPURT_IS_ANSWERED);
}

static int submit(struct gpurt_handle *h, struct gpurt_submit *s, uint64_t *work)
{
	int err = call_on_gpu(h, GPURT_IOC_SUBMIT, s, &s->gpu, GPURT_IS_ANSWERED);

	if (!err && work)
		*work = s->work;
	return err;
}

int gpurt_submit_work(struct gpurt_handle *h, uint32_t tsg, uint32_t engine, unsigned int flags, uint64_t duration_ns,
		      uint64_t *work)
{
	struct gpurt_submit s = {
		.size = sizeof(s), .tsg = tsg, .engine = engine, .flags = flags, .duration_ns = duration_ns,
	};

	return submit(h, &s, work);
}

int gpurt_submit_kernel(struct gpurt_handle *h, uint32_t tsg, unsigned int flags, uint32_t conflict,
			uint64_t duration_ns, uint64_t *work)
{
	struct gpurt_submit s = {
		.size = sizeof(s), .tsg = tsg, .engine = GPURT_ENGINE_EXEC, .flags = flags, .conflict = conflict,
		.duration_ns = duration_ns,
	};

	return submit(h, &s, work);
}
