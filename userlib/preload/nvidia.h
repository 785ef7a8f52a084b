/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Interfaces that the files of the NVIDIA backend share.  The program's calls are read by nvidia_rm.c, and
 * nvidia_objects.c keeps what they allocated.  Groups and channels are taken off the GPU and put back by
 * nvidia_switch.c.
 */
#ifndef GPURT_PRELOAD_NVIDIA_H
#define GPURT_PRELOAD_NVIDIA_H

#include "../nvidia/rm.h"
#include "preload.h"

/* An object that the process has allocated: a client, device, subdevice, GPU or compute instance, group or channel. */
struct rm_object {
	struct rm_object *next;
	uint64_t file;
	uint32_t client, handle, parent, class;
	uint32_t instance;	/* a device's, or the id of a GPU instance */
	bool stopped;		/* a channel that the program itself has disabled */
};

/* The fields that a struct tsg has for this backend: @client and @handle of the group, or of a bare channel. */
#define TSG_IS_BARE(tsg)	((tsg)->parent)		/* 1 for a channel that has no group of the program's */
#define TSG_WANTED(tsg)		((tsg)->value[0])	/* what the program last asked of GPFIFO_SCHEDULE */
#define TSG_METHOD(tsg)		((tsg)->value[1])	/* the enum rm_method that was found to work, or 0 */
#define TSG_SLICE_US(tsg)	((tsg)->address)	/* the program's own time slice, or 0 if it is in force */

/* How groups are taken off: GPURT_NVIDIA_METHOD. */
enum rm_method { RM_METHOD_DEFAULT, RM_METHOD_DISABLE, RM_METHOD_SCHEDULE };

/* nvidia_objects.c.  All objects of the process, in no order. */
extern struct rm_object *rm_objects;
struct rm_object *rm_find(uint64_t file, uint32_t client, uint32_t handle);
void rm_remember(struct gpu_file *file, const struct rm_alloc *a, uint32_t instance);
void rm_forget(struct gpu_file *file, uint32_t client, uint32_t handle);
/* The program has freed an object.  The driver frees more than that if it was a GPU instance or a compute instance. */
void rm_freed(struct gpu_file *file, uint32_t client, uint32_t handle);
void rm_forget_file(struct gpu_file *file);
/* Returns the device above an object, or NULL if its allocation was not seen. */
struct rm_object *rm_device_of(uint64_t file, uint32_t client, uint32_t handle);
/* Returns the GPU instance to which a device belongs, or NULL: its groups are on the whole GPU. */
struct rm_object *rm_gpu_instance_of(const struct rm_object *device);
/* Returns the group that holds the channel, or the channel's own entry if it is bare, or NULL. */
struct tsg *rm_tsg_of(struct gpu_file *file, const struct rm_object *channel);

/* nvidia_switch.c */
int nvidia_turn(struct tsg *tsg, int fd, bool on);
int nvidia_slice(struct tsg *tsg, int fd, unsigned int us);
bool nvidia_single(const struct tsg *tsgs);
void nvidia_together(struct tsg *tsgs, bool on);
void nvidia_channels(struct tsg *tsgs, struct gpurt_channels *channels);
bool nvidia_for_others(void);
int nvidia_switch_others(struct tsg *tsgs, const struct gpurt_channels *channels, bool on);
enum rm_method nvidia_method(void);
/* The size of the parameters of GPFIFO_SCHEDULE in this driver: 0 until the program's own call has shown it. */
extern uint32_t nvidia_schedule_size;

/* nvidia_address.c: the PCI address of the process's device with that instance, or NULL. */
const char *nvidia_address(int fd, uint32_t client, uint32_t instance);

/* nvidia_rm.c: the driver's release, "" if it cannot be read. */
void nvidia_release(char *version, size_t size);

#endif
