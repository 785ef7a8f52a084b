// SPDX-License-Identifier: GPL-2.0
// launches DISPATCHER NUMBER SEED: random launches on the host's machine.  Prints what was seen, as a JSON object.
#include <stdio.h>
#include <stdlib.h>

#include "gpurt_sm.h"

#include "algorithm1.h"
#include "dispatchers.h"

// What each logical block and each block of a launch did.
struct notes {
	std::vector<unsigned int> times;		// [logical block * threads + thread]
	std::vector<std::vector<unsigned int> > taken;	// by block of the launch: logical blocks in order
	std::vector<unsigned int> sm;			// of the block
	unsigned int outside, twice;			// bodies outside of the range; second reads of an SM's number
};

struct totals {
	unsigned int launches, wrong, again, failed, elsewhere, landed_less, outside, reads, crossed, late;
};

// Executes one kernel on the machine and notes what its blocks do.
static void execute(gpurt_sm_machine &m, scene *s, gpurt_sm_range range, gpurt_sm_control *control, notes *n)
{
	unsigned int grid = 2 * m.sms, threads = m.threads, sm;
	bool away = s->absent > 0 && s->range.count < m.sms;

	n->taken.assign(grid, std::vector<unsigned int>());
	n->sm.assign(grid, 0);
	for (sm = 0; sm < m.sms; sm++)
		m.busy[sm] = away && inside(s, sm) ? m.places : 0;
	m.launch(grid, [&] {
		gpurt_sm_run(range, control, [&](unsigned int block) {
			auto *here = m.now();

			n->sm[here->index] = here->sm;
			if (!m.thread())
				n->taken[here->index].push_back(block);
			n->outside += !inside(s, here->sm);
			gpurt_sm_thread()->step();
			n->times.at(block * threads + m.thread())++;
			if (s->barriers)
				gpurt_sm_barrier();
		});
		if (m.now()->reads > 1)
			n->twice++;
	});
	s->absent -= s->absent > 0;
	s->stubborn -= s->stubborn > 0;
}

// Whether some SM had more than one block that took upwards, or downwards, or more than two that took anything.
static bool crossed(const gpurt_sm_machine &m, const notes &n)
{
	for (unsigned int sm = 0; sm < m.sms; sm++) {
		unsigned int up = 0, down = 0, any = 0;

		for (size_t i = 0; i < n.taken.size(); i++) {
			const std::vector<unsigned int> &took = n.taken[i];

			if (n.sm[i] != sm || took.empty())
				continue;
			any++;
			for (size_t at = 1; at < took.size(); at++)
				if ((took[at] > took[at - 1]) != (took[1] > took[0]))
					return true;
			if (took.size() > 1)
				took[1] > took[0] ? up++ : down++;
		}
		if (up > 1 || down > 1 || any > 2)
			return true;
	}
	return false;
}

static void one(gpurt_sm_dispatcher place, unsigned long long seed, totals *t)
{
	gpurt_sm_machine draw(1, 1, seed * 7919 + 17);
	unsigned int sms = 1 + draw.random(8), threads = draw.random(4) ? 1 : 2 + draw.random(2);
	unsigned int total = draw.random(40), hold = draw.random(2) * draw.random(400);
	gpurt_sm_range range = { draw.random(sms), 1 + draw.random(sms) };
	scene s = { range, 0, draw.random(8) ? 0 : draw.random(6), draw.random(6), draw.random(2) };
	gpurt_sm_machine machine(sms, threads, seed + 1);
	notes n = { std::vector<unsigned int>(total * threads), {}, {}, 0, 0 };
	gpurt_sm_otherwise otherwise = draw.random(2) ? GPURT_SM_FAIL : GPURT_SM_ANYWHERE;
	gpurt_sm_report report;
	unsigned int seated = 2 * range.count, expected;
	int err;

	machine.place = place;
	machine.context = &s;
	machine.places += !draw.random(4);
	err = gpurt_sm_launch(range, total, hold, otherwise, [&](gpurt_sm_range r, gpurt_sm_control *c) {
		execute(machine, &s, r, c, &n);
		seated = c->seated;
		return 0;
	}, &report);
	expected = err ? 0 : 1;
	for (unsigned int count : n.times)
		if (count != expected) {
			t->wrong++;
			break;
		}
	t->launches++;
	t->again += report.launches > 1;
	t->failed += err == -EAGAIN && otherwise == GPURT_SM_FAIL;
	t->wrong += err && (err != -EAGAIN || otherwise != GPURT_SM_FAIL || report.launches != GPURT_SM_LAUNCHES);
	t->elsewhere += !report.isolated;
	t->outside += report.isolated && n.outside;
	t->landed_less += seated < 2 * range.count;
	t->reads += n.twice;
	t->crossed += report.isolated && crossed(machine, n);
}

// The printed algorithm on the same machine: 1 if some item is not done exactly once.
static unsigned int printed_fails(gpurt_sm_dispatcher place, unsigned long long seed)
{
	gpurt_sm_machine machine(4, 1, seed + 1);
	scene s = { { 1, 2 }, 0, 0, 0, 0 };
	std::vector<unsigned int> times(24);

	machine.place = place;
	machine.context = &s;
	machine.launch(8, [&] {
		algorithm1(machine.now()->index, 0, 1, 1, 2, 4, 24, [&](unsigned int i) {
			gpurt_sm_thread()->step();
			times[i]++;
		});
	});
	for (unsigned int count : times)
		if (count != 1)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	gpurt_sm_dispatcher place = argc == 4 ? dispatcher(argv[1]) : nullptr;
	unsigned long long i, number = place ? strtoull(argv[2], nullptr, 10) : 0;
	unsigned long long seed = place ? strtoull(argv[3], nullptr, 10) : 0;
	unsigned int printed = 0;
	totals t = {};

	if (!place)
		return 2;
	for (i = 0; i < number; i++) {
		one(place, seed * number + i, &t);
		printed += i < 200 && printed_fails(place, seed * number + i);
	}
	printf("{\"launches\": %u, \"wrong\": %u, \"again\": %u, \"failed\": %u, \"elsewhere\": %u, \"landed_less\": %u, "
	       "\"outside\": %u, \"reads\": %u, \"crossed\": %u, \"printed_fails\": %u}\n", t.launches, t.wrong, t.again,
	       t.failed, t.elsewhere, t.landed_less, t.outside, t.reads, t.crossed, printed);
	return 0;
}
