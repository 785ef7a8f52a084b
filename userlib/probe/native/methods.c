// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "emit.h"
#include "methods.h"

#define PATIENCE_NS 2000000000u
#define WATCHED_MAX 32

static struct rm_tsg watched[WATCHED_MAX];
static atomic_size_t watched_count;
static _Atomic uint64_t off_since;

static void put_back(void)
{
	size_t i, count = watched_count;

	for (i = 0; i < count; i++) {
		rm_channels(&watched[i], true);
		rm_schedule(&watched[i], true);
	}
}

static void *watch(void *unused)
{
	uint64_t since;

	for (;;) {
		sleep_ns(50000000);
		since = off_since;
		if (!since || now_ns() - since < PATIENCE_NS)
			continue;
		put_back();
		off_since = 0;
	}
	return unused;
}

static void ended(int signal_number)
{
	static const char said[] = "{\"record\":\"error\",\"what\":\"part\",\"why\":\"its time was up\"}\n";

	if (off_since)
		put_back();
	/* The part may be in the middle of a line: start a new one.  The reader counts the broken one. */
	if (write(STDOUT_FILENO, "\n", 1) < 0 || write(STDOUT_FILENO, said, sizeof(said) - 1) < 0)
		_exit(128 + signal_number);
	_exit(3);
}

void guard_start(unsigned int limit_s)
{
	struct sigaction action = { .sa_handler = ended };
	pthread_t thread;

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	alarm(limit_s);
	if (pthread_create(&thread, NULL, watch, NULL))
		emit_error("guard", "no thread to watch over groups");
	else
		pthread_detach(thread);
}

/* Replaces the groups that the guard puts back. */
static void guard_watch(const struct rm_tsg *tsgs, size_t count)
{
	if (count > WATCHED_MAX)
		count = WATCHED_MAX;
	watched_count = 0;
	memcpy(watched, tsgs, count * sizeof(*tsgs));
	watched_count = count;
}

/* Called before a group goes off, and after it is on again. */
static void guard_off(void)
{
	off_since = now_ns();
}

static void guard_on(void)
{
	off_since = 0;
}

static int schedule_on(const struct rm_tsg *tsg)
{
	return rm_schedule(tsg, true);
}

static int schedule_off_preempt(const struct rm_tsg *tsg)
{
	int status = rm_schedule(tsg, false);

	return status ? status : rm_preempt(tsg);
}

static int channels_off(const struct rm_tsg *tsg)
{
	return rm_channels(tsg, false);
}

static int channels_on(const struct rm_tsg *tsg)
{
	return rm_channels(tsg, true);
}

const struct method methods[METHODS] = {
	{ "GPFIFO_SCHEDULE + PREEMPT", schedule_off_preempt, schedule_on },
	{ "FIFO_DISABLE_CHANNELS", channels_off, channels_on },
};
const struct method *const method_schedule = &methods[0], *const method_channels = &methods[1];

int groups_off(const struct groups *groups, const struct method *method)
{
	int status = 0;
	size_t i;

	guard_off();
	for (i = 0; i < groups->count && !status; i++)
		status = method->off(&groups->tsg[i]);
	return status;
}

int groups_on(const struct groups *groups, const struct method *method)
{
	int status = 0, one;
	size_t i;

	for (i = 0; i < groups->count; i++) {
		one = method->on(&groups->tsg[i]);
		status = status ? status : one;
	}
	guard_on();
	return status;
}

int groups_find(struct groups *groups, bool compute_only)
{
	groups->count = rm_targets(groups->tsg, GROUPS_MAX, compute_only);
	guard_watch(groups->tsg, groups->count);
	if (groups->count)
		return 0;
	emit_error("groups", "the process's own groups were not seen");
	return -1;
}
