// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_control.h"

int rm_call(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct rm_control call = { .client = client, .object = object, .cmd = cmd,
				   .params = (uintptr_t)params, .size = size };

	if (syscall(SYS_ioctl, fd, RM_CONTROL, &call) < 0)
		return -errno;
	return (int)call.status;
}

static int group_call(const struct rm_tsg *tsg, uint32_t cmd, void *params, uint32_t size)
{
	return rm_call(tsg->fd, tsg->client, tsg->handle, cmd, params, size);
}

int rm_schedule(const struct rm_tsg *tsg, bool on)
{
	struct rm_schedule params = { .enable = on };
	int status = group_call(tsg, A06C_GPFIFO_SCHEDULE, &params, sizeof(params));

	/*
	 * The driver refuses a wrong size before it acts: try the size of older releases.  The release decides which of
	 * the two statuses it answers (rm.h).
	 */
	if (status == RM_STATUS_INVALID_PARAM_STRUCT || status == RM_STATUS_INVALID_ARGUMENT)
		status = group_call(tsg, A06C_GPFIFO_SCHEDULE, &params, RM_SCHEDULE_SHORT);
	return status;
}

int rm_preempt(const struct rm_tsg *tsg)
{
	/* The driver's own timeout can be seconds.  The probe gives up sooner. */
	struct rm_preempt params = { .wait = 1, .manual_timeout = 1, .timeout_us = 500000 };

	return group_call(tsg, A06C_PREEMPT, &params, sizeof(params));
}

int rm_channels(const struct rm_tsg *tsg, bool on)
{
	return rm_channels_hinted(tsg, on, false);
}

int rm_channels_hinted(const struct rm_tsg *tsg, bool on, bool only_scheduling)
{
	struct rm_disable_channels params = { .disable = !on, .count = tsg->channel_count,
					      .only_scheduling = only_scheduling };
	uint32_t i;

	for (i = 0; i < tsg->channel_count; i++) {
		params.clients[i] = tsg->client;
		params.channels[i] = tsg->channels[i];
	}
	return rm_call(tsg->fd, tsg->client, tsg->subdevice, C2080_DISABLE_CHANNELS, &params, sizeof(params));
}

int rm_get_timeslice(const struct rm_tsg *tsg, uint64_t *us)
{
	return group_call(tsg, A06C_GET_TIMESLICE, us, sizeof(*us));
}

int rm_set_timeslice(const struct rm_tsg *tsg, uint64_t us)
{
	return group_call(tsg, A06C_SET_TIMESLICE, &us, sizeof(us));
}
