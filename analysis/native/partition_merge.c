// SPDX-License-Identifier: GPL-2.0
/* The heuristics of algorithms 1 and 3.  analysis/partition/variants.py has them in readable form. */
#include <stdlib.h>
#include <string.h>

#include "partition_internal.h"

#define MAX_REMEMBERED (1u << 24)	/* pairs whose merges are remembered */

struct candidate {
	u64 utilization;
	u32 position, key;
};

struct heuristic {
	struct space *s;
	const struct gpurt_partition_variant *how;
	struct part *parts;		/* by key; a merge makes a new one */
	u32 *list;			/* keys of the living parts, in the order of the list */
	u32 living, keys, width;	/* width: most keys */
	u64 units;
	u64 *forbidden;			/* bits of pairs of keys */
	u64 *apart;			/* ACT: for each key, bits of the tasks that no task of it may join */
	uint16_t *merged;		/* sizes of merges by pair: 0 unknown; NULL: not remembered */
	struct candidate *candidates;
	u32 words;			/* of a row of apart */
};

static bool bit(const u64 *bits, u64 at)
{
	return bits[at / 64] >> (at % 64) & 1;
}

static void set_bit(u64 *bits, u64 at)
{
	bits[at / 64] |= (u64)1 << (at % 64);
}

static void forbid(struct heuristic *h, u32 one, u32 other)
{
	set_bit(h->forbidden, (u64)one * h->width + other);
	set_bit(h->forbidden, (u64)other * h->width + one);
}

static bool ranked_before(const struct space *s, u32 a, u32 b)
{
	u32 one = s->set->tasks[a].priority, other = s->set->tasks[b].priority;

	return one != other ? one > other : a < b;
}

/* Writes the tasks of both, by decreasing priority. */
static u32 unite(const struct space *s, const struct part *one, const struct part *other, u32 *tasks)
{
	u32 i = 0, j = 0, count = 0;

	while (i < one->count || j < other->count) {
		bool first = j == other->count || (i < one->count && ranked_before(s, one->tasks[i], other->tasks[j]));

		tasks[count++] = first ? one->tasks[i++] : other->tasks[j++];
	}
	return count;
}

static u64 united_utilization(struct space *s, const struct part *one, const struct part *other, u32 units)
{
	u32 memory = one->memory + other->memory, compute = one->count + other->count - memory;

	return partition_utilization(s, one->tasks, one->count, memory, compute, units) +
	       partition_utilization(s, other->tasks, other->count, memory, compute, units);
}

/* The size of the merge of two parts if that takes at most @spare units more than both; 0: none. */
static u32 merged_size(struct heuristic *h, const struct part *one, const struct part *other, int64_t spare)
{
	u32 low = one->size > other->size ? one->size : other->size, high = one->size + other->size + spare;
	u32 smallest = one->smallest > other->smallest ? one->smallest : other->smallest, largest;

	if (high < low)
		return 0;
	largest = high < h->s->set->units ? high : h->s->set->units;
	if (united_utilization(h->s, one, other, largest < smallest ? smallest : largest) > (u64)1 << SHIFT)
		return 0;
	unite(h->s, one, other, h->s->scratch);
	return partition_least(h->s, h->s->scratch, one->count + other->count, one->memory + other->memory, smallest,
			       low, high);
}

/* The size of a valid merge, or 0 after forbidding the pair. */
static u32 try_merge(struct heuristic *h, u32 one, u32 other)
{
	uint16_t *known = h->merged ? &h->merged[(u64)(one < other ? one : other) * h->width +
						 (one < other ? other : one)] : NULL;
	u32 size = known && *known ? *known : merged_size(h, &h->parts[one], &h->parts[other], -1);

	if (known)
		*known = size;
	if (!size)
		forbid(h, one, other);
	return size;
}

static bool eligible(const struct heuristic *h, u32 one, u32 other)
{
	const struct part *p = &h->parts[other];

	if (one == other || bit(h->forbidden, (u64)one * h->width + other))
		return false;
	for (u32 i = 0; h->apart && i < p->count; i++)
		if (bit(h->apart + (u64)one * h->words, p->tasks[i]))
			return false;
	return true;
}

/* Whether @a stands before @b in the list. */
static bool listed_before(const struct heuristic *h, u32 a, u32 b)
{
	const struct part *one = &h->parts[a], *other = &h->parts[b];

	if (one->utilization != other->utilization)
		return (one->utilization < other->utilization) == !!h->how->increasing;
	return one->first < other->first;
}

static void number(struct heuristic *h)
{
	for (u32 i = 0; i < h->living; i++)
		h->parts[h->list[i]].position = i;
}

static void insert(struct heuristic *h, u32 key)
{
	u32 low = 0, high = h->living;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (listed_before(h, h->list[middle], key))
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&h->list[low + 1], &h->list[low], (h->living - low) * sizeof(*h->list));
	h->list[low] = key;
	h->living++;
}

static void drop(struct heuristic *h, u32 key)
{
	u32 at = h->parts[key].position;

	h->parts[key].alive = false;
	h->living--;
	memmove(&h->list[at], &h->list[at + 1], (h->living - at) * sizeof(*h->list));
	number(h);
}

/* Replaces two parts by their merge.  Returns false if there is no memory. */
static bool replace(struct heuristic *h, u32 a, u32 b, u32 size)
{
	const struct part *one = &h->parts[a], *other = &h->parts[b];
	struct part *p = &h->parts[h->keys];

	*p = (struct part){ .count = one->count + other->count, .memory = one->memory + other->memory, .size = size,
			    .alive = true };
	p->tasks = malloc(p->count * sizeof(*p->tasks));
	if (!p->tasks)
		return false;
	unite(h->s, one, other, p->tasks);
	p->first = one->first < other->first ? one->first : other->first;
	p->smallest = one->smallest > other->smallest ? one->smallest : other->smallest;
	p->utilization = united_utilization(h->s, one, other, size);
	for (u32 w = 0; h->apart && w < h->words; w++)
		h->apart[(u64)h->keys * h->words + w] =
			h->apart[(u64)a * h->words + w] | h->apart[(u64)b * h->words + w];
	h->units += (u64)size - one->size - other->size;
	drop(h, a);
	drop(h, b);
	insert(h, h->keys++);
	number(h);
	return true;
}

static int ascending(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	if (one->utilization != other->utilization)
		return one->utilization < other->utilization ? -1 : 1;
	return one->position < other->position ? -1 : 1;
}

static int descending(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	if (one->utilization != other->utilization)
		return one->utilization > other->utilization ? -1 : 1;
	return one->position < other->position ? -1 : 1;
}

/* The parts that @one may be merged with.  Pairs with keys below its `exhausted` are forbidden. */
static u32 eligible_for(struct heuristic *h, u32 one)
{
	u32 count = 0;

	for (u32 key = h->parts[one].exhausted; key < h->keys; key++)
		if (h->parts[key].alive && eligible(h, one, key))
			h->candidates[count++] = (struct candidate){ 0, h->parts[key].position, key };
	h->parts[one].exhausted = h->keys;
	return count;
}

/* Best fit and fullest first: tries them in order; returns the size of the merge, and with which in @other. */
static u32 fitting(struct heuristic *h, u32 one, u32 *other)
{
	u32 count = eligible_for(h, one);
	const struct part *p = &h->parts[one];

	for (u32 i = 0; i < count; i++) {
		const struct part *q = &h->parts[h->candidates[i].key];

		h->candidates[i].utilization = united_utilization(h->s, p, q, p->size > q->size ? p->size : q->size);
	}
	qsort(h->candidates, count, sizeof(*h->candidates),
	      h->how->rule == GPURT_PARTITION_BF ? ascending : descending);
	for (u32 i = 0; i < count; i++) {
		u32 size = try_merge(h, one, h->candidates[i].key);

		*other = h->candidates[i].key;
		if (size)
			return size;
	}
	return 0;
}

/* Fewest units and most units saved: looks at all merges; ties as the list has them. */
static u32 smallest_merge(struct heuristic *h, u32 one, u32 *other)
{
	u32 count = eligible_for(h, one), chosen = 0, place = 0;
	int64_t least = INT64_MAX;

	for (u32 i = 0; i < count; i++) {
		const struct part *q = &h->parts[h->candidates[i].key];
		u32 size = try_merge(h, one, h->candidates[i].key);
		int64_t gain = (int64_t)size - (h->how->rule == GPURT_PARTITION_SAV ? q->size : 0);

		if (size && (gain < least || (gain == least && q->position < place))) {
			least = gain;
			place = q->position;
			chosen = size;
			*other = h->candidates[i].key;
		}
	}
	return chosen;
}

static bool merge_one(struct heuristic *h, bool *memory)
{
	bool looks = h->how->rule == GPURT_PARTITION_SMS || h->how->rule == GPURT_PARTITION_SAV;

	for (u32 i = 0; i < h->living; i++) {
		u32 one = h->list[i], other = 0;
		u32 size = looks ? smallest_merge(h, one, &other) : fitting(h, one, &other);

		if (size) {
			*memory = replace(h, one, other, size);
			return *memory;
		}
	}
	return false;
}

/* Merges the pair that takes the fewest units more, within the free ones. */
static bool grow_one(struct heuristic *h, bool *memory)
{
	int64_t free_units = h->s->set->units - h->units, least = INT64_MAX;
	u32 one = 0, other = 0, chosen = 0;
	u64 load = 0;

	for (u32 i = 0; i < h->living; i++) {
		for (u32 j = i + 1; j < h->living; j++) {
			const struct part *p = &h->parts[h->list[i]], *q = &h->parts[h->list[j]];
			u32 size = merged_size(h, p, q, free_units);
			int64_t growth = (int64_t)size - p->size - q->size;
			u64 utilization;

			if (!size || growth > least)
				continue;
			utilization = united_utilization(h->s, p, q, size);
			if (growth == least && utilization >= load)
				continue;
			least = growth;
			load = utilization;
			chosen = size;
			one = h->list[i];
			other = h->list[j];
		}
	}
	if (chosen)
		*memory = replace(h, one, other, chosen);
	return chosen && *memory;
}

static bool start(struct heuristic *h)
{
	const struct gpurt_partition_set *set = h->s->set;

	for (u32 i = 0; i < set->count; i++) {
		struct part *p = &h->parts[i];

		*p = (struct part){ .count = 1, .memory = set->tasks[i].memory, .first = i, .size = h->s->single[i],
				    .smallest = set->tasks[i].smallest, .alive = true };
		p->tasks = malloc(sizeof(*p->tasks));
		if (!p->tasks)
			return false;
		p->tasks[0] = i;
		p->utilization = partition_utilization(h->s, p->tasks, 1, p->memory, 1 - p->memory, p->size);
		h->units += p->size;
		h->keys++;
		insert(h, i);
	}
	number(h);
	return true;
}

static void keep_apart(struct heuristic *h)
{
	for (u32 i = 0; i < h->keys; i++) {
		for (u32 j = i + 1; j < h->keys; j++) {
			u32 size = merged_size(h, &h->parts[i], &h->parts[j], -1);

			if (h->merged)
				h->merged[(u64)i * h->width + j] = size;
			if (!size) {
				set_bit(h->apart, (u64)i * h->words * 64 + j);
				set_bit(h->apart, (u64)j * h->words * 64 + i);
			}
		}
	}
}

static bool prepare(struct heuristic *h, u32 count)
{
	u64 pairs;

	h->width = 2 * count + 1;
	h->words = (count + 63) / 64;
	pairs = (u64)h->width * h->width;
	h->parts = calloc(h->width, sizeof(*h->parts));
	h->list = calloc(count + 1, sizeof(*h->list));
	h->candidates = calloc(h->width, sizeof(*h->candidates));
	h->forbidden = calloc(pairs / 64 + 1, sizeof(*h->forbidden));
	if (h->how->exhaustive)
		h->apart = calloc((u64)h->width * h->words + 1, sizeof(*h->apart));
	if (pairs <= MAX_REMEMBERED)
		h->merged = calloc(pairs, sizeof(*h->merged));
	return h->parts && h->list && h->candidates && h->forbidden && (h->apart || !h->how->exhaustive) && start(h);
}

static void free_heuristic(struct heuristic *h)
{
	for (u32 i = 0; h->parts && i < h->width; i++)
		free(h->parts[i].tasks);
	free(h->parts);
	free(h->list);
	free(h->candidates);
	free(h->forbidden);
	free(h->apart);
	free(h->merged);
}

/* 1G: all tasks in one partition of the whole GPU; uses what `prepare` made. */
static bool unite_all(struct heuristic *h)
{
	const struct gpurt_partition_set *set = h->s->set;
	u32 size = set->sizes[set->size_count - 1], memory = 0;

	for (u32 i = 0; i < set->count; i++)
		memory += set->tasks[i].memory;
	while (h->living > 1)
		if (!replace(h, h->list[0], h->list[1], size))
			return false;
	h->parts[h->list[0]].size = size;
	return partition_least(h->s, h->parts[h->list[0]].tasks, set->count, memory, 1, size, size);
}

static int by_first(const void *a, const void *b)
{
	const struct part *const *one = a, *const *other = b;

	return (*one)->first < (*other)->first ? -1 : 1;
}

static void conclude(struct heuristic *h, struct gpurt_partition_result *result, u32 *part, u32 *size)
{
	struct part **parts = malloc((h->living + 1) * sizeof(struct part *));

	if (!parts) {
		result->status = GPURT_PARTITION_ENOMEM;
		return;
	}
	for (u32 i = 0; i < h->living; i++)
		parts[i] = &h->parts[h->list[i]];
	qsort(parts, h->living, sizeof(struct part *), by_first);
	partition_conclude(h->s, parts, h->living, result, part, size);
	free(parts);
}

void partition_heuristic(struct space *s, const struct gpurt_partition_variant *how,
			 struct gpurt_partition_result *result, u32 *part, u32 *size)
{
	const struct gpurt_partition_set *set = s->set;
	struct heuristic h = { .s = s, .how = how };
	bool memory = prepare(&h, set->count), united = true;

	if (memory && how->rule == GPURT_PARTITION_ONE && set->count) {
		united = unite_all(&h);
	} else if (memory) {
		if (how->exhaustive)
			keep_apart(&h);
		while (h.units > set->units && merge_one(&h, &memory))
			;
		while (h.units <= set->units && set->most && h.living > set->most && grow_one(&h, &memory))
			;
	}
	if (!memory)
		result->status = GPURT_PARTITION_ENOMEM;
	else if (!united)
		result->status = GPURT_PARTITION_NONE;
	else
		conclude(&h, result, part, size);
	free_heuristic(&h);
}
