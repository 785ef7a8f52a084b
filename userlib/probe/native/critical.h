/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A short periodic kernel whose response time is what everybody wants to be short. */
#ifndef PROBE_CRITICAL_H
#define PROBE_CRITICAL_H

#include "crew.h"
#include "kernels.h"

#define CRITICAL_KERNEL_NS 50000u
#define CRITICAL_PERIOD_NS 5000000u
#define CRITICAL_JOBS 300
/* Where every job waits long, fewer are enough. */
#define CRITICAL_LIMIT_NS 5000000000u

/* From launch to the end of the synchronisation, in ns, at most CRITICAL_JOBS times into the seat. */
void critical_run(const struct kernels *kernels, cu_object stream, struct crew_seat *seat);

#endif
