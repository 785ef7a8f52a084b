// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The process's GPUs, and the host's number of each.  GPUs of a host whose driver switches them have addresses, and a
 * process finds its GPU by the address.  GPUs of agents have none: there the driver's own number counts, which is the
 * same in every process.
 *
 * CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES say what a program may see, and in which order.
 * These variables change the runtime's numbers of devices, but no addresses.
 */
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "../handle.h"
#include "board.h"

#define DEVICES 128	/* of a runtime */

/* The host's GPUs; changes with the lock held. */
static struct { bool there; char device[GPURT_NAME_LEN]; } hosts[GPURT_MAX_GPUS];
static atomic_bool asked;

/* Called without the lock, before the process has anything on a GPU.  Learns nothing without a host, or if sealed. */
void numbers_learn(void)
{
	struct gpurt_query found[GPURT_MAX_GPUS];
	bool there[GPURT_MAX_GPUS];
	uint32_t any;
	unsigned int i;

	if (atomic_load(&asked) || process_sealed() || atomic_exchange(&asked, true))
		return;
	preload_enter();
	if (!gpurt_handle_gpu(NULL, &any)) {
		for (i = 0; i < GPURT_MAX_GPUS; i++) {
			found[i] = (struct gpurt_query){ .size = sizeof(found[i]), .gpu = i };
			there[i] = !gpurt_call(NULL, GPURT_IOC_QUERY, &found[i], false);
		}
		preload_lock();
		for (i = 0; i < GPURT_MAX_GPUS; i++) {
			hosts[i].there = there[i];
			memcpy(hosts[i].device, there[i] ? found[i].device : "", there[i] ? sizeof(found[i].device) : 1);
		}
		preload_unlock();
	}
	preload_leave();
}

/* Whether @address has as PCI function the partition that follows @slash in the host's name @device. */
static bool is_part(const char *device, const char *slash, const char *address)
{
	const char *function = strchr(device, '.');
	size_t same = function && function < slash ? (size_t)(function - device) + 1 : 0;

	return same && !strncasecmp(device, address, same) && !strcmp(slash + 1, address + same);
}

/*
 * KFD and HIP give each partition of a GPU a PCI function of its own: node_id is in location_id (kfd_topology.c, 6.12).
 * Really the GPU has function 0 only, and the host appends "/" and the partition.
 */
static bool is_at(const char *device, const char *address)
{
	const char *slash = strchr(device, '/');

	return !strcasecmp(device, address) || (slash && is_part(device, slash, address));
}

/* Called with the lock held.  The @index-th GPU of agents. */
static unsigned int nth_of_agents(unsigned int index)
{
	unsigned int gpu;

	for (gpu = 0; gpu < GPURT_MAX_GPUS; gpu++)
		if (hosts[gpu].there && !*hosts[gpu].device && !index--)
			return gpu;
	return NO_GPU;
}

static bool is_off_bus(const char *device)
{
	return *device && !strchr(device, ':');
}

unsigned int numbers_of(const char *driver, const char *address, unsigned int index)
{
	bool addressed = false;
	unsigned int gpu;

	for (gpu = 0; gpu < GPURT_MAX_GPUS; gpu++) {
		if (!hosts[gpu].there || !*hosts[gpu].device)
			continue;
		addressed = true;
		if (address && (*address ? is_at(hosts[gpu].device, address) : is_off_bus(hosts[gpu].device)))
			return gpu;
	}
	if (!addressed)
		return index;
	gpu = nth_of_agents(index);
	if (gpu == NO_GPU) {
		preload_say("%s: %s%s: its work is not managed", driver,
			    address ? "the host has no GPU at " : "the address of a GPU cannot be found out",
			    address && !*address ? "the system's own bus" : address ? address : "");
		atomic_store(&asked, false);	/* the host may have got this GPU since */
	}
	return gpu;
}

/* The address of a runtime's device, as PCI has it, or "".  If two devices have the same address, neither has one. */
static void find_address(int device, pci_bus_id *ask, char text[GPURT_NAME_LEN])
{
	char other[GPURT_NAME_LEN];
	int i;

	if (!ask || device < 0 || ask(text, GPURT_NAME_LEN, device)) {
		*text = '\0';
		return;
	}
	for (i = 0; i < DEVICES && !ask(other, sizeof(other), i); i++)
		if (i != device && !strcasecmp(text, other)) {
			*text = '\0';
			return;
		}
}

const char *numbers_address(int device, pci_bus_id *ask)
{
	static struct { atomic_bool known; char text[GPURT_NAME_LEN]; } found[DEVICES];
	char text[GPURT_NAME_LEN];

	if (device < 0 || device >= DEVICES)
		return "";
	if (!atomic_load(&found[device].known)) {
		find_address(device, ask, text);
		preload_lock();
		memcpy(found[device].text, text, sizeof(text));
		preload_unlock();
		atomic_store(&found[device].known, true);
	}
	return found[device].text;
}

/* Whether both are on one PCI device: runtimes before ROCm 7 call all partitions of it function 0. */
static bool is_same_device(const char *a, const char *b)
{
	size_t same = strcspn(a, ".");

	return strcspn(b, ".") == same && !strncasecmp(a, b, same);
}

static unsigned int only_one(unsigned int gpu, const char *address)
{
	const char *own = boards[gpu].device;

	return !*address || !*own || is_same_device(own, address) ? gpu : NO_GPU;
}

unsigned int numbers_of_device(int device, pci_bus_id *ask)
{
	unsigned int gpus[GPURT_MAX_GPUS], n, i, found = NO_GPU;
	const char *address = numbers_address(device, ask);

	preload_lock();
	n = agent_gpus(gpus, GPURT_MAX_GPUS);
	for (i = 0; i < n; i++)
		if (*address && !strcasecmp(boards[gpus[i]].device, address))
			found = gpus[i];
	if (n == 1 && found == NO_GPU)
		found = only_one(gpus[0], address);
	preload_unlock();
	if (n > 1 && found == NO_GPU)
		preload_say_once("device %d%s%s is none of this process's GPUs that the host has: its work is best effort", device,
				 *address ? ", " : "", address);
	return found;
}
