// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Functions that this library passes on because it does not know them: their parameters may be anything.  A program gets
 * a thunk for each, which counts the call and jumps to the real function, with all parameters where the caller put them.
 */
#include <stdatomic.h>
#include <string.h>

#include "preload.h"

#define THUNKS		256
#define THUNK_BYTES	64

/* Used by the thunks, by these names. */
__attribute__((visibility("hidden"))) _Atomic(uint64_t) gpurt_passed_calls[THUNKS];
__attribute__((visibility("hidden"))) void *gpurt_passed_real[THUNKS];
static char *names[THUNKS];
static unsigned int used;

#if defined(__x86_64__)

__asm__(".pushsection .text\n"
	".balign 64\n"
	"gpurt_passed_thunks:\n"
	".set i, 0\n"
	".rept 256\n"
	"	endbr64\n"
	"	lock incq gpurt_passed_calls + 8 * i(%rip)\n"
	"	jmp *gpurt_passed_real + 8 * i(%rip)\n"
	"	.balign 64\n"
	"	.set i, i + 1\n"
	".endr\n"
	".popsection\n");

#elif defined(__aarch64__)

/* x9, x16 and x17 hold no parameters (AAPCS64). */
__asm__(".pushsection .text\n"
	".balign 64\n"
	"gpurt_passed_thunks:\n"
	".set i, 0\n"
	".rept 256\n"
	"	hint #34\n"			/* bti c */
	"	adrp x16, gpurt_passed_calls + 8 * i\n"
	"	add x16, x16, :lo12:gpurt_passed_calls + 8 * i\n"
	"1:	ldxr x17, [x16]\n"
	"	add x17, x17, #1\n"
	"	stxr w9, x17, [x16]\n"
	"	cbnz w9, 1b\n"
	"	adrp x16, gpurt_passed_real + 8 * i\n"
	"	ldr x16, [x16, :lo12:gpurt_passed_real + 8 * i]\n"
	"	br x16\n"
	"	.balign 64\n"
	"	.set i, i + 1\n"
	".endr\n"
	".popsection\n");

#else

/* On this architecture such functions are passed on without a count. */
__asm__(".pushsection .text\n"
	"gpurt_passed_thunks:\n"
	".popsection\n");
#define ROOM 0

#endif

#ifndef ROOM
#define ROOM THUNKS
#endif

extern const char gpurt_passed_thunks[] __attribute__((visibility("hidden")));

static bool is_thunk(const void *function)
{
	return (const char *)function >= gpurt_passed_thunks &&
	       (const char *)function < gpurt_passed_thunks + THUNK_BYTES * ROOM;
}

void *passed(const char *name, void *real)
{
	void *found = real;
	unsigned int i;

	if (is_thunk(real))
		return real;
	preload_lock();
	for (i = 0; i < used && gpurt_passed_real[i] != real; i++)
		;
	if (i == used && used < ROOM) {
		names[i] = strdup(name);
		gpurt_passed_real[i] = real;
		used++;
	}
	if (i < used)
		found = (void *)(uintptr_t)(gpurt_passed_thunks + THUNK_BYTES * i);
	preload_unlock();
	return found;
}

uint64_t passed_calls(const char **name)
{
	uint64_t calls, sum = 0;
	unsigned int i;

	*name = NULL;
	for (i = 0; i < used; i++) {
		calls = atomic_load(&gpurt_passed_calls[i]);
		if (calls && !*name)
			*name = names[i];
		sum += calls;
	}
	return sum;
}
