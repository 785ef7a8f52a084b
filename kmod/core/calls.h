/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The calls of the data plane (uapi/gpurt.h) as a table: the size and the rules of each structure.  Every host checks
 * a call by this table before it carries it out.
 */
#ifndef GPURT_CORE_CALLS_H
#define GPURT_CORE_CALLS_H

#include "env.h"
#include "../uapi/gpurt.h"

/* The structure of any call. */
union gpurt_argument {
	struct gpurt_query query;
	struct gpurt_begin begin;
	struct gpurt_end end;
	struct gpurt_wait wait;
	struct gpurt_copy copy;
	struct gpurt_group_join group_join;
	struct gpurt_tsg tsg;
	struct gpurt_submit submit;
	struct gpurt_tsg_shape shape;
	struct gpurt_agent agent;
	struct gpurt_order order;
	struct gpurt_job_ready job_ready;
	struct gpurt_job_wait job_wait;
	struct gpurt_job_run job_run;
	struct gpurt_job_done job_done;
	struct gpurt_job_mark job_mark;
};

struct gpurt_call {
	u32 code;		/* GPURT_IOC_* */
	u32 size;		/* of the structure, in bytes */
	bool answers;		/* the host fills in fields of the structure */
	bool (*valid)(const union gpurt_argument *a);
};

const struct gpurt_call *gpurt_call_find(u32 code);
int gpurt_call_check_size(const struct gpurt_call *call, u32 size);
int gpurt_call_check(const struct gpurt_call *call, const union gpurt_argument *argument);
bool gpurt_is_name(const char *name, u32 size);

#endif
