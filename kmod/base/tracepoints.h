/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's tracepoints that the module listens to. */
#ifndef GPURT_TRACEPOINTS_H
#define GPURT_TRACEPOINTS_H

#include <linux/tracepoint.h>

struct gpurt_probe {
	const char *name;		/* of the tracepoint */
	void *function;			/* what it calls, with the data given at registration first */
	struct tracepoint *point;	/* NULL: this kernel has none of that name */
};

void gpurt_probes_find(struct gpurt_probe *probes, unsigned int count);
bool gpurt_probes_found(const struct gpurt_probe *probes, unsigned int count);
int gpurt_probes_add(struct gpurt_probe *probes, unsigned int count, void *data);
void gpurt_probes_remove(struct gpurt_probe *probes, unsigned int count, void *data);

#endif
