// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPURT_CU_MASK: the compute units that the process's compute queues may use on AMD's driver: a hexadecimal mask, bit 0
 * on the right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kfd.h"

#define WORDS 32	/* 1,024 compute units; the driver ignores more */

struct mask {
	uint32_t words[WORDS];
	unsigned int count;
};

/*
 * Converts hexadecimal text to words, lowest first.  Returns false if the text is no mask.  A mask without any compute
 * unit is none, because the driver would accept it, and the queue's work would never end
 * (mqd_symmetrically_map_cu_mask() in kfd_mqd_manager.c).
 */
static bool parse(const char *text, struct mask *mask)
{
	size_t length, i;
	char digit[2] = "";

	text += !strncmp(text, "0x", 2) ? 2 : 0;
	length = strlen(text);
	if (!length || length > 8 * WORDS || strspn(text, "0123456789abcdefABCDEF") != length)
		return false;
	memset(mask, 0, sizeof(*mask));
	for (i = 0; i < length; i++) {
		digit[0] = text[length - 1 - i];
		mask->words[i / 8] |= (uint32_t)strtoul(digit, NULL, 16) << 4 * (i % 8);
	}
	mask->count = (unsigned int)(length + 7) / 8;
	return true;
}

/* Whether the mask has any of the GPU's compute units, of which there are @units (0: not known). */
static bool any(const struct mask *mask, unsigned int units)
{
	unsigned int i, bits = 32 * mask->count;

	if (units && units < bits)
		bits = units;
	for (i = 0; i < bits; i++)
		if (mask->words[i / 32] >> i % 32 & 1)
			return true;
	return false;
}

static const char *text(void)
{
	return getenv("GPURT_CU_MASK");
}

bool kfd_confines(uint32_t type)
{
	return text() && (type == KFD_COMPUTE || type == KFD_COMPUTE_AQL);
}

static int set(int fd, uint32_t queue, const struct mask *mask)
{
	struct kfd_cu_mask m = { .queue = queue, .bits = 32 * mask->count, .address = (uintptr_t)mask->words };

	return real_ioctl(fd, _IOW('K', KFD_SET_CU_MASK, struct kfd_cu_mask), &m);
}

void kfd_confine(int fd, uint32_t queue, unsigned int units)
{
	static bool told;
	const char *why = NULL;
	struct mask mask;

	if (!parse(text(), &mask))
		why = "not a hexadecimal mask of 1 to 1024 bits";
	else if (!any(&mask, units))
		why = "it has none of this GPU's compute units";
	else if (set(fd, queue, &mask) < 0)
		why = errno == EINVAL ? "the driver refuses it: on gfx10 and later, bits 2n and 2n+1 must be equal" :
		      strerror(errno);
	if (why && !told)
		preload_say("GPURT_CU_MASK=%s: %s; the queue may use every compute unit", text(), why);
	told |= why != NULL;
}

/* What the driver refuses is passed on for the driver to refuse. */
int kfd_set_mask(int fd, unsigned long request, const struct kfd_cu_mask *program, unsigned int units)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)program->address;
	struct mask mask;
	unsigned int i;

	if (!text() || !parse(text(), &mask) || !any(&mask, units) || !words || !program->bits || program->bits % 32)
		return real_ioctl(fd, request, (void *)program);
	if (mask.count > program->bits / 32)
		mask.count = program->bits / 32;
	for (i = 0; i < mask.count; i++)
		mask.words[i] &= words[i];
	if (any(&mask, units))
		return set(fd, program->queue, &mask);
	preload_say("GPURT_CU_MASK=%s: the program asked for none of these compute units: refused", text());
	errno = EINVAL;
	return -1;
}
