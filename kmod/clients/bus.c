// SPDX-License-Identifier: GPL-2.0
/*
 * The bus between memory and a GPU.  Decisions about it do not touch the runlist, so they do not take the gate, which
 * an update may keep closed for long.  Decisions take constant time, under a raw spinning lock of
 * their own.  A thread that takes a decision thus cannot lose its CPU in the middle of it.
 *
 * A thread that waits sleeps until its client is given the bus.  The call that hands over the bus wakes only it.
 */
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "clients/clients.h"
#include "compat.h"
#include "state/client.h"
#include "state/events.h"
#include "state/netlink_family.h"
#include "state/exits.h"
#include "state/team.h"
#include "state/wake.h"

static struct gpurt_client *client_of(struct gpurt_bus_node *node)
{
	return container_of(node, struct gpurt_client, copier.node);
}

static void tell(struct gpurt_client *client, u32 event, u64 now, u64 waited)
{
	if (gpurt_netlink_heard())
		gpurt_event(client->gpu, client, event, now, 0, waited);
}

/* Called with the lock held. */
static void set_timer(struct gpurt_gpu_bus *bus)
{
	u64 due = gpurt_bus_deadline(&bus->core);

	if (due != U64_MAX)
		hrtimer_start(&bus->timer, ns_to_ktime(due), HRTIMER_MODE_ABS_HARD);
}

/* Called with the lock held, after any change.  @old: the previous owner of the bus. */
static void handed(struct gpurt_gpu_bus *bus, struct gpurt_bus_node *old, u64 now)
{
	struct gpurt_bus_node *n = bus->core.holder;
	struct gpurt_client *client;

	if (n && n != old) {
		client = client_of(n);
		tell(client, GPURT_EVENT_COPY_BEGIN, now, n->waited);
		if (!n->level)
			gpurt_exits_holds(client);
		if (client->copier.task)
			wake_up_process(client->copier.task);
	}
	set_timer(bus);
}

/* Called with the lock held.  The client no longer has the bus, and does not get it now. */
static void parted(struct gpurt_client *client, u64 now)
{
	tell(client, GPURT_EVENT_COPY_END, now, 0);
	gpurt_exits_calm(client);
}

/* Called with the lock held.  The client's copy is over, or its request.  -ENOENT: it has no copy and no request. */
static int release(struct gpurt_client *client)
{
	struct gpurt_gpu_bus *bus = &client->gpu->bus;
	struct gpurt_bus_node *old = bus->core.holder;
	u64 now = ktime_get_ns();
	int err = gpurt_bus_release(&bus->core, &client->copier.node, now);

	if (err)
		return err;
	parted(client, now);
	if (client->copier.task)
		wake_up_process(client->copier.task);
	handed(bus, old, now);
	return 0;
}

/* The error for a thread that waited without giving up, and did not get the bus. */
static int why_over(const struct gpurt_client *client)
{
	if (READ_ONCE(client->gpu->dying))
		return -ENODEV;
	return client->copier.gone ? -ESTALE : -ECANCELED;
}

/*
 * Called with the lock held, by the thread that has asked, when its request is over or it has waited for long enough.
 * If the call fails, the client must not keep the bus.  After a successful call the copy is no longer tied to this
 * thread: an END by another thread then lowers it.
 */
static int conclude(struct gpurt_client *client, int err, u64 *granted)
{
	struct gpurt_copier *c = &client->copier;

	c->task = NULL;
	if (c->node.state == GPURT_STATE_RUNNING && READ_ONCE(client->gpu->dying))
		err = -ENODEV;
	else if (c->node.state == GPURT_STATE_RUNNING && fatal_signal_pending(current))
		err = -EINTR;
	else if (c->node.state == GPURT_STATE_RUNNING)
		err = 0;
	else if (c->node.state == GPURT_STATE_IDLE)
		err = why_over(client);
	if (err)
		release(client);
	else
		*granted = c->node.since;
	c->asking = err;
	return err;
}

/*
 * Called with the lock held, and releases it, by a thread that has asked for the bus.  Waits until its client has the
 * bus, for at most copy->timeout_ns.  If gpurt_doze() breaks off the wait, copy->timeout_ns becomes the time at which
 * the wait is over.
 */
static int await(struct gpurt_client *client, struct gpurt_copy *copy) __releases(&client->gpu->bus.lock)
{
	int err = copy->timeout_ns ? 0 : -ETIMEDOUT;
	struct gpurt_copier *c = &client->copier;
	struct gpurt_patience patience;

	gpurt_patience_start(&patience, copy->timeout_ns);
	while (c->node.state == GPURT_STATE_PENDING && !err) {
		c->task = current;
		set_current_state(TASK_INTERRUPTIBLE);
		raw_spin_unlock_irq(&client->gpu->bus.lock);
		err = gpurt_doze(&patience);
		__set_current_state(TASK_RUNNING);
		raw_spin_lock_irq(&client->gpu->bus.lock);
	}
	err = conclude(client, err, &copy->granted_ns);
	raw_spin_unlock_irq(&client->gpu->bus.lock);
	if (err == -ERESTARTNOHAND)
		copy->timeout_ns = gpurt_patience_left(&patience);
	return err;
}

/* Called with the lock held, after a change of a fact that decides the level of the client's request. */
static void note_change(struct gpurt_copier *c)
{
	/* Pairs with lock_with_level(). */
	smp_store_release(&c->changes, c->changes + 1);
}

/*
 * Takes the lock.  Returns the level that the client's request must have: an administrator may set another level at any
 * time.  The level of a group needs the lock of groups, which hard interrupts must not take, so it is read before.
 */
static u32 lock_with_level(struct gpurt_client *client) __acquires(&client->gpu->bus.lock)
{
	struct gpurt_copier *c = &client->copier;
	u32 changes, level;

	for (;;) {
		/* Pairs with note_change(). */
		changes = smp_load_acquire(&c->changes);
		level = gpurt_level_of_begin(client, READ_ONCE(c->own), READ_ONCE(c->hint));
		if (level)
			gpurt_exits_urgent(client);
		raw_spin_lock_irq(&client->gpu->bus.lock);
		if (c->changes == changes)
			return level;
		raw_spin_unlock_irq(&client->gpu->bus.lock);
	}
}

/* Makes the caller the thread of its client that copies.  -EBUSY: another thread copies. */
static int claim(struct gpurt_client *client, u32 own, const struct gpurt_copy *copy)
{
	struct gpurt_copier *c = &client->copier;
	int err = -EBUSY;

	raw_spin_lock_irq(&client->gpu->bus.lock);
	if (!c->asking && c->node.state == GPURT_STATE_IDLE) {
		c->asking = true;
		c->own = own;
		c->hint = copy->priority;
		c->request = copy->request;
		note_change(c);
		err = 0;
	}
	raw_spin_unlock_irq(&client->gpu->bus.lock);
	return err;
}

static void unclaim(struct gpurt_client *client)
{
	raw_spin_lock_irq(&client->gpu->bus.lock);
	client->copier.asking = false;
	raw_spin_unlock_irq(&client->gpu->bus.lock);
}

/* Asks for the bus and waits.  An ending process does not get the bus, because nothing would take it back. */
static int ask(struct gpurt_client *client, struct gpurt_copy *copy)
{
	struct gpurt_gpu_bus *bus = &client->gpu->bus;
	struct gpurt_bus_node *old, *n = &client->copier.node;
	u32 level = lock_with_level(client);
	u64 now;

	if (client->copier.gone || gpurt_exits_ends(client->file)) {
		raw_spin_unlock_irq(&bus->lock);
		return READ_ONCE(client->gpu->dying) ? -ENODEV : -ESTALE;
	}
	old = bus->core.holder;
	now = ktime_get_ns();
	gpurt_bus_request(&bus->core, n, level, now);
	tell(client, GPURT_EVENT_COPY_ASK, now, 0);
	handed(bus, old, now);
	/* Either gpurt_bus_take_off() is yet to come, or this sees that the process ends. */
	if (gpurt_exits_ends(client->file))
		release(client);
	return await(client, copy);
}

/* GPURT_COPY_BEGIN, by a thread of priority @own. */
int gpurt_bus_begin(struct gpurt_client *client, u32 own, struct gpurt_copy *copy)
{
	int err = claim(client, own, copy);

	if (err)
		return err;
	err = gpurt_boost_copies(client, own, gpurt_level_of_begin(client, own, copy->priority));
	if (!err) {
		err = ask(client, copy);
		if (!err)
			return 0;
		gpurt_boost_copied(client);
	}
	unclaim(client);
	return err;
}

/* Called with the lock held.  Another client has got the bus, and this client waits for it. */
static void passed_on(struct gpurt_client *client, struct gpurt_bus_node *old, u64 now)
{
	parted(client, now);
	tell(client, GPURT_EVENT_COPY_ASK, now, 0);
	handed(&client->gpu->bus, old, now);
}

/* GPURT_COPY_NEXT.  If another thread's call is about to return with the bus, the copy is that thread's. */
int gpurt_bus_go_on(struct gpurt_client *client, struct gpurt_copy *copy)
{
	struct gpurt_gpu_bus *bus = &client->gpu->bus;
	struct gpurt_copier *c = &client->copier;
	struct gpurt_bus_node *old;
	u64 now;
	int err;

	raw_spin_lock_irq(&bus->lock);
	old = bus->core.holder;
	now = ktime_get_ns();
	err = c->asking ? -EBUSY : gpurt_bus_next(&bus->core, &c->node, now);
	if (err) {
		raw_spin_unlock_irq(&bus->lock);
		return err;
	}
	c->asking = true;
	c->request = copy->request;
	if (bus->core.holder != old) {
		passed_on(client, old, now);
	} else {
		/* gpurt_exits_calm() may have seen the client in between, without the bus. */
		if (!c->node.level)
			gpurt_exits_holds(client);
		set_timer(bus);
	}
	err = await(client, copy);
	if (!err)
		return 0;
	/* The copy is over: if the call is made again, it asks as GPURT_COPY_BEGIN. */
	if (err == -ERESTARTNOHAND) {
		copy->what = GPURT_COPY_BEGIN;
		copy->priority = c->hint;
	}
	gpurt_boost_copied(client);
	unclaim(client);
	return err;
}

/* GPURT_COPY_END. */
int gpurt_bus_end(struct gpurt_client *client, const struct gpurt_copy *copy)
{
	bool asking;
	int err;

	raw_spin_lock_irq(&client->gpu->bus.lock);
	if (copy->request && copy->request != client->copier.request) {
		raw_spin_unlock_irq(&client->gpu->bus.lock);
		return -ENOENT;
	}
	asking = client->copier.asking;
	client->copier.asking = true;
	err = release(client);
	raw_spin_unlock_irq(&client->gpu->bus.lock);
	/* A thread whose request is withdrawn lowers itself. */
	if (asking)
		return err;
	gpurt_boost_copied(client);
	unclaim(client);
	return err;
}

/* In process context.  The priority of the client or its group has changed, or the client has become a member. */
void gpurt_bus_relevel(struct gpurt_client *client)
{
	struct gpurt_gpu_bus *bus = &client->gpu->bus;
	u32 level;

	raw_spin_lock_irq(&bus->lock);
	note_change(&client->copier);
	raw_spin_unlock_irq(&bus->lock);
	level = lock_with_level(client);
	if (client->copier.node.state != GPURT_STATE_IDLE)
		gpurt_bus_set_level(&bus->core, &client->copier.node, level);
	set_timer(bus);
	raw_spin_unlock_irq(&bus->lock);
	gpurt_boost_look(client);
}

/* The client's process ends soon, or has ended: it does not keep the bus.  The client is alive. */
void gpurt_bus_take_off(struct gpurt_client *client)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&client->gpu->bus.lock, flags);
	release(client);
	raw_spin_unlock_irqrestore(&client->gpu->bus.lock, flags);
}

/* The client ends, or its GPU does.  It no longer asks for the bus. */
void gpurt_bus_leave(struct gpurt_client *client)
{
	raw_spin_lock_irq(&client->gpu->bus.lock);
	client->copier.gone = true;
	release(client);
	raw_spin_unlock_irq(&client->gpu->bus.lock);
}

static enum hrtimer_restart due(struct hrtimer *timer)
{
	struct gpurt_gpu_bus *bus = container_of(timer, struct gpurt_gpu_bus, timer);
	struct gpurt_bus_node *late, *old;
	u64 now = ktime_get_ns();

	raw_spin_lock(&bus->lock);
	old = bus->core.holder;
	late = gpurt_bus_tick(&bus->core, now);
	if (late) {
		tell(client_of(late), GPURT_EVENT_OVERRUN, now, 0);
		parted(client_of(late), now);
		handed(bus, old, now);
	} else {
		set_timer(bus);
	}
	raw_spin_unlock(&bus->lock);
	return HRTIMER_NORESTART;
}

void gpurt_bus_start(struct gpurt_gpu *gpu)
{
	raw_spin_lock_init(&gpu->bus.lock);
	gpurt_bus_init(&gpu->bus.core);
	compat_hrtimer_setup(&gpu->bus.timer, due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
}

/* When no client is left. */
void gpurt_bus_stop(struct gpurt_gpu *gpu)
{
	hrtimer_cancel(&gpu->bus.timer);
}
