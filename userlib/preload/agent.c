// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The process's agent: keeps a list of its TSGs on each GPU and switches them when the host orders it.
 *
 * For each GPU one thread waits for orders.  The thread that makes a TSG tells the host before the program can use the
 * TSG.  The host answers with an order, which applies to the new TSG at once.  So two threads can receive orders at the
 * same time.  Orders carry sequence numbers, and an older order is ignored.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../handle.h"
#include "preload.h"

/* Between two tries of what the driver refused; it doubles up to the second where nobody waits. */
#define RETRY_NS	1000000
#define RETRY_MAX_NS	128000000
#define RETRIES		100

/* One GPU. */
struct board {
	struct tsg *tsgs;
	unsigned int number;		/* of TSGs */
	const struct family *family;
	bool running;			/* its thread waits for orders */
	bool introduced;		/* the host has been told of the process */
	atomic_bool changed;		/* the host must be told how many TSGs there are */
	bool unmanaged;			/* no host, no host for this GPU, or an unknown driver release */
	bool on;			/* what the last order said */
	int result;			/* of the last order */
	uint64_t sequence;		/* of the last order that was carried out */
};

static struct board boards[GPURT_MAX_GPUS];
/* The driver has refused to switch something for so long that no thread waits for it. */
static bool hopeless;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while a thread tells the host of TSGs.  Taken before @lock, and never by an agent's thread. */
static pthread_mutex_t declaring = PTHREAD_MUTEX_INITIALIZER;

void preload_lock(void)
{
	pthread_mutex_lock(&lock);
}

void preload_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * Both directions have more than one step in some drivers, and any step can fail.  So the TSG is TSG_UNSURE until the
 * driver has said that all is done, and the next order of either kind is tried in full.
 */
static int turn(struct tsg *tsg, bool on)
{
	int err;

	if (tsg->empty)
		return 0;
	tsg->state = TSG_UNSURE;
	err = tsg->file->family->turn(tsg, files_descriptor(tsg->file), on);
	if (!err)
		tsg->state = on ? TSG_ON : TSG_OFF;
	return err;
}

/* Switches all TSGs that are not known to be @on.  Tries all of them and returns the first error. */
static int turn_all(struct board *b, bool on)
{
	struct tsg *tsg;
	int err = 0, one;

	for (tsg = b->tsgs; tsg; tsg = tsg->next) {
		if (tsg->state == (on ? TSG_ON : TSG_OFF))
			continue;
		one = turn(tsg, on);
		err = err ? err : one;
	}
	return err;
}

/* Called with the lock held.  Carries out order @sequence, unless a later one was carried out. */
static void obey(struct board *b, bool on, uint64_t sequence)
{
	if (sequence <= b->sequence)
		return;
	b->result = turn_all(b, on);
	b->on = on;
	b->sequence = sequence;
	preload_count(COUNT_ORDERS);
	if (b->result)
		preload_count(COUNT_REFUSED);
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/*
 * Called with the lock held.  The host is gone: puts all TSGs back.  Nobody repeats this order, so this thread repeats
 * it until the driver has carried it out or the TSGs are gone.
 */
static void abandon(struct board *b, int err)
{
	long pause = RETRY_NS;

	b->unmanaged = true;
	b->on = true;
	preload_say("GPU %u: the host is gone (%s): this process runs unmanaged from here on", (unsigned int)(b - boards),
		    strerror(-err));
	while (turn_all(b, true)) {
		preload_unlock();
		pause_ns(pause);
		pause = pause < RETRY_MAX_NS ? 2 * pause : pause;
		preload_lock();
	}
}

static void *serve(void *argument)
{
	struct board *b = argument;
	struct gpurt_order o;
	int err;

	for (;;) {
		preload_lock();
		o = (struct gpurt_order){
			.size = sizeof(o), .gpu = (unsigned int)(b - boards), .answered = b->sequence,
			.result = b->result, .timeout_ns = GPURT_FOREVER,
		};
		preload_unlock();
		err = gpurt_call(NULL, GPURT_IOC_ORDER, &o, false);
		preload_lock();
		if (err) {
			abandon(b, err);
			b->running = false;
			preload_unlock();
			return NULL;
		}
		obey(b, o.on, o.sequence);
		preload_unlock();
	}
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

/* Tells the host how many TSGs there are, and carries out the order that the host answers with. */
static int declare(struct board *b, const struct family *family, unsigned int number)
{
	const char *how;
	struct gpurt_agent a = {
		.size = sizeof(a), .gpu = (unsigned int)(b - boards), .tier = family->tier(&how), .tsgs = number,
	};
	int err;

	memcpy(a.driver, family->name, strlen(family->name));
	err = gpurt_call(NULL, GPURT_IOC_AGENT, &a, false);
	if (err)
		return err;
	preload_lock();
	obey(b, a.on, a.sequence);
	if (!b->running)
		err = start_thread(b);
	preload_unlock();
	return err;
}

static const char *refusal(int err)
{
	if (err == -EOPNOTSUPP || err == -ENOTTY)
		return "the host has no agents for it ('gpurt serve' has)";
	return err == -ENODEV ? "no host serves it" : strerror(-err);
}

/* Called for the first TSG on a GPU.  Returns whether the GPU is managed.  If it is not, says why on stderr. */
static bool introduce(struct board *b, const struct family *family, unsigned int number)
{
	unsigned int gpu = (unsigned int)(b - boards);
	const char *how;
	unsigned int tier = family->tier(&how);
	char why[160];
	int err;

	if (!family->known(why, sizeof(why)) && !preload_flag("GPURT_FORCE")) {
		preload_say("GPU %u, %s: %s; this process runs unmanaged (GPURT_FORCE=1 tries it)", gpu, family->name, why);
		return false;
	}
	err = declare(b, family, number);
	if (err)
		preload_say("GPU %u: %s; this process runs unmanaged", gpu, refusal(err));
	else
		preload_say("GPU %u, %s: tier T%u: %s", gpu, family->name, tier, how);
	return !err;
}

static void settle(struct board *b)
{
	const struct family *family;
	bool first, unmanaged;
	unsigned int number;

	preload_lock();
	first = b->changed && !b->introduced;
	unmanaged = b->unmanaged || !b->changed;
	family = b->family;
	number = b->number;
	b->changed = false;
	b->introduced |= first;
	preload_unlock();
	if (unmanaged)
		return;
	if (!first) {
		declare(b, family, number);
	} else if (!introduce(b, family, number)) {
		preload_lock();
		b->unmanaged = true;
		preload_unlock();
	}
}

/*
 * Tells the host how many TSGs there are now.  Called without the lock: the host can be in an update that waits for
 * this process's agent, and the agent needs the lock to carry out its order.
 */
void agent_settle(void)
{
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		if (!boards[i].changed)
			continue;
		pthread_mutex_lock(&declaring);
		settle(&boards[i]);
		pthread_mutex_unlock(&declaring);
	}
}

/* Adds a copy of @like, which the program has just made.  Returns NULL if it cannot be managed. */
struct tsg *agent_add(const struct tsg *like)
{
	unsigned int gpu = like->gpu;
	struct tsg *tsg;
	struct board *b;

	if (gpu >= GPURT_MAX_GPUS) {
		preload_say("GPU %u is one too many (%u): its work is not managed", gpu, GPURT_MAX_GPUS);
		return NULL;
	}
	tsg = calloc(1, sizeof(*tsg));
	if (!tsg)
		return NULL;
	b = &boards[gpu];
	*tsg = *like;
	tsg->next = b->tsgs;
	b->tsgs = tsg;
	b->number++;
	b->on |= !b->introduced;
	b->family = like->file->family;
	b->changed = true;
	return tsg;
}

struct tsg *agent_find(const struct gpu_file *file, uint32_t client, uint32_t handle)
{
	struct tsg *tsg;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = tsg->next)
			if (tsg->file == file && tsg->client == client && tsg->handle == handle)
				return tsg;
	return NULL;
}

void agent_remove(struct tsg *tsg)
{
	struct board *b = &boards[tsg->gpu];
	struct tsg **link = &b->tsgs;

	while (*link != tsg)
		link = &(*link)->next;
	*link = tsg->next;
	free(tsg);
	b->number--;
	b->changed = true;
}

void agent_remove_file(const struct gpu_file *file)
{
	struct tsg *tsg, *next;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = next) {
			next = tsg->next;
			if (tsg->file == file)
				agent_remove(tsg);
		}
}

void agent_refresh(struct tsg *tsg)
{
	struct board *b = &boards[tsg->gpu];

	tsg->empty = false;
	if (!b->on || tsg->state != TSG_ON)
		tsg->state = TSG_UNSURE;
}

void agent_refresh_all(const struct family *family)
{
	struct tsg *tsg;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = tsg->next)
			if (tsg->file->family == family && !tsg->empty)
				agent_refresh(tsg);
}

static bool behind(const struct board *b)
{
	const struct tsg *tsg;

	for (tsg = b->tsgs; tsg; tsg = tsg->next)
		if (!tsg->empty && tsg->state == TSG_UNSURE)
			return true;
	return false;
}

/* Returns whether the driver refused what it may do later. */
static bool catch_up(void)
{
	bool refused = false;
	size_t i;
	int err;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		err = behind(&boards[i]) ? turn_all(&boards[i], boards[i].on) : 0;
		if (err)
			preload_count(COUNT_REFUSED);
		refused |= err && err != -EOPNOTSUPP;
	}
	return refused;
}

bool agent_catch_up(void)
{
	bool refused = catch_up();

	hopeless &= refused;
	return refused && !hopeless;
}

/*
 * The host has been told that the process is off, and there is no way to take that back.  So the thread whose call made
 * the TSG run does not return to the program before the TSG is off.  If the driver refuses for too long, later calls try
 * once each, because a program makes hundreds while it starts.
 */
void agent_insist(void)
{
	static bool told;
	bool refused = true;
	int i;

	for (i = 0; i < RETRIES && refused; i++) {
		pause_ns(RETRY_NS);
		preload_lock();
		refused = catch_up();
		hopeless = refused && i + 1 == RETRIES;
		preload_unlock();
	}
	if (refused && !told)
		preload_say("the driver does not switch a new time-slice group: it may run beside the GPU's owner");
	told |= refused;
}

/* In a child: forgets the parent's TSGs, which the parent's agent still switches. */
void agent_forked(void)
{
	struct tsg *tsg, *next;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		for (tsg = boards[i].tsgs; tsg; tsg = next) {
			next = tsg->next;
			free(tsg);
		}
		memset(&boards[i], 0, sizeof(boards[i]));
	}
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&declaring, NULL);
}

/* The number of TSGs that the process has on that GPU. */
unsigned int agent_number(unsigned int gpu)
{
	return gpu < GPURT_MAX_GPUS ? boards[gpu].number : 0;
}

/* Lists the GPUs on which this process has TSGs that a host manages.  Returns how many. */
unsigned int agent_gpus(unsigned int *gpus, unsigned int size)
{
	unsigned int i, n = 0;

	for (i = 0; i < GPURT_MAX_GPUS && n < size; i++)
		if (boards[i].tsgs && !boards[i].unmanaged)
			gpus[n++] = i;
	return n;
}
