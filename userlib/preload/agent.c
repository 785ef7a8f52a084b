// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The process's agent: switches the process's TSGs (boards.c) when the host orders it.
 *
 * For each GPU one thread waits for orders.  The thread that makes a TSG tells the host before the program can use the
 * TSG.  The host answers with an order, which applies to the new TSG at once.  So two threads can receive orders at the
 * same time.  Orders carry sequence numbers, and an older order is ignored.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../handle.h"
#include "board.h"
#include "mutex.h"

static pthread_mutex_t lock;
/* Held while a thread tells the host of TSGs.  Taken before @lock, and never by an agent's thread. */
static pthread_mutex_t declaring;

void preload_lock(void)
{
	preload_enter();
	mutex_take(&lock);
}

void preload_unlock(void)
{
	mutex_release(&lock);
	preload_leave();
}

/*
 * Called with the lock held, and releases it meanwhile.  Has the driver switch channels of other processes, through a
 * descriptor of this process's TSGs.
 */
static int switch_others(const struct board *b, const struct gpurt_channels *channels, bool on)
{
	if (!b->tsgs || !b->family->switch_others)
		return -EOPNOTSUPP;
	return b->family->switch_others(b->tsgs, channels, on);
}

/*
 * Called with the lock held.  Carries out an order, unless a later one was carried out.  Channels of other processes
 * come last, because the lock is released then.  If a later order is carried out meanwhile, its result stays.
 */
static void obey(struct board *b, const struct gpurt_order *o)
{
	bool on = o->on & GPURT_ORDER_ON;
	int err;

	if (o->sequence <= b->sequence)
		return;
	if (o->on & GPURT_ORDER_ANEW)
		board_doubt(b);
	if (o->on & GPURT_ORDER_TAKEN && o->set == b->set)
		board_taken(b);
	b->result = board_turn(b, on);
	b->on = on;
	b->slice_us = o->on & GPURT_ORDER_SHORT ? GPURT_SLICE_SHORT_US : o->on & GPURT_ORDER_LONG ? GPURT_SLICE_LONG_US : 0;
	b->yields = o->on & GPURT_ORDER_YIELD;
	b->free = board_slice(b) || !b->yields;
	b->free &= o->on & GPURT_ORDER_FREE && !b->result;
	b->sequence = o->sequence;
	preload_count(COUNT_ORDERS);
	if (o->on & GPURT_ORDER_MANY && !b->result) {
		err = switch_others(b, &o->channels, false);
		if (b->sequence == o->sequence)
			b->result = err;
	}
	if (b->result)
		preload_count(COUNT_REFUSED);
}

/* Like switch_others().  Puts channels of other processes back; if that fails, each channel by a call of its own. */
static void put_back(const struct board *b, const struct gpurt_channels *channels)
{
	struct gpurt_channels one = { .count = 1 };
	uint32_t i;

	if (!switch_others(b, channels, true))
		return;
	for (i = 0; i < channels->count; i++) {
		one.clients[0] = channels->clients[i];
		one.channels[0] = channels->channels[i];
		switch_others(b, &one, true);
	}
}

/*
 * Called with the lock held.  The host is gone: puts all TSGs back, also those of others that this agent took off by
 * the @last order.  No other thread does so: this one tries until the driver has done it or the TSGs are gone.  After
 * another error the host sends orders to the other processes, which must not run beside the next owner.
 */
static void abandon(struct board *b, int err, const struct gpurt_order *last)
{
	long pause = RETRY_NS;

	if (err == -ENODEV && last->on & GPURT_ORDER_MANY)
		put_back(b, &last->channels);
	board_doubt(b);
	b->unmanaged = true;
	b->on = true;
	b->free = false;
	b->slice_us = 0;
	board_slice(b);
	preload_say("GPU %u: the host is gone (%s): this process runs unmanaged from here on", (unsigned int)(b - boards),
		    strerror(-err));
	while (board_turn(b, true)) {
		preload_unlock();
		pause_ns(pause);
		pause = pause < RETRY_MAX_NS ? 2 * pause : pause;
		preload_lock();
	}
}

static void *serve(void *argument)
{
	struct gpurt_order o, last = { .size = 0 };
	struct board *b = argument;
	int err;

	prctl(PR_SET_NAME, "gpurt-agent");	/* what it takes is in alpha: see urgent_threads() in host_cpu.py */
	for (;;) {
		preload_lock();
		o = (struct gpurt_order){
			.size = sizeof(o), .gpu = (unsigned int)(b - boards), .answered = b->sequence,
			.result = b->result, .timeout_ns = GPURT_FOREVER, .flags = b->uncut ? GPURT_ORDER_UNCUT : 0,
		};
		preload_unlock();
		err = gpurt_call(NULL, GPURT_IOC_ORDER, &o, false);
		preload_lock();
		if (err) {
			abandon(b, err, &last);
			b->running = false;
			preload_unlock();
			return NULL;
		}
		obey(b, &o);
		last = o;
		preload_unlock();
	}
}

/*
 * Posts the begin under the lock.  An order that forbids such begins also takes this lock.  So the host has read every
 * such begin when it gets the answer to the order.
 */
bool agent_begins_freely(unsigned int gpu, unsigned int flags, bool *yields)
{
	bool begun = false;

	flags &= ~(unsigned int)(GPURT_BEGIN_WAIT | GPURT_BEGIN_YIELD);
	if (process_sealed() || gpu >= GPURT_MAX_GPUS)	/* a sealed process may not ask for its priority */
		return false;
	preload_lock();
	if (boards[gpu].free && (*yields || !boards[gpu].yields)) {
		*yields = boards[gpu].yields;
		begun = !gpurt_begin_posted(gpu, flags | (*yields ? GPURT_BEGIN_YIELD : 0));
	}
	preload_unlock();
	return begun;
}

void agent_explicit(void)
{
	size_t i;

	preload_lock();
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (boards[i].tsgs)
			board_change(&boards[i]);
	preload_unlock();
	agent_settle();
}

/*
 * Called with the lock held.  A call for other processes is made through a descriptor from KEPT on.  If the kernel's
 * table of descriptors grows then, the caller waits for all CPUs (RCU): 8 to 10 ms, during its first segment.  So it
 * grows now.
 */
static void make_room(const struct board *b)
{
	int copy = b->tsgs ? real_duplicate(files_descriptor(b->tsgs->file), KEPT) : -1;

	if (copy >= 0)
		syscall(SYS_close, copy);
}

/* The thread runs above the program's own priority, if that is permitted.  It takes none of the program's signals. */
static int start_thread(struct board *b)
{
	struct sched_param above = { .sched_priority = 1 }, own;
	sigset_t all, old;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, serve, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	if (!sched_getparam(0, &own))
		above.sched_priority = own.sched_priority < 98 ? own.sched_priority + 1 : 99;
	err = pthread_setschedparam(thread, SCHED_FIFO, &above);
	if (err && preload_flag("GPURT_VERBOSE"))
		preload_say("the agent runs without SCHED_FIFO (%s): its answers may be late", strerror(err));
	pthread_detach(thread);
	b->running = true;
	return 0;
}

/* The report of a board to the host: copied with the lock held, told without it. */
struct report {
	const struct family *family;
	unsigned int number, tier;
	bool single;
	const char *how;
	char driver[GPURT_NAME_LEN];
	uint64_t set;
	struct gpurt_channels channels;
};

/*
 * Tells the host how many TSGs there are, and carries out the order in its answer.  Calls for other processes are left
 * to the agent's thread.  Another agent's call may be for other channels than these, so this process switches its own.
 */
static int declare(struct board *b, const struct report *r)
{
	struct gpurt_agent a = {
		.size = sizeof(a), .gpu = (unsigned int)(b - boards), .flags = GPURT_AGENT_FREE, .tier = r->tier,
		.tsgs = r->number, .set = r->set, .channels = r->channels,
	};
	struct gpurt_order o;
	int err;

	if (r->family->for_others && r->family->for_others())
		a.flags |= GPURT_AGENT_MANY;
	if (r->single)
		a.flags |= GPURT_AGENT_SINGLE;
	if (segments_automatic())
		a.flags |= GPURT_AGENT_AUTOMATIC;
	memcpy(a.driver, r->driver, sizeof(a.driver));
	err = gpurt_call(NULL, GPURT_IOC_AGENT, &a, false);
	if (err)
		return err;
	preload_lock();
	b->unmanaged = false;
	b->again = 0;
	o = (struct gpurt_order){ .on = a.on & ~(uint32_t)GPURT_ORDER_TAKEN, .sequence = a.sequence };
	if (!(a.on & GPURT_ORDER_MANY))
		obey(b, &o);
	if (!b->running && a.flags & GPURT_AGENT_MANY)
		make_room(b);
	if (!b->running)
		err = start_thread(b);
	preload_unlock();
	return err;
}

static const char *refusal(int err)
{
	if (err == -EOPNOTSUPP || err == -ENOTTY)
		return "the host has no agents for it ('gpurt serve' has)";
	if (err == -EDQUOT)
		return "this user has as many agents as the host permits (agent_limit)";
	return err == -ENODEV ? "no host serves it" : strerror(-err);
}

/* Whether the host's driver switches that GPU itself.  Then the host has no agents there. */
static bool is_driven(unsigned int gpu)
{
	struct gpurt_query query = { .size = sizeof(query), .gpu = gpu };

	return !gpurt_call(NULL, GPURT_IOC_QUERY, &query, false) && query.tier == GPURT_TIER_PATCHED &&
	       !(query.caps & GPURT_CAP_AGENTS);
}

/*
 * The host's driver switches the GPU, so the library switches nothing there, whatever the driver's release.  The call
 * for agents makes the process a client: it can be given a priority before its first segment.
 */
static int introduce_driven(struct board *b, const struct report *r)
{
	unsigned int gpu = (unsigned int)(b - boards);
	int err = declare(b, r);

	if (err && err != -EOPNOTSUPP) {
		preload_say("GPU %u: %s; this process runs unmanaged", gpu, refusal(err));
		return err;
	}
	preload_lock();
	b->driven = true;
	b->unmanaged = false;
	preload_unlock();
	preload_say("GPU %u, %s: tier T2: its driver switches this process%s%s", gpu, r->driver,
		    r->tier == GPURT_TIER_HINTS ? "; but tier T0: " : "", r->tier == GPURT_TIER_HINTS ? r->how : "");
	return 0;
}

/*
 * Called for the first TSG on a GPU, and again while the host has no room.  0: the GPU is managed.  If it is not, says
 * why on stderr, once.
 */
static int introduce(struct board *b, const struct report *r)
{
	unsigned int gpu = (unsigned int)(b - boards);
	char why[160];
	int err;

	preload_check_chain();
	if (process_sealed()) {
		preload_say("GPU %u, %s: this program sealed itself (no_new_privs, seccomp) before it used the GPU; this process "
			    "runs unmanaged", gpu, r->driver);
		return -EPERM;
	}
	if (is_driven(gpu))
		return introduce_driven(b, r);
	if (r->family->known && !r->family->known(why, sizeof(why)) && !preload_flag("GPURT_FORCE")) {
		preload_say("GPU %u, %s: %s; this process runs unmanaged (GPURT_FORCE=1 tries it)", gpu, r->driver, why);
		return -ENOTSUP;
	}
	err = declare(b, r);
	if (!err)
		preload_say("GPU %u, %s: tier T%u: %s", gpu, r->driver, r->tier, r->how);
	else if (err != -EDQUOT || !b->again)
		preload_say("GPU %u: %s; this process runs unmanaged%s", gpu, refusal(err),
			    err == -EDQUOT ? " until there is room" : "");
	return err;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether the host must hear of a change, or be asked again for room. */
static bool is_due(const struct board *b)
{
	return b->changed || (b->again && now_ns() >= b->again);
}

/* The host did not accept the process.  The library asks again only if the host had no room. */
static void rejected(struct board *b, int err)
{
	preload_lock();
	b->unmanaged = true;
	b->introduced = err != -EDQUOT;
	b->again = err == -EDQUOT ? now_ns() + ROOM_NS : 0;
	preload_unlock();
}

static void settle(struct board *b)
{
	struct report report = { .family = NULL };
	bool first, told;
	int err;

	preload_lock();
	first = is_due(b) && !b->introduced && b->number;
	told = b->changed && b->introduced && !b->unmanaged;
	if (b->family) {
		report = (struct report){ .family = b->family, .number = b->number };
		report.tier = board_tier(b, &report.how);
		report.set = b->set;
		report.single = board_single(b);
		board_driver(b, report.driver);
		board_channels(b, &report.channels);
	}
	b->changed = false;
	b->introduced |= first;
	told &= !b->driven;
	preload_unlock();
	if (told)
		declare(b, &report);
	if (!first)
		return;
	err = introduce(b, &report);
	if (err)
		rejected(b, err);
}

/*
 * Tells the host how many TSGs there are now.  Called without the lock.  The host can be in an update that waits for
 * this process's agent, and the agent needs the lock to carry out its order.
 */
void agent_settle(void)
{
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		if (!is_due(&boards[i]))
			continue;
		preload_enter();
		mutex_take(&declaring);
		settle(&boards[i]);
		mutex_release(&declaring);
		preload_leave();
	}
}

/* There are no TSGs yet.  In a child: forgets the parent's, which the parent's agent still switches. */
void agent_begins(void)
{
	memset(boards, 0, sizeof(boards));
	mutex_begins(&lock);
	mutex_begins(&declaring);
}
