// SPDX-License-Identifier: GPL-2.0
/*
 * gpurt.ko.  Its rooms, from the lowest up.  A file calls files of its own room and of earlier rooms, never of later
 * rooms, and never in a circle.  The script scripts/check-layers reads this list.
 *
 *	uapi/, compat.h, drv/drv.h, drv/port.h	interfaces, and the differences between kernels
 *	core/		the scheduler: no lock, clock or allocation; the user-space host has the same code
 *	base/		files without clients: work queues, tracepoints, orders of waiters and of processes, rules
 *	state/		structures of clients, descriptors and GPUs; code that finds, notifies, wakes, raises, ends them
 *	decide/		one decision about a GPU at a time (gate.c), and the update of its runlist
 *	clients/	a client from begin to end: decisions, waits, copies, budgets, rules
 *	calls/		entry points: ioctl, netlink, GPUs that drivers register
 *	drv/		the drivers inside the module, the port to patched ones, and gpurt-vgpu.ko
 *	main.c		puts them together
 *
 * Upward calls are callbacks: exits.h (the end of a process), and work items.  The self-tests and the KUnit suites
 * stand in tests/.  docs/locks.md has the order of all locks.
 */
#include <linux/module.h>

#include "base/rules.h"
#include "base/workers.h"
#include "calls/calls.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "drv/agents.h"
#include "drv/port_gpu.h"
#include "state/clients.h"
#include "state/events.h"
#include "state/exits.h"
#include "tests/selftest.h"

static const struct gpurt_exits_ops exits = {
	.take_off = gpurt_client_take_off,
	.gone = gpurt_file_gone,
};

static int __init gpurt_init(void)
{
	int err;

	gpurt_clients_start(gpurt_client_destroy);
	gpurt_job_find_tracepoints();
	err = gpurt_selftest();
	if (err)
		return err;
	err = gpurt_workers_start();
	if (err)
		return err;
	err = gpurt_boost_load();
	if (err)
		goto stop_workers;
	err = gpurt_policy_check();
	if (err)
		goto unload_boost;
	err = gpurt_cpu_start();
	if (err)
		goto unload_boost;
	err = gpurt_events_start();
	if (err)
		goto stop_cpu;
	err = gpurt_netlink_start();
	if (err)
		goto stop_events;
	err = gpurt_port_start();
	if (err)
		goto stop_netlink;
	err = gpurt_agents_start();
	if (err)
		goto stop_port;
	err = gpurt_exits_start(&exits);
	if (err)
		goto stop_agents;
	err = gpurt_chardev_start();
	if (err)
		goto stop_exits;
	gpurt_kunit_start();
	pr_info("gpurt: loaded, interface version %d, policy %s\n", GPURT_VERSION, gpurt_policy_words());
	return 0;

stop_exits:
	gpurt_exits_stop();
stop_agents:
	gpurt_agents_stop();
stop_port:
	gpurt_port_stop();
stop_netlink:
	gpurt_netlink_stop();
	gpurt_rules_clear();	/* commands may have set some meanwhile */
	gpurt_allowances_clear();
stop_events:
	gpurt_events_stop();
stop_cpu:
	gpurt_cpu_stop();
unload_boost:
	gpurt_boost_unload();
stop_workers:
	gpurt_workers_stop();
	rcu_barrier();	/* callbacks of exits.c and rules.c */
	return err;
}

static void __exit gpurt_exit(void)
{
	gpurt_kunit_stop();
	gpurt_chardev_stop();
	gpurt_exits_stop();
	gpurt_agents_stop();
	gpurt_port_stop();
	gpurt_boost_unload();
	gpurt_clients_stop();
	gpurt_events_stop();	/* sends what is left by netlink */
	gpurt_netlink_stop();
	gpurt_cpu_stop();
	gpurt_rules_clear();
	gpurt_allowances_clear();
	gpurt_workers_stop();
	rcu_barrier();	/* likewise */
	pr_info("gpurt: unloaded\n");
}

module_init(gpurt_init);
module_exit(gpurt_exit);
MODULE_DESCRIPTION("Real-time priorities for GPU work");
MODULE_LICENSE("GPL");
