// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's mqd_symmetrically_map_cu_mask() of Linux 6.1 in user space; driver.h has it as the driver's source does.
 * Reads lines: GC version, engines, arrays, active CUs, 16 bitmaps, number of words, words.  Prints the engines' registers.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KFD_MAX_NUM_SE 8
#define KFD_MAX_NUM_SH_PER_SE 2
#define IP_VERSION(major, minor, revision) ((major) << 16 | (minor) << 8 | (revision))
#define KFD_GC_VERSION(dev) ((dev)->version)
#define pr_err(...) fprintf(stderr, __VA_ARGS__)
#define hweight32(word) ((uint32_t)__builtin_popcount(word))

struct amdgpu_device { int none; };
struct kfd_dev { uint32_t version; struct amdgpu_device *adev; };
struct mqd_manager { struct kfd_dev *dev; };
struct kfd_cu_info {
	uint32_t num_shader_engines, num_shader_arrays_per_engine, cu_active_number, cu_bitmap[4][4];
};

static struct kfd_cu_info chip;

static void amdgpu_amdkfd_get_cu_info(struct amdgpu_device *adev, struct kfd_cu_info *info)
{
	*info = chip;
}

void mqd_symmetrically_map_cu_mask(struct mqd_manager *mm, const uint32_t *cu_mask, uint32_t cu_mask_count,
				   uint32_t *se_mask);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "driver.h"
#pragma GCC diagnostic pop

int main(void)
{
	uint32_t words[32], registers[8], count, i;
	struct kfd_dev dev = { 0 };
	struct mqd_manager mm = { &dev };

	while (scanf("%u %u %u %u", &dev.version, &chip.num_shader_engines, &chip.num_shader_arrays_per_engine,
		     &chip.cu_active_number) == 4) {
		for (i = 0; i < 16; i++)
			if (scanf("%u", &chip.cu_bitmap[i / 4][i % 4]) != 1)
				return 1;
		if (scanf("%u", &count) != 1 || count > 32)
			return 1;
		memset(words, 0, sizeof(words));
		memset(registers, 0, sizeof(registers));
		for (i = 0; i < count; i++)
			if (scanf("%u", &words[i]) != 1)
				return 1;
		mqd_symmetrically_map_cu_mask(&mm, words, 32 * count, registers);
		for (i = 0; i < chip.num_shader_engines; i++)
			printf("%u ", registers[i]);
		printf("\n");
	}
	return 0;
}
