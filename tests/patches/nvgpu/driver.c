// SPDX-License-Identifier: GPL-2.0
/*
 * nvgpu's own files on the hardware of hardware.h: runlists, TSGs, channels, preemption, recovery, watchdog, the way in
 * from ioctls, and what the patches add.  The scheduler of kmod/core says who may run.  After each step what the hardware
 * may execute is compared with the scheduler's answer.  Compiled with R=35 or R=36 for the driver's release.
 *
 * Parts that are not nvgpu's here: ioctls of channels (setup_bind is two calls that it makes), memory, and the
 * engines.
 */
#include <pthread.h>

#include <nvgpu/gk20a.h>
#include <nvgpu/channel.h>
#include <nvgpu/engines.h>
#include <nvgpu/kmem.h>
#include <nvgpu/preempt.h>
#include <nvgpu/rc.h>
#include <nvgpu/runlist.h>
#include <nvgpu/tsg.h>
#include <nvgpu/watchdog.h>
#include <nvgpu/worker.h>
#include <uapi/linux/nvgpu.h>

#include "../random.h"
#include "stubs.h"
#include "hardware.h"
#include "core.h"
#include "../linux.h"

#include "hal/fifo/preempt_gv11b.h"
#include "hal/fifo/tsg_gv11b.h"
#include "hal/rc/rc_gv11b.h"

#define PROCESSES (CORE_CLIENTS + 2)	/* the last two are no clients, and the last one is exempt */
#define DRIVER (-1)			/* in place of a process: the driver's own TSG */
#define TSGS 12
#define CHANNELS 20
#define OLDER 60			/* TSGs of the driver, so that there are ids beyond 64 */
#define ENTRIES 400

/* Linux, besides linux.h. */
struct file {
	void *private_data;
};
struct inode;
struct nvgpu_cdev;
struct device;
struct process {
	struct pid pid;
	int tsgs;			/* as gpurt was told */
	bool killed;			/* and not yet told */
};
struct nvgpu_os_linux {
	struct gk20a g;
	struct list_head gpurt_entry;
};
static struct nvgpu_os_linux *gpu;
static struct process processes[PROCESSES];
static int caller;

#define current (&processes[caller])
#define task_tgid(process) (&(process)->pid)
#define nvgpu_os_linux_from_gk20a(gpu) container_of(gpu, struct nvgpu_os_linux, g)
#define dev_from_gk20a(gpu) NULL
#define round_up(n, to) (((n) + (to) - 1) / (to) * (to))
#undef kzalloc
#undef kfree

static bool may_take_a_mutex(void)
{
	return true;
}

/* Time, which passes when the driver waits. */
static s64 now = 1;

s64 nvgpu_current_time_ns(void)
{
	return now;
}

void nvgpu_usleep_range(unsigned int min, unsigned int max)
{
	now += max * 1000L;
}

void nvgpu_timeout_init_cpu_timer(struct gk20a *gpu, struct nvgpu_timeout *timeout, u32 ms)
{
	memset(timeout, 0, sizeof(*timeout));
	timeout->time_duration = now + ms * 1000000L;
}

void nvgpu_timeout_init_cpu_timer_sw(struct gk20a *gpu, struct nvgpu_timeout *timeout, u32 ms)
{
	nvgpu_timeout_init_cpu_timer(gpu, timeout, ms);
}

bool nvgpu_timeout_peek_expired(struct nvgpu_timeout *timeout)
{
	return now > timeout->time_duration;
}

int nvgpu_cic_rm_wait_for_stall_interrupts(struct gk20a *gpu, u32 ms)
{
	now += ms * 1000000L;
	return 0;
}

/* Locks: a mutex is not taken twice. */
void nvgpu_mutex_init(struct nvgpu_mutex *mutex)
{
	memset(mutex, 0, sizeof(*mutex));
}

void nvgpu_mutex_destroy(struct nvgpu_mutex *mutex) {}

void nvgpu_mutex_acquire(struct nvgpu_mutex *mutex)
{
	assert(!*(char *)mutex && !spinning);
	*(char *)mutex = true;
}

int nvgpu_mutex_tryacquire(struct nvgpu_mutex *mutex)
{
	nvgpu_mutex_acquire(mutex);
	return 1;
}

void nvgpu_mutex_release(struct nvgpu_mutex *mutex)
{
	assert(*(char *)mutex);
	*(char *)mutex = false;
}

void nvgpu_rwsem_init(struct nvgpu_rwsem *sem) {}
void nvgpu_rwsem_down_write(struct nvgpu_rwsem *sem) {}
void nvgpu_rwsem_up_write(struct nvgpu_rwsem *sem) {}

/* The rest of the driver. */
int nvgpu_cond_init(struct nvgpu_cond *cond) { return 0; }
void nvgpu_cond_destroy(struct nvgpu_cond *cond) {}
int nvgpu_cond_broadcast(struct nvgpu_cond *cond) { return 0; }
int nvgpu_cond_broadcast_interruptible(struct nvgpu_cond *cond) { return 0; }
void nvgpu_cond_signal_interruptible(struct nvgpu_cond *cond) {}
void *nvgpu_vzalloc_impl(struct gk20a *gpu, unsigned long size, void *ip) { return calloc(1, size); }
void *nvgpu_kmalloc_impl(struct gk20a *gpu, size_t size, void *ip) { return malloc(size); }
void nvgpu_vfree_impl(struct gk20a *gpu, void *p) { free(p); }
void nvgpu_get_thread_name(char *name) {}
int nvgpu_memcmp(const u8 *a, const u8 *b, size_t size) { return memcmp(a, b, size); }
bool nvgpu_is_enabled(struct gk20a *gpu, u32 flag) { return false; }
bool nvgpu_is_errata_present(struct gk20a *gpu, u32 flag) { return false; }
bool nvgpu_platform_is_silicon(struct gk20a *gpu) { return true; }
bool nvgpu_engine_is_valid_runlist_id(struct gk20a *gpu, u32 id) { return id < RUNLISTS; }
bool nvgpu_engine_is_multimedia_runlist_id(struct gk20a *gpu, u32 id) { return false; }
u32 nvgpu_engine_get_runlist_busy_engines(struct gk20a *gpu, u32 runlist) { return 1U << runlist; }
bool nvgpu_engine_should_defer_reset(struct gk20a *gpu, u32 engine, u32 client, bool fake) { return false; }
int nvgpu_gr_disable_ctxsw(struct gk20a *gpu) { return 0; }
int nvgpu_gr_enable_ctxsw(struct gk20a *gpu) { return 0; }
void nvgpu_gr_fecs_trace_add_tsg_reset(struct gk20a *gpu, struct nvgpu_tsg *tsg) {}
int nvgpu_cg_pg_disable(struct gk20a *gpu) { return 0; }
int nvgpu_cg_pg_enable(struct gk20a *gpu) { return 0; }
void nvgpu_swprofile_begin_sample(struct nvgpu_swprofiler *p) {}
void nvgpu_swprofile_snapshot(struct nvgpu_swprofiler *p, u32 i) {}
bool nvgpu_swprofile_is_enabled(struct nvgpu_swprofiler *p) { return true; }
void nvgpu_cic_rm_wait_for_deferred_interrupts(struct gk20a *gpu) {}
struct nvgpu_gr_ctx *nvgpu_alloc_gr_ctx_struct(struct gk20a *gpu) { return calloc(1, 64); }
void nvgpu_free_gr_ctx_struct(struct gk20a *gpu, struct nvgpu_gr_ctx *ctx) { free(ctx); }
bool nvgpu_gr_ctx_get_ctx_initialized(struct nvgpu_gr_ctx *ctx) { return false; }
void nvgpu_gr_ctx_set_sm_diversity_config(struct nvgpu_gr_ctx *ctx, u32 config) {}
void nvgpu_multimedia_free_all_ctx(struct nvgpu_tsg *tsg) {}
bool nvgpu_is_err_notifier_set(struct nvgpu_channel *ch, u32 error) { return false; }
void nvgpu_set_err_notifier_if_empty(struct nvgpu_channel *ch, u32 error) {}
int nvgpu_channel_worker_enqueue(struct nvgpu_channel *ch) { return 0; }
int nvgpu_tsg_subctx_bind_channel(struct nvgpu_tsg *tsg, struct nvgpu_channel *ch) { return 0; }
void nvgpu_tsg_subctx_unbind_channel(struct nvgpu_tsg *tsg, struct nvgpu_channel *ch, bool force) {}
int nvgpu_userd_init_channel(struct gk20a *gpu, struct nvgpu_channel *ch) { return 0; }
struct nvgpu_nvs_domain *nvgpu_nvs_domain_by_name(struct gk20a *gpu, const char *name) { return NULL; }
bool nvgpu_nvs_gsp_usr_domain_present(struct gk20a *gpu) { return false; }
bool nvgpu_gsp_is_ready(struct gk20a *gpu) { return false; }
struct gk20a *nvgpu_get(struct gk20a *gpu) { return gpu; }
void nvgpu_put(struct gk20a *gpu) {}
int nvgpu_current_pid(struct gk20a *gpu) { return 100 + caller; }

u32 nvgpu_engine_get_mask_on_id(struct gk20a *gpu, u32 id, bool is_tsg)
{
	u32 r, mask = 0;

	for (r = 0; r < RUNLISTS; r++)
		mask |= (u32)(executes[r] == (int)id) << r;
	return mask;
}

/* Power: what is suspended resumes when somebody needs the GPU. */
static bool suspended, power_fails;
static int users;

int gk20a_busy(struct gk20a *gpu)
{
	if (power_fails)
		return -EINVAL;
	if (suspended)
		nvgpu_channel_resume_all_serviceable_ch(g);
	suspended = false;
	users++;
	return 0;
}

void gk20a_idle(struct gk20a *gpu)
{
	assert(users-- > 0);
}

void gk20a_busy_noresume(struct gk20a *gpu) {}
void gk20a_idle_nosuspend(struct gk20a *gpu) {}
bool nvgpu_is_powered_off(struct gk20a *gpu) { return suspended; }

#if R == 36
struct gk20a_ctrl_priv {
	struct nvgpu_ref refcount;
};
static bool late_failure;

static int nvgpu_tsg_add_ctrl_dev_inst_id(struct nvgpu_tsg *tsg, struct gk20a_ctrl_priv *priv)
{
	return late_failure ? -ENOMEM : 0;
}

static void nvgpu_tsg_remove_ctrl_dev_inst_id(struct nvgpu_tsg *tsg, struct gk20a_ctrl_priv *priv) {}
static u64 nvgpu_gpu_get_device_instance_id(struct gk20a_ctrl_priv *priv) { return 1; }
static void nvgpu_ioctl_ctrl_release(struct nvgpu_ref *ref) { abort(); }

static int nvgpu_gpu_tsg_revoke_share_tokens(struct gk20a *gpu, u64 instance, struct nvgpu_tsg *tsg, u32 *count)
{
	*count = 0;
	return 0;
}

static struct nvgpu_tsg *nvgpu_gpu_open_tsg_with_share_token(struct gk20a *gpu, u64 source, u64 target, u64 token)
{
	abort();
}

static struct gk20a_ctrl_priv control;
#endif

/* os/linux/gpurt.c, and functions cut out of sched.c and ioctl_tsg.c. */
#include "driver.inc"

static int open_tsg(struct file *file)
{
#if R == 35
	return nvgpu_ioctl_tsg_open(g, NULL, file);
#else
	return nvgpu_ioctl_tsg_open(g, &control, NULL, file, false, 0, 0, 0);
#endif
}

/* TSGs and channels that processes have, and what the scheduler says of them. */
static struct {
	bool exists, is_open;		/* is_open: has a descriptor */
	int process;
	struct file file;
	struct nvgpu_tsg *tsg;
} tsgs[TSGS];
static struct {
	struct nvgpu_channel *ch;	/* NULL: closed */
	int tsg;			/* it is bound to; NOTHING: to none */
	bool set_up;
} channels[CHANNELS];
static bool attached, uncertain;	/* uncertain: an update failed since the last commit */
static int checks, off, late_commits, aborts;	/* off: that found TSGs off that have work */

static bool process_may_run(int process)
{
	if (process == DRIVER || process == PROCESSES - 1 || !attached)
		return true;
	return core_may_run(process < CORE_CLIENTS ? process : -1);
}

static int process_of(struct pid *pid)
{
	return (int)(container_of(pid, struct process, pid) - processes);
}

static void gpu_added(void *gpu, const char *name, const char *why)
{
	assert(gpu == g && !why);
}

static void gpu_removed(void *gpu)
{
	int p;

	for (p = 0; p < PROCESSES; p++) {
		if (p < CORE_CLIENTS && processes[p].tsgs)
			core_tsgs(p, -processes[p].tsgs);
		processes[p].tsgs = 0;
		processes[p].killed = false;
	}
	attached = false;
}

static void told_tsgs(void *gpu, struct pid *pid, int change)
{
	int p = process_of(pid);

	assert(pid->references > 0);
	processes[p].tsgs += change;
	assert(processes[p].tsgs >= 0);
	if (p < CORE_CLIENTS)
		core_tsgs(p, change);
}

static bool may_run(void *gpu, struct pid *pid)
{
	assert(pid->references > 0);
	return process_may_run(process_of(pid));
}

static void killed(void *gpu, struct pid *pid)
{
	processes[process_of(pid)].killed = true;
	aborts++;
}

static const struct gpurt_hooks hooks_of_gpurt = {
	.version = GPURT_PORT_VERSION, .added = gpu_added, .removed = gpu_removed, .tsgs = told_tsgs, .may_run = may_run,
	.killed = killed,
};

/* Whether the TSG has a channel that is set up and that nobody disabled. */
static bool has_work(int t)
{
	int c;

	for (c = 0; c < CHANNELS; c++)
		if (channels[c].ch && channels[c].tsg == t && channels[c].set_up && enabled[channels[c].ch->chid])
			return true;
	return false;
}

/* The driver aborted it.  It may have new channels, which can enable the old ones. */
static bool is_aborted(int t)
{
	int c;

	for (c = 0; c < CHANNELS; c++)
		if (channels[c].ch && channels[c].tsg == t && nvgpu_channel_check_unserviceable(channels[c].ch))
			return true;
	return false;
}

static bool is_live(int t)
{
	int c;

	for (c = 0; c < CHANNELS; c++)
		if (channels[c].ch && channels[c].tsg == t)
			return true;
	return tsgs[t].is_open;
}

static bool pending_lists(void)
{
	int r;

	for (r = 0; r < RUNLISTS; r++)
		if (is_pending[r])
			return true;
	return false;
}

/* The hardware may execute what the scheduler and the processes want, and nothing else. */
static void check_lists(void)
{
	bool may[IDS] = { false }, must[IDS] = { false }, is, some_off = false;
	int t, id;

	for (t = 0; t < TSGS; t++) {
		if (!tsgs[t].exists || !has_work(t) || suspended)
			continue;
		may[tsgs[t].tsg->tsgid] = process_may_run(tsgs[t].process);
		some_off |= !may[tsgs[t].tsg->tsgid];
		must[tsgs[t].tsg->tsgid] = may[tsgs[t].tsg->tsgid] && !is_aborted(t);
	}
	for (id = 0; id < IDS; id++) {
		is = eligible(0, id) || eligible(1, id);
		assert(must[id] <= is && is <= may[id]);
	}
	checks++;
	off += some_off;
}

/* Called after a commit that succeeded: nothing else executes either. */
static void check_engines(void)
{
	int r, t;

	assert(!pending_lists());
	for (r = 0; r < RUNLISTS; r++)
		for (t = 0; t < TSGS; t++)
			if (tsgs[t].exists && executes[r] == (int)tsgs[t].tsg->tsgid)
				assert(process_may_run(tsgs[t].process));
}

/* Processes that have TSGs are known to gpurt, and each TSG has a reference to its process. */
static void check_owners(void)
{
	int t, p, count[PROCESSES] = { 0 };

	for (t = 0; t < TSGS; t++) {
		if (tsgs[t].exists && !is_live(t))
			tsgs[t].exists = false;
		if (tsgs[t].exists && tsgs[t].process != DRIVER)
			count[tsgs[t].process]++;
	}
	for (p = 0; p < PROCESSES; p++) {
		assert(processes[p].pid.references == count[p]);
		assert(!attached || processes[p].tsgs == count[p]);
	}
}

static void update(void)
{
	int err = nvgpu_gpurt_port.commit(g);

	uncertain = uncertain || (err && !power_fails);
	if (err) {
		late_commits++;
		return;
	}
	uncertain = false;
	check_engines();
}

/* Does what gpurt does after the driver has called hooks, and after a client has done something. */
static void settle(void)
{
	static bool due;
	int p;

	check_owners();
	for (p = 0; p < CORE_CLIENTS; p++)
		if (processes[p].killed)
			core_killed(p);
	for (p = 0; p < PROCESSES; p++)
		processes[p].killed = false;
	uncertain |= pending_lists();
	due |= core_wants_commit() || uncertain;
	if (due && attached) {
		int before = late_commits;

		update();
		due = late_commits != before;
	}
	if (!due && !uncertain)
		check_lists();
}

/* Steps. */
static void open_a_tsg(int t)
{
	int err = 0;

	if (tsgs[t].exists)
		return;
	memset(&tsgs[t], 0, sizeof(tsgs[t]));
	tsgs[t].process = below(PROCESSES + 1) - 1;
	caller = tsgs[t].process == DRIVER ? below(PROCESSES) : tsgs[t].process;
	if (tsgs[t].process == DRIVER) {
		tsgs[t].tsg = nvgpu_tsg_open(g, 1);
		assert(tsgs[t].tsg);
	} else {
		struct tsg_private *priv;
#if R == 36
		late_failure = !below(4);
		err = open_tsg(&tsgs[t].file);
		assert(!err == !late_failure);
#else
		err = open_tsg(&tsgs[t].file);
		assert(!err);
#endif
		priv = tsgs[t].file.private_data;
		tsgs[t].tsg = err ? NULL : priv->tsg;
	}
	tsgs[t].exists = tsgs[t].is_open = !err;
}

static void close_a_tsg(int t)
{
	if (!tsgs[t].is_open)
		return;
	tsgs[t].is_open = false;
	if (tsgs[t].process == DRIVER)
		nvgpu_ref_put(&tsgs[t].tsg->refcount, nvgpu_tsg_release);
	else
		nvgpu_ioctl_tsg_dev_release(NULL, &tsgs[t].file);
}

static void open_a_channel(int c)
{
	if (channels[c].ch)
		return;
	channels[c].ch = nvgpu_channel_open_new(g, (u32)below(RUNLISTS), false, 1, 1);
	assert(channels[c].ch);
	channels[c].tsg = NOTHING;
	channels[c].set_up = false;
}

static void close_a_channel(int c)
{
	if (!channels[c].ch)
		return;
	assert(!gk20a_busy(g));
	nvgpu_channel_close(channels[c].ch);
	gk20a_idle(g);
	channels[c].ch = NULL;
}

static void bind_channel(int c, int t)
{
	int i;

	for (i = 0; i < CHANNELS && (!channels[c].ch || channels[c].tsg != NOTHING); i++)
		c = (c + 1) % CHANNELS;
	if (!channels[c].ch || channels[c].tsg != NOTHING || !tsgs[t].is_open)
		return;
	if (!nvgpu_tsg_bind_channel(tsgs[t].tsg, channels[c].ch))
		channels[c].tsg = t;
}

static void unbind(int c)
{
	int t = channels[c].tsg;

	/* The ioctl needs the TSG's descriptor. */
	if (!channels[c].ch || t == NOTHING || !tsgs[t].is_open)
		return;
	assert(!gk20a_busy(g));
	nvgpu_tsg_unbind_channel(tsgs[t].tsg, channels[c].ch, false);
	gk20a_idle(g);
	if (nvgpu_tsg_from_ch(channels[c].ch))
		return;
	channels[c].tsg = NOTHING;
	channels[c].set_up = false;
}

/* The end of setup_bind. */
static void set_up(int c)
{
	struct nvgpu_channel *ch;
	int i;

	for (i = 0; i < CHANNELS && (!channels[c].ch || channels[c].tsg == NOTHING || channels[c].set_up); i++)
		c = (c + 1) % CHANNELS;
	ch = channels[c].ch;
	if (!ch || channels[c].tsg == NOTHING || channels[c].set_up || nvgpu_channel_check_unserviceable(ch))
		return;
	assert(!gk20a_busy(g));
	g->ops.channel.bind(ch);
	nvgpu_atomic_set(&ch->bound, 1);
	channels[c].set_up = true;
	nvgpu_channel_update_runlist(ch, true);
	gk20a_idle(g);
}

/* One of the ioctls of a TSG, at random. */
static void ask_of_tsg(int t)
{
	static const u32 levels[] = { NVGPU_FIFO_RUNLIST_INTERLEAVE_LEVEL_LOW, NVGPU_FIFO_RUNLIST_INTERLEAVE_LEVEL_MEDIUM,
				      NVGPU_FIFO_RUNLIST_INTERLEAVE_LEVEL_HIGH };

	if (!tsgs[t].is_open)
		return;
	assert(!gk20a_busy(g));
	switch (below(5)) {
	case 0:
		nvgpu_tsg_set_interleave(tsgs[t].tsg, levels[below(3)]);
		break;
	case 1:
		nvgpu_tsg_set_timeslice(tsgs[t].tsg, 1000);
		break;
	case 2:
		g->ops.tsg.disable(tsgs[t].tsg);
		break;
	case 3:
		g->ops.tsg.enable(tsgs[t].tsg);
		break;
	case 4:
#if R == 35
		g->ops.fifo.preempt_tsg(g, tsgs[t].tsg);
#else
		nvgpu_tsg_preempt(g, tsgs[t].tsg);
#endif
		break;
	}
	gk20a_idle(g);
}

static void recover(int t)
{
	int before = aborts;

	assert(!gk20a_busy(g));
	if (!below(8)) {
		nvgpu_rc_runlist_update(g, (u32)below(RUNLISTS));
	} else if (tsgs[t].exists && tsgs[t].tsg->runlist) {
		nvgpu_rc_tsg_and_related_engines(g, tsgs[t].tsg, false, RC_TYPE_FORCE_RESET);
		assert(aborts - before == (attached && tsgs[t].process != DRIVER));
	}
	gk20a_idle(g);
}

/* Six seconds in which the watchdog looks ten times a second; what is off makes no progress, and is not killed. */
static void let_time_pass(void)
{
	struct nvgpu_worker *worker = &g->channel_worker.worker;
	bool was_off[TSGS] = { false };
	int i, c, t;

	assert(!gk20a_busy(g));
	for (c = 0; c < CHANNELS; c++)
		if (channels[c].ch && channels[c].set_up)
			nvgpu_channel_launch_wdt(channels[c].ch);
	for (t = 0; t < TSGS; t++)
		was_off[t] = tsgs[t].exists && has_work(t) && !process_may_run(tsgs[t].process);
	for (i = 0; i < 120; i++) {
		now += 50000001;
		hardware_tick();
		nvgpu_channel_worker_poll_wakeup_post_process_item(worker);
	}
	for (t = 0; t < TSGS; t++)
		assert(!was_off[t] || uncertain || has_work(t));
	for (c = 0; c < CHANNELS; c++)
		if (channels[c].ch)
			nvgpu_channel_wdt_stop(channels[c].ch->wdt);
	gk20a_idle(g);
}

static void railgate(void)
{
	int r;

	for (r = 0; r < RUNLISTS; r++)
		if (hangs[r] || will_be_pending[r] || is_pending[r])
			return;		/* the driver asserts that its suspend succeeds */
	if (users || suspended || uncertain)
		return;
	nvgpu_channel_suspend_all_serviceable_ch(g);
	suspended = true;
	hardware_off();
}

static void break_something(void)
{
	int r = below(RUNLISTS);

	assert(!gk20a_busy(g));	/* the driver asserts that its resume succeeds */
	gk20a_idle(g);
	switch (below(4)) {
	case 0:
		hangs[r] = HANGS;
		break;
	case 1:
		hangs[r] = HAS_INTERRUPT;
		break;
	case 2:
		will_be_pending[r] = true;
		break;
	case 3:
		/* A list with no room for anything, and a GPU without power, while gpurt commits. */
		if (below(2))
			g->fifo.num_runlist_entries = 1;
		else
			power_fails = true;
		if (attached)
			update();
		g->fifo.num_runlist_entries = ENTRIES;
		power_fails = false;
		uncertain = true;
		break;
	}
}

/* Engines that hang recover by themselves, or are reset; a list that is pending comes in force. */
static void mend(void)
{
	int r;

	for (r = 0; r < RUNLISTS; r++) {
		hangs[r] = WORKS;
		will_be_pending[r] = false;
		if (is_pending[r])
			in_force[r] = submitted[r];
		is_pending[r] = false;
	}
	if (!attached)
		uncertain = false;
}

static void attach_or_detach(void)
{
	if (attached) {
		nvgpu_gpurt_port.detach();
	} else {
		attached = true;
		assert(!nvgpu_gpurt_port.attach(&hooks_of_gpurt));
		uncertain = true;	/* gpurt commits when it has a GPU */
	}
}

static void step(void)
{
	int t = below(TSGS), c = below(CHANNELS);

	hardware_tick();
	switch (below(32)) {
	case 0 ... 2: open_a_tsg(t); break;
	case 3: close_a_tsg(t); break;
	case 4 ... 6: open_a_channel(c); break;
	case 7: close_a_channel(c); break;
	case 8 ... 12: bind_channel(c, t); break;
	case 13 ... 17: set_up(c); break;
	case 18: unbind(c); break;
	case 19 ... 20: ask_of_tsg(t); break;
	case 21: railgate(); break;
	case 22: if (!below(3)) recover(t); break;
	case 23: if (!below(4)) let_time_pass(); break;
	case 24: if (!below(3)) break_something(); break;
	case 25: mend(); break;
	case 26: if (!below(8)) attach_or_detach(); break;
	default: core_step(below(CORE_CLIENTS), (u32)below(7), (u32)below(100)); break;
	}
	settle();
}

static u32 entry_size(struct gk20a *gpu) { return 16; }
static u32 no_of_sm(struct gk20a *gpu) { return 1; }
static u32 id_count(struct gk20a *gpu) { return IDS; }
static u32 list_length(struct gk20a *gpu) { return ENTRIES; }
static u32 list_count(struct gk20a *gpu) { return RUNLISTS; }
static u32 channels_per_tsg(void) { return CHANNELS; }
static int alloc_inst(struct gk20a *gpu, struct nvgpu_channel *ch) { return 0; }
static void free_inst(struct gk20a *gpu, struct nvgpu_channel *ch) {}
static int handle_pbdma(struct gk20a *gpu, u32 pbdma, bool recover) { return 0; }
static int litter(struct gk20a *gpu, int value) { return RUNLISTS; }
static void ring_doorbell(struct nvgpu_channel *ch) {}
static void recover_mask(struct gk20a *gpu) {}

/* Sometimes the channel is still to be executed next. */
static int check_next(struct nvgpu_channel *ch, struct nvgpu_channel_hw_state *state)
{
	return below(20) ? 0 : -EAGAIN;
}

static void engines_of_runlists(struct gk20a *gpu, struct nvgpu_fifo *f)
{
	u32 r;

	for (r = 0; r < RUNLISTS; r++)
		f->active_runlists[r].eng_bitmask = f->active_runlists[r].pbdma_bitmask = 1U << r;
}

static void start(void)
{
	unsigned int policy = (unsigned int)below(5);
	int i;

	gpu = calloc(1, sizeof(*gpu));
	g = &gpu->g;
	memset(processes, 0, sizeof(processes));
	memset(tsgs, 0, sizeof(tsgs));
	memset(channels, 0, sizeof(channels));
	attached = uncertain = suspended = false;
	users = 0;
	g->fifo.g = g;
	g->runlist_interleave = true;
	g->tsg_timeslice_max_us = 50000;
	g->poll_timeout_default = 3000;
	g->ctxsw_timeout_period_ms = 100;
	g->ch_wdt_init_limit_ms = 5000;
	g->fifo.max_engines = RUNLISTS;
	hardware_start();
#if R == 36
	nvgpu_ref_init(&control.refcount);
#endif
	g->ops.usermode.ring_doorbell = ring_doorbell;
	g->ops.get_litter_value = litter;
	g->ops.gr.init.get_no_of_sm = no_of_sm;
	g->ops.runlist.entry_size = entry_size;
	g->ops.runlist.length_max = list_length;
	g->ops.runlist.count_max = list_count;
	g->ops.runlist.init_enginfo = engines_of_runlists;
	g->ops.runlist.reload = nvgpu_runlist_reload;
	g->ops.runlist.update = nvgpu_runlist_update;
	g->ops.runlist.get_max_channels_per_tsg = channels_per_tsg;
	g->ops.pbdma.handle_intr = handle_pbdma;
	g->ops.fifo.preempt_tsg = nvgpu_fifo_preempt_tsg;
	g->ops.fifo.preempt_channel = gv11b_fifo_preempt_channel;
	g->ops.fifo.preempt_poll_pbdma = gv11b_fifo_preempt_poll_pbdma;
	g->ops.fifo.is_preempt_pending = gv11b_fifo_is_preempt_pending;
	g->ops.fifo.recover = gv11b_fifo_recover;
	g->ops.fifo.intr_set_recover_mask = recover_mask;
	g->ops.fifo.intr_unset_recover_mask = recover_mask;
	g->ops.channel.count = id_count;
	g->ops.channel.alloc_inst = alloc_inst;
	g->ops.channel.free_inst = free_inst;
	g->ops.channel.set_error_notifier = nvgpu_set_err_notifier_if_empty;
	g->ops.tsg.enable = gv11b_tsg_enable;
	g->ops.tsg.disable = nvgpu_tsg_disable;
	g->ops.tsg.default_timeslice_us = nvgpu_tsg_default_timeslice_us;
	g->ops.tsg.force_reset = nvgpu_tsg_force_reset_ch;
	g->ops.tsg.unbind_channel_check_hw_next = check_next;
#if R == 35
	g->ops.tsg.unbind_channel_check_hw_state = nvgpu_tsg_unbind_channel_check_hw_state;
#else
	g->ops.tsg.unbind_channel_check_hw_state = nvgpu_tsg_unbind_channel_hw_state_check;
#endif
	assert(!nvgpu_channel_setup_sw(g) && !nvgpu_tsg_setup_sw(g) && !nvgpu_runlist_setup_sw(g));
	nvgpu_channel_worker_poll_init(({ g->channel_worker.worker.g = g; &g->channel_worker.worker; }));
	assert(!gk20a_sched_ctrl_init(g));
	for (i = 0; i < OLDER; i++)
		assert(nvgpu_tsg_open(g, 1));
	core_start(policy);
	core_wants_commit();
	attach_or_detach();
	settle();
}

static void stop(void)
{
	int i;

	mend();
	for (i = 0; i < TSGS; i++)
		close_a_tsg(i);
	for (i = 0; i < CHANNELS; i++)
		close_a_channel(i);
	check_owners();
	for (i = 0; i < PROCESSES; i++)
		assert(!processes[i].pid.references && (!attached || !processes[i].tsgs));
	if (attached)
		nvgpu_gpurt_port.detach();
	gk20a_sched_ctrl_cleanup(g);
	for (i = 0; i < OLDER; i++)
		nvgpu_ref_put(&g->fifo.tsg[i].refcount, nvgpu_tsg_release);
	nvgpu_runlist_cleanup_sw(g);
	nvgpu_tsg_cleanup_sw(g);
	nvgpu_channel_cleanup_sw(g);
	free(gpu);
}

/* A process closes its TSG's descriptor before its channel's; then the driver has a TSG of that number. */
static void test_channel_is_closed_last(void)
{
	struct file file = { NULL };
	struct nvgpu_tsg *tsg;

	start();
	caller = 0;
	tsgs[0].process = 0;
	while (!tsgs[0].exists || tsgs[0].process != 0) {
		close_a_tsg(0);
		check_owners();
		open_a_tsg(0);
	}
	open_a_channel(0);
	bind_channel(0, 0);
	tsg = tsgs[0].tsg;
	close_a_tsg(0);
	check_owners();
	assert(processes[0].tsgs == 1 && processes[0].pid.references == 1);	/* its channel is there yet */
	close_a_channel(0);
	assert(!processes[0].tsgs && !processes[0].pid.references);
	assert(nvgpu_tsg_open(g, 1) == tsg && !tsg->owner);
	nvgpu_ref_put(&tsg->refcount, nvgpu_tsg_release);
	stop();
}

int main(int argc, char **argv)
{
	int round, rounds = argc > 1 ? atoi(argv[1]) : 200, i;

	seed = 1;
	test_channel_is_closed_last();
	for (round = 1; round <= rounds; round++) {
		seed = (uint32_t)round * 2654435761u;
		start();
		for (i = 0; i < 300; i++)
			step();
		stop();
	}
	printf("%d checks, %d with TSGs off, %d submits, %d preemptions, %d failed commits, %d aborted TSGs, %d resets\n",
	       checks, off, submits, preemptions, late_commits, aborts, resets);
	return 0;
}
