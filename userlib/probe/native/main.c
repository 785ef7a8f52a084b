// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Runs one part: probe PART CALLS PREEMPTIONS SECONDS.  userlib/probe/parts.py starts it and lists the parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "guard.h"
#include "kernels.h"
#include "parts.h"

static int part_ptx(const struct options *options)
{
	int i;

	(void)options;
	for (i = 0; i < KERNEL_TEXTS; i++)
		printf("%s%c", kernel_texts[i], '\0');
	return 0;
}

static const struct part {
	const char *name;
	int (*run)(const struct options *options);
} parts[] = {
	{ "info", part_info },
	{ "objects", part_objects },
	{ "controls", part_controls },
	{ "stop", part_stop },
	{ "queues", part_queues },
	{ "strangers", part_strangers },
	{ "intact", part_intact },
	{ "copies", part_copies },
	{ "slices", part_slices },
	{ "latency", part_latency },
	{ "partition", part_partition },
	{ "yield", part_yield },
	{ "mps", part_mps },
	{ "ptx", part_ptx },
};

static int number(const char *text, unsigned int *value)
{
	char *end;
	unsigned long read = strtoul(text, &end, 10);

	*value = (unsigned int)read;
	return !*text || *end || !read || read > 100000000;
}

static int usage(void)
{
	fprintf(stderr, "usage: probe PART CALLS PREEMPTIONS SECONDS\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct options options;
	size_t i;

	if (argc == 3 && !strcmp(argv[1], "caller"))
		return caller_main(atoi(argv[2]));
	if (argc != 5 || number(argv[2], &options.calls) || number(argv[3], &options.preemptions) ||
	    number(argv[4], &options.seconds))
		return usage();
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name))
			continue;
		guard_start(options.seconds);
		return parts[i].run(&options);
	}
	return usage();
}
