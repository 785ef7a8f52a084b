/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * NVIDIA GPUs that are divided (MIG): which number a host has for each GPU instance.
 *
 * A GPU instance has its own multiprocessors, copy engines, cache and memory.  The compute instances in one GPU
 * instance share all of these except multiprocessors (NVML, "Compute Instance Engine profiles"), so they count as one
 * GPU.
 *
 * The driver's ids of the GPU instances of one GPU form a tree.  The whole GPU is 0, its halves are 1 and 2, its
 * quarters 3 to 6, its eighths 7 to 14.  Instances that exist at the same time have no place in common
 * (kmigmgrGetInvalidSwizzIdMask() and kmigmgrSwizzIdToSpan() in kernel_mig_manager.c and kmigmgr_*.c, 535.43.02 to
 * 595.45.04).  So the first place of an instance, 0 to 7, tells them apart.
 *
 * With G GPUs in the machine, an instance of device d has number d + G * place.  If that is too large for a host,
 * neighbours on one GPU share a number, and wait for each other.  A number never belongs to two devices.  It depends
 * only on facts that all processes see alike: it is the same in every process and container.
 */
#ifndef GPURT_MIG_H
#define GPURT_MIG_H

/* All ids of GPU instances are smaller: KMIGMGR_MAX_GPU_SWIZZID. */
#define GPURT_MIG_INSTANCES 15

/*
 * The host's number of GPU instance @instance of the driver's device @device, in a machine with @gpus GPUs.  The answer
 * is GPURT_MAX_GPUS if there is no such number.
 */
unsigned int gpurt_mig_number(unsigned int device, unsigned int instance, unsigned int gpus);

/*
 * How many NVIDIA GPUs the machine has: the display controllers in @folder, /sys/bus/pci/devices, with or without a
 * driver.  Virtual functions of a GPU do not count.  If the folder has devices of NVIDIA's but no display controllers,
 * the answer is 1.  It is 0 if the folder or an attribute cannot be read, or no device is NVIDIA's.  A sandbox can show
 * an empty folder, and every GPU that can be divided is on PCI (also Thor's).  A number that is too small would give an
 * instance another number.
 */
unsigned int gpurt_mig_gpus(const char *folder);

#endif
