/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The control plane (uapi/gpurt.h) as tables: the type of each attribute, and what each request must and may have.
 * Every host checks a request by these tables before it carries it out.
 */
#ifndef GPURT_CORE_ATTRIBUTES_H
#define GPURT_CORE_ATTRIBUTES_H

#include "env.h"
#include "../uapi/gpurt.h"

enum gpurt_attribute_type {
	GPURT_TYPE_U32,
	GPURT_TYPE_U64,
	GPURT_TYPE_STRING,	/* ends in one NUL */
	GPURT_TYPE_BINARY,
};

/*
 * Every attribute: ATTRIBUTE(name, type, size).  The size of a number is exact.  The size of a string is the longest
 * that is allowed, its NUL included.
 */
#define GPURT_ATTRIBUTES(ATTRIBUTE) \
	ATTRIBUTE(GPU, U32, sizeof(u32)) \
	ATTRIBUTE(POLICY, U32, sizeof(u32)) \
	ATTRIBUTE(NOTICE, U32, sizeof(u32)) \
	ATTRIBUTE(POLL_NS, U64, sizeof(u64)) \
	ATTRIBUTE(TIER, U32, sizeof(u32)) \
	ATTRIBUTE(DRIVER, STRING, GPURT_NAME_LEN) \
	ATTRIBUTE(CLIENTS, U32, sizeof(u32)) \
	ATTRIBUTE(TSGS, U32, sizeof(u32)) \
	ATTRIBUTE(IMAGE, U32, sizeof(u32)) \
	ATTRIBUTE(RUNNER_PID, U32, sizeof(u32)) \
	ATTRIBUTE(COMMITS, U64, sizeof(u64)) \
	ATTRIBUTE(MALFORMED, U64, sizeof(u64)) \
	ATTRIBUTE(ALPHA_NS, U64, sizeof(u64)) \
	ATTRIBUTE(THETA_NS, U64, sizeof(u64)) \
	ATTRIBUTE(SLICE_NS, U64, sizeof(u64)) \
	ATTRIBUTE(CLIENT, U64, sizeof(u64)) \
	ATTRIBUTE(PID, U32, sizeof(u32)) \
	ATTRIBUTE(COMM, STRING, GPURT_COMM_LEN) \
	ATTRIBUTE(CGROUP, STRING, GPURT_CGROUP_LEN) \
	ATTRIBUTE(GROUP, STRING, GPURT_NAME_LEN) \
	ATTRIBUTE(STATE, U32, sizeof(u32)) \
	ATTRIBUTE(PRIORITY, U32, sizeof(u32)) \
	ATTRIBUTE(OWN_PRIORITY, U32, sizeof(u32)) \
	ATTRIBUTE(SET_PRIORITY, U32, sizeof(u32)) \
	ATTRIBUTE(DEPTH, U32, sizeof(u32)) \
	ATTRIBUTE(EXEMPT, U32, sizeof(u32)) \
	ATTRIBUTE(DEMOTED, U32, sizeof(u32)) \
	ATTRIBUTE(SEGMENTS, U64, sizeof(u64)) \
	ATTRIBUTE(PREEMPTIONS, U64, sizeof(u64)) \
	ATTRIBUTE(HELD_NS, U64, sizeof(u64)) \
	ATTRIBUTE(BUDGET_NS, U64, sizeof(u64)) \
	ATTRIBUTE(OVERRUN, U32, sizeof(u32)) \
	ATTRIBUTE(OVERRUNS, U64, sizeof(u64)) \
	ATTRIBUTE(CAUSE, U32, sizeof(u32)) \
	ATTRIBUTE(COUNT, U64, sizeof(u64)) \
	ATTRIBUTE(MIN_NS, U64, sizeof(u64)) \
	ATTRIBUTE(SUM_NS, U64, sizeof(u64)) \
	ATTRIBUTE(MAX_NS, U64, sizeof(u64)) \
	ATTRIBUTE(HISTOGRAM, BINARY, GPURT_HIST_BUCKETS * sizeof(u64)) \
	ATTRIBUTE(EVENT, U32, sizeof(u32)) \
	ATTRIBUTE(TIME_NS, U64, sizeof(u64)) \
	ATTRIBUTE(LATENCY_NS, U64, sizeof(u64)) \
	ATTRIBUTE(LOST, U64, sizeof(u64)) \
	ATTRIBUTE(FAULTS, U64, sizeof(u64)) \
	ATTRIBUTE(LATE, U32, sizeof(u32)) \
	ATTRIBUTE(PERIOD_NS, U64, sizeof(u64)) \
	ATTRIBUTE(NORMAL, U32, sizeof(u32)) \
	ATTRIBUTE(FORM, U32, sizeof(u32)) \
	ATTRIBUTE(RAISED, U32, sizeof(u32)) \
	ATTRIBUTE(BARRED, U32, sizeof(u32)) \
	ATTRIBUTE(REFUSED, U64, sizeof(u64)) \
	ATTRIBUTE(UNIT_POLICY, STRING, GPURT_NAME_LEN) \
	ATTRIBUTE(MECHANISM, STRING, GPURT_NAME_LEN) \
	ATTRIBUTE(UNITS, U32, sizeof(u32)) \
	ATTRIBUTE(UNITS_HELD, U32, sizeof(u32)) \
	ATTRIBUTE(JOBS, U32, sizeof(u32)) \
	ATTRIBUTE(COPY, U32, sizeof(u32)) \
	ATTRIBUTE(COPIES, U64, sizeof(u64)) \
	ATTRIBUTE(WAITERS, U32, sizeof(u32)) \
	ATTRIBUTE(UNIT_CLIENTS, U32, sizeof(u32)) \
	ATTRIBUTE(JOBS_DONE, U64, sizeof(u64)) \
	ATTRIBUTE(JOBS_LATE, U64, sizeof(u64)) \
	ATTRIBUTE(JOBS_SKIPPED, U64, sizeof(u64)) \
	ATTRIBUTE(JOBS_LOST, U64, sizeof(u64)) \
	ATTRIBUTE(JOBS_OVERDUE, U32, sizeof(u32)) \
	ATTRIBUTE(TASK, STRING, GPURT_TASK_LEN) \
	ATTRIBUTE(JOB, U64, sizeof(u64)) \
	ATTRIBUTE(CPU_NS, U64, sizeof(u64)) \
	ATTRIBUTE(PARTITION_OF, U32, sizeof(u32)) \
	ATTRIBUTE(PARTITION_UNITS, U32, sizeof(u32)) \
	ATTRIBUTE(CROSS, U32, sizeof(u32)) \
	ATTRIBUTE(STUCK_BOUND_NS, U64, sizeof(u64)) \
	ATTRIBUTE(STUCK_NS, U64, sizeof(u64)) \
	ATTRIBUTE(STUCKS, U64, sizeof(u64)) \
	ATTRIBUTE(DEVICE, STRING, GPURT_NAME_LEN) \
	ATTRIBUTE(KEPT, U32, sizeof(u32))

struct gpurt_attribute {
	u32 type;		/* enum gpurt_attribute_type */
	u32 size;		/* in bytes, see above */
};

/* Requests take attributes below this one only, so that a set of them has bit 1 << GPURT_A_...; answers take any. */
#define GPURT_A_REQUESTS	64

struct gpurt_request {
	u32 command;		/* enum gpurt_cmd */
	bool administrator;	/* the sender needs CAP_SYS_NICE */
	bool dump;		/* answered by a dump; other requests cannot be dumped */
	u64 required;
	u64 optional;
};

const struct gpurt_attribute *gpurt_attribute_find(u32 number);
const struct gpurt_request *gpurt_request_find(u32 command);

#endif
