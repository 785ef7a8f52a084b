/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Measures the status and the latency of each control: the same controls for the owner and for other processes. */
#ifndef PROBE_OPS_H
#define PROBE_OPS_H

#include "rm_control.h"

/* The calling process, as the records describe it. */
struct ops_caller {
	char how[16];		/* owner, scm_rights, pidfd_getfd */
	char load[8];		/* idle, or busy: a kernel fills the GPU */
	bool last;		/* the controls that change how the group is preempted for good, and a stop after them */
	uint32_t calls;
};

/*
 * Calls each control @caller->calls times and writes one record for each control and direction.  Leaves the group as it
 * was.
 */
void ops_measure(const struct rm_tsg *tsg, const struct ops_caller *caller);
/* Writes the record of a caller that could make no calls. */
void ops_refused(const struct ops_caller *caller, const char *why);

#endif
