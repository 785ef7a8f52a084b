/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The controls of the resource manager.  Each function returns the driver's status (0: done) or a negative errno. */
#ifndef PROBE_RM_CONTROL_H
#define PROBE_RM_CONTROL_H

#include "rm_watch.h"

/* Bypasses the program's own ioctl(), because rm_watch.c records libcuda's calls only.  Safe in a signal handler. */
int rm_call(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size);
int rm_schedule(const struct rm_tsg *tsg, bool on);
int rm_preempt(const struct rm_tsg *tsg);
int rm_channels(const struct rm_tsg *tsg, bool on);
/* @only_scheduling: the driver should not wait until executing work has stopped. */
int rm_channels_hinted(const struct rm_tsg *tsg, bool on, bool only_scheduling);
int rm_get_timeslice(const struct rm_tsg *tsg, uint64_t *us);
int rm_set_timeslice(const struct rm_tsg *tsg, uint64_t us);

#endif
