// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Where NVIDIA's GPUs are on PCI.  A device's instance is the lowest number that was free when a process first opened
 * the device, so it means nothing outside this driver.  The library asks the driver as the program's own client, by
 * three controls that any process may make.  They change nothing.
 */
#include "nvidia.h"

#define INSTANCES 32

static int ask(int fd, uint32_t client, uint32_t command, void *params, uint32_t size)
{
	struct rm_control c = {
		.client = client, .object = client, .cmd = command, .params = (uintptr_t)params, .size = size,
	};

	return real_ioctl(fd, RM_CONTROL, &c) < 0 || c.status ? -1 : 0;
}

static bool find(int fd, uint32_t client, uint32_t instance, char text[GPURT_NAME_LEN])
{
	struct rm_attached_ids attached = { { 0 } };
	size_t i;

	if (ask(fd, client, C0000_GET_ATTACHED_IDS, &attached, sizeof(attached)))
		return false;
	for (i = 0; i < RM_ATTACHED_MAX && attached.ids[i] != RM_NO_GPU_ID; i++) {
		struct rm_id_info info = { .id = attached.ids[i] };
		struct rm_pci_info pci = { .id = attached.ids[i] };

		if (ask(fd, client, C0000_GET_ID_INFO, &info, sizeof(info)) || info.device != instance)
			continue;
		if (ask(fd, client, C0000_GET_PCI_INFO, &pci, sizeof(pci)))
			return false;
		snprintf(text, GPURT_NAME_LEN, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.slot);
		return true;
	}
	return false;
}

/* Called with the lock held. */
const char *nvidia_address(int fd, uint32_t client, uint32_t instance)
{
	static char found[INSTANCES][GPURT_NAME_LEN];

	if (instance >= INSTANCES)
		return NULL;
	if (!*found[instance] && !find(fd, client, instance, found[instance]))
		return NULL;
	return found[instance];
}
