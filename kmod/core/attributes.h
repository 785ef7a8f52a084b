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

struct gpurt_attribute {
	u32 type;		/* enum gpurt_attribute_type */
	u32 size;		/* in bytes, see uapi/gpurt.h */
};

/* Requests take only attributes below this number, so that a u64 holds a set of them (bit 1 << GPURT_A_...). */
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
