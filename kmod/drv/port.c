// SPDX-License-Identifier: GPL-2.0
/*
 * Finds drivers that export a port (port.h): at load, and whenever a module has been loaded.  A driver's module cannot
 * be unloaded while gpurt attaches to it, or while its GPUs have clients.  On its way out the module removes its GPUs,
 * so there is nothing to detach from.  The entry left here is forgotten when the module is gone.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/suspend.h>
#include <linux/wait.h>

#include "port_gpu.h"

/* Taken before all locks of drivers, which attach() and detach() take. */
static DEFINE_MUTEX(ports_lock);
static DECLARE_WAIT_QUEUE_HEAD(gone);
static bool stopping;	/* attach to no new driver; with ports_lock held */

static struct port_driver drivers[];

static void nvgpu_added(void *gpu, const char *name, const char *refused)
{
	port_gpu_added(&drivers[0], gpu, name, refused);
}

static void amdgpu_added(void *gpu, const char *name, const char *refused)
{
	port_gpu_added(&drivers[1], gpu, name, refused);
}

static void nvidia_added(void *gpu, const char *name, const char *refused)
{
	port_gpu_added(&drivers[2], gpu, name, refused);
}

#define HOOKS(of_added) { \
	.version = GPURT_PORT_VERSION, .added = of_added, .removed = port_gpu_removed, .tsgs = port_gpu_tsgs, \
	.may_run = port_gpu_may_run, .killed = port_gpu_killed, .reset = port_gpu_reset, \
}

static struct port_driver drivers[] = {
	{ .name = "nvgpu", .symbol = "nvgpu_gpurt_port", .hooks = HOOKS(nvgpu_added) },
	{ .name = "amdgpu", .symbol = "amdgpu_gpurt_port", .hooks = HOOKS(amdgpu_added) },
	{ .name = "nvidia", .symbol = "nvidia_gpurt_port", .hooks = HOOKS(nvidia_added) },
};

/* Whether the log has not yet got this news of the driver's present module.  Called with ports_lock held. */
static bool is_news(struct port_driver *d)
{
	bool news = d->version != d->said_version || d->err != d->said_err;

	d->said_version = d->version;
	d->said_err = d->err;
	return news;
}

/* Called with ports_lock held, while the module of the port cannot go.  The port's attach() adds its GPUs. */
static void attach(struct port_driver *d, const struct gpurt_port *port)
{
	int err = 0;

	WRITE_ONCE(d->version, port->version == GPURT_PORT_VERSION ? 0 : port->version);
	if (!d->version) {
		d->owner = port->owner;
		d->port = port;
		WRITE_ONCE(d->attaching, true);
		err = port->attach(&d->hooks);
		WRITE_ONCE(d->attaching, false);
		port_gpus_number();
		if (err)
			d->port = NULL;
	}
	WRITE_ONCE(d->err, err);
	if (!is_news(d))
		return;
	if (d->version)
		pr_err("gpurt: %s has another port: version %u, this module needs %u; patch and build both from the same release\n",
		       d->name, d->version, GPURT_PORT_VERSION);
	else if (d->err)
		pr_err("gpurt: %s cannot be attached to: error %d\n", d->name, d->err);
}

/* Called with ports_lock held.  The driver is not loaded. */
static void is_missing(struct port_driver *d)
{
	WRITE_ONCE(d->version, 0);
	WRITE_ONCE(d->err, 0);
	is_news(d);
}

static void look_for(struct port_driver *d)
{
	const struct gpurt_port *port;

	mutex_lock(&ports_lock);
	if (!d->port && !stopping) {
		port = __symbol_get(d->symbol);
		if (port) {
			attach(d, port);
			__symbol_put(d->symbol);
		} else {
			is_missing(d);
		}
	}
	mutex_unlock(&ports_lock);
}

static void look(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		look_for(&drivers[i]);
}

/* The module has removed its GPUs. */
static void forget_module(const struct module *module)
{
	size_t i;

	mutex_lock(&ports_lock);
	for (i = 0; i < ARRAY_SIZE(drivers); i++) {
		if (drivers[i].port && drivers[i].owner == module)
			drivers[i].port = NULL;
	}
	mutex_unlock(&ports_lock);
	wake_up_all(&gone);
}

static int module_changes(struct notifier_block *nb, unsigned long state, void *module)
{
	if (state == MODULE_STATE_GOING)
		forget_module(module);
	if (state != MODULE_STATE_COMING)
		look();
	return NOTIFY_DONE;
}

static struct notifier_block module_notifier = { .notifier_call = module_changes };

static int power_changes(struct notifier_block *nb, unsigned long event, void *unused)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		port_gpus_sleep(true);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		port_gpus_sleep(false);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block power_notifier = { .notifier_call = power_changes };

/*
 * Describes the patched drivers that are loaded, for users who ask why a GPU has another tier than they expect.  Any
 * process may ask, and may lose its CPU meanwhile.  So this takes no lock that drivers, or modules that load, would
 * wait for.
 */
static int describe(char *text, const struct kernel_param *param)
{
	int length = 0, i, err;
	u32 version;

	for (i = 0; i < (int)ARRAY_SIZE(drivers); i++) {
		version = READ_ONCE(drivers[i].version);
		err = READ_ONCE(drivers[i].err);
		if (version)
			length += scnprintf(text + length, PAGE_SIZE - length,
					    "driver=%s device=- gpu=- state=refused error=0 asks=0 reason=its port has version %u, this module needs %u\n",
					    drivers[i].name, version, GPURT_PORT_VERSION);
		else if (err)
			length += scnprintf(text + length, PAGE_SIZE - length,
					    "driver=%s device=- gpu=- state=refused error=%d asks=0 reason=gpurt could not attach to it\n",
					    drivers[i].name, err);
	}
	return length + port_gpus_describe(text + length, PAGE_SIZE - length);
}

static const struct kernel_param_ops describe_ops = { .get = describe };
module_param_cb(patched, &describe_ops, NULL, 0444);
MODULE_PARM_DESC(patched, "read only: GPUs of patched drivers, a line each");

int gpurt_port_start(void)
{
	int err;

	err = register_pm_notifier(&power_notifier);
	if (err)
		return err;
	err = register_module_notifier(&module_notifier);
	if (err)
		unregister_pm_notifier(&power_notifier);
	else
		look();
	return err;
}

static bool is_gone(const struct port_driver *d)
{
	return !READ_ONCE(d->port);
}

/* A driver's module on its way out removes its GPUs itself, and calls hooks until it is gone. */
static void detach(struct port_driver *d)
{
	const struct gpurt_port *port;
	bool goes = false;

	mutex_lock(&ports_lock);
	port = d->port;
	if (port) {
		goes = !try_module_get(d->owner);
		if (!goes) {
			port->detach();
			d->port = NULL;
			module_put(d->owner);
		}
	}
	mutex_unlock(&ports_lock);
	if (goes)
		wait_event(gone, is_gone(d));
}

void gpurt_port_stop(void)
{
	size_t i;

	mutex_lock(&ports_lock);
	stopping = true;
	mutex_unlock(&ports_lock);
	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		detach(&drivers[i]);
	unregister_module_notifier(&module_notifier);
	unregister_pm_notifier(&power_notifier);
}
