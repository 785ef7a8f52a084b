// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <dirent.h>
#include <errno.h>
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

/* Reads the number in an attribute of a PCI device.  ENOENT: there is no such attribute, or no such device any more. */
static int read_attribute(const char *folder, const char *device, const char *name, unsigned int *value)
{
	char path[512];
	FILE *file;
	int found;

	*value = 0;
	if (snprintf(path, sizeof(path), "%s/%s/%s", folder, device, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	file = fopen(path, "re");
	if (!file)
		return -errno;
	found = fscanf(file, "%x", value);
	fclose(file);
	return found == 1 ? 0 : -EIO;
}

/* Whether the device is a GPU of NVIDIA's: 1, 0 or -errno.  Sets @seen for any device of NVIDIA's. */
static int is_gpu(const char *folder, const char *device, bool *seen)
{
	unsigned int vendor, class, physical;
	int err = read_attribute(folder, device, "vendor", &vendor);

	if (!err)
		err = read_attribute(folder, device, "class", &class);
	*seen |= !err && vendor == NVIDIA;
	if (err || vendor != NVIDIA || class >> 16 != DISPLAY)
		return err == -ENOENT ? 0 : err;
	err = read_attribute(folder, device, "physfn/vendor", &physical);
	return err == -ENOENT ? 1 : err;
}

unsigned int gpurt_mig_gpus(const char *folder)
{
	DIR *devices = opendir(folder);
	const struct dirent *entry;
	unsigned int gpus = 0;
	bool seen = false;
	int one = 0;

	if (!devices)
		return 0;
	while (one >= 0 && (entry = readdir(devices)) != NULL) {
		one = entry->d_name[0] == '.' ? 0 : is_gpu(folder, entry->d_name, &seen);
		gpus += one > 0;
	}
	closedir(devices);
	if (one < 0)
		return 0;
	return gpus ? gpus : seen;
}
