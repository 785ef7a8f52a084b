/* SPDX-License-Identifier: GPL-2.0 */
/* As many GPUs of a kind as a module parameter says.  The parameter may change while the module is loaded. */
#ifndef GPURT_DEVICES_H
#define GPURT_DEVICES_H

#include <linux/moduleparam.h>

#include "../uapi/gpurt.h"

struct gpurt_devices {
	void *(*create)(unsigned int place);	/* @place: index in made; returns an ERR_PTR() on failure */
	void (*destroy)(void *device);
	unsigned int wanted;
	/* With the lock of devices.c held. */
	void *made[GPURT_MAX_GPUS];
	bool started;
};

/* For a module parameter whose argument is a struct gpurt_devices. */
extern const struct kernel_param_ops gpurt_devices_ops;

int gpurt_devices_start(struct gpurt_devices *devices);
void gpurt_devices_stop(struct gpurt_devices *devices);
void gpurt_devices_each(struct gpurt_devices *devices, void (*fn)(void *device, ulong argument), ulong argument);

#endif
