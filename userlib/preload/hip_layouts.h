/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The structures of HIP that the wrappers read or pass on.  A test compares them with HIP's headers. */
#ifndef GPURT_PRELOAD_HIP_LAYOUTS_H
#define GPURT_PRELOAD_HIP_LAYOUTS_H

#include <stddef.h>
#include <stdint.h>

/* Passed by value: dim3, hipExtent, hipPitchedPtr. */
struct dim { unsigned int x, y, z; };
struct extent { size_t width, height, depth; };
struct pitched { void *pointer; size_t pitch, width, height; };

/* hipLaunchParams */
struct hip_launch_params {
	void *function;
	struct dim grid, block;
	void **arguments;
	size_t shared;
	void *stream;
};

/* hipFunctionLaunchParams */
struct hip_function_launch_params {
	void *function;
	unsigned int grid[3], block[3], shared;
	void *stream, **parameters;
};

/* The beginning of hipLaunchConfig_t, and of HIP_LAUNCH_CONFIG, which has 4 bytes of shared memory and padding. */
struct hip_launch_config {
	struct dim grid, block;
	size_t shared;
	void *stream;
};

/* hipGraphInstantiateParams, and the flag that uploads the graph. */
struct instantiate_params {
	void *node;
	unsigned long long flags;
	int result;
	void *stream;
};
#define INSTANTIATE_UPLOAD 2

/* The beginning of hipGraphNodeParams, and what comes next in a node that records an event. */
struct graph_node {
	uint32_t type, reserved[3];
	const void *event;
};
#define RECORDS_EVENT 7
#define RECORD_EXTERNAL 1	/* hipEventRecordExternal */

#endif
