// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The process's TSGs on each GPU, and where each of them is: on the GPU, off it, or not known to be either.  A program's
 * call can put a TSG on the GPU behind the host's back; then the last order is applied to it again.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "board.h"

struct board boards[GPURT_MAX_GPUS];
/* The driver has refused to switch something for so long that no thread waits for it. */
static bool hopeless;

void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/*
 * Both directions have more than one step in some drivers, and any step can fail.  So the TSG is TSG_UNSURE until the
 * driver has said that all is done, and the next order of either kind is tried in full.
 */
static int turn(struct tsg *tsg, bool on)
{
	const struct family *family = tsg->file->family;
	int err;

	if (tsg->empty)
		return 0;
	tsg->state = TSG_UNSURE;
	if (family->turn)
		err = family->turn(tsg, files_descriptor(tsg->file), on);
	else
		err = on ? 0 : -EOPNOTSUPP;
	if (!err)
		tsg->state = on ? TSG_ON : TSG_OFF;
	return err;
}

int board_turn(struct board *b, bool on)
{
	struct tsg *tsg;
	int err = 0, one;

	if (b->tsgs && b->family->together)
		b->family->together(b->tsgs, on);
	for (tsg = b->tsgs; tsg; tsg = tsg->next) {
		if (tsg->state == (on ? TSG_ON : TSG_OFF))
			continue;
		one = turn(tsg, on);
		err = err ? err : one;
	}
	return err;
}

static bool is_cut(const struct board *b, const struct tsg *tsg)
{
	return tsg->empty || tsg->copies || (!tsg->resliced && tsg->slice_us == b->slice_us);
}

bool board_slice(struct board *b)
{
	bool all = true;
	struct tsg *tsg;

	for (tsg = b->tsgs; tsg; tsg = tsg->next) {
		if (is_cut(b, tsg))
			continue;
		if (!tsg->file->family->slice || tsg->file->family->slice(tsg, files_descriptor(tsg->file), b->slice_us)) {
			all = false;
			continue;
		}
		tsg->slice_us = b->slice_us;
		tsg->resliced = false;
	}
	if (!all && !b->uncut) {
		b->uncut = true;
		board_change(b);
	}
	return all;
}

bool board_single(const struct board *b)
{
	return !b->uncut && b->family->single && b->family->single(b->tsgs);
}

void board_doubt(struct board *b)
{
	struct tsg *tsg;

	for (tsg = b->tsgs; tsg; tsg = tsg->next)
		tsg->state = TSG_UNSURE;
}

void board_taken(struct board *b)
{
	struct tsg *tsg;

	for (tsg = b->tsgs; tsg; tsg = tsg->next)
		tsg->state = TSG_OFF;
}

void board_channels(struct board *b, struct gpurt_channels *channels)
{
	channels->count = 0;
	if (b->tsgs && b->family->channels)
		b->family->channels(b->tsgs, channels);
}

void board_change(struct board *b)
{
	b->set++;
	b->changed = true;
}

unsigned int board_tier(const struct board *b, const char **how)
{
	unsigned int tier = b->family->tier(how), other;
	const struct tsg *tsg;
	const char *why;

	for (tsg = b->tsgs; tsg; tsg = tsg->next) {
		other = tsg->file->family->tier(&why);
		if (other < tier) {
			tier = other;
			*how = why;
		}
	}
	return tier;
}

void board_driver(const struct board *b, char text[GPURT_NAME_LEN])
{
	unsigned int part = b->tsgs ? b->tsgs->part : 0;
	const struct tsg *tsg;

	for (tsg = b->tsgs; tsg; tsg = tsg->next)
		part = tsg->part == part ? part : 0;
	if (part)
		snprintf(text, GPURT_NAME_LEN, "%s/gi%u", b->family->name, part - 1);
	else
		snprintf(text, GPURT_NAME_LEN, "%s", b->family->name);
}

/* Adds a copy of @like, which the program has just made.  Returns NULL if it cannot be managed. */
struct tsg *agent_add(const struct tsg *like)
{
	unsigned int gpu = like->gpu;
	struct tsg *tsg;
	struct board *b;

	if (gpu == NO_GPU)
		return NULL;
	if (gpu >= GPURT_MAX_GPUS) {
		preload_say("GPU %u is one too many (%u): its work is not managed", gpu, GPURT_MAX_GPUS);
		return NULL;
	}
	tsg = calloc(1, sizeof(*tsg));
	if (!tsg) {
		preload_say("GPU %u: out of memory: the work of a time-slice group is not managed", gpu);
		return NULL;
	}
	b = &boards[gpu];
	*tsg = *like;
	tsg->next = b->tsgs;
	b->tsgs = tsg;
	b->number++;
	b->on |= !b->introduced;
	b->family = like->file->family;
	snprintf(b->device, sizeof(b->device), "%s", like->device ? like->device : "");
	board_change(b);
	return tsg;
}

struct tsg *agent_find(const struct gpu_file *file, uint32_t client, uint32_t handle)
{
	struct tsg *tsg;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = tsg->next)
			if (tsg->file == file && tsg->client == client && tsg->handle == handle)
				return tsg;
	return NULL;
}

void agent_remove(struct tsg *tsg)
{
	struct board *b = &boards[tsg->gpu];
	struct tsg **link = &b->tsgs;

	while (*link != tsg)
		link = &(*link)->next;
	*link = tsg->next;
	free(tsg);
	if (b->tsgs)
		b->family = b->tsgs->file->family;
	b->number--;
	board_change(b);
}

void agent_remove_file(const struct gpu_file *file)
{
	struct tsg *tsg, *next;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = next) {
			next = tsg->next;
			if (tsg->file == file)
				agent_remove(tsg);
		}
}

void agent_move_file(const struct gpu_file *from, struct gpu_file *to)
{
	struct tsg *tsg;
	size_t i;

	if (!to) {
		agent_remove_file(from);
		return;
	}
	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = tsg->next)
			if (tsg->file == from) {
				tsg->file = to;
				board_change(&boards[i]);
			}
}

void agent_retell(const struct tsg *tsg)
{
	board_change(&boards[tsg->gpu]);
}

void agent_relist(const struct tsg *tsg)
{
	const struct family *family = boards[tsg->gpu].family;

	if (family->for_others && family->for_others())
		agent_retell(tsg);
}

void agent_refresh(struct tsg *tsg)
{
	struct board *b = &boards[tsg->gpu];

	agent_relist(tsg);
	tsg->empty = false;
	if (!b->on || tsg->state != TSG_ON)
		tsg->state = TSG_UNSURE;
}

void agent_refresh_off(struct tsg *tsg)
{
	tsg->empty = false;
	tsg->state = boards[tsg->gpu].on ? TSG_UNSURE : TSG_OFF;
}

void agent_refresh_all(const struct family *family)
{
	struct tsg *tsg;
	size_t i;

	for (i = 0; i < GPURT_MAX_GPUS; i++)
		for (tsg = boards[i].tsgs; tsg; tsg = tsg->next)
			if (tsg->file->family == family && !tsg->empty)
				agent_refresh(tsg);
}

static bool behind(const struct board *b)
{
	const struct tsg *tsg;

	if (b->driven)
		return false;
	for (tsg = b->tsgs; tsg; tsg = tsg->next)
		if (!tsg->empty && tsg->state == TSG_UNSURE)
			return true;
	return false;
}

/* Sets the ordered slice of groups that the program has made or resliced, before the program can use them. */
static void slice_new(struct board *b)
{
	const struct tsg *tsg;

	for (tsg = b->tsgs; tsg && !b->driven && !b->unmanaged && !b->uncut; tsg = tsg->next)
		if (!is_cut(b, tsg)) {
			board_slice(b);
			return;
		}
}

/* Returns whether the driver refused something that it may accept later. */
static bool catch_up(void)
{
	bool refused = false;
	size_t i;
	int err;

	for (i = 0; i < GPURT_MAX_GPUS; i++) {
		err = behind(&boards[i]) ? board_turn(&boards[i], boards[i].on) : 0;
		slice_new(&boards[i]);
		if (err)
			preload_count(COUNT_REFUSED);
		refused |= err && err != -EOPNOTSUPP;
	}
	return refused;
}

bool agent_catch_up(void)
{
	bool refused = catch_up();

	hopeless &= refused;
	return refused && !hopeless;
}

/*
 * The host has been told that the process is off, and there is no way to take that back.  So the thread whose call made
 * the TSG run does not return to the program before the TSG is off.  If the driver refuses for too long, later calls try
 * once each, because a program makes hundreds while it starts.
 */
void agent_insist(void)
{
	bool refused = true;
	int i;

	for (i = 0; i < RETRIES && refused; i++) {
		pause_ns(RETRY_NS);
		preload_lock();
		refused = catch_up();
		hopeless = refused && i + 1 == RETRIES;
		preload_unlock();
	}
	if (refused)
		preload_say_once("the driver does not switch a new time-slice group: it may run beside the GPU's owner");
}

/* The number of TSGs that the process has on that GPU. */
unsigned int agent_number(unsigned int gpu)
{
	return gpu < GPURT_MAX_GPUS ? boards[gpu].number : 0;
}

bool agent_is_off(unsigned int gpu)
{
	return gpu < GPURT_MAX_GPUS && boards[gpu].introduced && !boards[gpu].on;
}

/* Lists the GPUs on which this process has TSGs that a host manages.  Returns how many. */
unsigned int agent_gpus(unsigned int *gpus, unsigned int size)
{
	unsigned int i, n = 0;

	for (i = 0; i < GPURT_MAX_GPUS && n < size; i++)
		if (boards[i].tsgs && !boards[i].unmanaged)
			gpus[n++] = i;
	return n;
}
