/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The controls whose status and latency are measured, the same by the owner and by others. */
#ifndef PROBE_OPS_H
#define PROBE_OPS_H

#include "rm_control.h"

/* Who calls, for the record. */
struct ops_caller {
	char how[16];		/* owner, scm_rights, pidfd_getfd */
	char load[8];		/* idle, or busy: a kernel fills the GPU */
	uint32_t calls;
};

/* All controls, @caller->calls times each, one record a control and direction; the group is as before afterwards. */
void ops_measure(const struct rm_tsg *tsg, const struct ops_caller *caller);
/* The record of a caller that did not get as far as calling. */
void ops_refused(const struct ops_caller *caller, const char *why);

#endif
