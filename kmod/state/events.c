// SPDX-License-Identifier: GPL-2.0
/*
 * Events.  Readers of the multicast group get them through a ring, because a message needs memory, which code that
 * reports an event often must not allocate.
 *
 * Anyone may read.  netlink_family.c adds the process of an event for readers who may know it.  So a decision pays for
 * one copy into the ring, however many read, and wakes no thread: a timer does, once a tick.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "base/workers.h"
#include "core/marks.h"
#include "state/client.h"
#include "state/events.h"
#include "state/team.h"
#include "state/netlink_family.h"

#define RING 4096		/* a power of two */

static struct gpurt_record *ring;
static DEFINE_RAW_SPINLOCK(ring_lock);
static unsigned int head, tail;	/* index of the next write and read; they wrap */
static u64 lost;

static void put(const struct gpurt_record *r)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ring_lock, flags);
	if (head - tail < RING)
		ring[head++ % RING] = *r;
	else
		lost++;
	raw_spin_unlock_irqrestore(&ring_lock, flags);
}

static bool take(struct gpurt_record *r)
{
	unsigned long flags;
	bool any = true;

	raw_spin_lock_irqsave(&ring_lock, flags);
	if (tail != head) {
		*r = ring[tail++ % RING];
	} else if (lost) {
		*r = (struct gpurt_record){ .event = GPURT_EVENT_LOST, .latency = lost };
		lost = 0;
	} else {
		any = false;
	}
	raw_spin_unlock_irqrestore(&ring_lock, flags);
	return any;
}

static void drain(struct work_struct *work)
{
	struct gpurt_record r;

	while (take(&r)) {
		if (r.event == GPURT_EVENT_LOST)
			r.time = ktime_get_ns();
		gpurt_netlink_send(&r);
		cond_resched();
	}
}

static DECLARE_DELAYED_WORK(drain_work, drain);

/* Whether it is an event of the bus, reported with the bus's lock held. */
static bool is_copy(u32 event)
{
	return event >= GPURT_EVENT_COPY_ASK && event <= GPURT_EVENT_COPY_END;
}

static void identify(struct gpurt_record *r, const struct gpurt_client *client)
{
	const struct gpurt_seat *seat = READ_ONCE(client->seat);

	r->client = client->id;
	r->pid = pid_nr(client->tgid);
	r->priority = is_copy(r->event) ? client->copier.node.level : gpurt_level_now(client);
	memcpy(r->comm, client->comm, sizeof(r->comm));
	if (seat)
		memcpy(r->group, seat->team->name, sizeof(r->group));
}

static void report(struct gpurt_record *r, struct gpurt_client *client)
{
	if (!gpurt_netlink_heard())
		return;
	if (client)
		identify(r, client);
	put(r);
	queue_delayed_work(gpurt_workers, &drain_work, 1);
}

/*
 * Reports an event.  Any context.  @client NULL: it happened to everyone.  @cause and @latency become GPURT_A_CAUSE and
 * GPURT_A_LATENCY_NS.
 */
void gpurt_event(struct gpurt_gpu *gpu, struct gpurt_client *client, u32 event, u64 time, u32 cause, u64 latency)
{
	struct gpurt_record r = {
		.event = event, .gpu = gpu->index, .time = time, .cause = cause, .latency = latency,
	};

	if (event == GPURT_EVENT_GONE && client)
		r.lost = atomic_xchg(&client->marks_lost, 0);
	report(&r, client);
}

/* Whether readers get that mark: the client's share is not used up. */
static bool take_share(struct gpurt_client *client, u32 what, u64 now)
{
	u64 before, after;

	do {
		before = READ_ONCE(client->marks);
		after = gpurt_mark_take(before, what, now);
	} while (after && cmpxchg64(&client->marks, before, after) != before);
	return after;
}

/* Reports a program's mark of a job.  Returns 0, or -EINVAL: its time is yet to come, or before the release. */
int gpurt_event_job(struct gpurt_client *client, const struct gpurt_job_mark *mark)
{
	u64 now = ktime_get_ns();
	struct gpurt_record r = {
		.event = mark->what == GPURT_MARK_BEGIN ? GPURT_EVENT_JOB_BEGIN : GPURT_EVENT_JOB_END,
		.gpu = client->gpu->index, .time = mark->when_ns ?: now, .job = mark->job, .cpu = mark->cpu_ns,
	};

	if (r.time > now || mark->release_ns > r.time)
		return -EINVAL;
	r.latency = r.time - mark->release_ns;
	strscpy(r.task, mark->task, sizeof(r.task));
	if (take_share(client, mark->what, now)) {
		r.lost = atomic_xchg(&client->marks_lost, 0);
		report(&r, client);
	} else if (gpurt_netlink_heard()) {
		atomic_inc(&client->marks_lost);
	}
	return 0;
}

/* 0 or -ENOMEM. */
int gpurt_events_start(void)
{
	ring = kvcalloc(RING, sizeof(*ring), GFP_KERNEL);
	return ring ? 0 : -ENOMEM;
}

void gpurt_events_stop(void)
{
	cancel_delayed_work_sync(&drain_work);
	kvfree(ring);
}

#ifdef GPURT_KUNIT
#include "tests/selftest.h"
#include "tests/kunit_ring.c"
#endif
