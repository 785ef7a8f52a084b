// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "emit.h"
#include "guard.h"
#include "methods.h"

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
