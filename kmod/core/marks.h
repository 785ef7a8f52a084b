/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Marks of jobs (GPURT_IOC_JOB_MARK): how many of them readers of events get.  A mark costs its program next to
 * nothing, so without a share for each client, one client could make all readers lose events.
 */
#ifndef GPURT_CORE_MARKS_H
#define GPURT_CORE_MARKS_H

#include "env.h"
#include "../uapi/gpurt.h"

u64 gpurt_mark_take(u64 whole, u32 what, u64 now);

#endif
