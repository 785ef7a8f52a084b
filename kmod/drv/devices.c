// SPDX-License-Identifier: GPL-2.0
/* Devices of a kind, as many as a module parameter says. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "devices.h"

static DEFINE_MUTEX(devices_lock);

/* Called with devices_lock held.  Creates or destroys devices until there are @count. */
static int bring_to(struct gpurt_devices *d, unsigned int count)
{
	void *device;
	int i;

	for (i = GPURT_MAX_GPUS - 1; i >= (int)count; i--) {
		if (d->made[i])
			d->destroy(d->made[i]);
		d->made[i] = NULL;
	}
	for (i = 0; i < (int)count; i++) {
		if (d->made[i])
			continue;
		device = d->create(i);
		if (IS_ERR(device))
			return PTR_ERR(device);
		d->made[i] = device;
	}
	return 0;
}

static int devices_set(const char *text, const struct kernel_param *param)
{
	struct gpurt_devices *d = param->arg;
	unsigned int count;
	int err = kstrtouint(text, 0, &count);

	if (err || count > GPURT_MAX_GPUS)
		return -EINVAL;
	mutex_lock(&devices_lock);
	if (d->started)
		err = bring_to(d, count);
	d->wanted = count;
	mutex_unlock(&devices_lock);
	return err;
}

static int devices_get(char *buffer, const struct kernel_param *param)
{
	const struct gpurt_devices *d = param->arg;

	return scnprintf(buffer, PAGE_SIZE, "%u\n", READ_ONCE(d->wanted));
}

const struct kernel_param_ops gpurt_devices_ops = {
	.set = devices_set,
	.get = devices_get,
};
EXPORT_SYMBOL_GPL(gpurt_devices_ops);

int gpurt_devices_start(struct gpurt_devices *d)
{
	int err;

	mutex_lock(&devices_lock);
	err = bring_to(d, d->wanted);
	d->started = !err;
	if (err)
		bring_to(d, 0);
	mutex_unlock(&devices_lock);
	return err;
}
EXPORT_SYMBOL_GPL(gpurt_devices_start);

void gpurt_devices_stop(struct gpurt_devices *d)
{
	mutex_lock(&devices_lock);
	d->started = false;
	bring_to(d, 0);
	mutex_unlock(&devices_lock);
}
EXPORT_SYMBOL_GPL(gpurt_devices_stop);

/* Calls @fn for every device, one after another; none comes or goes meanwhile. */
void gpurt_devices_each(struct gpurt_devices *d, void (*fn)(void *device, ulong argument), ulong argument)
{
	int i;

	mutex_lock(&devices_lock);
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		if (d->made[i])
			fn(d->made[i], argument);
	mutex_unlock(&devices_lock);
}
EXPORT_SYMBOL_GPL(gpurt_devices_each);
