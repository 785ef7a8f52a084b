/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's tracepoints that the module listens to. */
#ifndef GPURT_TRACEPOINTS_H
#define GPURT_TRACEPOINTS_H

#include <linux/build_bug.h>
#include <linux/tracepoint.h>

/*
 * A probe, for use in the file that includes the tracepoint's header: a probe of another type does not compile.  It
 * would make a kernel with kCFI stop at its first call, and another kernel read an argument that is not there.
 */
#define GPURT_PROBE(event, probe) { \
	.name = &(#event)[BUILD_BUG_ON_ZERO(!__builtin_types_compatible_p(typeof(&check_trace_callback_type_##event), \
									 void (*)(typeof(probe) *)))], \
	.function = (probe), \
}

struct gpurt_probe {
	const char *name;		/* of the tracepoint */
	void *function;			/* the function it calls; first argument: the data of the registration */
	struct tracepoint *point;	/* NULL: this kernel lacks the tracepoint */
};

void gpurt_probes_find(struct gpurt_probe *probes, unsigned int count);
bool gpurt_probes_found(const struct gpurt_probe *probes, unsigned int count);
int gpurt_probes_add(struct gpurt_probe *probes, unsigned int count, void *data);
void gpurt_probes_remove(struct gpurt_probe *probes, unsigned int count, void *data);

#endif
