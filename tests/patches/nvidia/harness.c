// SPDX-License-Identifier: GPL-2.0
/*
 * The files that the patches add to NVIDIA's driver, between a GSP and a gpurt.  The GSP keeps what is scheduled and
 * what is off; gpurt gives the GPU to one process, or to all.  The harness compares what runs after each random step.
 */
#include <unistd.h>

#include "rm.h"
#include "../random.h"

static bool may_take_a_mutex(void)
{
	return !api_lock && !gpu_lock;
}

#define prepare_for_kernel(...)
#include "driver.inc"

#define CHANNELS 200
#define CLIENTS 8
#define GROUPS 40

/* A channel as GSP has it, and as its process wants it. */
struct channel {
	KernelChannel rm;
	KernelChannelGroupApi api;
	bool open, scheduled, off, user_off;
	bool stopped;			/* it ran, and was switched off */
};

static KernelChannelGroup groups[GROUPS];
static bool scheduled[GROUPS];		/* as GSP has them */
static struct channel channels[CHANNELS];
static struct pid pids[CLIENTS];
static RmClient clients[CLIENTS + 1];	/* the last is the kernel's */
static KernelFifo fifo;
static nv_state_t nv = { .flags = NV_FLAG_INITIALIZED };
static OBJGPU gpu = { .pOsGpuInfo = &nv, .fifo = &fifo, .hInternalClient = 900, .hInternalSubdevice = 901 };

/* GSP's ways, and its faults. */
static bool schedule_puts_on, refuses_foreign, is_strict, forgets;
static int fails_after, fails_with, wait_us, calls, biggest;	/* -1: none fails */

/* gpurt. */
static int alone = -1, told[CLIENTS], kills[CLIENTS], added, removed, resets;
static bool due, is_refused, resetting;	/* a commit is due */
static void *handle;

static bool wanted(const struct channel *c)
{
	long client = c->rm.client - clients;

	return client == CLIENTS || alone < 0 || alone == client;
}

static bool runs(const struct channel *c)
{
	return c->open && c->scheduled && !c->off;
}

/* Nothing that must not run does, except while gpurt knows that. */
static void check_off(void)
{
	int i;

	for (i = 0; i < CHANNELS; i++)
		assert(due || !runs(&channels[i]) || wanted(&channels[i]));
}

static struct channel *named(NvHandle client, NvHandle channel)
{
	struct channel *c = &channels[channel];

	return channel < CHANNELS && c->open && c->rm.client->handle == client ? c : NULL;
}

static NV_STATUS switch_all(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *p, NvU32 count, bool ours)
{
	struct channel *c;
	NvU32 i;
	int j;

	for (i = 0; i < count; i++) {
		c = named(p->hClientList[i], p->hChannelList[i]);
		if (!c || (is_strict && !c->scheduled))
			return NV_ERR_INVALID_ARGUMENT;
		c->stopped = c->stopped || (runs(c) && p->bDisable);
		c->off = p->bDisable;
		/* First off, then on. */
		for (j = 0; ours && !p->bDisable && current == &the_thread && j < CHANNELS; j++)
			assert(!runs(&channels[j]) || wanted(&channels[j]));
	}
	return NV_OK;
}

static NV_STATUS disable_channels(NvHandle client, NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *p, bool ours)
{
	ktime_t end = now + wait_us;
	bool fails = !fails_after;
	NvU32 i;

	assert(gpu_lock && p->numChannels >= 1 && p->numChannels <= 64 && !p->bOnlyDisableScheduling);
	calls++;
	biggest = biggest < (int)p->numChannels ? (int)p->numChannels : biggest;
	if (fails_after >= 0)
		fails_after--;
	while (now < end) {
		now += 10;
		nv_gpurt_spin();
	}
	for (i = 0; i < p->numChannels; i++)
		if (p->hClientList[i] != client && refuses_foreign)
			return NV_ERR_INVALID_CLIENT;
	if (fails) {
		(void)switch_all(p, p->numChannels / 2, ours);
		return fails_with;
	}
	return switch_all(p, p->numChannels, ours);
}

static NV_STATUS control(RM_API *api, NvHandle client, NvHandle object, NvU32 cmd, void *params, NvU32 size)
{
	assert(cmd == NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS && size == sizeof(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS));
	assert(object == (client == 900 ? 901U : the_subdevice.handle) && !around);
	return disable_channels(client, params, true);
}

static RM_API gsp = { control };

/* What gpurt offers. */
static void on_added(void *g, const char *name, const char *refused)
{
	assert(!strcmp(name, "card") && !spinning);
	handle = g;
	is_refused = refused;
	added++;
}

static void on_removed(void *g)
{
	assert(g == handle);
	memset(told, 0, sizeof(told));
	handle = NULL;
	removed++;
}

static void on_tsgs(void *g, struct pid *tgid, int change)
{
	told[tgid - pids] += change;
	assert(g == handle && change && told[tgid - pids] >= 0);
}

static bool on_may_run(void *g, struct pid *tgid)
{
	assert(spinning);
	return g != handle || alone < 0 || alone == tgid - pids;
}

static void on_killed(void *g, struct pid *tgid)
{
	assert(spinning);
	kills[tgid - pids]++;
}

static void on_reset(void *g, bool begins)
{
	assert(spinning);
	resets += begins;
	resetting = begins;
	due = due || begins;
}

static const struct gpurt_hooks the_hooks = {
	GPURT_PORT_VERSION, on_added, on_removed, on_tsgs, on_may_run, on_killed, on_reset,
};

static void commit_well(void)
{
	int i, err;

	fails_after = -1;
	wait_us = 0;
	err = nvidia_gpurt_port.commit(handle);
	assert(!err && !power && !pm_readers && !api_lock);
	due = false;
	check_off();
	for (i = 0; i < CHANNELS; i++)
		assert(!channels[i].open || !channels[i].scheduled || channels[i].user_off || !wanted(&channels[i]) ||
		       runs(&channels[i]));
	for (i = 0; i < CHANNELS; i++)
		assert(!channels[i].open || !channels[i].user_off || !runs(&channels[i]));
}

/* Calls of processes, as the handlers make them. */
static struct channel *any(bool open)
{
	int i = below(CHANNELS), n;

	for (n = 0; n < CHANNELS; n++)
		if (channels[(i + n) % CHANNELS].open == open)
			return &channels[(i + n) % CHANNELS];
	return NULL;
}

static void begin(RmClient *client)
{
	current = &another_thread;
	current->tgid = client->pOsPidInfo;
	context.pClient = client;
	context.secInfo.privLevel = RS_PRIV_LEVEL_USER;
	api_lock = true;
	gpu_lock = true;
}

static void end(void)
{
	gpu_lock = false;
	api_lock = false;
	nv_gpurt_flush();
	current = &the_thread;
	check_off();
}

/* During a call. */
static void add_channel(int client, int group, bool delays)
{
	struct channel *c = any(false);

	memset(c, 0, sizeof(*c));
	c->api.pKernelChannelGroup = &groups[group];
	c->rm.pKernelChannelGroupApi = &c->api;
	c->rm.client = &clients[client];
	c->rm.handle = c - channels;
	c->open = true;
	c->scheduled = scheduled[group] && !delays;
	gpurtChannelAdded(&gpu, &c->rm);
	if (!delays)
		gpurtChannelJoins(&gpu, &c->rm);
}

/* When the call ends, gpurt knows the process, before the worker has run. */
static void open_channel(int client, int group, bool delays)
{
	if (!any(false))
		return;
	begin(&clients[client]);
	add_channel(client, group, delays);
	end();
	assert(client == CLIENTS || told[client]);
}

/* GSP may switch on what is left of the group. */
static void close_channel(struct channel *c)
{
	struct channel *other;

	begin(c->rm.client);
	gpurtChannelRemoved(&gpu, &c->rm);
	memset(&c->rm, 0xa5, sizeof(c->rm));
	c->open = false;
	for (other = channels; other < channels + CHANNELS; other++)
		if (schedule_puts_on && other->api.pKernelChannelGroup == c->api.pKernelChannelGroup)
			other->off = other->user_off;
	gpurtChannelFreed(&gpu, c->api.pKernelChannelGroup);
	end();
}

static void schedules(struct channel *one, bool whole, bool enable)
{
	KernelChannelGroup *group = one->api.pKernelChannelGroup;
	int i;

	begin(one->rm.client);
	if (enable)
		gpurtBeforeSchedule(&gpu, group);
	if (enable || whole)
		scheduled[group - groups] = enable;
	for (i = 0; i < CHANNELS; i++) {
		struct channel *c = &channels[i];

		if (!c->open || c->api.pKernelChannelGroup != group || (!whole && c != one))
			continue;
		c->scheduled = enable;
		if (enable && schedule_puts_on && !c->user_off)
			c->off = false;
	}
	gpurtAfterSchedule(&gpu, group, whole ? NULL : &one->rm, enable);
	end();
}

/* The reset of a channel, or a change of its group's contexts: GSP may switch on what it has to do with. */
static void control_channel(struct channel *one, bool reset)
{
	RmResource resource = { .channel = reset ? &one->rm : NULL };
	struct channel *c;

	begin(one->rm.client);
	for (c = channels; c < channels + CHANNELS; c++)
		if (c == one || (!reset && c->open && c->api.pKernelChannelGroup == one->api.pKernelChannelGroup))
			c->off = c->off && (!schedule_puts_on || c->user_off);
	gpurtAfterControl(&gpu, &resource, reset ? NV906F_CTRL_CMD_RESET_CHANNEL : NV2080_CTRL_CMD_GR_CTXSW_PM_MODE);
	end();
}

/* GSP disables a group, waits, and enables it: it must not get that of a group in which a channel is off. */
static void preempt(struct channel *one)
{
	RS_RES_CONTROL_PARAMS_INTERNAL params = { .cmd = NVA06C_CTRL_CMD_PREEMPT };
	RmResource resource = { .group = &one->api };
	bool ran[CHANNELS], handled;
	NV_STATUS status = NV_OK;
	int i;

	begin(one->rm.client);
	for (i = 0; i < CHANNELS; i++) {
		ran[i] = runs(&channels[i]) && channels[i].api.pKernelChannelGroup == one->api.pKernelChannelGroup;
		channels[i].stopped = channels[i].rm.client == &clients[CLIENTS];
	}
	handled = gpurtHandlesControl(&gpu, &resource, &params, &status);
	for (i = 0; i < CHANNELS; i++) {
		struct channel *c = &channels[i];

		assert(!handled || status || !ran[i] || c->stopped);
		assert(handled || !status);	/* else RM does not ask GSP */
		assert(handled || !c->open || c->api.pKernelChannelGroup != one->api.pKernelChannelGroup || !c->off ||
		       c->user_off || !c->scheduled);
	}
	end();
}

/* By a client, its own channel or another's, and one that is nobody's. */
static void user_switches(RmClient *client, struct channel *c, bool disable)
{
	NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS p = { .bDisable = disable, .numChannels = 1 };
	bool own = c->rm.client == client || !hooks;

	p.hClientList[0] = c->rm.client->handle;
	p.hChannelList[0] = c->rm.handle;
	begin(client);
	own = own || c->rm.client == &clients[CLIENTS];
	assert(gpurtFilterUser(&gpu, &p) == (own ? NV_OK : NV_ERR_INSUFFICIENT_PERMISSIONS));
	if (!own)
		p.numChannels = 0;
	if (p.numChannels && (!is_strict || c->scheduled)) {
		assert(switch_all(&p, 1, false) == NV_OK);
		gpurtUserSwitched(&gpu, &p);
	}
	if (own && c->rm.client != &clients[CLIENTS] && (p.numChannels ? !is_strict || c->scheduled : !disable))
		c->user_off = disable;
	end();
}

static void sleep_and_wake(void)
{
	int i;

	for (i = 0; forgets && i < CHANNELS; i++)
		channels[i].off = channels[i].user_off;
	due = due || forgets;
	nv_gpurt_woken(&nv);
}

static void kill_group(struct channel *c)
{
	int before = c->rm.client == &clients[CLIENTS] ? 0 : kills[c->rm.client - clients];

	begin(c->rm.client);
	gpurtKilled(&gpu, &c->rm);
	end();
	flush_work(&telling);
	assert(c->rm.client == &clients[CLIENTS] || kills[c->rm.client - clients] > before);
}

static void stop_channel(struct channel *c)
{
	begin(c->rm.client);
	assert(gpurtIsOff(&c->rm) || !c->off || c->user_off || c->rm.client == &clients[CLIENTS] || !c->scheduled || due);
	c->scheduled = false;
	gpurtStopped(&c->rm);
	end();
}

static void decide(void)
{
	alone = below(3) ? below(CLIENTS) : -1;
	due = true;
	if (below(4) == 0) {
		fails_after = below(3);
		fails_with = below(2) ? NV_ERR_TIMEOUT : NV_ERR_INVALID_CLIENT;
		(void)nvidia_gpurt_port.commit(handle);
		if (below(2))
			alone = below(2) ? below(CLIENTS) : -1;
	}
	commit_well();
}

static void step(void)
{
	struct channel *c = any(true);
	int what = below(15);

	fails_after = below(8) ? -1 : below(2);
	fails_with = NV_ERR_TIMEOUT;
	if (!c || what < 3)
		open_channel(below(CLIENTS + 1), below(GROUPS), below(2));
	else if (what < 6)
		schedules(c, below(2), below(5));
	else if (what == 6 && c->rm.client != &clients[CLIENTS])
		user_switches(below(2) ? c->rm.client : &clients[below(CLIENTS)], c, below(2));
	else if (what == 7)
		control_channel(c, below(2));
	else if (what == 8)
		kill_group(c);
	else if (what == 9)
		stop_channel(c);
	else if (what == 10)
		sleep_and_wake();
	else if (what == 11)
		close_channel(c);
	else if (what == 12)
		preempt(c);
	else
		decide();
	if (due)
		commit_well();
}

static void compare_counts(void)
{
	int counts[CLIENTS] = { 0 }, i;

	flush_work(&telling);
	for (i = 0; i < CHANNELS; i++)
		if (channels[i].open && channels[i].rm.client != &clients[CLIENTS])
			counts[channels[i].rm.client - clients]++;
	assert(!memcmp(counts, told, sizeof(told)));
}

static void start(void)
{
	int i;

	for (i = 0; i < CLIENTS; i++)
		clients[i] = (RmClient){ 100 + i, &pids[i], true };
	clients[CLIENTS] = (RmClient){ 99, NULL, true };
	nv.gpu = &gpu;
	memset(&fifo, 0, sizeof(fifo));
	alone = -1;
	nv_gpurt_gpu_added(&nv, "card");
	flush_work(&telling);
	assert(!nvidia_gpurt_port.attach(&the_hooks) && handle && !is_refused);
	assert(nvidia_gpurt_port.attach(&the_hooks) == -EBUSY);
}

static void stop(void)
{
	struct channel *c;
	int i;

	alone = fails_after = -1;
	nvidia_gpurt_port.detach();
	assert(!handle && !hooks);
	for (i = 0; i < CHANNELS; i++)
		assert(!channels[i].open || !channels[i].scheduled || channels[i].off == channels[i].user_off);
	nv_gpurt_gpu_removed(&nv);
	while ((c = any(true)))
		close_channel(c);
	nv_gpurt_exit();
	assert(list_empty(&gpus) && !stacks);
	for (i = 0; i < CLIENTS; i++)
		assert(!pids[i].references);
	due = false;
}

/* One process has 1, the other many; 64 a call. */
static void test_batches(int many)
{
	int i;

	start();
	refuses_foreign = is_strict = false;
	open_channel(0, 0, true);
	schedules(any(true), true, true);
	for (i = 0; i < many; i++) {
		open_channel(1 + i % 3, 1, true);
	}
	for (i = 0; i < CHANNELS; i++)
		if (channels[i].open && !channels[i].scheduled)
			schedules(&channels[i], true, true);
	alone = 0;
	due = true;
	calls = biggest = 0;
	commit_well();
	assert(calls == (many + 63) / 64 && biggest == (many < 64 ? many : 64));
	calls = 0;
	commit_well();
	assert(!calls);
	alone = -1;
	due = true;
	commit_well();
	stop();
}

/* GSP hangs: the thread that commits spins for 5 ms of it, and naps. */
static void test_spin(void)
{
	ktime_t began = now;

	start();
	open_channel(0, 0, true);
	schedules(any(true), true, true);
	alone = 1;
	wait_us = 4000000;
	assert(!nvidia_gpurt_port.commit(handle));
	assert(naps > 30000 && (now - began - naps * 100) < 500000);
	naps = 0;
	wait_us = 100000;
	schedules(any(true), true, true);
	assert(!naps);
	wait_us = 0;
	alone = -1;
	stop();
}

static void test_refusals(void)
{
	bool *why[] = { &gpu.virtual_one, &gpu.no_gsp, &gpu.mig, &gpu.secret, &gpu.linked, &vgpu_host };
	size_t i;

	for (i = 0; i < sizeof(why) / sizeof(*why); i++) {
		start();
		assert(added == removed + 1);
		open_channel(0, 0, true);
		*why[i] = true;
		assert(nvidia_gpurt_port.commit(handle) == -EOPNOTSUPP);
		nv_gpurt_gpu_opened(&nv);
		flush_work(&telling);
		assert(is_refused && handle && added == removed + 1);
		*why[i] = false;
		nv_gpurt_gpu_opened(&nv);
		flush_work(&telling);
		assert(!is_refused);
		compare_counts();
		stop();
	}
}

/* Commits while the machine or the GPU sleeps, or is closed. */
static void test_sleep(void)
{
	start();
	pm_lock_taken = true;
	assert(nvidia_gpurt_port.commit(handle) == -EOPNOTSUPP);
	pm_lock_taken = false;
	no_power = true;
	assert(nvidia_gpurt_port.commit(handle) == -EIO && !pm_readers);
	no_power = false;
	gpu_lock_fails = true;
	assert(nvidia_gpurt_port.commit(handle) == -ETIMEDOUT && !pm_readers && !power && !api_lock);
	gpu_lock_fails = false;
	nv.flags = 0;
	no_power = true;
	assert(!nvidia_gpurt_port.commit(handle));
	no_power = false;
	nv.flags = NV_FLAG_INITIALIZED;
	/* A reset that lasts is not ended by a wish for another commit. */
	nv_gpurt_reset(&nv, true);
	flush_work(&telling);
	assert(resetting);
	nv_gpurt_woken(&nv);
	assert(resetting);
	nv_gpurt_gpu_opened(&nv);
	flush_work(&telling);
	assert(!resetting);
	nv_gpurt_woken(&nv);
	assert(!resetting && due);
	stop();
}

/* GSP fails what a process's own call needs: gpurt hears that what must not run may. */
static void test_failed_filter(void)
{
	start();
	schedule_puts_on = true;
	open_channel(0, 0, true);
	alone = 1;
	commit_well();
	fails_after = 1;
	fails_with = NV_ERR_TIMEOUT;
	resets = 0;
	schedules(any(true), true, true);
	assert(resets == 1 && due);
	commit_well();
	/* And who waits for it to get idle waits in vain. */
	begin(&clients[0]);
	assert(gpurtKeepsBusy(&gpu, 100, &any(true)->rm.handle, 1));
	end();
	schedule_puts_on = false;
	alone = -1;
	stop();
}

/* An interrupt or a timer comes while the lock is held, and finds that the GPU is lost and must be reset. */
static void test_lost(void)
{
	start();
	open_channel(0, 0, true);
	open_channel(1, 1, true);
	memset(kills, 0, sizeof(kills));
	spin_lock(&lock);
	nv_gpurt_reset(&nv, true);
	nv_gpurt_lost(&nv);
	nv_gpurt_killed(any(true)->rm.pGpurtOwner);
	spin_unlock(&lock);
	flush_work(&telling);
	assert(kills[0] == 1 && kills[1] == 1 && resetting);
	nv_gpurt_reset(&nv, false);
	flush_work(&telling);
	assert(!resetting);
	stop();
}

/* A call that names a group has no channels of others sent again. */
static void test_one_group(void)
{
	RmResource resource = { NULL };
	int i;

	start();
	for (i = 0; i < 3; i++)
		open_channel(0, i > 0, true);
	for (i = 0; i < CHANNELS; i++)
		if (channels[i].open)
			schedules(&channels[i], true, true);
	alone = 1;
	commit_well();
	calls = biggest = 0;
	resource.group = &any(true)->api;
	begin(&clients[0]);
	gpurtAfterControl(&gpu, &resource, NVA06C_CTRL_CMD_SET_TIMESLICE);
	end();
	assert(calls == 1 && biggest == 1 + (resource.group->pKernelChannelGroup == &groups[1]));
	stop();
}

static void flushes(int client)
{
	another_thread.tgid = &pids[client];
	current = &another_thread;
	nv_gpurt_flush();
	current = &the_thread;
}

/* Process 0 has children, which use its client.  Nobody waits for another's news, who has gpus_lock or not. */
static void test_waits(void)
{
	int children, i;

	for (children = 0; children < 3; children++) {
		start();
		for (i = children != 0; i <= children; i++) {
			begin(&clients[0]);
			current->tgid = &pids[i];
			add_channel(0, 0, true);
			api_lock = gpu_lock = false;
		}
		gpus_lock.held = true;
		if (children < 2)
			flushes(3);
		assert(!told[0]);
		gpus_lock.held = false;
		flushes(children);
		assert(told[0] == (children ? children : 1));
		gpus_lock.held = true;
		flushes(children);
		gpus_lock.held = false;
		current = &the_thread;
		stop();
	}
}

/* What RM must not carry out. */
static void test_refused_controls(void)
{
	static const struct {
		NvU32 cmd, flags, later;
		bool refused;
	} all[] = {
		{ NV5080_CTRL_CMD_DEFERRED_API, 0, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, true },
		{ NV5080_CTRL_CMD_DEFERRED_API, 0, NV2080_CTRL_CMD_GR_CTXSW_PM_BIND, false },
		{ NV5080_CTRL_CMD_DEFERRED_API, NVOS54_FLAGS_FINN_SERIALIZED, NV2080_CTRL_CMD_GR_CTXSW_PM_BIND, true },
		{ NV5080_CTRL_CMD_DEFERRED_API_V2, 0, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, true },
		{ NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION, 0, 0, true },
		{ NVA06C_CTRL_CMD_SET_TIMESLICE, 0, 0, false },
	};
	RmResource resource = { NULL };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		NV5080_CTRL_DEFERRED_API_PARAMS params = { .cmd = all[i].later };
		RS_RES_CONTROL_PARAMS_INTERNAL call = { all[i].cmd, all[i].flags, &params };
		NV_STATUS status = NV_OK;

		assert(gpurtHandlesControl(&gpu, &resource, &call, &status) == all[i].refused);
		assert(status == (all[i].refused ? NV_ERR_NOT_SUPPORTED : NV_OK));
	}
}

int main(int argc, char **argv)
{
	int round, i, rounds = argc > 1 ? atoi(argv[1]) : 300;

	alarm(300);	/* what is broken on purpose may not end */
	seed = 1;
	test_batches(63);
	test_batches(64);
	test_batches(65);
	test_batches(131);
	test_spin();
	test_refusals();
	test_sleep();
	test_failed_filter();
	test_lost();
	test_one_group();
	test_waits();
	test_refused_controls();
	for (round = 0; round < rounds; round++) {
		seed = 2 * round + 1;
		start();
		schedule_puts_on = round & 1;
		refuses_foreign = round & 2;
		is_strict = round & 4;
		forgets = round & 8;
		for (i = 0; i < 150; i++)
			step();
		compare_counts();
		stop();
	}
	printf("ok\n");
	return 0;
}
