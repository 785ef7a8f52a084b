/* SPDX-License-Identifier: GPL-2.0 */
/* Simulates spatial GPUs under userlib/units/sbeet.c in virtual time; readable form: tests/analysis/energy_readable. */
#ifndef GPURT_ENERGY_SIM_H
#define GPURT_ENERGY_SIM_H

#include "../../userlib/units/sbeet.h"

enum gpurt_energy_execution {
	GPURT_ENERGY_WORST,
	GPURT_ENERGY_BEST,
	GPURT_ENERGY_RANDOM,
};

struct gpurt_energy_run {
	u64 horizon;
	u64 seed;
	u32 execution;
	u32 order;		/* enum gpurt_sbeet_order */
	bool sporadic;
	bool random_offsets;
	bool run_late;		/* a job that is pending at its deadline still runs */
	bool complete;		/* no job is released from @horizon on, and the run ends when all jobs are done */
};

struct gpurt_energy_task {
	u64 offset;
	/* results */
	u64 released, judged, late, skipped;
	int64_t lateness;	/* the largest; INT64_MIN: no job ran */
};

struct gpurt_energy_dispatch {
	u32 task, gpu;
	u32 units, first;	/* 0 units: the job was skipped at @at */
	u64 job, release, at, start, end, finish;
};

struct gpurt_energy_result {
	u64 away;		/* dispatches on another GPU than the assigned one */
	u64 overflows;
	u64 end;		/* end of the run: @horizon, or later if `complete` */
	u64 logged;
	u64 log_room;
	struct gpurt_energy_dispatch *log;	/* the first @log_room dispatches and skips; NULL: none */
	u64 *busy;		/* by GPU, ns */
	u64 *kernel_time;	/* by GPU */
	u64 *unit_time;		/* by task, then by GPU: units times ns */
};

/*
 * @gpus: initialised, one for each GPU of the tables.  @best: kernel times in the best case, by task, then by GPU.
 * Returns 0, or -1 if there is no memory.
 */
int gpurt_energy_simulate(const struct gpurt_sbeet_tables *t, struct gpurt_sgpu *gpus, const u64 *const *best,
			  const struct gpurt_energy_run *run, struct gpurt_energy_task *tasks,
			  struct gpurt_energy_result *result);

#endif
