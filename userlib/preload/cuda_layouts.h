/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Parts of the CUDA driver API's structures that the library reads.  The test tests/preload/test_preload_table.py
 * compares them with cuda.h of CUDA 12.9 and 13.5.
 */
#ifndef GPURT_PRELOAD_CUDA_LAYOUTS_H
#define GPURT_PRELOAD_CUDA_LAYOUTS_H

#include <stdint.h>

/* CUlaunchConfig, and CUlaunchAttribute with the two values that are events. */
struct launch_attribute {
	uint32_t id, pad;
	union { void *event; unsigned char bytes[64]; } value;
};
struct launch_config {
	uint32_t grid[3], block[3], shared;
	void *stream;
	const struct launch_attribute *attributes;
	uint32_t number;
};
enum { PROGRAMMATIC_EVENT = 7, LAUNCH_COMPLETION_EVENT = 12 };

/* CUDA_LAUNCH_PARAMS */
struct launch_params {
	void *function;
	uint32_t grid[3], block[3], shared;
	void *stream, **params;
};

/* CUDA_GRAPH_INSTANTIATE_PARAMS */
struct instantiate_params {
	uint64_t flags;
	void *stream;
};
#define INSTANTIATE_UPLOAD 2

/* The beginning of CUgraphNodeParams, and what comes next in a node that records an event. */
struct graph_node {
	uint32_t type, reserved[3];
	const void *event;
};
#define RECORDS_EVENT 7
#define RECORD_EXTERNAL 1	/* CU_EVENT_RECORD_EXTERNAL */

#endif
