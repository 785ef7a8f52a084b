// SPDX-License-Identifier: GPL-2.0
/*
 * Random events, four bytes each, for the scheduler beside its model (scripts/fuzz-core).  With LIBFUZZER the
 * bytes are libFuzzer's; else
 *
 *	fuzz SECONDS SEED	tries random ones for so long; what goes wrong is written to ./crash-SEED
 *	fuzz FILE		repeats one
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "world.h"

#define BYTES 4
#define LONGEST (512 * BYTES)

static const u32 priorities[] = { 0, 1, 2, 31, 32, 33, 63, 64, 96, 99, 100, GPURT_PRIORITY_OWN };

static u32 priority(u8 byte, u32 most)
{
	return priorities[byte % most];
}

/* Only what the interface does not refuse reaches the model; refusals are test_policy.py's part. */
static struct event decode(const u8 *d)
{
	struct event e = { d[0] % OP_COUNT, d[1] % CLIENTS, d[2], d[3] };

	switch (e.op) {
	case OP_BEGIN:
		e.a = priority(d[2], 10);
		e.b = d[3] & 1 ? priority(d[3] >> 1, 10) : 0;
		break;
	case OP_PRIORITY:
		e.a = d[2] & 1 ? GPURT_PRIORITY_OWN : priority(d[2] >> 1, 10);
		break;
	case OP_JOB:
		e.a = priority(d[2], 10);
		e.b &= 1;
		break;
	case OP_EXEMPT:
		e.a &= 1;
		break;
	case OP_BUDGET:
		e.a %= 12;
		e.b &= 1;
		break;
	case OP_POLICY:
		e.a %= GPURT_POLICY_COUNT;
		break;
	case OP_FORM:
		e.a %= GPURT_FORM_COUNT;
		break;
	case OP_ASK:
		e.a = priority(d[2], 10);
		break;
	case OP_TURN:
	case OP_WORK:
		e.a &= 1;
		break;
	}
	return e;
}

/* NULL, or what went wrong at which event. */
static const char *run(const u8 *data, size_t size, size_t *at)
{
	static struct world w;
	const char *wrong = NULL;

	world_init(&w);
	for (*at = 0; (*at + 1) * BYTES <= size && !wrong; ++*at) {
		const u8 *d = data + *at * BYTES;
		struct event e = decode(d);

		wrong = world_step(&w, &e, d[1] / CLIENTS % 8);
	}
	return wrong;
}

static int report(const char *wrong, const u8 *data, size_t at)
{
	size_t i;

	fprintf(stderr, "event %zu: %s\n", at, wrong);
	for (i = 0; i < at; i++) {
		struct event e = decode(data + i * BYTES);

		fprintf(stderr, "  %s[%u](%u, %u)\n", world_name(e.op), e.client, e.a, e.b);
	}
	return 1;
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	size_t at;
	const char *wrong = run(data, size, &at);

	if (wrong && report(wrong, data, at))
		abort();
	return 0;
}
#else
static u64 state;

/* splitmix64 */
static u64 draw(void)
{
	u64 z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static int save(const char *seed, const u8 *data, size_t size)
{
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "crash-%s", seed);
	f = fopen(name, "wb");
	if (f) {
		fwrite(data, 1, size, f);
		fclose(f);
		fprintf(stderr, "written to %s\n", name);
	}
	return 1;
}

static int try_random(unsigned int seconds, const char *seed)
{
	time_t end = time(NULL) + seconds;
	u8 data[LONGEST];
	u64 runs = 0, steps = 0;
	size_t size, at, i;

	state = strtoull(seed, NULL, 0);
	do {
		size = (1 + draw() % (LONGEST / BYTES)) * BYTES;
		for (i = 0; i < size; i++)
			data[i] = (u8)draw();
		const char *wrong = run(data, size, &at);

		if (wrong)
			return report(wrong, data, at) && save(seed, data, at * BYTES);
		runs++;
		steps += at;
	} while (time(NULL) < end);
	printf("%llu random sequences, %llu events, seed %s: nothing wrong\n", (unsigned long long)runs,
	       (unsigned long long)steps, seed);
	return 0;
}

int main(int argc, char **argv)
{
	u8 data[LONGEST];
	const char *wrong;
	size_t size, at;
	FILE *f;

	if (argc == 3)
		return try_random((unsigned int)atoi(argv[1]), argv[2]);
	f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	if (!f) {
		fprintf(stderr, "usage: %s SECONDS SEED | %s FILE\n", argv[0], argv[0]);
		return 2;
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	wrong = run(data, size, &at);
	return wrong ? report(wrong, data, at) : 0;
}
#endif
