/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A virtual GPU that behaves as the analyses assume a real one does.
 *
 * The GPU executes TSGs from a runlist in turns.  Each TSG that has work gets a time slice, then the next TSG does;
 * alone, a TSG keeps the GPU.  Turns follow interleave levels (interleave.h) if everyone is on the runlist: all TSGs of
 * one level take turns in round robin.  Where only one context is on it, levels do not count.  Loading a TSG's context
 * costs theta, unless it was loaded last.  Committing a new runlist preempts at once and stalls the GPU for alpha.
 * Within the TSG that holds the GPU the execution engine and the copy engine work side by side, each in submission
 * order.  An item with a fence starts only when everything submitted to its TSG before it has completed.
 *
 * A kernel may say whether it is memory or compute intensive, and by what factor another kernel of that kind slows it
 * down.  It is slowed down while such a kernel is queued in another context, on the runlist or off it.  If the GPU is a
 * partition (whole.h), memory-intensive kernels are also slowed down across partitions.
 *
 * The runlist has everyone's TSGs, or one context's and those of exempt contexts; changing it costs the same however
 * many there are.  Contexts of a group are on the runlist together: one more context, without TSGs of its own, stands
 * for the group.  Time is an argument; gpurt_vgpu_next() says when something will happen next.  The caller serialises
 * calls and owns all memory; the operations must not call back into the GPU.
 *
 * A call first does everything that is due at its time, however much that is.  A host whose calls must be short first
 * calls gpurt_vgpu_catch_up(), and gpurt_vgpu_stand_still() if too much is due.
 */
#ifndef GPURT_CORE_VGPU_H
#define GPURT_CORE_VGPU_H

#include "env.h"
#include "interleave.h"
#include "pace.h"

#define GPURT_VGPU_MERGE	512U	/* TSGs of a group that a joining context's are compared with */

enum gpurt_intensity {
	GPURT_INTENSITY_NONE,		/* not known: nothing slows it down */
	GPURT_INTENSITY_COMPUTE,
	GPURT_INTENSITY_MEMORY,
	GPURT_INTENSITY_COUNT
};

/* A work item's demand. */
struct gpurt_vgpu_demand {
	u64 duration;			/* ns, without conflicts */
	u32 engine;
	u32 intensity;			/* enum gpurt_intensity */
	u32 conflict;			/* in thousandths, GPURT_FACTOR_ONE to GPURT_FACTOR_MAX */
	bool parallel;			/* the duration is for one unit; the GPU's units divide it */
	bool fence;
};

struct gpurt_vgpu_work {
	struct list_head node;
	u64 number;			/* counts from 1 in its TSG */
	struct gpurt_pace pace;		/* what is still to do */
	u32 engine;
	u32 intensity;			/* enum gpurt_intensity */
	u32 conflict;			/* slow-down while another one is queued, in thousandths */
	bool fence;
};

struct gpurt_vgpu_ctx {
	struct list_head ready;		/* TSGs with work, of all contexts that are together with it */
	struct gpurt_vgpu_ctx *together;	/* the context whose runlist has its TSGs: itself or its group's */
	u32 queued[GPURT_INTENSITY_COUNT];	/* work items by intensity */
	bool exempt;
};

struct gpurt_vgpu_tsg {
	struct gpurt_vgpu_ctx *ctx;
	struct gpurt_place in_all;	/* in gpurt_vgpu.ready, while there is work */
	struct list_head in_ctx;	/* in the context's ready list, likewise */
	struct list_head in_exempt;	/* in gpurt_vgpu.exempt, likewise, if the context is exempt */
	struct list_head queue[GPURT_ENGINE_COUNT];
	u64 submitted;			/* numbers given out */
	u64 slice;			/* its own; 0: that of the GPU */
	u64 turn;			/* the order of all rings */
	u32 queued;			/* work items not yet completed */
};

struct gpurt_vgpu;
struct gpurt_whole;

struct gpurt_vgpu_ops {
	/* @w completed at @when; its memory is the caller's again. */
	void (*done)(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u64 when);
	/* From @when on the GPU executes @t; nothing if NULL.  May be NULL. */
	void (*run)(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 when);
};

struct gpurt_vgpu {
	const struct gpurt_vgpu_ops *ops;
	void *host;			/* the caller's own */
	u64 slice;			/* L; 0 at initialisation: no time slicing */
	u64 theta;
	u64 alpha;
	u64 units;			/* number of units, which divide a parallel kernel */
	bool copy_engine;		/* false: copies take the execution engine */
	struct gpurt_whole *whole;	/* the GPU that it is a partition of; NULL: none */
	struct list_head in_whole;

	u64 now;			/* everything up to here has happened */
	struct gpurt_vgpu_ctx *only;	/* the runlist: this context; everyone if NULL */
	struct gpurt_vgpu_tsg *holder;	/* has the GPU */
	struct gpurt_vgpu_tsg *loaded;	/* whose context is on the GPU */
	u64 ready_at;			/* stalled or switching until then */
	u64 slice_end;			/* of the current TSG */
	bool executing;			/* the current TSG's work progresses */
	u64 turns;			/* turns given so far */
	struct gpurt_interleave ready;	/* TSGs with work */
	u32 asking;			/* number of TSGs with work */
	struct list_head exempt;	/* TSGs with work, of exempt contexts */
	u32 users[GPURT_INTENSITY_COUNT];	/* contexts with work of each intensity */
};

void gpurt_vgpu_init(struct gpurt_vgpu *v, const struct gpurt_vgpu_ops *ops, void *host, u64 slice, u64 theta,
		     u64 alpha, bool copy_engine, u64 now);
void gpurt_vgpu_advance(struct gpurt_vgpu *v, u64 now);
bool gpurt_vgpu_catch_up(struct gpurt_vgpu *v, u64 now, u32 most);
void gpurt_vgpu_stand_still(struct gpurt_vgpu *v, u64 now);
u64 gpurt_vgpu_next(const struct gpurt_vgpu *v);
bool gpurt_vgpu_quiet(const struct gpurt_vgpu *v, bool *asked);
u64 gpurt_vgpu_next_of_all(const struct gpurt_vgpu *v);
u64 gpurt_vgpu_commit_here(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *only);
u64 gpurt_vgpu_commit(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *only, u64 now);

void gpurt_vgpu_ctx_init(struct gpurt_vgpu_ctx *ctx);
void gpurt_vgpu_unite(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *ctx, struct gpurt_vgpu_ctx *group, u64 now);
void gpurt_vgpu_tsg_open(struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_ctx *ctx);
void gpurt_vgpu_tsg_close(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now);
void gpurt_vgpu_shape(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 slice, u32 level, u64 now);
void gpurt_vgpu_exempt(struct gpurt_vgpu *v, struct gpurt_vgpu_ctx *ctx, bool exempt, u64 now);
u64 gpurt_vgpu_submit(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w, u32 engine,
		      bool fence, u64 duration, u64 now);
void gpurt_vgpu_demand_of(struct gpurt_vgpu_demand *d, const struct gpurt_submit *s);
u64 gpurt_vgpu_time(const struct gpurt_vgpu *v, const struct gpurt_vgpu_demand *d);
u64 gpurt_vgpu_submit_as(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, struct gpurt_vgpu_work *w,
			 const struct gpurt_vgpu_demand *d, u64 now);
void gpurt_vgpu_empty(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now);
struct gpurt_vgpu_work *gpurt_vgpu_drop(struct gpurt_vgpu *v, struct gpurt_vgpu_tsg *t, u64 now);

/* For whole.c, which passes time on all partitions together. */
void gpurt_vgpu_stand_still_alone(struct gpurt_vgpu *v, u64 now);
void gpurt_vgpu_pass(struct gpurt_vgpu *v, u64 when);
void gpurt_vgpu_happen(struct gpurt_vgpu *v);
bool gpurt_vgpu_executes_memory(const struct gpurt_vgpu *v);

#endif
