// SPDX-License-Identifier: GPL-2.0
/*
 * Random events on the scheduler and the virtual GPU, with what must always hold checked after each.  Bytes come
 * from libFuzzer (-DLIBFUZZER), else from a generator: fuzz_core SECONDS [SEED].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../kmod/core/policy.h"
#include "../../../kmod/core/vgpu.h"

#define CLIENTS 6
#define WORKS 64

#define HOLDS(x) do { if (!(x)) { fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #x); abort(); } } while (0)

struct world {
	struct gpurt_sched sched;
	struct gpurt_vgpu vgpu;
	struct gpurt_client clients[CLIENTS];
	struct gpurt_vgpu_ctx contexts[CLIENTS];
	struct gpurt_vgpu_tsg tsgs[CLIENTS];
	bool open[CLIENTS];
	struct gpurt_vgpu_work works[WORKS];
	bool used[WORKS];
	const struct gpurt_client *only;
	u64 now, done, submitted, dropped;
};

static void commit(struct gpurt_sched *s, struct gpurt_client *only, u32 cause, u64 now)
{
	struct world *w = s->host;

	HOLDS(only != w->only || cause == GPURT_CAUSE_EXEMPT);	/* no update where nothing changes */
	w->only = only;
	gpurt_vgpu_commit(&w->vgpu, only ? &w->contexts[only - w->clients] : NULL, now);
}

static void event(struct gpurt_sched *s, struct gpurt_client *c, u32 what, u64 now)
{
	(void)s, (void)c, (void)now;
	HOLDS(what < GPURT_EVENT_COUNT);
}

static void done(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *work, u64 when)
{
	struct world *w = v->host;

	(void)t;
	HOLDS(!work->left && when <= v->now);
	w->used[work - w->works] = false;
	w->done++;
}

static void check(struct world *w)
{
	u32 i, best = 0, engaged = 0;
	u64 queued = 0;

	HOLDS(w->only == w->sched.runner);
	for (i = 0; i < CLIENTS; i++) {
		struct gpurt_client *c = &w->clients[i];

		queued += w->tsgs[i].queued;
		if (w->sched.policy == GPURT_POLICY_SEGMENT && c->depth && c->level) {
			engaged++;
			best = c->level > best ? c->level : best;
		}
	}
	if (w->sched.policy == GPURT_POLICY_SEGMENT)
		HOLDS(engaged ? w->sched.runner && w->sched.runner->level == best : !w->sched.runner);
	if (w->sched.policy == GPURT_POLICY_TIMESLICED)
		HOLDS(!w->sched.runner);
	HOLDS(w->submitted == w->done + w->dropped + queued);
}

static void drop_all(struct world *w, u32 i)
{
	struct gpurt_vgpu_work *work;

	while ((work = gpurt_vgpu_drop(&w->vgpu, &w->tsgs[i], w->now))) {
		w->used[work - w->works] = false;
		w->dropped++;
	}
	gpurt_vgpu_tsg_close(&w->vgpu, &w->tsgs[i], w->now);
	w->open[i] = false;
}

static void submit(struct world *w, u32 i, u8 a)
{
	u32 n;

	for (n = 0; n < WORKS && w->used[n]; n++)
		;
	if (n == WORKS || !w->open[i])
		return;
	w->used[n] = true;
	w->submitted++;
	gpurt_vgpu_submit(&w->vgpu, &w->tsgs[i], &w->works[n], a & 1, a & 2, 1 + (a >> 2), w->now);
}

static void leave(struct world *w, u32 i)
{
	gpurt_client_gone(&w->sched, &w->clients[i], w->now);
	drop_all(w, i);
	gpurt_client_init(&w->clients[i]);
	gpurt_vgpu_exempt(&w->vgpu, &w->contexts[i], false, w->now);
}

static void step(struct world *w, u8 what, u8 a)
{
	u32 i = (what >> 4) % CLIENTS;
	struct gpurt_client *c = &w->clients[i];

	w->now += a & 7;
	gpurt_vgpu_advance(&w->vgpu, w->now);
	switch (what & 15) {
	case 0: case 1: gpurt_begin(&w->sched, c, a % 120, a & 128 ? a % 101 : 0, w->now); break;
	case 2: case 3: gpurt_end(&w->sched, c, w->now); break;
	case 4: gpurt_job(&w->sched, c, a % 120, a & 1, w->now); break;
	case 5: gpurt_set_priority(&w->sched, c, a, w->now); break;
	case 6: gpurt_set_policy(&w->sched, a % 7, w->now); break;
	case 7: gpurt_set_budget(&w->sched, c, a & 63, a >> 6, w->now); break;
	case 8: gpurt_tick(&w->sched, w->now); break;
	case 9:
		gpurt_vgpu_exempt(&w->vgpu, &w->contexts[i], a & 1, w->now);
		gpurt_set_exempt(&w->sched, c, a & 1, w->now);
		break;
	case 10:
		if (!w->open[i]) {
			gpurt_vgpu_tsg_open(&w->tsgs[i], &w->contexts[i]);
			w->open[i] = true;
			gpurt_tsg_opened(&w->sched, c, w->now);
		}
		break;
	case 11:
		if (w->open[i]) {
			drop_all(w, i);
			gpurt_tsg_closed(&w->sched, c, w->now);
		}
		break;
	case 12: leave(w, i); break;
	default: submit(w, i, a);
	}
	check(w);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const struct gpurt_sched_ops sched_ops = { .commit = commit, .event = event };
	static const struct gpurt_vgpu_ops vgpu_ops = { .done = done };
	static struct world w;
	size_t i;

	if (size < 4)
		return 0;
	memset(&w, 0, sizeof(w));
	gpurt_vgpu_init(&w.vgpu, &vgpu_ops, &w, data[0] & 15, data[1] & 3, data[2] & 3, data[3] & 1, 0);
	gpurt_sched_init(&w.sched, &sched_ops, &w, 0);
	for (i = 0; i < CLIENTS; i++) {
		gpurt_client_init(&w.clients[i]);
		gpurt_vgpu_ctx_init(&w.contexts[i]);
		gpurt_vgpu_tsg_open(&w.tsgs[i], &w.contexts[i]);
	}
	for (i = 4; i + 1 < size; i += 2)
		step(&w, data[i], data[i + 1]);
	for (i = 0; i < CLIENTS; i++)
		leave(&w, (u32)i);
	HOLDS(!w.sched.runner && w.submitted == w.done + w.dropped);
	return 0;
}

#ifndef LIBFUZZER
int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 60);
	unsigned long runs = 0;
	u8 data[512];
	size_t i;

	srandom(argc > 2 ? (unsigned int)atoi(argv[2]) : 1);
	while (time(NULL) < end) {
		for (i = 0; i < sizeof(data); i++)
			data[i] = (u8)random();
		LLVMFuzzerTestOneInput(data, 4 + (size_t)random() % (sizeof(data) - 4));
		runs++;
	}
	printf("%lu sequences, nothing found\n", runs);
	return 0;
}
#endif
