// SPDX-License-Identifier: GPL-2.0
/* Clients: what a descriptor is to one GPU. */
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "internal.h"

DEFINE_STATIC_SRCU(gpurt_clients_srcu);
static atomic64_t last_id = ATOMIC64_INIT(0);

static struct gpurt_client *client_create(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return NULL;
	gpurt_sched_client_init(&client->core);
	client->gpu = gpu;
	client->file = file;
	client->tgid = get_pid(file->tgid);
	memcpy(client->comm, file->comm, sizeof(client->comm));
	client->id = atomic64_inc_return(&last_id);
	INIT_LIST_HEAD(&client->node);
	init_swait_queue_head(&client->waiters);
	init_swait_queue_head(&client->orders);
	return client;
}

static void client_destroy(struct rcu_head *rcu)
{
	struct gpurt_client *client = container_of(rcu, struct gpurt_client, rcu);

	put_pid(client->tgid);
	kfree(client);
}

static int decide_exempt(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	bool exempt = !u->client->core.exempt;

	if (u->client->gone)
		return 0;
	gpu->ops->exempt(gpu->driver, u->client->ctx, exempt);
	gpurt_set_exempt(&gpu->sched, &u->client->core, exempt, now);
	return 0;
}

/* With the GPU held alive: tells the driver, and lets the client be seen. */
static int client_join(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	int err;

	err = gpu->ops->client_open(gpu->driver, client->tgid, client, &client->ctx);
	if (err)
		return err;
	mutex_lock(&gpu->clients_lock);
	client->listed = true;
	list_add_tail_rcu(&client->node, &gpu->clients);
	mutex_unlock(&gpu->clients_lock);
	gpurt_job_watch(gpu, client->tgid, 1);
	gpurt_client_exempt(client);
	return 0;
}

/* Makes the descriptor a client of the GPU, whose reference passes to the client if that goes well. */
struct gpurt_client *gpurt_client_open(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_client *client;
	int err = -ENODEV, token;

	client = client_create(gpu, file);
	if (!client)
		return ERR_PTR(-ENOMEM);
	if (gpurt_gpu_hold(gpu, &token)) {
		err = client_join(client);
		gpurt_gpu_release(gpu, token);
	}
	if (!err)
		return client;
	client_destroy(&client->rcu);
	return ERR_PTR(err);
}

/* Nobody else has the client any more: the driver forgets it. */
static void client_leave(struct gpurt_client *client)
{
	struct gpurt_gpu *gpu = client->gpu;
	bool listed;

	mutex_lock(&gpu->clients_lock);
	listed = client->listed;
	if (listed)
		list_del_rcu(&client->node);
	client->listed = false;
	mutex_unlock(&gpu->clients_lock);
	if (!listed)
		return;
	gpurt_job_watch(gpu, client->tgid, -1);
	gpu->ops->client_close(gpu->driver, client->ctx);
	client->ctx = NULL;
}

static int decide_gone(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	u->client->gone = true;
	gpurt_gone(&gpu->sched, &u->client->core, now);
	return 0;
}

/*
 * The client's process ended (@process), or closed its descriptor.  No call on the client is under way.  Its memory
 * stays until gpurt_client_free().
 */
void gpurt_client_gone(struct gpurt_client *client, bool process)
{
	struct gpurt_gpu *gpu = client->gpu;
	struct gpurt_update u = { .decide = decide_gone, .client = client, .level = GPURT_MAX_PRIORITY };
	int token;

	if (client->gone)
		return;
	if (gpurt_gpu_hold(gpu, &token)) {
		if (gpu->ops->client_ends)
			gpu->ops->client_ends(gpu->driver, client->ctx, process);
		gpurt_gate_update(gpu, &u);
		/* Not before it is off the runlist. */
		if (client->gone)
			client_leave(client);
		gpurt_gpu_release(gpu, token);
	}
	/* The driver goes first, and takes its clients along. */
	if (!client->gone)
		wait_for_completion(&gpu->drained);
	gpurt_client_wake(client);
	gpurt_client_ordered(client);
}

/* The driver goes away, and no decision is under way: the runlist is everyone's again, without us. */
void gpurt_clients_drain(struct gpurt_gpu *gpu)
{
	struct gpurt_client *client;

	gpu->ops->commit(gpu->driver, NULL, ktime_get_ns());
	for (;;) {
		mutex_lock(&gpu->clients_lock);
		client = list_first_entry_or_null(&gpu->clients, struct gpurt_client, node);
		mutex_unlock(&gpu->clients_lock);
		if (!client)
			return;
		client_leave(client);
		gpurt_client_wake(client);
		gpurt_client_ordered(client);
	}
}

void gpurt_client_free(struct gpurt_client *client)
{
	if (client->polled)
		atomic_dec(&client->gpu->waiting);
	gpurt_gpu_put(client->gpu);
	call_srcu(&gpurt_clients_srcu, &client->rcu, client_destroy);
}

/* Whether the client's TSGs are on the runlist; for those who wait, without the gate. */
bool gpurt_client_granted(const struct gpurt_client *client)
{
	/* Pairs with apply(): who sees the runner sees whether the update went well. */
	struct gpurt_sched_client *runner = smp_load_acquire(&client->gpu->runner);

	if (READ_ONCE(client->gpu->fault))
		return false;
	return !runner || runner == &client->core || READ_ONCE(client->core.exempt);
}

/* Wakes one of those who wait in the client's process, who wakes the next.  Any context. */
void gpurt_client_wake(struct gpurt_client *client)
{
	/* Pairs with the barriers in setting the state of those who are about to wait. */
	smp_mb();
	if (swait_active(&client->waiters)) {
		atomic_inc(&client->wakes);
		swake_up_one(&client->waiters);
	}
	/* The barrier above is waitqueue_active()'s as well. */
	if (waitqueue_active(&client->file->poll))
		irq_work_queue(&client->file->poll_wake);
}

/* From now on, until it is gone, somebody may always be waiting in poll(). */
void gpurt_client_polled(struct gpurt_client *client)
{
	if (READ_ONCE(client->polled))
		return;
	mutex_lock(&client->file->lock);
	if (!client->polled)
		atomic_inc(&client->gpu->waiting);
	client->polled = true;
	mutex_unlock(&client->file->lock);
}

/* The driver: work of the client completed.  Any context. */
void gpurt_client_work_done(struct gpurt_client *client, u64 when, u64 since)
{
	if (gpurt_events_wanted())
		gpurt_event(client->gpu, client, GPURT_EVENT_WORK, when, 0, when - since);
	atomic_inc(&client->completions);
	gpurt_client_wake(client);
}
EXPORT_SYMBOL_GPL(gpurt_client_work_done);

/* The driver: there may be an order for the client, an agent.  Any context. */
void gpurt_client_ordered(struct gpurt_client *client)
{
	/* Pairs with the barrier in setting the state of who is about to wait. */
	smp_mb();
	if (swait_active(&client->orders))
		swake_up_one(&client->orders);
}
EXPORT_SYMBOL_GPL(gpurt_client_ordered);

/* The driver: the client, an agent, has not carried out the order of @since in time.  Any context. */
void gpurt_client_late(struct gpurt_client *client, u64 now, u64 since)
{
	if (gpurt_events_wanted())
		gpurt_event(client->gpu, client, GPURT_EVENT_LATE, now, 0, now - since);
}
EXPORT_SYMBOL_GPL(gpurt_client_late);

struct value_update {
	struct gpurt_update u;
	u64 value;
	u32 action;
};

struct begin_update {
	struct gpurt_update u;
	u32 own, hint, state;
};

static int decide_begin(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct begin_update *b = container_of(u, struct begin_update, u);
	struct gpurt_sched_client *c = &u->client->core;
	int err;

	err = gpurt_begin(&gpu->sched, c, b->own, b->hint, now);
	b->state = gpu->fault ? GPURT_STATE_PENDING : gpurt_state_of(&gpu->sched, c);
	return err;
}

/* What will decide in a segment that begins with these priorities: the client's place among those who wait. */
static u32 level_of(const struct gpurt_client *client, u32 own, u32 hint)
{
	u32 set = READ_ONCE(client->core.set);

	if (set != GPURT_PRIORITY_OWN)
		return set;
	return hint ? hint : own;
}

/* -EOVERFLOW, or -ENODEV once the driver goes away. */
int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 *state)
{
	struct begin_update b = {
		.u = { .decide = decide_begin, .client = client, .own = true, .level = level_of(client, own, hint) },
		.own = own, .hint = hint,
	};
	int err = gpurt_update(client->gpu, &b.u);

	*state = b.state;
	return err;
}

static int decide_end(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return gpurt_end(&gpu->sched, &u->client->core, now);
}

/* -ENOENT, or -ENODEV once the driver goes away. */
int gpurt_client_end(struct gpurt_client *client)
{
	struct gpurt_update u = {
		.decide = decide_end, .client = client, .own = true, .level = READ_ONCE(client->core.level),
	};

	return gpurt_update(client->gpu, &u);
}

static int decide_opened(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_tsg_opened(&gpu->sched, &u->client->core, now);
	return 0;
}

static int decide_closed(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_tsg_closed(&gpu->sched, &u->client->core, now);
	return 0;
}

/* The client opened a TSG, or closed one.  The GPU is held alive. */
void gpurt_client_tsg(struct gpurt_client *client, bool opened)
{
	struct gpurt_update u = {
		.decide = opened ? decide_opened : decide_closed, .client = client, .own = true,
		.level = READ_ONCE(client->core.level),
	};

	gpurt_gate_update(client->gpu, &u);
	if (opened)
		gpurt_job_tsg_opened(client->gpu);
}

/* Only the first TSG and the last one make a difference: however many there are, this is short. */
static int decide_tsgs(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	u32 count = container_of(u, struct value_update, u)->value;
	struct gpurt_sched_client *c = &u->client->core;

	if (count > c->tsgs) {
		gpurt_tsg_opened(&gpu->sched, c, now);
		c->tsgs = count;
	} else if (count < c->tsgs) {
		c->tsgs = count + 1;
		gpurt_tsg_closed(&gpu->sched, c, now);
	}
	return 0;
}

/* The client has @count TSGs now.  The GPU is held alive. */
void gpurt_client_tsgs(struct gpurt_client *client, u32 count)
{
	struct value_update v = {
		.u = { .decide = decide_tsgs, .client = client, .own = true, .level = READ_ONCE(client->core.level) },
		.value = count,
	};

	if (count == READ_ONCE(client->core.tsgs))
		return;
	gpurt_gate_update(client->gpu, &v.u);
	if (count)
		gpurt_job_tsg_opened(client->gpu);
}

static int decide_priority(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct value_update *v = container_of(u, struct value_update, u);

	return u->client->gone ? 0 : gpurt_set_priority(&gpu->sched, &u->client->core, v->value, now);
}

/* The control plane sets the client's priority; see gpurt_set_priority().  The GPU is held alive. */
int gpurt_client_priority(struct gpurt_client *client, u32 priority)
{
	struct value_update v = { .u = { .decide = decide_priority, .client = client }, .value = priority };

	return gpurt_gate_update(client->gpu, &v.u);
}

static int decide_budget(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct value_update *v = container_of(u, struct value_update, u);

	return u->client->gone ? 0 : gpurt_set_budget(&gpu->sched, &u->client->core, v->value, v->action, now);
}

/* Likewise its budget. */
int gpurt_client_budget(struct gpurt_client *client, u64 limit, u32 action)
{
	struct value_update v = {
		.u = { .decide = decide_budget, .client = client }, .value = limit, .action = action,
	};

	return gpurt_gate_update(client->gpu, &v.u);
}

/* Brings the client in line with the administrator's exemptions.  The GPU is held alive. */
void gpurt_client_exempt(struct gpurt_client *client)
{
	struct gpurt_update u = { .decide = decide_exempt, .client = client };

	/* Without rules most clients need not pass the gate. */
	if (client->gpu->ops->exempt && gpurt_exempt_matches(client) != READ_ONCE(client->core.exempt))
		gpurt_gate_update(client->gpu, &u);
}

/* Clients are not freed between the two; in between one may sleep. */
int gpurt_clients_read(void) __acquires(&gpurt_clients_srcu)
{
	return srcu_read_lock(&gpurt_clients_srcu);
}

void gpurt_clients_done(int token) __releases(&gpurt_clients_srcu)
{
	srcu_read_unlock(&gpurt_clients_srcu, token);
}

bool gpurt_clients_reading(void)
{
	return srcu_read_lock_held(&gpurt_clients_srcu);
}

void gpurt_clients_stop(void)
{
	srcu_barrier(&gpurt_clients_srcu);
}
