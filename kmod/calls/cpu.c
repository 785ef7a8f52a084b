// SPDX-License-Identifier: GPL-2.0
/*
 * The CPU of the GPUs' threads, which the administrator may choose.  When a CPU goes offline, as all but one do during
 * suspend, the kernel moves its threads away and forgets their CPU.  So each thread is bound again whenever that CPU
 * comes back.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "calls/calls.h"
#include "decide/decide.h"

int gpurt_thread_cpu = -1;
module_param_named(thread_cpu, gpurt_thread_cpu, int, 0444);
MODULE_PARM_DESC(thread_cpu, "CPU of the GPUs' threads, which poll under policy job (default -1: any)");

static int hotplug_state;

/* Called while the GPU has its thread.  While the CPU is offline the thread runs on any CPU. */
void gpurt_cpu_bind(struct gpurt_gpu *gpu)
{
	if (gpurt_thread_cpu >= 0 && cpu_online(gpurt_thread_cpu))
		set_cpus_allowed_ptr(gpu->worker->task, cpumask_of(gpurt_thread_cpu));
}

/* The CPU is online again. */
int gpurt_cpu_came(unsigned int cpu)
{
	struct gpurt_gpu *gpu;
	int token;
	u32 i;

	for (i = 0; (int)cpu == gpurt_thread_cpu && i < GPURT_MAX_GPUS; i++) {
		gpu = gpurt_gpu_get(i);
		if (!gpu)
			continue;
		if (gpurt_gpu_hold(gpu, &token)) {
			gpurt_cpu_bind(gpu);
			gpurt_gpu_release(gpu, token);
		}
		gpurt_gpu_put(gpu);
	}
	return 0;
}

/* -EINVAL: there is no such CPU. */
int gpurt_cpu_start(void)
{
	if (gpurt_thread_cpu < 0)
		return 0;
	if ((unsigned int)gpurt_thread_cpu >= nr_cpu_ids || !cpu_possible(gpurt_thread_cpu)) {
		pr_err("gpurt: thread_cpu=%d: there is no such CPU\n", gpurt_thread_cpu);
		return -EINVAL;
	}
	hotplug_state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "gpurt:online", gpurt_cpu_came, NULL);
	return min(hotplug_state, 0);
}

void gpurt_cpu_stop(void)
{
	if (hotplug_state > 0)
		cpuhp_remove_state_nocalls(hotplug_state);
}
