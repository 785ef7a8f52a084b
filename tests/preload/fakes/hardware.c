// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hardware.h"

#define GROUPS 32
#define WORKS 64
#define EVENTS 128
#define NEVER INT64_MAX
#define COMPUTE 0x5c000000u	/* cuda.c: handles of compute channels begin here, those of copy channels are below */
#define INVALID_CHANNEL 0x21
/* A thread that sleeps wakes late: a call's last part is spent awake, as the driver spends all of it. */
#define AWAKE_NS 60000

/* The medians of docs/hardware, ns; theta with a full load.  A call for more groups takes so much longer for each. */
static const struct times {
	int64_t theta, slice, off, off_each, stop, stop_each, on, on_each, set_slice;
} h200 = { 222000, 2050000, 620000, 60000, 360000, 30000, 300000, 50000, 156000 };

struct group {
	uint32_t client;
	pid_t pid;
	int on;
	int64_t slice, executed;
	uint64_t submitted, completed;
	int64_t left[WORKS];	/* by the work's number */
};

/* An order that the firmware carries out later. */
struct event { int64_t at; int group, on; };

struct hardware {
	pthread_mutex_t lock;
	uint32_t changed;	/* a futex: something may complete sooner than it seemed */
	int scale;		/* thousandths */
	struct times times;
	int64_t now, firmware_free, begins, slice_end;	/* begins: when the current group's switch is over */
	int count, current, last, events;		/* last: whose context the GPU has */
	struct group group[GROUPS];
	struct event event[EVENTS];
};

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }
static int64_t sooner(int64_t one, int64_t other) { return one < other ? one : other; }

static int ready(const struct group *g) { return g->on && g->completed < g->submitted; }

static int others_ready(const struct hardware *h)
{
	int i;

	for (i = 0; i < h->count; i++)
		if (i != h->current && ready(&h->group[i]))
			return 1;
	return 0;
}

/* The group that has the GPU now: the current one within its slice, else the next in turn, itself last of all. */
static void choose(struct hardware *h)
{
	int i, next = -1;

	if (h->current >= 0 && ready(&h->group[h->current]) && h->now < h->slice_end)
		return;
	for (i = 1; i <= h->count && next < 0; i++)
		if (ready(&h->group[(later(h->last, 0) + i) % h->count]))
			next = (int)((later(h->last, 0) + i) % h->count);
	if (next < 0 || next == h->current) {
		h->current = next;
		return;
	}
	h->begins = h->now + (next == h->last ? 0 : h->times.theta);
	h->slice_end = h->begins + h->group[next].slice;
	h->current = h->last = next;
}

static void carry_out_events(struct hardware *h)
{
	int i;

	for (i = 0; i < h->events;) {
		struct event e = h->event[i];

		if (e.at > h->now) {
			i++;
			continue;
		}
		h->group[e.group].on = e.on;
		if (!e.on && h->current == e.group)
			h->current = -1;
		h->event[i] = h->event[--h->events];
	}
}

/* Executes the current group's work until @to at the latest.  Returns when that changes by itself. */
static int64_t execute(struct hardware *h, int64_t to)
{
	struct group *g = &h->group[h->current];
	int64_t *left = &g->left[(g->completed + 1) % WORKS], begins = later(h->begins, h->now);

	to = sooner(to, begins + *left);
	if (others_ready(h) && h->slice_end > h->now)
		to = sooner(to, h->slice_end);
	if (to > begins) {
		*left -= to - begins;
		g->executed += to - begins;
	}
	g->completed += to >= begins && *left <= 0;
	return to;
}

static void advance(struct hardware *h, int64_t to)
{
	int64_t next;
	int i;

	while (1) {
		carry_out_events(h);
		choose(h);
		if (h->now >= to)
			return;
		next = to;
		for (i = 0; i < h->events; i++)
			next = sooner(next, h->event[i].at);
		h->now = h->current < 0 ? next : execute(h, next);
	}
}

/* The work of processes that were killed goes with them. */
static void bury(struct hardware *h)
{
	int i;

	for (i = 0; i < h->count; i++)
		if (ready(&h->group[i]) && h->group[i].pid != getpid() && kill(h->group[i].pid, 0) && errno == ESRCH)
			h->group[i].completed = h->group[i].submitted;
}

static struct group *enter(struct hardware *h, uint32_t client)
{
	int i;

	if (pthread_mutex_lock(&h->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&h->lock);
	advance(h, clock_ns());
	bury(h);
	for (i = 0; i < h->count; i++)
		if (h->group[i].client == client)
			return &h->group[i];
	return NULL;
}

static void leave(struct hardware *h)
{
	choose(h);
	pthread_mutex_unlock(&h->lock);
}

static void wake_waiters(struct hardware *h)
{
	__atomic_add_fetch(&h->changed, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &h->changed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int64_t scaled(const struct hardware *h, int64_t ns) { return ns * h->scale / 1000; }

int hardware_make(const char *path, int scale)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int64_t *times;
	pthread_mutexattr_t kind;
	struct hardware *h;
	size_t i;

	if (fd < 0 || ftruncate(fd, sizeof(*h)))
		return -1;
	h = (void *)syscall(SYS_mmap, NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&h->lock, &kind);
	h->scale = scale;
	h->times = h200;
	for (times = (int64_t *)&h->times, i = 0; i < sizeof(h->times) / sizeof(*times); i++)
		times[i] = scaled(h, times[i]);
	h->now = clock_ns();
	h->current = h->last = -1;
	return munmap(h, sizeof(*h));
}

struct hardware *hardware_open(void)
{
	static struct hardware *h;
	const char *path = getenv("FAKE_HARDWARE");
	int fd;

	if (h || !path)
		return h;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	h = (void *)syscall(SYS_mmap, NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return h;
}

void hardware_add(struct hardware *h, uint32_t client)
{
	if (!enter(h, client) && h->count < GROUPS)
		h->group[h->count++] = (struct group){ .client = client, .pid = getpid(), .on = 1, .slice = h->times.slice };
	leave(h);
}

uint64_t hardware_submit(struct hardware *h, uint32_t client, int64_t ns)
{
	struct group *g = enter(h, client);
	uint64_t number = 0;

	if (g && g->submitted - g->completed < WORKS) {
		number = ++g->submitted;
		g->left[number % WORKS] = scaled(h, ns) + 1;
	}
	leave(h);
	return number;
}

int hardware_done(struct hardware *h, uint32_t client, uint64_t number)
{
	struct group *g = enter(h, client);
	int done = !g || g->completed >= number;

	leave(h);
	return done;
}

/* The soonest time at which the group's work up to @number may have executed, if nothing changes. */
static int64_t soonest(const struct hardware *h, const struct group *g, uint64_t number)
{
	const struct group *current = h->current < 0 ? NULL : &h->group[h->current];
	int64_t at = current ? later(h->now, h->begins) : h->now, left = 0;
	uint64_t i;

	if (!g->on)
		return NEVER;
	if (current && current != g) {
		for (i = current->completed + 1; i <= current->submitted; i++)
			at += current->left[i % WORKS];
		at = sooner(at, later(h->slice_end, h->now));
	}
	for (i = g->completed + 1; i <= number; i++)
		left += g->left[i % WORKS];
	return at + left + (current == g || &h->group[later(h->last, 0)] == g ? 0 : h->times.theta);
}

void hardware_wait(struct hardware *h, uint32_t client, uint64_t number)
{
	struct group *g;
	struct timespec t;
	uint32_t seen;
	int64_t at;
	int i;

	while ((g = enter(h, client)) && g->completed < number) {
		seen = h->changed;
		at = soonest(h, g, number);
		for (i = 0; i < h->events; i++)
			at = sooner(at, h->event[i].at);
		leave(h);
		t = (struct timespec){ at / 1000000000, at % 1000000000 };
		syscall(SYS_futex, &h->changed, FUTEX_WAIT_BITSET, seen, at == NEVER ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
	}
	leave(h);
}

int64_t hardware_executed(struct hardware *h, uint32_t client)
{
	struct group *g = enter(h, client);
	int64_t ns = g ? g->executed * 1000 / h->scale : 0;

	leave(h);
	return ns;
}

/* Keeps the firmware busy for a call that takes @ns.  Returns when it begins. */
static int64_t occupy(struct hardware *h, int64_t ns)
{
	int64_t begins = later(h->firmware_free, h->now);

	h->firmware_free = begins + ns;
	return begins;
}

static void return_at(int64_t at)
{
	struct timespec t = { (at - AWAKE_NS) / 1000000000, (at - AWAKE_NS) % 1000000000 };

	if (at - AWAKE_NS > clock_ns())
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	while (clock_ns() < at)
		;
}

/* The groups of the call, whose channels stand beside each other. */
static int groups_of(struct hardware *h, const struct fake_channels *c, int *compute, int *count)
{
	int groups = 0, j;
	uint32_t i;

	*count = 0;
	for (i = 0; i < c->count && i < 64; i++) {
		for (j = 0; j < h->count && h->group[j].client != c->clients[i]; j++)
			;
		if (j == h->count)
			return -1;
		if (c->channels[i] < COMPUTE) {
			groups += !i || c->clients[i] != c->clients[i - 1] ||
				  c->channels[i] / FAKE_COPIES != c->channels[i - 1] / FAKE_COPIES;
		} else if (!*count || compute[*count - 1] != j) {
			compute[(*count)++] = j;
			groups++;
		}
	}
	return groups;
}

uint32_t hardware_switch(struct hardware *h, const struct fake_channels *c)
{
	int compute[64], count, groups, i;
	int64_t begins, effect, takes;

	enter(h, 0);
	groups = groups_of(h, c, compute, &count);
	if (groups < 0 || h->events + count > EVENTS) {
		leave(h);
		return INVALID_CHANNEL;
	}
	takes = c->off ? h->times.off + (groups - 1) * h->times.off_each : h->times.on + (groups - 1) * h->times.on_each;
	effect = c->off ? h->times.stop + (groups - 1) * h->times.stop_each : takes;
	begins = occupy(h, takes);
	for (i = 0; i < count; i++)
		h->event[h->events++] = (struct event){ begins + effect, compute[i], !c->off };
	leave(h);
	wake_waiters(h);
	return_at(begins + takes);
	return 0;
}

uint32_t hardware_set_slice(struct hardware *h, uint32_t client, uint64_t us)
{
	struct group *g = enter(h, client);
	int64_t begins = occupy(h, h->times.set_slice), slice = (int64_t)(us * 1000 / 1024) * 1024;

	if (g)	/* a slice of no unit is not known of any hardware: here it never ends */
		g->slice = slice ? scaled(h, slice) : NEVER / 4;
	leave(h);
	wake_waiters(h);
	return_at(begins + h->times.set_slice);
	return g ? 0 : INVALID_CHANNEL;
}
