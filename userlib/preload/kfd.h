/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Interfaces that the files of AMD's backend share: kfd_queue.c, kfd_mask.c, kfd_topology.c, amdgpu_userq.c. */
#ifndef GPURT_PRELOAD_KFD_H
#define GPURT_PRELOAD_KFD_H

#include <sys/ioctl.h>

#include "preload.h"

#define KFD_CREATE_QUEUE	0x02
#define KFD_DESTROY_QUEUE	0x03
#define KFD_UPDATE_QUEUE	0x07
#define KFD_SET_CU_MASK		0x1a
#define KFD_CREATE_PROCESS	0x27	/* Linux 7.0 and later */
/* Types of queues */
#define KFD_COMPUTE		0
#define KFD_COMPUTE_AQL		2

/* The layouts of include/uapi/linux/kfd_ioctl.h.  CREATE_QUEUE is the part that all releases share. */
struct kfd_create_queue {
	uint64_t ring, write_pointer, read_pointer, doorbell;
	uint32_t ring_size, gpu, type, percentage, priority, queue;
	uint64_t eop, eop_size, save;
	uint32_t save_size, stack_size;
};
struct kfd_destroy_queue { uint32_t queue, pad; };
struct kfd_update_queue { uint64_t ring; uint32_t queue, ring_size, percentage, priority; };
struct kfd_cu_mask { uint32_t queue, bits; uint64_t address; };

_Static_assert(sizeof(struct kfd_create_queue) == 88 && sizeof(struct kfd_destroy_queue) == 8, "layouts of KFD's ioctls");
_Static_assert(sizeof(struct kfd_update_queue) == 24 && sizeof(struct kfd_cu_mask) == 16, "layouts of KFD's ioctls");

/*
 * The graphics driver's user queues, in include/uapi/drm/amdgpu_drm.h: the number of the request, and the beginning of
 * union drm_amdgpu_userq.  When a queue is made, the driver writes its number over @op.
 */
#define USERQ		0x56
#define USERQ_CREATE	1
#define USERQ_FREE	2
struct userq { uint32_t op, queue; };

/* Facts that decide which compute units the bits of a mask are.  0: not known. */
struct kfd_chip {
	unsigned int units;	/* active ones of all XCCs */
	unsigned int xccs;
	unsigned int arrays;	/* shader arrays of a shader engine */
	unsigned int gfx;	/* gfx_target_version: 90006 is gfx906 */
	unsigned int release;	/* of Linux, as kfd_release_of() has it */
};

#define KFD_GPUS	128	/* that a machine may have: 8 with 8 partitions each, and more */

/* kfd_topology.c */
/* KFD's own number of the GPU with that @id, in the order of nodes; KFD_GPUS: the topology lacks it. */
unsigned int kfd_gpu(uint32_t id);
/* The compute units of a GPU that kfd_gpu() has returned. */
const struct kfd_chip *kfd_chip(unsigned int gpu);
/* Like kfd_gpu(), for the GPU at a PCI address. */
unsigned int kfd_gpu_at(const char *device);
/* Its PCI address. */
const char *kfd_device(unsigned int gpu);
/* Whether the driver saves waves that run when their queue is taken off (cwsr_enable). */
bool kfd_saves_waves(void);

/* kfd_mask.c */
/* Whether GPURT_CU_MASK confines queues of that type. */
bool kfd_confines(uint32_t type);
/* A release of Linux such as "6.1.0-13-amd64" as one number, or 0 if the text is none. */
unsigned int kfd_release_of(const char *text);
/* Applies GPURT_CU_MASK to a new queue of a GPU.  If that fails, says so on stderr. */
void kfd_confine(int fd, uint32_t queue, const struct kfd_chip *chip);
/* The program's own SET_CU_MASK: gives the driver the compute units that both masks have. */
int kfd_set_mask(int fd, unsigned long request, const struct kfd_cu_mask *mask, const struct kfd_chip *chip);

#endif
