// SPDX-License-Identifier: GPL-2.0
/*
 * nvgpu's own common/fifo/runlist.c, patched, on hardware that decodes the runlists that it is given.  The hardware
 * keeps executing a TSG until that TSG is preempted.  After each step the hardware is compared with a model.  Compiled
 * with R=35 or R=36 for the driver's release.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvgpu/gk20a.h>
#include <nvgpu/channel.h>
#include <nvgpu/engines.h>
#include <nvgpu/fifo.h>
#include <nvgpu/pmu/mutex.h>
#include <nvgpu/ptimer.h>
#include <nvgpu/rc.h>
#include <nvgpu/runlist.h>
#include <nvgpu/tsg.h>
#include <nvgpu/watchdog.h>
#if R == 36
#include <nvgpu/gsp_sched.h>
#include <nvgpu/nvs.h>
#endif

#include "../random.h"
#include "stubs.h"

#define RUNLISTS 2
#define IDS 128			/* of TSGs and of channels: more than a word of a bitmap has bits */
#define TSGS 10
#define CHANNELS 3		/* of each TSG */
#define ENTRIES 400

static struct gk20a *g;
static bool listed[IDS], executes[IDS];		/* the hardware, by TSG */
static bool allowed[IDS];			/* what the callback answers */
static int submits, preempts, pending_for, stuck, locked, recoveries;
static bool user_domain, domain_comes, powered = true, in_use_locked;

static u32 tsg_id(int t)
{
	return (u32)t * 13U + 5U;	/* on both runlists, and beyond 64 */
}

static struct nvgpu_runlist *runlist_of(u32 tsgid)
{
	return &g->fifo.active_runlists[tsgid % RUNLISTS];
}

/* Functions of the rest of the driver that runlists use, besides stubs.h. */
void nvgpu_mutex_init(struct nvgpu_mutex *mutex) {}
void nvgpu_mutex_destroy(struct nvgpu_mutex *mutex) {}

static struct nvgpu_tsg *closing;	/* is closed and opened anew as soon as no lock keeps it */

void nvgpu_mutex_acquire(struct nvgpu_mutex *mutex)
{
	if (mutex != &g->fifo.tsg_inuse_mutex) {
		locked++;
		user_domain |= domain_comes;
		return;
	}
	assert(!in_use_locked);
	if (closing) {
		closing->preempt_due = false;
		closing->runlist = NULL;
	}
	closing = NULL;
	in_use_locked = true;
}

int nvgpu_mutex_tryacquire(struct nvgpu_mutex *mutex)
{
	return ++locked;
}

void nvgpu_mutex_release(struct nvgpu_mutex *mutex)
{
	if (mutex != &g->fifo.tsg_inuse_mutex) {
		assert(locked-- > 0);
		return;
	}
	assert(in_use_locked);
	in_use_locked = false;
}

bool nvgpu_engine_is_valid_runlist_id(struct gk20a *gpu, u32 id)
{
	return id < RUNLISTS;
}

void nvgpu_rc_runlist_update(struct gk20a *gpu, u32 runlist)
{
	recoveries++;
}

struct nvgpu_tsg *nvgpu_tsg_get_from_id(struct gk20a *gpu, u32 id)
{
	return &gpu->fifo.tsg[id];
}

struct nvgpu_tsg *nvgpu_tsg_from_ch(struct nvgpu_channel *ch)
{
	return &g->fifo.tsg[ch->tsgid];
}

/* The hardware. */
static void decode(u32 runlist, const u32 *entry, u32 count)
{
	u32 i, channels = 0, id;

	submits++;
	for (id = 0; id < IDS; id++)
		if (id % RUNLISTS == runlist)
			listed[id] = false;
	for (i = 0; i < count; i++, entry += 4) {
		if (channels == 0) {
			assert(entry[0] == 1);		/* a header: how many channels follow is not 0 */
			id = entry[1];
			assert(id % RUNLISTS == runlist);
			channels = entry[2];
			assert(channels > 0);
			listed[id] = executes[id] = true;
		} else {
			assert(entry[0] == 2 && g->fifo.channel[entry[1]].tsgid == id);
			channels--;
		}
	}
	assert(channels == 0);
}

static void get_tsg_entry(struct nvgpu_tsg *tsg, u32 *entry, u32 timeslice)
{
	entry[0] = 1;
	entry[1] = tsg->tsgid;
	entry[2] = tsg->num_active_channels;
}

static void get_ch_entry(struct nvgpu_channel *ch, u32 *entry)
{
	entry[0] = 2;
	entry[1] = ch->chid;
}

static int preempt(u32 id)
{
	struct nvgpu_runlist *rl = runlist_of(id);

	assert(!locked);	/* it takes the lock itself */
	preempts++;
	rl->reset_eng_bitmask = 0;
	if (stuck == 1 && executes[id])
		return -EBUSY;
	if (stuck == 2 && executes[id]) {
		rl->reset_eng_bitmask = 1;	/* it will not finish, says the driver in this way */
		return 0;
	}
	executes[id] = false;
	return 0;
}

static int pending(void)
{
	return pending_for > 0 ? pending_for-- : 0;
}

#if R == 35
static void hw_submit(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	decode(rl->id, rl->domain->mem_hw->mem.cpu_va, rl->domain->mem_hw->count);
}

static int wait_pending(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	return pending() ? -ETIMEDOUT : 0;
}

static int preempt_tsg(struct gk20a *gpu, struct nvgpu_tsg *tsg)
{
	return preempt(tsg->tsgid);
}

int gk20a_busy(struct gk20a *gpu)
{
	return 0;
}

void gk20a_idle(struct gk20a *gpu) {}
void gk20a_busy_noresume(struct gk20a *gpu) {}
void gk20a_idle_nosuspend(struct gk20a *gpu) {}

bool nvgpu_is_powered_off(struct gk20a *gpu)
{
	return !powered;
}
#else
static void hw_submit(struct gk20a *gpu, u32 runlist, u64 address, enum nvgpu_aperture aperture, u32 count)
{
	decode(runlist, (const u32 *)(uintptr_t)address, count);
}

static int check_pending(struct gk20a *gpu, struct nvgpu_runlist *rl)
{
	return pending();
}

int nvgpu_tsg_preempt(struct gk20a *gpu, struct nvgpu_tsg *tsg)
{
	return preempt(tsg->tsgid);
}

/* Time passes quickly: a wait that does not succeed at once is over soon. */
void nvgpu_timeout_init_cpu_timer(struct gk20a *gpu, struct nvgpu_timeout *timeout, u32 ms)
{
	memset(timeout, 0, sizeof(*timeout));
}

void nvgpu_usleep_range(unsigned int min, unsigned int max) {}

s64 nvgpu_current_time_ns(void)
{
	return 1000000000;
}

bool nvgpu_is_enabled(struct gk20a *gpu, u32 flag)
{
	return false;
}

bool nvgpu_gsp_is_ready(struct gk20a *gpu)
{
	return false;
}

bool nvgpu_nvs_gsp_usr_domain_present(struct gk20a *gpu)
{
	return user_domain;
}

s32 nvgpu_gps_sched_update_runlist(struct gk20a *gpu, struct nvgpu_runlist_domain *domain, struct nvgpu_runlist *rl)
{
	abort();
}
#endif

/* The watchdog's check, cut out of the driver: watchdog.inc. */
static int wdt_checked, wdt_rewound, wdt_recovered;

static struct nvgpu_channel_wdt_state nvgpu_channel_collect_wdt_state(struct nvgpu_channel *ch)
{
	return (struct nvgpu_channel_wdt_state){ 0, 0 };
}

static void nvgpu_channel_recover_from_wdt(struct nvgpu_channel *ch)
{
	wdt_recovered++;
}

bool nvgpu_channel_wdt_check(struct nvgpu_channel_wdt *wdt, struct nvgpu_channel_wdt_state *state)
{
	wdt_checked++;
	return true;		/* long without progress */
}

void nvgpu_channel_wdt_rewind(struct nvgpu_channel_wdt *wdt, struct nvgpu_channel_wdt_state *state)
{
	wdt_rewound++;
}

#include "watchdog.inc"

/* The callback, and what the model says. */
static bool may_run(struct gk20a *gpu, struct nvgpu_tsg *tsg)
{
	assert(locked);
	return allowed[tsg->tsgid];
}

static bool active[TSGS][CHANNELS];
static bool expected[IDS];			/* on the list that was built last */
static bool suspended;

static struct nvgpu_channel *channel(int t, int c)
{
	return &g->fifo.channel[t * CHANNELS + c + 60];
}

static void rebuilt(u32 runlist)
{
	int t, c;

	for (t = 0; t < TSGS; t++) {
		u32 id = tsg_id(t);

		if (id % RUNLISTS != runlist)
			continue;
		expected[id] = false;
		for (c = 0; c < CHANNELS; c++)
			expected[id] |= active[t][c] && allowed[id] && !suspended;
	}
}

static void check(void)
{
	u32 id;

	for (id = 0; id < IDS; id++)
		assert(listed[id] == expected[id]);
	assert(!locked && !pmu_locked && !recoveries);
}

static int commit(int wanted)
{
	int before = submits, err = nvgpu_runlist_commit(g), t;

	assert(err == wanted);
	if (err)
		return err;
	suspended = false;
	for (t = 0; t < RUNLISTS; t++)
		rebuilt((u32)t);
	check();
	assert(submits - before == RUNLISTS);
	/* Nothing that is off executes. */
	for (t = 0; t < TSGS; t++)
		assert(!executes[tsg_id(t)] || allowed[tsg_id(t)]);
	return 0;
}

static void update(int t, int c, bool add)
{
	u32 runlist = tsg_id(t) % RUNLISTS;
	bool changes = active[t][c] != add;
	int before = submits;

	assert(!nvgpu_runlist_update(g, runlist_of(tsg_id(t)), channel(t, c), add, true));
	active[t][c] = add;
	/* The driver preempts a TSG before it takes a channel from it. */
	if (changes && !add)
		executes[tsg_id(t)] = false;
	if (changes) {
		suspended = false;
		rebuilt(runlist);
	} else {
		assert(submits == before);	/* it would cost the TSG that executes a context switch */
	}
	check();
}

static void allow_only(int alone)
{
	int t;

	for (t = 0; t < TSGS; t++)
		allowed[tsg_id(t)] = alone < 0 || t == alone;
}

static void start(void)
{
	int t, c;

	g = calloc(1, sizeof(*g));
	memset(listed, 0, sizeof(listed));
	memset(executes, 0, sizeof(executes));
	memset(active, 0, sizeof(active));
	memset(expected, 0, sizeof(expected));
	suspended = user_domain = domain_comes = false;
	recoveries = 0;
	g->fifo.g = g;
	g->fifo.num_channels = IDS;
	g->fifo.tsg = calloc(IDS, sizeof(*g->fifo.tsg));
	g->fifo.channel = calloc(IDS, sizeof(*g->fifo.channel));
	g->runlist_interleave = true;
	g->ops.runlist.entry_size = ({ u32 size(struct gk20a *gpu) { return 16; } size; });
	g->ops.runlist.length_max = ({ u32 length(struct gk20a *gpu) { return ENTRIES; } length; });
	g->ops.runlist.count_max = ({ u32 count(struct gk20a *gpu) { return RUNLISTS; } count; });
	g->ops.runlist.init_enginfo = ({ void none(struct gk20a *gpu, struct nvgpu_fifo *f) {} none; });
	g->ops.runlist.get_tsg_entry = get_tsg_entry;
	g->ops.runlist.get_ch_entry = get_ch_entry;
	g->ops.runlist.hw_submit = hw_submit;
	g->ops.runlist.reload = nvgpu_runlist_reload;
#if R == 35
	g->ops.runlist.wait_pending = wait_pending;
	g->ops.fifo.preempt_tsg = preempt_tsg;
#else
	g->ops.runlist.check_pending = check_pending;
#endif
	assert(!nvgpu_runlist_setup_sw(g));
	for (t = 0; t < TSGS; t++) {
		struct nvgpu_tsg *tsg = &g->fifo.tsg[tsg_id(t)];

		tsg->g = g;
		tsg->tsgid = tsg_id(t);
		tsg->runlist = runlist_of(tsg->tsgid);
#if R == 35
		tsg->rl_domain = tsg->runlist->domain;
#endif
		nvgpu_init_list_node(&tsg->ch_list);
		for (c = 0; c < CHANNELS; c++) {
			struct nvgpu_channel *ch = channel(t, c);

			ch->g = g;
			ch->chid = (u32)(ch - g->fifo.channel);
			ch->tsgid = tsg->tsgid;
			nvgpu_list_add_tail(&ch->ch_entry, &tsg->ch_list);
		}
	}
	allow_only(-1);
	g->fifo.tsg_may_run = may_run;
}

static void stop(void)
{
	nvgpu_runlist_cleanup_sw(g);
	free(g->fifo.tsg);
	free(g->fifo.channel);
	free(g);
}

/* R36: an update that changes nothing gave the hardware the list before last. */
static void test_stale_list(void)
{
	start();
	update(0, 0, true);
	update(2, 0, true);
	update(2, 0, true);
	assert(listed[tsg_id(2)]);
	update(4, 0, false);	/* never enabled: a channel that was bound, and unbound without setup_bind */
	assert(listed[tsg_id(2)]);
	stop();
}

/* Without a callback nothing is different. */
static void test_no_callback(void)
{
	start();
	g->fifo.tsg_may_run = NULL;
	update(0, 0, true);
	update(1, 0, true);
	commit(0);
	assert(listed[tsg_id(0)] && listed[tsg_id(1)] && !preempts);
	stop();
}

/* Updates of the driver by itself put nobody back; ids from 64 up are as good as others. */
static void test_stays_off(void)
{
	start();
	assert(tsg_id(TSGS - 1) > 64);
	update(0, 0, true);
	update(TSGS - 1, 0, true);
	update(TSGS - 1, 1, true);
	allow_only(0);
	commit(0);
	assert(listed[tsg_id(0)] && !listed[tsg_id(TSGS - 1)]);
	update(TSGS - 1, 2, true);
	update(TSGS - 1, 0, false);
	update(3, 0, true);	/* a TSG that is new */
	g->fifo.tsg[tsg_id(TSGS - 1)].interleave_level = NVGPU_FIFO_RUNLIST_INTERLEAVE_LEVEL_HIGH;
	assert(!nvgpu_runlist_reload_ids(g, 3, true));
	check();
	assert(!nvgpu_runlist_reload_ids(g, 3, false));
	assert(!nvgpu_runlist_reload_ids(g, 3, true));
	check();
	allow_only(-1);
	commit(0);
	assert(listed[tsg_id(TSGS - 1)] && listed[tsg_id(3)]);
	stop();
}

/* Only what goes off is preempted, once. */
static void test_preempts(void)
{
	start();
	update(0, 0, true);
	update(1, 0, true);
	update(2, 0, true);
	preempts = 0;
	allow_only(0);
	commit(0);
	assert(preempts == 2);
	commit(0);
	assert(preempts == 2);
	allow_only(1);
	commit(0);
	assert(preempts == 3);
	preempts = 0;
	stop();
}

/*
 * While a commit preempts what went off, processes close TSGs and open others in their places.  R35 reads the TSG's
 * runlist again and again, so the TSG must stay what it is.
 */
static void test_closed_meanwhile(void)
{
	start();
	update(0, 0, true);
	update(1, 0, true);
	preempts = 0;
	closing = &g->fifo.tsg[tsg_id(1)];
	allow_only(0);
	nvgpu_runlist_commit(g);
	assert(!preempts && !closing && !in_use_locked);
	g->fifo.tsg[tsg_id(1)].runlist = runlist_of(tsg_id(1));
	executes[tsg_id(1)] = false;
	preempts = 0;
	stop();
}

/* Failures: what is not known to be preempted is tried again by the next commit. */
static void test_failures(void)
{
	int how;

	for (how = 1; how <= 2; how++) {
		start();
		update(0, 0, true);
		update(1, 0, true);
		allow_only(0);
		stuck = how;
		commit(-ETIMEDOUT);
		commit(-ETIMEDOUT);
		stuck = 0;
		assert(executes[tsg_id(1)]);
		commit(0);
		assert(!executes[tsg_id(1)]);
		pending_for = 1;
		commit(-ETIMEDOUT);
		commit(0);
		stop();
	}
}

/* More entries than a list has: on the first runlist nothing has changed; on another it is not known what executes. */
static void test_too_long(void)
{
	int t;

	for (t = 0; t < 2; t++) {
		start();
		update(t, 0, true);
		g->fifo.num_runlist_entries = 1;
		assert(nvgpu_runlist_commit(g) == (tsg_id(t) % RUNLISTS ? -ETIMEDOUT : -E2BIG));
		check();
		g->fifo.num_runlist_entries = ENTRIES;
		commit(0);
		stop();
	}
}

/*
 * A TSG that is off takes room all the same: else more would be admitted than fits when all are on.  Then no list
 * could be built any more, not even one without a channel that is closed.
 */
static void test_no_room_for_all(void)
{
	int level;

	for (level = 0; level < 2; level++) {
		start();
		if (level)
			g->fifo.tsg[tsg_id(0)].interleave_level = NVGPU_FIFO_RUNLIST_INTERLEAVE_LEVEL_HIGH;
		g->fifo.num_runlist_entries = 5;
		update(0, 0, true);
		update(2, 0, true);
		allow_only(0);
		commit(0);
		assert(nvgpu_runlist_update(g, runlist_of(tsg_id(4)), channel(4, 0), true, true) == -E2BIG);
		allow_only(-1);
		active[4][0] = true;		/* to the driver it is, though it had no room */
		update(4, 0, false);
		commit(0);
		/* Nor more room than they would take: nobody is on. */
		allow_only(1);
		commit(0);
		stop();
	}
}

/* With a user domain of the GSP's scheduler a submit would do nothing. */
static void test_user_domain(void)
{
#if R == 36
	int before;

	start();
	update(0, 0, true);
	before = submits;
	user_domain = true;
	assert(nvgpu_runlist_commit(g) == -EOPNOTSUPP && submits == before);
	/* It comes after the commit has looked, while that waits for a runlist. */
	user_domain = false;
	domain_comes = true;
	assert(nvgpu_runlist_commit(g) == -ETIMEDOUT);
	stop();
#endif
}

/* The watchdog kills what makes no progress, and what is off makes none. */
static void test_watchdog(void)
{
	struct nvgpu_channel *ch;

	start();
	ch = channel(1, 0);
	ch->wdt = (struct nvgpu_channel_wdt *)ch;
	update(0, 0, true);
	update(1, 0, true);
	allow_only(0);
	commit(0);
	nvgpu_channel_check_wdt(ch);
	assert(wdt_rewound == 1 && !wdt_recovered);
	allow_only(-1);
	commit(0);
	nvgpu_channel_check_wdt(ch);
	assert(wdt_rewound == 1 && wdt_recovered == 1);
	stop();
}

static void step(void)
{
	int t = below(TSGS), c = below(CHANNELS), runlist;

	switch (below(8)) {
	case 0:
	case 1:
	case 2:
		if (!suspended)
			update(t, c, below(2));
		return;
	case 3:
		g->fifo.tsg[tsg_id(t)].interleave_level = (u32)below(3);
		if (suspended)
			return;
		assert(!nvgpu_runlist_reload_ids(g, 1U << tsg_id(t) % RUNLISTS, true));
		rebuilt(tsg_id(t) % RUNLISTS);
		break;
	case 4:
		suspended = !suspended;
		assert(!nvgpu_runlist_reload_ids(g, (1 << RUNLISTS) - 1, !suspended));
		for (runlist = 0; runlist < RUNLISTS; runlist++)
			rebuilt((u32)runlist);
		break;
	case 5:
		allow_only(below(TSGS + 1) - 1);
		return;		/* decided, and not yet committed */
	case 6:
		stuck = below(3);
		if (nvgpu_runlist_commit(g))
			assert(stuck);
		stuck = 0;
		commit(0);
		break;
	case 7:
		commit(0);
		break;
	}
	check();
}

int main(int argc, char **argv)
{
	int round, rounds = argc > 1 ? atoi(argv[1]) : 200, i;

	test_stale_list();
	test_no_callback();
	test_stays_off();
	test_preempts();
	test_closed_meanwhile();
	test_failures();
	test_too_long();
	test_no_room_for_all();
	test_user_domain();
	test_watchdog();
	for (round = 1; round <= rounds; round++) {
		seed = (uint32_t)round * 2654435761u;
		start();
		for (i = 0; i < 200; i++)
			step();
		stop();
	}
	printf("%d submits, %d preemptions\n", submits, preempts);
	return 0;
}
