// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>

#include <gpurt/uapi.h>

#include "mig.h"

#define PLACES 8
#define NVIDIA 0x10de
#define DISPLAY 0x03	/* the first byte of a PCI class */

static unsigned int place_of(unsigned int instance)
{
	unsigned int parts = 1;

	while (instance >= 2 * parts - 1)
		parts *= 2;
	return (instance - (parts - 1)) * (PLACES / parts);
}

unsigned int gpurt_mig_number(unsigned int device, unsigned int instance, unsigned int gpus)
{
	unsigned int numbers;

	if (device >= gpus || gpus > GPURT_MAX_GPUS || instance >= GPURT_MIG_INSTANCES)
		return GPURT_MAX_GPUS;
	numbers = GPURT_MAX_GPUS / gpus < PLACES ? GPURT_MAX_GPUS / gpus : PLACES;
	return device + gpus * (place_of(instance) * numbers / PLACES);
}

/* The number in an attribute of a PCI device, or 0 if it has no such attribute. */
static unsigned int attribute(const char *folder, const char *device, const char *name)
{
	unsigned int value = 0;
	char path[512];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s/%s", folder, device, name) >= (int)sizeof(path))
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%x", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

static bool is_gpu(const char *folder, const char *device)
{
	return attribute(folder, device, "vendor") == NVIDIA && attribute(folder, device, "class") >> 16 == DISPLAY &&
	       !attribute(folder, device, "physfn/vendor");
}

unsigned int gpurt_mig_gpus(const char *folder)
{
	DIR *devices = opendir(folder);
	const struct dirent *entry;
	unsigned int gpus = 0;

	if (!devices)
		return 0;
	while ((entry = readdir(devices)) != NULL)
		gpus += is_gpu(folder, entry->d_name);
	closedir(devices);
	return gpus ? gpus : 1;
}
