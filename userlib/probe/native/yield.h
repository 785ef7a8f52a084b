/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The scenes of part yield: what one of its processes has, and what the urgent one measures. */
#ifndef PROBE_YIELD_H
#define PROBE_YIELD_H

#include "crew.h"
#include "kernels.h"
#include "methods.h"

struct yielding;

struct scene {
	const char *name;
	void (*measure)(struct yielding *y);	/* the urgent process */
	void (*act)(struct yielding *y);	/* each of the others, again and again meanwhile; NULL: nothing */
	int others;
	bool full;				/* the others fill the GPU with long kernels */
	uint64_t own_us, slice_us;		/* slices of the urgent process and of the others; 0: the driver's */
};

struct yielding {
	struct crew *crew;
	const struct scene *scene;
	int index, slice_status;
	unsigned int calls, full_blocks;
	struct kernels kernels;
	struct mapped_beat beat;
	cu_object streams[2];
	struct groups own, all;			/* its compute groups; these and those of copies */
	uint64_t usual_us;			/* the driver's slice */
	cu_pointer out, managed;
	size_t out_bytes;
	void *host;
};

/* How long a kernel that notes its gaps lasts. */
uint64_t yield_run_ns(const struct yielding *y);
/* 0: the driver's slice. */
void yield_set_slice(struct yielding *y, uint64_t slice_us);
void yield_emit_open(const struct yielding *y, const char *record);
/* Tells of the last kernel's turns: how long it executed between two gaps, and the gaps. */
void yield_tell_turns(const struct yielding *y);

/* part_yield_calls.c: what the others do. */
void yield_off_and_on(struct yielding *y);
void yield_set_slices(struct yielding *y);
void yield_make_context(struct yielding *y);
/* part_yield_calls.c: what the urgent process measures. */
void yield_turns_after_off(struct yielding *y);
void yield_turns_of_new_channel(struct yielding *y);
void yield_turns_changed(struct yielding *y);
void yield_own_calls(struct yielding *y);

#endif
