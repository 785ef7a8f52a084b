// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emit.h"
#include "guard.h"
#include "ops.h"

/* If a control is always refused, or is very slow, a few calls are enough. */
#define ENOUGH_REFUSED 20
#define ENOUGH_NS 1500000000u
#define STATUSES_MAX 8

/* The settings of the group before the measurement, to be restored. */
struct before {
	uint64_t slice_us;
	uint32_t level;
};

/* A control.  @second: undo the first call: on after off, or the old value after the new one. */
struct op {
	const char *first_name, *second_name;
	int (*call)(const struct rm_tsg *tsg, const struct before *before, bool second);
};

static int set_timeslice(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	return rm_set_timeslice(tsg, second ? before->slice_us : 1000);
}

static int preempt(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	(void)before;
	(void)second;
	return rm_preempt(tsg);
}

static int schedule(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	(void)before;
	return rm_schedule(tsg, second);
}

static int channels(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	(void)before;
	return rm_channels(tsg, second);
}

static int interleave(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	return rm_set_interleave(tsg, second ? before->level : 1);
}

static int realtime(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	(void)before;
	return rm_make_realtime(tsg, !second);
}

static int restart(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	(void)before;
	(void)second;
	return rm_restart_runlist(tsg);
}

/* A control that only reads: the floor for the latencies of the others. */
static int info(const struct rm_tsg *tsg, const struct before *before, bool second)
{
	uint32_t id;

	(void)before;
	(void)second;
	return rm_get_info(tsg, &id);
}

static const struct op ops[] = {
	{ "GET_INFO", NULL, info },
	{ "SET_TIMESLICE", "SET_TIMESLICE back", set_timeslice },
	{ "PREEMPT wait", NULL, preempt },
	{ "GPFIFO_SCHEDULE off", "GPFIFO_SCHEDULE on", schedule },
	{ "FIFO_DISABLE_CHANNELS", "FIFO_DISABLE_CHANNELS enable", channels },
	{ "SET_INTERLEAVE_LEVEL", "SET_INTERLEAVE_LEVEL back", interleave },
};

/*
 * MAKE_REALTIME sets preemption modes, and taking it back does not take that back (ctrla06c.h; seen on an H200, release
 * 580.159.04).  Preemption then waits until kernels end.  So these come after all others.
 */
static const struct op last_ops[] = {
	{ "MAKE_REALTIME", "MAKE_REALTIME back", realtime },
	{ "RESTART_RUNLIST", NULL, restart },
	{ "FIFO_DISABLE_CHANNELS after MAKE_REALTIME", "FIFO_DISABLE_CHANNELS enable after MAKE_REALTIME", channels },
};

/* How often each status came. */
struct tally {
	int status[STATUSES_MAX];
	uint32_t count[STATUSES_MAX], used;
};

static void tally_add(struct tally *tally, int status)
{
	uint32_t i;

	for (i = 0; i < tally->used; i++) {
		if (tally->status[i] == status) {
			tally->count[i]++;
			return;
		}
	}
	if (tally->used == STATUSES_MAX)
		return;
	tally->status[tally->used] = status;
	tally->count[tally->used++] = 1;
}

static void tally_tell(const struct tally *tally)
{
	char text[STATUSES_MAX * 32 + 3] = "{";
	size_t used = 1;
	uint32_t i;

	for (i = 0; i < tally->used; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\"%d\":%u", i ? "," : "",
					 tally->status[i], tally->count[i]);
	snprintf(text + used, sizeof(text) - used, "}");
	emit_raw("statuses", text);
}

/* Adds the caller and its capabilities, which some controls need, to a record. */
static void tell_caller(const struct ops_caller *caller)
{
	FILE *file = fopen("/proc/self/status", "r");
	char text[128], capabilities[32] = "";

	while (file && fgets(text, sizeof(text), file))
		sscanf(text, "CapEff: %31s", capabilities);
	if (file)
		fclose(file);
	emit_text("caller", caller->how);
	emit_text("load", caller->load);
	emit_number("uid", geteuid());
	emit_text("capabilities", capabilities);
}

static void tell(const char *name, const struct ops_caller *caller, const struct tally *tally,
		 const uint64_t *samples, uint32_t count)
{
	emit_open("control");
	emit_text("control", name);
	tell_caller(caller);
	tally_tell(tally);
	emit_numbers("ns", samples, count);
	emit_close();
}

void ops_refused(const struct ops_caller *caller, const char *why)
{
	emit_open("control");
	emit_text("control", "descriptor");
	tell_caller(caller);
	emit_text("refused", why);
	emit_close();
}

static int timed(const struct op *op, const struct rm_tsg *tsg, const struct before *before, bool second,
		 struct tally *tally, uint64_t *sample)
{
	uint64_t start = now_ns();
	int status = op->call(tsg, before, second);

	*sample = now_ns() - start;
	tally_add(tally, status);
	return status;
}

static void measure(const struct op *op, const struct rm_tsg *tsg, const struct before *before,
		    const struct ops_caller *caller, uint64_t *samples)
{
	struct tally first = { 0 }, second = { 0 };
	uint64_t *seconds = samples + caller->calls, begun = now_ns();
	uint32_t count = 0, refused = 0;

	while (count < caller->calls && refused < ENOUGH_REFUSED && now_ns() - begun < ENOUGH_NS) {
		guard_off();
		refused += timed(op, tsg, before, false, &first, &samples[count]) != 0;
		if (op->second_name)
			timed(op, tsg, before, true, &second, &seconds[count]);
		guard_on();
		count++;
	}
	tell(op->first_name, caller, &first, samples, count);
	if (op->second_name)
		tell(op->second_name, caller, &second, seconds, count);
}

static void measure_all(const struct op *table, size_t count, const struct rm_tsg *tsg, const struct ops_caller *caller,
			uint64_t *samples)
{
	struct before before = { 0 };
	size_t i;

	if (rm_get_timeslice(tsg, &before.slice_us))
		before.slice_us = 0;
	if (rm_get_interleave(tsg, &before.level))
		before.level = 0;
	for (i = 0; i < count; i++) {
		/* The old value is needed to restore it. */
		if (table[i].call == set_timeslice && !before.slice_us)
			emit_error("SET_TIMESLICE", "not tried: the time slice cannot be read");
		else
			measure(&table[i], tsg, &before, caller, samples);
	}
}

void ops_measure(const struct rm_tsg *tsg, const struct ops_caller *caller)
{
	uint64_t *samples = calloc(2 * (size_t)caller->calls, sizeof(*samples));

	if (!samples || !tsg->channel_count)
		ops_refused(caller, samples ? "the group has no channel" : "out of memory");
	else if (caller->last)
		measure_all(last_ops, sizeof(last_ops) / sizeof(last_ops[0]), tsg, caller, samples);
	else
		measure_all(ops, sizeof(ops) / sizeof(ops[0]), tsg, caller, samples);
	free(samples);
}
