// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI function for nvidia.ko to be loaded with, on a bus of its own: 0042:00:01.0.  The function is a card (GA102);
 * or (bridge=1) a bridge, with which nvidia.ko stays loaded without a card.  The card's BARs are memory that the
 * kernel was told to leave alone (mem=1024M on its command line).  The card's registers say which chip it is.  No
 * firmware answers, so the card cannot be opened.
 *
 * The parameter "tell" tells the driver, by its own functions, what it would be told of an open card:
 *	opened			the card is open
 *	channel N		the process N has a channel more, which is the first, second and so on of all
 *	closed I		the I-th channel is closed
 *	killed I		the firmware has stopped it because it failed
 *	reset, done		the card is being reset; it is usable again
 *	may I			whether that channel may run: the parameter "may" says Y or N afterwards
 *
 * RM's functions (nv-kernel.o) that are executed are those of loading, probing and removal, and one that says whether
 * the card is refused.
 */
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pid.h>

#define DOMAIN		0x42
#define WINDOW		0x48000000	/* above mem=1024M, below the machine's 1536M */
#define WINDOW_SIZE	SZ_128M
#define CHANNELS	8

static bool bridge;
module_param(bridge, bool, 0444);
static bool may;
module_param(may, bool, 0444);

/* The start of the configuration space: identity, BARs, and one capability, MSI-X. */
static u32 config[64];
static const struct {
	int at;
	u32 size;
	u32 flags;
} bars[] = {
	{ PCI_BASE_ADDRESS_0, SZ_16M, 0 },
	{ PCI_BASE_ADDRESS_1, SZ_64M, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH },
	{ PCI_BASE_ADDRESS_3, SZ_32M, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH },
};

/* Bits that may be written; of an address, those above its size. */
static u32 writable(int at)
{
	size_t i;

	if (at == PCI_COMMAND)
		return 0xffff;
	if (at == 0x40)
		return 0xc0000000;	/* MSI-X: enabled, masked */
	for (i = 0; !bridge && i < ARRAY_SIZE(bars); i++) {
		if (at == bars[i].at)
			return ~(bars[i].size - 1);
		if (at == bars[i].at + 4 && bars[i].flags)
			return ~0U;
	}
	return 0;
}

static int read_config(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 *value)
{
	if (devfn != PCI_DEVFN(1, 0))
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = config[at / 4] >> 8 * (at % 4);
	if (size < 4)
		*value &= BIT(8 * size) - 1;
	return PCIBIOS_SUCCESSFUL;
}

static int write_config(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 value)
{
	u32 mask = writable(at & ~3) & (size < 4 ? (BIT(8 * size) - 1) << 8 * (at % 4) : ~0U);

	if (devfn != PCI_DEVFN(1, 0))
		return PCIBIOS_DEVICE_NOT_FOUND;
	config[at / 4] = (config[at / 4] & ~mask) | (value << 8 * (at % 4) & mask);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = read_config, .write = write_config };
static struct pci_sysdata sysdata = { .domain = DOMAIN, .node = NUMA_NO_NODE };
static struct resource window = { .name = "fake_pci", .start = WINDOW, .end = WINDOW + WINDOW_SIZE - 1,
				  .flags = IORESOURCE_MEM };
static struct resource numbers = { .name = "fake_pci", .start = 0, .end = 0, .flags = IORESOURCE_BUS };
static struct pci_bus *bus;

static void set_config(void)
{
	size_t i;

	config[0] = (bridge ? 0x22a3 : 0x2204) << 16 | PCI_VENDOR_ID_NVIDIA;
	config[1] = PCI_STATUS_CAP_LIST << 16;
	config[2] = (bridge ? PCI_CLASS_BRIDGE_OTHER : PCI_CLASS_DISPLAY_3D) << 16 | 0xa1;
	config[PCI_CAPABILITY_LIST / 4] = 0x40;
	config[0x40 / 4] = PCI_CAP_ID_MSIX;
	for (i = 0; !bridge && i < ARRAY_SIZE(bars); i++)
		config[bars[i].at / 4] = bars[i].flags;
}

/* Wherever the kernel puts the first BAR, its registers say what chip this is: PMC_BOOT_0 and PMC_BOOT_42. */
static int set_registers(void)
{
	void __iomem *registers;
	u32 at;

	for (at = 0; at < WINDOW_SIZE; at += SZ_16M) {
		registers = ioremap(WINDOW + at, PAGE_SIZE);
		if (!registers)
			return -ENOMEM;
		writel(0xb72000a1, registers);
		writel(0x172a1000, registers + 0xa00);
		iounmap(registers);
	}
	return 0;
}

/* A function of nvidia.ko that is exported to nobody; NULL without nvidia.ko.  The probe is never armed. */
static void *function(const char *name)
{
	struct kprobe probe = { .symbol_name = name, .flags = KPROBE_FLAG_DISABLED };
	void *found;

	if (register_kprobe(&probe))
		return NULL;
	found = probe.addr;
	unregister_kprobe(&probe);
	return found;
}

static void *channels[CHANNELS];	/* the driver's; what follows are calls one at a time, which sysfs cares for */
static int opened;

static int tell_process(void *nv, int number)
{
	void *(*open)(void *, void *) = function("nv_gpurt_opened");
	struct pid *pid = find_get_pid(number);
	int err = -ENODEV;

	if (!pid)
		return -ESRCH;
	if (open && opened < CHANNELS) {
		channels[opened] = open(nv, pid);
		err = channels[opened++] ? 0 : -ENODEV;
	}
	put_pid(pid);
	return err;
}

static int tell_channel(const char *word, unsigned int i)
{
	void (*closed)(void *) = function("nv_gpurt_closed");
	void (*killed)(void *) = function("nv_gpurt_killed");
	u8 (*may_run)(void *) = function("nv_gpurt_may_run");

	if (!closed || !killed || !may_run || i >= opened || !channels[i])
		return -EINVAL;
	if (!strcmp(word, "may")) {
		may = may_run(channels[i]);
	} else if (!strcmp(word, "killed")) {
		killed(channels[i]);
	} else if (!strcmp(word, "closed")) {
		closed(channels[i]);
		channels[i] = NULL;
	} else {
		return -EINVAL;
	}
	return 0;
}

static int tell_card(const char *word, void *nv)
{
	void (*open)(void *) = function("nv_gpurt_gpu_opened");
	void (*reset)(void *, u8) = function("nv_gpurt_reset");

	if (!nv || !open || !reset)
		return -ENODEV;
	if (!strcmp(word, "opened"))
		open(nv);
	else if (!strcmp(word, "reset") || !strcmp(word, "done"))
		reset(nv, !strcmp(word, "reset"));
	else
		return -EINVAL;
	return 0;
}

/* The driver's structure of the card begins with what its functions take. */
static int tell(const char *text, const struct kernel_param *unused)
{
	struct pci_dev *card = pci_get_domain_bus_and_slot(DOMAIN, 0, PCI_DEVFN(1, 0));
	void *nv = card ? pci_get_drvdata(card) : NULL;
	char word[16] = "";
	int number = 0;
	int err = -EINVAL;

	switch (sscanf(text, "%15s %d", word, &number)) {
	case 1:
		err = tell_card(word, nv);
		break;
	case 2:
		if (!strcmp(word, "channel"))
			err = nv ? tell_process(nv, number) : -ENODEV;
		else
			err = tell_channel(word, number);
	}
	pci_dev_put(card);
	return err;
}

static const struct kernel_param_ops tell_ops = { .set = tell };
module_param_cb(tell, &tell_ops, NULL, 0200);

static void remove(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(bus);
	pci_remove_root_bus(bus);
	pci_unlock_rescan_remove();
	release_resource(&window);
}

static int __init start(void)
{
	LIST_HEAD(resources);
	int err;

	set_config();
	err = request_resource(&iomem_resource, &window);
	if (err)
		return err;
	err = set_registers();
	if (err)
		goto err_window;
	pci_add_resource(&resources, &window);
	pci_add_resource(&resources, &numbers);
	pci_lock_rescan_remove();
	bus = pci_scan_root_bus(NULL, 0, &ops, &sysdata, &resources);
	if (bus) {
		pci_bus_assign_resources(bus);
		pci_bus_add_devices(bus);
	}
	pci_unlock_rescan_remove();
	if (bus)
		return 0;
	pci_free_resource_list(&resources);
	err = -ENODEV;
err_window:
	release_resource(&window);
	return err;
}

module_init(start);
module_exit(remove);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A PCI function that nvidia.ko takes for a card");
