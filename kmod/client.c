// SPDX-License-Identifier: GPL-2.0
/* Clients: what a descriptor is to one GPU. */
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "internal.h"

DEFINE_STATIC_SRCU(gpurt_slots_srcu);
static atomic64_t last_id = ATOMIC64_INIT(0);

static struct gpurt_slot *slot_create(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL_ACCOUNT);

	if (!slot)
		return NULL;
	gpurt_sched_client_init(&slot->core);
	slot->gpu = gpu;
	slot->file = file;
	slot->tgid = get_pid(file->tgid);
	memcpy(slot->comm, file->comm, sizeof(slot->comm));
	slot->id = atomic64_inc_return(&last_id);
	INIT_LIST_HEAD(&slot->node);
	init_swait_queue_head(&slot->waiters);
	init_swait_queue_head(&slot->orders);
	return slot;
}

static void slot_destroy(struct rcu_head *rcu)
{
	struct gpurt_slot *slot = container_of(rcu, struct gpurt_slot, rcu);

	put_pid(slot->tgid);
	kfree(slot);
}

static int decide_exempt(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	bool exempt = !u->slot->core.exempt;

	if (u->slot->gone)
		return 0;
	gpu->ops->exempt(gpu->driver, u->slot->ctx, exempt);
	gpurt_set_exempt(&gpu->sched, &u->slot->core, exempt, now);
	return 0;
}

/* With the GPU held alive: tells the driver, and lets the client be seen. */
static int slot_join(struct gpurt_slot *slot)
{
	struct gpurt_gpu *gpu = slot->gpu;
	int err;

	err = gpu->ops->client_open(gpu->driver, slot->tgid, slot, &slot->ctx);
	if (err)
		return err;
	mutex_lock(&gpu->slots_lock);
	slot->listed = true;
	list_add_tail_rcu(&slot->node, &gpu->slots);
	mutex_unlock(&gpu->slots_lock);
	gpurt_job_watch(gpu, slot->tgid, 1);
	gpurt_slot_exempt(slot);
	return 0;
}

/* Makes the descriptor a client of the GPU, whose reference passes to the slot if that goes well. */
struct gpurt_slot *gpurt_slot_open(struct gpurt_gpu *gpu, struct gpurt_file *file)
{
	struct gpurt_slot *slot;
	int err = -ENODEV, token;

	slot = slot_create(gpu, file);
	if (!slot)
		return ERR_PTR(-ENOMEM);
	if (gpurt_gpu_hold(gpu, &token)) {
		err = slot_join(slot);
		gpurt_gpu_release(gpu, token);
	}
	if (!err)
		return slot;
	slot_destroy(&slot->rcu);
	return ERR_PTR(err);
}

/* Nobody else has the slot any more: the driver forgets it. */
static void slot_leave(struct gpurt_slot *slot)
{
	struct gpurt_gpu *gpu = slot->gpu;
	bool listed;

	mutex_lock(&gpu->slots_lock);
	listed = slot->listed;
	if (listed)
		list_del_rcu(&slot->node);
	slot->listed = false;
	mutex_unlock(&gpu->slots_lock);
	if (!listed)
		return;
	gpurt_job_watch(gpu, slot->tgid, -1);
	gpu->ops->client_close(gpu->driver, slot->ctx);
	slot->ctx = NULL;
}

static int decide_gone(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	u->slot->gone = true;
	gpurt_gone(&gpu->sched, &u->slot->core, now);
	return 0;
}

/*
 * The client's process ended (@process), or closed its descriptor.  No call on the slot is under way.  Its memory
 * stays until gpurt_slot_free().
 */
void gpurt_slot_gone(struct gpurt_slot *slot, bool process)
{
	struct gpurt_gpu *gpu = slot->gpu;
	struct gpurt_update u = { .decide = decide_gone, .slot = slot, .level = GPURT_MAX_PRIORITY };
	int token;

	if (slot->gone)
		return;
	if (gpurt_gpu_hold(gpu, &token)) {
		if (gpu->ops->client_ends)
			gpu->ops->client_ends(gpu->driver, slot->ctx, process);
		gpurt_gate_update(gpu, &u);
		/* Not before it is off the runlist. */
		if (slot->gone)
			slot_leave(slot);
		gpurt_gpu_release(gpu, token);
	}
	/* The driver goes first, and takes its clients along. */
	if (!slot->gone)
		wait_for_completion(&gpu->drained);
	gpurt_slot_wake(slot);
	gpurt_slot_ordered(slot);
}

/* The driver goes away, and no decision is under way: the runlist is everyone's again, without us. */
void gpurt_slot_drain(struct gpurt_gpu *gpu)
{
	struct gpurt_slot *slot;

	gpu->ops->commit(gpu->driver, NULL, ktime_get_ns());
	for (;;) {
		mutex_lock(&gpu->slots_lock);
		slot = list_first_entry_or_null(&gpu->slots, struct gpurt_slot, node);
		mutex_unlock(&gpu->slots_lock);
		if (!slot)
			return;
		slot_leave(slot);
		gpurt_slot_wake(slot);
		gpurt_slot_ordered(slot);
	}
}

void gpurt_slot_free(struct gpurt_slot *slot)
{
	if (slot->polled)
		atomic_dec(&slot->gpu->waiting);
	gpurt_gpu_put(slot->gpu);
	call_srcu(&gpurt_slots_srcu, &slot->rcu, slot_destroy);
}

/* Whether the client's TSGs are on the runlist; for those who wait, without the gate. */
bool gpurt_slot_granted(const struct gpurt_slot *slot)
{
	/* Pairs with apply(): who sees the runner sees whether the update went well. */
	struct gpurt_sched_client *runner = smp_load_acquire(&slot->gpu->runner);

	if (READ_ONCE(slot->gpu->fault))
		return false;
	return !runner || runner == &slot->core || READ_ONCE(slot->core.exempt);
}

/* Wakes one of those who wait in the client's process, who wakes the next.  Any context. */
void gpurt_slot_wake(struct gpurt_slot *slot)
{
	/* Pairs with the barriers in setting the state of those who are about to wait. */
	smp_mb();
	if (swait_active(&slot->waiters)) {
		atomic_inc(&slot->wakes);
		swake_up_one(&slot->waiters);
	}
	/* The barrier above is waitqueue_active()'s as well. */
	if (waitqueue_active(&slot->file->poll))
		irq_work_queue(&slot->file->poll_wake);
}

/* From now on, until it is gone, somebody may always be waiting in poll(). */
void gpurt_slot_polled(struct gpurt_slot *slot)
{
	if (READ_ONCE(slot->polled))
		return;
	mutex_lock(&slot->file->lock);
	if (!slot->polled)
		atomic_inc(&slot->gpu->waiting);
	slot->polled = true;
	mutex_unlock(&slot->file->lock);
}

/* The driver: work of the client completed.  Any context. */
void gpurt_slot_work_done(struct gpurt_slot *slot, u64 when, u64 since)
{
	if (gpurt_events_wanted())
		gpurt_event(slot->gpu, slot, GPURT_EVENT_WORK, when, 0, when - since);
	atomic_inc(&slot->completions);
	gpurt_slot_wake(slot);
}
EXPORT_SYMBOL_GPL(gpurt_slot_work_done);

/* The driver: there may be an order for the client, an agent.  Any context. */
void gpurt_slot_ordered(struct gpurt_slot *slot)
{
	/* Pairs with the barrier in setting the state of who is about to wait. */
	smp_mb();
	if (swait_active(&slot->orders))
		swake_up_one(&slot->orders);
}
EXPORT_SYMBOL_GPL(gpurt_slot_ordered);

/* The driver: the client, an agent, has not carried out the order of @since in time.  Any context. */
void gpurt_slot_late(struct gpurt_slot *slot, u64 now, u64 since)
{
	if (gpurt_events_wanted())
		gpurt_event(slot->gpu, slot, GPURT_EVENT_LATE, now, 0, now - since);
}
EXPORT_SYMBOL_GPL(gpurt_slot_late);

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
	struct gpurt_sched_client *c = &u->slot->core;
	int err;

	err = gpurt_begin(&gpu->sched, c, b->own, b->hint, now);
	b->state = gpu->fault ? GPURT_STATE_PENDING : gpurt_state_of(&gpu->sched, c);
	return err;
}

/* What will decide in a segment that begins with these priorities: the client's place among those who wait. */
static u32 level_of(const struct gpurt_slot *slot, u32 own, u32 hint)
{
	u32 set = READ_ONCE(slot->core.set);

	if (set != GPURT_PRIORITY_OWN)
		return set;
	return hint ? hint : own;
}

/* -EOVERFLOW, or -ENODEV once the driver goes away. */
int gpurt_slot_begin(struct gpurt_slot *slot, u32 own, u32 hint, u32 *state)
{
	struct begin_update b = {
		.u = { .decide = decide_begin, .slot = slot, .own = true, .level = level_of(slot, own, hint) },
		.own = own, .hint = hint,
	};
	int err = gpurt_update(slot->gpu, &b.u);

	*state = b.state;
	return err;
}

static int decide_end(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return gpurt_end(&gpu->sched, &u->slot->core, now);
}

/* -ENOENT, or -ENODEV once the driver goes away. */
int gpurt_slot_end(struct gpurt_slot *slot)
{
	struct gpurt_update u = {
		.decide = decide_end, .slot = slot, .own = true, .level = READ_ONCE(slot->core.level),
	};

	return gpurt_update(slot->gpu, &u);
}

static int decide_opened(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_tsg_opened(&gpu->sched, &u->slot->core, now);
	return 0;
}

static int decide_closed(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	gpurt_tsg_closed(&gpu->sched, &u->slot->core, now);
	return 0;
}

/* The client opened a TSG, or closed one.  The GPU is held alive. */
void gpurt_slot_tsg(struct gpurt_slot *slot, bool opened)
{
	struct gpurt_update u = {
		.decide = opened ? decide_opened : decide_closed, .slot = slot, .own = true,
		.level = READ_ONCE(slot->core.level),
	};

	gpurt_gate_update(slot->gpu, &u);
	if (opened)
		gpurt_job_tsg_opened(slot->gpu);
}

/* Only the first TSG and the last one make a difference: however many there are, this is short. */
static int decide_tsgs(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	u32 count = container_of(u, struct value_update, u)->value;
	struct gpurt_sched_client *c = &u->slot->core;

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
void gpurt_slot_tsgs(struct gpurt_slot *slot, u32 count)
{
	struct value_update v = {
		.u = { .decide = decide_tsgs, .slot = slot, .own = true, .level = READ_ONCE(slot->core.level) },
		.value = count,
	};

	if (count == READ_ONCE(slot->core.tsgs))
		return;
	gpurt_gate_update(slot->gpu, &v.u);
	if (count)
		gpurt_job_tsg_opened(slot->gpu);
}

static int decide_priority(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct value_update *v = container_of(u, struct value_update, u);

	return u->slot->gone ? 0 : gpurt_set_priority(&gpu->sched, &u->slot->core, v->value, now);
}

/* The control plane sets the client's priority; see gpurt_set_priority().  The GPU is held alive. */
int gpurt_slot_priority(struct gpurt_slot *slot, u32 priority)
{
	struct value_update v = { .u = { .decide = decide_priority, .slot = slot }, .value = priority };

	return gpurt_gate_update(slot->gpu, &v.u);
}

static int decide_budget(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct value_update *v = container_of(u, struct value_update, u);

	return u->slot->gone ? 0 : gpurt_set_budget(&gpu->sched, &u->slot->core, v->value, v->action, now);
}

/* Likewise its budget. */
int gpurt_slot_budget(struct gpurt_slot *slot, u64 limit, u32 action)
{
	struct value_update v = {
		.u = { .decide = decide_budget, .slot = slot }, .value = limit, .action = action,
	};

	return gpurt_gate_update(slot->gpu, &v.u);
}

/* Brings the client in line with the administrator's exemptions.  The GPU is held alive. */
void gpurt_slot_exempt(struct gpurt_slot *slot)
{
	struct gpurt_update u = { .decide = decide_exempt, .slot = slot };

	/* Without rules most clients need not pass the gate. */
	if (slot->gpu->ops->exempt && gpurt_exempt_matches(slot) != READ_ONCE(slot->core.exempt))
		gpurt_gate_update(slot->gpu, &u);
}

/* Clients are not freed between the two; in between one may sleep. */
int gpurt_slots_read(void) __acquires(&gpurt_slots_srcu)
{
	return srcu_read_lock(&gpurt_slots_srcu);
}

void gpurt_slots_done(int token) __releases(&gpurt_slots_srcu)
{
	srcu_read_unlock(&gpurt_slots_srcu, token);
}

bool gpurt_slots_reading(void)
{
	return srcu_read_lock_held(&gpurt_slots_srcu);
}

void gpurt_slots_stop(void)
{
	srcu_barrier(&gpurt_slots_srcu);
}
