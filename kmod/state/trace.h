/* SPDX-License-Identifier: GPL-2.0 */
/* events/gpurt/: what the multicast group tells, for tracers. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM gpurt

#if !defined(GPURT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define GPURT_TRACE_H

#include <linux/tracepoint.h>

#include "state/record.h"

#ifndef GPURT_TRACE_CAUSES
#define GPURT_TRACE_CAUSES \
	{ GPURT_CAUSE_BEGIN, "begin" }, { GPURT_CAUSE_END, "end" }, { GPURT_CAUSE_GONE, "gone" }, \
	{ GPURT_CAUSE_JOB, "job" }, { GPURT_CAUSE_PRIORITY, "priority" }, { GPURT_CAUSE_POLICY, "policy" }, \
	{ GPURT_CAUSE_BUDGET, "budget" }, { GPURT_CAUSE_TSG, "tsg" }, { GPURT_CAUSE_EXEMPT, "exempt" }
#endif

DECLARE_EVENT_CLASS(gpurt_client,
	TP_PROTO(const struct gpurt_record *r),
	TP_ARGS(r),
	TP_STRUCT__entry(
		__field(u64, time)
		__field(u64, client)
		__field(u32, gpu)
		__field(s32, pid)
		__field(u32, priority)
		__array(char, comm, GPURT_COMM_LEN)
	),
	TP_fast_assign(
		__entry->time = r->time;
		__entry->client = r->client;
		__entry->gpu = r->gpu;
		__entry->pid = r->pid;
		__entry->priority = r->priority;
		memcpy(__entry->comm, r->comm, GPURT_COMM_LEN);
	),
	TP_printk("gpu=%u time_ns=%llu client=%llu pid=%d priority=%u comm=%s", __entry->gpu, __entry->time,
		  __entry->client, __entry->pid, __entry->priority, __entry->comm)
);

DEFINE_EVENT(gpurt_client, gpurt_begin, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_grant, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_preempt, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_resume, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_end, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_overrun, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_gone, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_member_died, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_copy_ask, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_client, gpurt_copy_end, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));

DECLARE_EVENT_CLASS(gpurt_latency,
	TP_PROTO(const struct gpurt_record *r),
	TP_ARGS(r),
	TP_STRUCT__entry(
		__field(u64, time)
		__field(u64, client)
		__field(u64, latency)
		__field(u32, gpu)
		__field(s32, pid)
		__field(u32, priority)
		__array(char, comm, GPURT_COMM_LEN)
	),
	TP_fast_assign(
		__entry->time = r->time;
		__entry->client = r->client;
		__entry->latency = r->latency;
		__entry->gpu = r->gpu;
		__entry->pid = r->pid;
		__entry->priority = r->priority;
		memcpy(__entry->comm, r->comm, GPURT_COMM_LEN);
	),
	TP_printk("gpu=%u time_ns=%llu client=%llu pid=%d priority=%u comm=%s latency_ns=%llu", __entry->gpu,
		  __entry->time, __entry->client, __entry->pid, __entry->priority, __entry->comm,
		  __entry->latency)
);

DEFINE_EVENT(gpurt_latency, gpurt_work, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_latency, gpurt_late, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_latency, gpurt_stuck, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_latency, gpurt_copy_begin, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));

DECLARE_EVENT_CLASS(gpurt_mark,
	TP_PROTO(const struct gpurt_record *r),
	TP_ARGS(r),
	TP_STRUCT__entry(
		__field(u64, time)
		__field(u64, client)
		__field(u64, latency)
		__field(u64, job)
		__field(u64, cpu)
		__field(u32, gpu)
		__field(s32, pid)
		__field(u32, priority)
		__array(char, comm, GPURT_COMM_LEN)
		__array(char, task, GPURT_TASK_LEN)
	),
	TP_fast_assign(
		__entry->time = r->time;
		__entry->client = r->client;
		__entry->latency = r->latency;
		__entry->job = r->job;
		__entry->cpu = r->cpu;
		__entry->gpu = r->gpu;
		__entry->pid = r->pid;
		__entry->priority = r->priority;
		memcpy(__entry->comm, r->comm, GPURT_COMM_LEN);
		memcpy(__entry->task, r->task, GPURT_TASK_LEN);
	),
	TP_printk("gpu=%u time_ns=%llu client=%llu pid=%d priority=%u job=%llu cpu_ns=%llu comm=%s task=%s latency_ns=%llu",
		  __entry->gpu, __entry->time, __entry->client, __entry->pid, __entry->priority, __entry->job,
		  __entry->cpu, __entry->comm, __entry->task, __entry->latency)
);

DEFINE_EVENT(gpurt_mark, gpurt_job_begin, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));
DEFINE_EVENT(gpurt_mark, gpurt_job_end, TP_PROTO(const struct gpurt_record *r), TP_ARGS(r));

TRACE_EVENT(gpurt_commit,
	TP_PROTO(const struct gpurt_record *r),
	TP_ARGS(r),
	TP_STRUCT__entry(
		__field(u64, time)
		__field(u64, client)
		__field(u64, latency)
		__field(u32, gpu)
		__field(u32, cause)
		__field(s32, pid)
	),
	TP_fast_assign(
		__entry->time = r->time;
		__entry->client = r->client;
		__entry->latency = r->latency;
		__entry->gpu = r->gpu;
		__entry->cause = r->cause;
		__entry->pid = r->pid;
	),
	TP_printk("gpu=%u time_ns=%llu client=%llu pid=%d cause=%s latency_ns=%llu", __entry->gpu, __entry->time,
		  __entry->client, __entry->pid, __print_symbolic(__entry->cause, GPURT_TRACE_CAUSES),
		  __entry->latency)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH state
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
