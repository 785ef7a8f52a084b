// SPDX-License-Identifier: GPL-2.0 OR MIT
/* AMD's compute driver (KFD): which GPUs there are, and whether the driver can preempt waves. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "kfd.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"
#define HIDDEN 0	/* no GPU has this id */

static struct { uint32_t id; struct kfd_chip chip; char device[GPURT_NAME_LEN]; } gpus[KFD_GPUS];
static unsigned int gpu_count;

static FILE *node_file(unsigned int node, const char *name)
{
	char path[80];

	snprintf(path, sizeof(path), NODES "/%u/%s", node, name);
	return fopen(path, "re");
}

/* The compute units that a node reports, and where it is. */
static struct kfd_chip chip_of(unsigned int node, char device[GPURT_NAME_LEN])
{
	unsigned int simds = 0, per_unit = 0, domain = 0, location = 0;
	FILE *file = node_file(node, "properties");
	struct kfd_chip chip = { 0 };
	const struct { const char *name; unsigned int *value; } wanted[] = {
		{ "simd_count", &simds }, { "simd_per_cu", &per_unit }, { "num_xcc", &chip.xccs },
		{ "simd_arrays_per_engine", &chip.arrays }, { "gfx_target_version", &chip.gfx },
		{ "domain", &domain }, { "location_id", &location },
	};
	unsigned long long value;
	struct utsname host;
	char name[64];
	size_t i;

	while (file && fscanf(file, "%63s %llu", name, &value) == 2)
		for (i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
			if (!strcmp(name, wanted[i].name))
				*wanted[i].value = (unsigned int)value;
	if (file)
		fclose(file);
	snprintf(device, GPURT_NAME_LEN, "%04x:%02x:%02x.%x", domain, location >> 8 & 0xff, location >> 3 & 0x1f,
		 location & 7);
	chip.units = per_unit ? simds / per_unit : 0;
	chip.release = uname(&host) ? 0 : kfd_release_of(host.release);
	return chip;
}

/*
 * Lists the GPUs in the order of the topology's nodes.  A container is not permitted to read the ids of GPUs that it
 * may not use (node_show() in kfd_topology.c).  Only GPUs' ids can be refused.  They are counted all the same, so a GPU
 * has the same number in every container.
 */
static void read_topology(void)
{
	unsigned int node, id;
	FILE *file;
	int found;

	for (node = 0, gpu_count = 0; gpu_count < KFD_GPUS; node++) {
		file = node_file(node, "gpu_id");
		if (!file)
			break;
		errno = 0;
		found = fscanf(file, "%u", &id);
		if (found == 1 && id) {
			gpus[gpu_count].id = id;
			gpus[gpu_count].chip = chip_of(node, gpus[gpu_count].device);
			gpu_count++;
		} else if (found != 1 && errno == EPERM) {
			gpus[gpu_count++].id = HIDDEN;
		}
		fclose(file);
	}
}

static unsigned int find(uint32_t id)
{
	unsigned int i;

	for (i = 0; i < gpu_count; i++)
		if (gpus[i].id == id)
			return i;
	return KFD_GPUS;
}

unsigned int kfd_gpu(uint32_t id)
{
	if (id == HIDDEN)
		return KFD_GPUS;
	if (find(id) == KFD_GPUS)
		read_topology();
	return find(id);
}

unsigned int kfd_gpu_at(const char *device)
{
	unsigned int i;

	if (!gpu_count)
		read_topology();
	for (i = 0; i < gpu_count && strcmp(gpus[i].device, device); i++)
		;
	return i < gpu_count ? i : KFD_GPUS;
}

const struct kfd_chip *kfd_chip(unsigned int gpu)
{
	static const struct kfd_chip unknown;

	return gpu < gpu_count ? &gpus[gpu].chip : &unknown;
}

const char *kfd_device(unsigned int gpu)
{
	return gpu < gpu_count ? gpus[gpu].device : "";
}

bool kfd_saves_waves(void)
{
	FILE *file = fopen("/sys/module/amdgpu/parameters/cwsr_enable", "re");
	int enabled = 1;

	if (file) {
		if (fscanf(file, "%d", &enabled) != 1)
			enabled = 1;
		fclose(file);
	}
	return enabled;
}
