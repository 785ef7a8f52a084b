/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A short periodic kernel, whose response times are measured, and the rivals that compete with it for the GPU. */
#ifndef PROBE_CRITICAL_H
#define PROBE_CRITICAL_H

#include "crew.h"
#include "kernels.h"

#define CRITICAL_KERNEL_NS 50000u
#define CRITICAL_PERIOD_NS 5000000u
#define CRITICAL_JOBS 300
/* The measurement ends after this time even if there were fewer jobs. */
#define CRITICAL_LIMIT_NS 5000000000u

/* Runs at most CRITICAL_JOBS jobs.  Puts each one's response time into @seat: from launch to synchronised, in ns. */
void critical_run(const struct kernels *kernels, cu_object stream, struct crew_seat *seat);

/* In a member of a crew: fills the GPU with long kernels until @crew is over. */
void critical_rival(struct crew *crew, const struct kernels *kernels);

#endif
