// SPDX-License-Identifier: GPL-2.0
/* Workload functions of tasks that suspend, and the least window (analysis/rtgpu/workload.py). */
#include "rtgpu_state.h"

/* Searches that take longer start again from what the utilization says. */
#define PATIENCE 48

/*
 * Phase h of the window is the function of phase 0, seen from off[h] on and less what was executed before.  So one pass
 * over the segments serves all phases.
 */
int64_t rtgpu_work(const struct load *load, int64_t window, int64_t *run)
{
	int64_t base = 0, done = 0, next = load->second, most = -1;
	u32 h, i = 0;

	if (window >= next) {
		int64_t jobs = (window - next) / load->cycle;

		base = next + jobs * load->cycle;
		done = load->total * (1 + jobs);
		next = base + load->cycle;
	}
	*run = 0;
	for (h = 0; h < load->count; h++) {
		int64_t at = load->off[h] + window, into, work, left = 0;

		while (at >= next) {
			base = next;
			next += load->cycle;
			done += load->total;
			i = 0;
		}
		while (i + 1 < load->count && load->off[i + 1] <= at - base)
			i++;
		into = at - base - load->off[i];
		work = done + load->pre[i] - load->pre[h];
		if (into < load->length[i]) {
			work += into;
			left = load->length[i] - into;
		} else {
			work += load->length[i];
		}
		if (work > most) {
			most = work;
			*run = left;
		} else if (work == most && left > *run) {
			*run = left;
		}
	}
	return most < 0 ? 0 : most;
}

/* A value that no solution is below, because W(t) >= U t; beyond @limit if the resource is overloaded. */
static int64_t below_solution(const struct load *const *loads, u32 count, int64_t constant, int64_t limit)
{
	unsigned __int128 one = (unsigned __int128)1 << 64, rate = 0, value;
	u32 i;

	for (i = 0; i < count; i++)
		rate += ((unsigned __int128)loads[i]->total << 64) / (unsigned __int128)loads[i]->cycle;
	if (rate >= one)
		return limit + 1;
	value = ((unsigned __int128)constant << 64) / (one - rate);
	return value > (unsigned __int128)limit ? limit + 1 : (int64_t)value;
}

int64_t rtgpu_window(const struct load *const *loads, u32 count, int64_t constant, int64_t start, int64_t limit)
{
	int64_t value = start > constant ? start : constant;
	u32 i, step;

	if (!constant)
		return 0;
	for (step = 0; value <= limit; step++) {
		int64_t total = constant, jump = 0;

		for (i = 0; i < count; i++) {
			int64_t run;

			total += rtgpu_work(loads[i], value, &run);
			if (run > jump)
				jump = run;
		}
		if (total == value)
			return value;
		value = total + jump;
		if (step == PATIENCE) {
			int64_t least = below_solution(loads, count, constant, limit);

			if (least > value)
				value = least;
		}
	}
	return value;
}
