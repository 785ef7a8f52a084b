// SPDX-License-Identifier: GPL-2.0
// threads NUMBER: launches whose blocks are threads of the system, for ThreadSanitizer.  A data race is the report.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpurt_sm.h"

// A block of one thread.
struct on_thread : gpurt_sm_here {
	unsigned int sm, shared, steps, reads;

	unsigned int id() override { return reads++, sm; }
	bool leads() override { return true; }
	void barrier() override {}
	void step() override { steps++; }
	unsigned long long clock() override { return steps; }
	unsigned int *next() override { return &shared; }
};

struct job {
	gpurt_sm_range range;
	gpurt_sm_control *control;
	unsigned int *times;	// not atomic: two blocks that take the same logical block race
	on_thread here;
};

static void *run(void *argument)
{
	job *j = static_cast<job *>(argument);

	gpurt_sm_thread() = &j->here;
	gpurt_sm_run(j->range, j->control, [=](unsigned int block) { j->times[block]++; });
	return nullptr;
}

int main(int, char **argv)
{
	unsigned int number = (unsigned int)atoi(argv[1]), wrong = 0, total = 97;

	for (unsigned int i = 0; i < number; i++) {
		std::vector<unsigned int> times(total);
		gpurt_sm_range range = { 1, 2 };
		int err = gpurt_sm_launch(range, total, 50, GPURT_SM_FAIL, [&](gpurt_sm_range r, gpurt_sm_control *c) {
			job jobs[8];
			pthread_t threads[8];

			for (unsigned int at = 0; at < 8; at++) {
				jobs[at].range = r;
				jobs[at].control = c;
				jobs[at].times = times.data();
				jobs[at].here.sm = (at * 7 + i) % 4;
				jobs[at].here.steps = jobs[at].here.reads = 0;
				if (pthread_create(&threads[at], nullptr, run, &jobs[at]))
					abort();
			}
			for (unsigned int at = 0; at < 8; at++)
				pthread_join(threads[at], nullptr);
			return 0;
		}, nullptr);

		wrong += err != 0;
		for (unsigned int count : times)
			wrong += count != 1;
	}
	printf("%u\n", wrong);
	return wrong != 0;
}
