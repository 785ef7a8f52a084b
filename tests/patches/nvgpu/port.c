// SPDX-License-Identifier: GPL-2.0
/*
 * The file os/linux/gpurt.c that the patches add to nvgpu (driver.inc), between a gpurt and a driver.  Both of these
 * only write down what they are called for.
 */
#include "../linux.h"

#define TSGS 70
#define PROCESSES 3

static bool may_take_a_mutex(void)
{
	return true;
}

/* The parts of nvgpu that the file uses. */
struct gk20a;
struct nvgpu_tsg {
	struct pid *owner;
};
struct gk20a {
	struct {
		u32 num_channels;
		struct nvgpu_tsg tsg[TSGS];
		bool (*tsg_may_run)(struct gk20a *g, struct nvgpu_tsg *tsg);
		void (*tsg_aborted)(struct gk20a *g, struct nvgpu_tsg *tsg);
	} fifo;
	struct {
		bool sw_ready;
	} sched_ctrl;
	bool is_virtual;
};
struct nvgpu_os_linux {
	struct gk20a g;
	struct list_head gpurt_entry;
};
enum { NVGPU_SUPPORT_KMD_SCHEDULING_WORKER_THREAD };

#define nvgpu_os_linux_from_gk20a(gpu) container_of(gpu, struct nvgpu_os_linux, g)
#define dev_from_gk20a(gpu) (gpu)
#define nvgpu_is_enabled(gpu, flag) worker_thread
#define current (&processes[caller])
#define task_tgid(process) (&(process)->pid)

static struct {
	struct pid pid;
	int tsgs;			/* as gpurt was told */
	bool may_run;
	int kills;
} processes[PROCESSES];
static int caller, commits, powered, added, removed;
static bool worker_thread, dying, virtual_gpu;
static struct nvgpu_os_linux gpu;

static int gk20a_busy(struct gk20a *g)
{
	if (dying)
		return -ENODEV;
	powered++;
	return 0;
}

static void gk20a_idle(struct gk20a *g)
{
	powered--;
}

static int nvgpu_runlist_commit(struct gk20a *g)
{
	assert(powered == 1 && !spinning);
	commits++;
	return 0;
}

#include "driver.inc"

/* gpurt. */
static void gpu_added(void *g, const char *name, const char *why)
{
	assert(g == &gpu.g && !strcmp(name, "card") && !!why == (worker_thread || virtual_gpu) && !spinning);
	added++;
}

static void gpu_removed(void *g)
{
	int before = commits, i;

	/* It puts everyone back. */
	assert(g == &gpu.g && !spinning);
	nvgpu_gpurt_port.commit(g);
	assert(commits - before == !(dying || worker_thread || virtual_gpu));
	for (i = 0; i < PROCESSES; i++)
		processes[i].tsgs = 0;
	removed++;
}

static void tsgs(void *g, struct pid *tgid, int change)
{
	assert(g == &gpu.g && added > removed && tgid->references > 0 && !spinning);
	processes[tgid->number].tsgs += change;
}

static bool may_run(void *g, struct pid *tgid)
{
	assert(tgid->references > 0);
	return processes[tgid->number].may_run;
}

static void killed(void *g, struct pid *tgid)
{
	assert(tgid->references > 0);
	processes[tgid->number].kills++;
}

static const struct gpurt_hooks ours = {
	.version = GPURT_PORT_VERSION, .added = gpu_added, .removed = gpu_removed, .tsgs = tsgs, .may_run = may_run,
	.killed = killed,
};

static struct nvgpu_tsg *opened_by(int process, int id)
{
	caller = process;
	nvgpu_gpurt_tsg_opened(&gpu.g, &gpu.g.fifo.tsg[id]);
	return &gpu.g.fifo.tsg[id];
}

static void power_on(void)
{
	int i;

	memset(&gpu, 0, sizeof(gpu));
	memset(processes, 0, sizeof(processes));
	for (i = 0; i < PROCESSES; i++)
		processes[i].pid.number = i;
	gpu.g.fifo.num_channels = TSGS;
	gpu.g.is_virtual = virtual_gpu;
	gpu.g.sched_ctrl.sw_ready = true;
	added = removed = 0;
	nvgpu_gpurt_gpu_added(&gpu.g);
}

static void unbind(void)
{
	gpu.g.sched_ctrl.sw_ready = false;
	nvgpu_gpurt_gpu_removed(&gpu.g);
}

/* gpurt comes when there are TSGs, is told of these and of new ones, and goes. */
static void test_gpurt_comes_second(void)
{
	struct gpurt_hooks other = ours;
	struct nvgpu_tsg *first, *last;
	int before;

	power_on();
	first = opened_by(0, 0);
	last = opened_by(1, TSGS - 1);
	assert(gpu.g.fifo.tsg_may_run(&gpu.g, first));
	gpu.g.fifo.tsg_aborted(&gpu.g, first);
	other.version++;
	assert(nvgpu_gpurt_port.attach(&other) == -EINVAL && !added);
	assert(!nvgpu_gpurt_port.attach(&ours) && added == 1);
	assert(nvgpu_gpurt_port.attach(&ours) == -EBUSY);
	assert(processes[0].tsgs == 1 && processes[1].tsgs == 1 && !processes[0].kills);
	opened_by(1, 3);
	assert(processes[1].tsgs == 2);
	processes[1].may_run = true;
	assert(!gpu.g.fifo.tsg_may_run(&gpu.g, first) && gpu.g.fifo.tsg_may_run(&gpu.g, last));
	assert(gpu.g.fifo.tsg_may_run(&gpu.g, &gpu.g.fifo.tsg[5]));	/* the driver's own */
	assert(!nvgpu_gpurt_port.commit(&gpu.g) && !powered);
	gpu.g.fifo.tsg_aborted(&gpu.g, last);
	gpu.g.fifo.tsg_aborted(&gpu.g, &gpu.g.fifo.tsg[5]);
	assert(processes[1].kills == 1);
	nvgpu_gpurt_tsg_released(&gpu.g, last);
	assert(processes[1].tsgs == 1 && processes[1].pid.references == 1);
	before = commits;
	nvgpu_gpurt_port.detach();
	assert(removed == 1 && commits == before + 2);
	assert(gpu.g.fifo.tsg_may_run(&gpu.g, first));
	nvgpu_gpurt_tsg_released(&gpu.g, first);
	nvgpu_gpurt_tsg_released(&gpu.g, &gpu.g.fifo.tsg[3]);
	nvgpu_gpurt_tsg_released(&gpu.g, &gpu.g.fifo.tsg[5]);	/* has no owner */
	assert(!processes[0].pid.references && !processes[1].pid.references);
	unbind();
}

/* The GPU is powered on the first time after gpurt attached, and is unbound while a TSG is open. */
static void test_gpu_comes_second(void)
{
	struct nvgpu_tsg *tsg;

	memset(&gpu, 0, sizeof(gpu));
	assert(!nvgpu_gpurt_port.attach(&ours));
	power_on();
	assert(added == 1);
	tsg = opened_by(2, 7);
	assert(processes[2].tsgs == 1);
	dying = true;
	unbind();
	dying = false;
	assert(removed == 1);
	/* The driver may never release it: see nvgpu_channel_close() of a driver that goes. */
	assert(!processes[2].tsgs && !processes[2].pid.references);
	nvgpu_gpurt_tsg_released(&gpu.g, tsg);
	assert(!processes[2].pid.references);
	nvgpu_gpurt_port.detach();
}

/* A GPU whose runlists are not the driver's is announced with the reason, and is never committed. */
static void test_refused(void)
{
	int before = commits;

	power_on();
	assert(!nvgpu_gpurt_port.attach(&ours) && added == 1);
	assert(nvgpu_gpurt_port.commit(&gpu.g) == -EOPNOTSUPP);
	nvgpu_gpurt_port.detach();
	assert(commits == before);
	unbind();
}

int main(int argc, char **argv)
{
	test_gpurt_comes_second();
	test_gpu_comes_second();
	virtual_gpu = true;
	test_refused();
	virtual_gpu = false;
	worker_thread = argc > 1;	/* R36 has one on some chips */
	if (worker_thread)
		test_refused();
	return 0;
}
