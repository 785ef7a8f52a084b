/* SPDX-License-Identifier: GPL-2.0 */
/* Dispatchers of blocks for the host's machine, from harmless to hostile. */
#ifndef DISPATCHERS_H
#define DISPATCHERS_H

#include <string.h>

/* Facts of a launch that dispatchers know; hostile ones keep blocks out of the range. */
struct scene {
	gpurt_sm_range range;
	unsigned int turn;		/* of round_robin */
	unsigned int absent;		/* launches for which other kernels have all places of the range */
	unsigned int stubborn;		/* launches in which all_wrong_first waits for places outside of the range */
	unsigned int barriers;		/* whether bodies have one */
};

static bool inside(const scene *s, unsigned int sm)
{
	return sm - s->range.first < s->range.count;
}

/* The first SM with a free place, from @from on, inside (or outside) of the range. */
static int search(gpurt_sm_machine &m, const scene *s, unsigned int from, bool wanted)
{
	for (unsigned int i = 0; i < m.sms; i++) {
		unsigned int sm = (from + i) % m.sms;

		if (m.busy[sm] < m.places && inside(s, sm) == wanted)
			return (int)sm;
	}
	return -1;
}

static int round_robin(gpurt_sm_machine &m, void *context)
{
	scene *s = static_cast<scene *>(context);

	for (unsigned int i = 0; i < m.sms; i++) {
		unsigned int sm = s->turn++ % m.sms;

		if (m.busy[sm] < m.places)
			return (int)sm;
	}
	return -1;
}

static int at_random(gpurt_sm_machine &m, void *)
{
	return m.live() && !m.random(4) ? -1 : gpurt_sm_machine::anywhere(m, nullptr);
}

/* Never inside as long as there is, or will be, a place outside. */
static int all_wrong_first(gpurt_sm_machine &m, void *context)
{
	scene *s = static_cast<scene *>(context);
	int outside = search(m, s, m.random(m.sms), false);

	if (outside >= 0 || (s->stubborn && m.live()))
		return outside;
	return search(m, s, m.random(m.sms), true);
}

/* A place that a block has just left goes to the next block of the launch; most of the time first inside, then there. */
static int slot_stealing(gpurt_sm_machine &m, void *context)
{
	scene *s = static_cast<scene *>(context);

	if (m.freed >= 0 && m.busy[m.freed] < m.places)
		return m.freed;
	if (m.freed < 0) {		/* no block has left: both halves of an SM after one another */
		int sm = search(m, s, 0, m.random(8) != 0);

		if (sm >= 0)
			return sm;
	}
	return gpurt_sm_machine::anywhere(m, nullptr);
}

struct named_dispatcher {
	const char *name;
	gpurt_sm_dispatcher place;
};

static const named_dispatcher dispatchers[] = {
	{ "round-robin", round_robin },
	{ "random", at_random },
	{ "all-wrong-first", all_wrong_first },
	{ "slot-stealing", slot_stealing },
};

static gpurt_sm_dispatcher dispatcher(const char *name)
{
	for (const named_dispatcher &each : dispatchers)
		if (!strcmp(each.name, name))
			return each.place;
	return nullptr;
}

#endif
