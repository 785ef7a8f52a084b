// SPDX-License-Identifier: GPL-2.0
/*
 * Asks amdgpu whether somebody is attached to its port.  It never stays: to
 * load it fails with what attach() said, or with ECANCELED if it let us in.
 */
#include <linux/errno.h>
#include <linux/module.h>

#include "port.h"

static void added(void *gpu, const char *name, const char *refused) {}
static void removed(void *gpu) {}
static void tsgs(void *gpu, struct pid *tgid, int change) {}
static bool may_run(void *gpu, struct pid *tgid) { return true; }
static void killed(void *gpu, struct pid *tgid) {}
static void reset(void *gpu, bool begins) {}

static const struct gpurt_hooks hooks = {
	.version = GPURT_PORT_VERSION, .added = added, .removed = removed,
	.tsgs = tsgs, .may_run = may_run, .killed = killed, .reset = reset,
};

static int __init probe_init(void)
{
	const struct gpurt_port *port = symbol_get(amdgpu_gpurt_port);
	int err;

	if (!port)
		return -ENOENT;
	err = port->version == GPURT_PORT_VERSION ? port->attach(&hooks) : -EINVAL;
	if (!err) {
		port->detach();
		err = -ECANCELED;
	}
	symbol_put(amdgpu_gpurt_port);
	return err;
}
module_init(probe_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("says whether amdgpu's port is taken");
