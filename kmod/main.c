// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

#include "boost.h"
#include "budgets.h"
#include "chardev.h"
#include "client.h"
#include "cpu.h"
#include "drv/agents.h"
#include "drv/port_gpu.h"
#include "drv/vgpu.h"
#include "events.h"
#include "job.h"
#include "netlink.h"
#include "policy.h"
#include "rules.h"
#include "selftest.h"
#include "workers.h"

static int __init gpurt_init(void)
{
	int err;

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
	err = gpurt_vgpu_start();
	if (err)
		goto stop_agents;
	err = gpurt_chardev_start();
	if (err)
		goto stop_vgpu;
	gpurt_kunit_start();
	pr_info("gpurt: loaded, interface version %d\n", GPURT_VERSION);
	return 0;

stop_vgpu:
	gpurt_vgpu_stop();
stop_agents:
	gpurt_agents_stop();
stop_port:
	gpurt_port_stop();
stop_netlink:
	gpurt_netlink_stop();
	gpurt_rules_clear();	/* commands may have set some meanwhile */
	gpurt_groups_clear();
stop_events:
	gpurt_events_stop();
stop_cpu:
	gpurt_cpu_stop();
unload_boost:
	gpurt_boost_unload();
stop_workers:
	gpurt_workers_stop();
	rcu_barrier();	/* callbacks of owner.c and rules.c */
	return err;
}

static void __exit gpurt_exit(void)
{
	gpurt_kunit_stop();
	gpurt_chardev_stop();
	gpurt_vgpu_stop();
	gpurt_agents_stop();
	gpurt_port_stop();
	gpurt_boost_unload();
	gpurt_clients_stop();
	gpurt_events_stop();	/* sends what is left by netlink */
	gpurt_netlink_stop();
	gpurt_cpu_stop();
	gpurt_rules_clear();
	gpurt_groups_clear();
	gpurt_workers_stop();
	rcu_barrier();	/* likewise */
	pr_info("gpurt: unloaded\n");
}

module_init(gpurt_init);
module_exit(gpurt_exit);
MODULE_DESCRIPTION("Real-time priorities for GPU work");
MODULE_LICENSE("GPL");
