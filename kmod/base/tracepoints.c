// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the kernel's tracepoints.  Most of these are not exported by name.  They belong to the kernel, not to a
 * module, so they never go away.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "base/tracepoints.h"

#ifdef CONFIG_TRACEPOINTS

struct search {
	struct gpurt_probe *probes;
	unsigned int count;
};

static void look_at(struct tracepoint *point, void *data)
{
	struct search *s = data;
	unsigned int i;

	for (i = 0; i < s->count; i++)
		if (!strcmp(point->name, s->probes[i].name))
			s->probes[i].point = point;
}

void gpurt_probes_find(struct gpurt_probe *probes, unsigned int count)
{
	struct search s = { probes, count };

	for_each_kernel_tracepoint(look_at, &s);
}

/* Called after gpurt_probes_find().  Returns whether the kernel has all of the tracepoints. */
bool gpurt_probes_found(const struct gpurt_probe *probes, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!probes[i].point)
			return false;
	return true;
}

/* Removes the first @count probes; returns when none of them runs. */
void gpurt_probes_remove(struct gpurt_probe *probes, unsigned int count, void *data)
{
	while (count--)
		tracepoint_probe_unregister(probes[count].point, probes[count].function, data);
	tracepoint_synchronize_unregister();
}

/* Adds all probes; after an error, none. */
int gpurt_probes_add(struct gpurt_probe *probes, unsigned int count, void *data)
{
	unsigned int i;
	int err;

	if (!gpurt_probes_found(probes, count))
		return -EOPNOTSUPP;
	for (i = 0; i < count; i++) {
		err = tracepoint_probe_register(probes[i].point, probes[i].function, data);
		if (err) {
			gpurt_probes_remove(probes, i, data);
			return err;
		}
	}
	return 0;
}

#else
void gpurt_probes_find(struct gpurt_probe *probes, unsigned int count) { }
bool gpurt_probes_found(const struct gpurt_probe *probes, unsigned int count) { return false; }
int gpurt_probes_add(struct gpurt_probe *probes, unsigned int count, void *data) { return -EOPNOTSUPP; }
void gpurt_probes_remove(struct gpurt_probe *probes, unsigned int count, void *data) { }
#endif
