/* SPDX-License-Identifier: GPL-2.0 */
/* GPUs of patched drivers: port.c finds the drivers, port_gpu.c handles their GPUs. */
#ifndef GPURT_DRV_PORT_GPU_H
#define GPURT_DRV_PORT_GPU_H

#include <linux/types.h>

#include "port.h"

/* A driver that may be loaded. */
struct port_driver {
	const char *name, *symbol;
	struct gpurt_hooks hooks;
	const struct gpurt_port *port;	/* of the attached driver; NULL: not attached.  With ports_lock held */
	struct module *owner;		/* its module, likewise */
	u32 version;			/* of a port that this module cannot use; 0: no such port */
	int err;			/* why attaching failed; 0: attached, or not loaded */
	u32 said_version;		/* version and error that the log already has */
	int said_err;
	bool attaching;			/* the driver reports its GPUs, in an order of its own */
};

/* port.c */
int gpurt_port_start(void);
void gpurt_port_stop(void);

/* port_gpu.c */
void port_gpu_added(const struct port_driver *driver, void *handle, const char *name, const char *refused);
void port_gpu_removed(void *handle);
void port_gpu_tsgs(void *handle, struct pid *tgid, int change);
bool port_gpu_may_run(void *handle, struct pid *tgid);
void port_gpu_killed(void *handle, struct pid *tgid);
void port_gpu_reset(void *handle, bool begins);
void port_gpus_sleep(bool sleeps);
void port_gpus_number(void);
int port_gpus_describe(char *text, int size);

#endif
