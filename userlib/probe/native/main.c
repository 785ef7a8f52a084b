// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Runs one part: probe PART CALLS SECONDS.  userlib/probe/parts.py starts it and lists the parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "emit.h"
#include "methods.h"
#include "kernels.h"
#include "parts.h"

static int attribute(int which)
{
	int value = -1;

	cu.device_attribute(&value, which, cu.device);
	return value;
}

/* The GPU as the CUDA driver names it. */
static int part_info(const struct options *options)
{
	const char *why = cuda_find();
	char name[128] = "";
	int version = 0;

	(void)options;
	if (why) {
		emit_error("GPU", why);
		return 4;
	}
	cuda_need(cu.device_get(&cu.device, 0), "cuDeviceGet");
	cuda_need(cu.device_name(name, sizeof(name), cu.device), "cuDeviceGetName");
	cu.driver_version(&version);
	emit_open("gpu");
	emit_text("name", name);
	emit_number("cuda", version);
	emit_number("sm_count", attribute(CU_ATTRIBUTE_SM_COUNT));
	emit_number("cc_major", attribute(CU_ATTRIBUTE_CC_MAJOR));
	emit_number("cc_minor", attribute(CU_ATTRIBUTE_CC_MINOR));
	emit_number("compute_preemption", attribute(CU_ATTRIBUTE_PREEMPTION));
	emit_close();
	return 0;
}

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
	{ "stop", part_stop },
	{ "strangers", part_strangers },
	{ "yield", part_yield },
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
	fprintf(stderr, "usage: probe PART CALLS SECONDS\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct options options;
	size_t i;

	if (argc != 4 || number(argv[2], &options.calls) || number(argv[3], &options.seconds))
		return usage();
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name))
			continue;
		/* A record fits and is written at once, so that records of two processes do not mix. */
		setvbuf(stdout, NULL, _IOFBF, 1 << 20);
		guard_start(options.seconds);
		return parts[i].run(&options);
	}
	return usage();
}
