/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An independent model of kmod/core/sched.c for the explorer and the fuzzer.  It keeps facts about a few clients,
 * and computes the client that runs anew by looking at all of them.  It has no queue and no bitmap.  A stamp says
 * when a client came to its level; a client ahead of its equals has a stamp below all others.
 */
#ifndef GPURT_TEST_MODEL_H
#define GPURT_TEST_MODEL_H

#include "../../../kmod/core/sched.h"

#define CLIENTS 3
#define NOBODY (-1)

struct facts {
	u32 depth, tsgs;
	u32 own, hint, set;
	bool runnable, exempt;
	u32 demoted;		/* enum gpurt_demoted */
	u64 limit, period, used, ends;
	u32 action;
	bool overrun;
	int came, job_came;	/* when it came to its level, as a segment and as a job */
	int began;		/* when it came to be in a segment */
	u64 held, segments, overruns;
	u32 form, asked;	/* enum gpurt_form; the level at the gate, 0: not there */
	bool turn, self, working;
	u32 said;		/* bit per enum gpurt_event: BEGIN, END, GONE, OVERRUN that this step must report */
};

struct model {
	u32 policy;
	int runner;
	u64 since;
	int stamp;
	bool updating;		/* policy `boosted`: since the image changed */
	struct facts c[CLIENTS];
};

enum op {
	OP_BEGIN,		/* a: own, b: hint */
	OP_END,
	OP_GONE,		/* a new client takes the place */
	OP_PRIORITY,		/* a */
	OP_JOB,			/* a: own, b: runnable */
	OP_OPEN,
	OP_CLOSE,
	OP_EXEMPT,		/* a */
	OP_BUDGET,		/* a: limit, b: action */
	OP_POLICY,		/* a */
	OP_TICK,
	OP_FORM,		/* a */
	OP_ASK,			/* a: at the level of a begin by a task of that priority; of an end in a segment */
	OP_TURN,		/* a: has the gate, or lost it */
	OP_OVER,
	OP_LOST,
	OP_WORK,		/* a: begins or completes */
	OP_COUNT,
};

struct event {
	u32 op, client, a, b;
};

void model_init(struct model *m);
int model_step(struct model *m, const struct event *e, u64 now);
u64 model_period(u64 limit);
u32 model_level(const struct facts *f);
bool model_in_segment(const struct facts *f);
bool model_in_job(const struct facts *f);
u32 model_raised(const struct model *m, int i);
bool model_asks(const struct model *m, int i);
bool model_on(const struct model *m, int i);
u64 model_deadline(const struct model *m);

#endif
