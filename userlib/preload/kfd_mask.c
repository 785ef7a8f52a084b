// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPURT_CU_MASK: the compute units that the process's compute queues may use on AMD's driver: a hexadecimal mask, bit 0
 * on the right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kfd.h"

#define RELEASE(major, minor) ((major) << 16 | (minor))
#define PAIRED 100000	/* gfx_target_version of GC 10.0.0 */
#define OTHER_RULE 120100 /* GC 12.1 and later, whose bits have a rule of their own */
#define MASK_WORDS 32	/* 1,024 compute units; the driver ignores more */

struct mask {
	uint32_t words[MASK_WORDS];
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
	if (!length || length > 8 * MASK_WORDS || strspn(text, "0123456789abcdefABCDEF") != length)
		return false;
	memset(mask, 0, sizeof(*mask));
	for (i = 0; i < length; i++) {
		digit[0] = text[length - 1 - i];
		mask->words[i / 8] |= (uint32_t)strtoul(digit, NULL, 16) << 4 * (i % 8);
	}
	mask->count = (unsigned int)(length + 7) / 8;
	return true;
}

static bool has(const struct mask *mask, unsigned int bit)
{
	return mask->words[bit / 32] >> bit % 32 & 1;
}

/* Whether the mask has any of the compute units of one XCC.  Successive bits go to successive XCCs. */
static bool any(const struct mask *mask, const struct kfd_chip *chip, unsigned int xcc)
{
	unsigned int i, bits = 32 * mask->count;

	if (chip->units && chip->units < bits)
		bits = chip->units;
	for (i = xcc; i < bits; i += chip->xccs > 1 ? chip->xccs : 1)
		if (has(mask, i))
			return true;
	return false;
}

/* From GC 10.0.0 on, units are enabled in pairs; a driver before Linux 6.1 takes half a pair, and the queue hangs. */
static bool splits_pairs(const struct mask *mask, const struct kfd_chip *chip)
{
	unsigned int i;

	for (i = 0; chip->gfx >= PAIRED && i < 32 * mask->count; i += 2)
		if (has(mask, i) != has(mask, i + 1))
			return true;
	return false;
}

/*
 * Whether this Linux maps bits to this chip's compute units: rule E5.  An unknown release counts as right.  Before
 * 6.12, some of several XCCs keep all their units.
 */
static bool maps(const struct kfd_chip *chip)
{
	unsigned int right = 0;

	if (chip->xccs > 1)
		right = RELEASE(6, 12);
	else if (chip->gfx >= PAIRED)
		right = RELEASE(6, 1);
	else if (chip->arrays > 1)
		right = RELEASE(5, 15);
	return chip->gfx < OTHER_RULE && (!chip->release || chip->release >= right);
}

/*
 * Why a queue with this mask could hang, or NULL.  The reasons are E1, E2, E5 of `gpurt plan masks check`, and E7 if an
 * XCC has no unit.  The test tests/masks/test_driver.py compares this with analysis/masks/lint.py.
 */
static const char *unusable(const struct mask *mask, const struct kfd_chip *chip)
{
	unsigned int xcc;

	for (xcc = 0; xcc < chip->xccs || !xcc; xcc++)
		if (!any(mask, chip, xcc))
			return chip->xccs > 1 ? "it leaves some XCC none of its compute units" :
						"it has none of this GPU's compute units";
	if (splits_pairs(mask, chip))
		return "on gfx10 and later, bits 2n and 2n+1 must be equal";
	if (!maps(chip))
		return "this Linux may map bits to other compute units than those of this GPU (rule E5 of docs/cu-masks.md)";
	return NULL;
}

unsigned int kfd_release_of(const char *text)
{
	unsigned int major, minor;

	return text && sscanf(text, "%3u.%4u", &major, &minor) == 2 ? RELEASE(major, minor) : 0;
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

void kfd_confine(int fd, uint32_t queue, const struct kfd_chip *chip)
{
	const char *why = NULL;
	struct mask mask;

	if (!parse(text(), &mask))
		why = "not a hexadecimal mask of 1 to 1024 bits";
	else
		why = unusable(&mask, chip);
	if (!why && set(fd, queue, &mask) < 0)
		why = errno == EINVAL ? "the driver refuses it: on gfx10 and later, bits 2n and 2n+1 must be equal" :
		      strerror(errno);
	if (why)
		preload_say_once("GPURT_CU_MASK=%s: %s; the queue may use every compute unit", text(), why);
}

/* Passes on unchanged a request that the driver will refuse. */
int kfd_set_mask(int fd, unsigned long request, const struct kfd_cu_mask *program, const struct kfd_chip *chip)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)program->address;
	const char *why;
	struct mask mask;
	unsigned int i;

	if (!text() || !parse(text(), &mask) || unusable(&mask, chip) || !words || !program->bits || program->bits % 32)
		return real_ioctl(fd, request, (void *)program);
	if (mask.count > program->bits / 32)
		mask.count = program->bits / 32;
	for (i = 0; i < mask.count; i++)
		mask.words[i] &= words[i];
	why = unusable(&mask, chip);
	if (!why)
		return set(fd, program->queue, &mask);
	if (!any(&mask, chip, 0) && chip->xccs <= 1)
		why = "the program asked for none of these compute units";
	preload_say("GPURT_CU_MASK=%s: %s: refused", text(), why);
	errno = EINVAL;
	return -1;
}
