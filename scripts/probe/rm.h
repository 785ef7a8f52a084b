/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The resource manager behind /dev/nvidiactl, as far as the probe uses it: the layouts of NVIDIA's
 * open-gpu-kernel-modules (nvos.h, ctrla06c.h, ctrla06fgpfifo.h, ctrl2080fifo.h), read from release 515.43.04 to
 * 595.45.04.  In all of them these are the same, but for GPFIFO_SCHEDULE, which has a third byte from 530.30.02 on.
 *
 * The driver compares the descriptor a call comes through with the one the client was made on.  So every object here
 * carries the descriptor that it was allocated through, and calls go through that one or a duplicate of it.
 */
#ifndef PROBE_RM_H
#define PROBE_RM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RM_FREE		0xc0104629u
#define RM_CONTROL	0xc020462au
#define RM_ALLOC	0xc020462bu
#define RM_ALLOC_ACCESS	0xc030462bu
/* For parameters too large for an ioctl number: {number, size, pointer}. */
#define RM_XFER		0xc01046d3u

struct rm_free {
	uint32_t client, parent, object, status;
};

struct rm_control {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t size, status;
};

struct rm_alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t size, status;
};

struct rm_alloc_access {
	uint32_t client, parent, object, class;
	uint64_t params, rights;
	uint32_t size, flags, status, pad;
};

struct rm_xfer {
	uint32_t cmd, size;
	uint64_t pointer;
};

#define RM_LAYOUT(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type " as the driver has it")
RM_LAYOUT(rm_free, 16);
RM_LAYOUT(rm_control, 32);
RM_LAYOUT(rm_alloc, 32);
RM_LAYOUT(rm_alloc_access, 48);
RM_LAYOUT(rm_xfer, 16);

/* A client: its own handle is what all its objects name. */
#define IS_ROOT(class)	((class) == 0x00 || (class) == 0x01 || (class) == 0x41)
#define CLASS_DEVICE	0x0080u
#define CLASS_SUBDEVICE	0x2080u
#define CLASS_TSG	0xa06cu
/* Channels and engine objects change their number with every architecture; the low byte stays. */
#define IS_CHANNEL(class)	(((class) & 0xff) == 0x6f && (class) > 0x5000)
#define IS_COMPUTE(class)	(((class) & 0xff) == 0xc0 && (class) > 0x5000)

#define A06C_GPFIFO_SCHEDULE	0xa06c0101u
#define A06C_SET_TIMESLICE	0xa06c0103u
#define A06C_GET_TIMESLICE	0xa06c0104u
#define A06C_PREEMPT		0xa06c0105u
#define A06C_GET_INFO		0xa06c0106u
#define A06C_SET_INTERLEAVE	0xa06c0107u
#define A06C_GET_INTERLEAVE	0xa06c0108u
#define A06C_MAKE_REALTIME	0xa06c0110u
#define A06F_RESTART_RUNLIST	0xa06f0111u
#define SUB_DISABLE_CHANNELS	0x2080110bu

struct rm_schedule {
	uint8_t enable, skip_submit, skip_enable;
};

struct rm_preempt {
	uint8_t wait, manual_timeout;
	uint32_t timeout_us;
};

struct rm_restart {
	uint8_t force, bypass_wait;
};

#define RM_CHANNELS_MAX 64
struct rm_disable_channels {
	uint8_t disable;
	uint32_t count;
	uint8_t only_scheduling, rewind;
	uint64_t event __attribute__((aligned(8)));
	uint32_t clients[RM_CHANNELS_MAX], channels[RM_CHANNELS_MAX];
};

RM_LAYOUT(rm_schedule, 3);
RM_LAYOUT(rm_preempt, 8);
RM_LAYOUT(rm_restart, 2);
RM_LAYOUT(rm_disable_channels, 536);
_Static_assert(offsetof(struct rm_disable_channels, event) == 16, "as the driver has it");

/* An object this process has allocated. */
struct rm_object {
	int fd;
	uint32_t client, parent, handle, class, size, engine;
	bool live;
};

/* A time-slice group with what is needed to act on it. */
struct rm_tsg {
	int fd;
	uint32_t client, handle, subdevice, engine, size;
	bool compute;
	uint32_t channel_count, channels[RM_CHANNELS_MAX];
};

/* How often a control was called by the CUDA driver itself. */
struct rm_seen {
	uint32_t cmd, size, status, count;
};

/* rm_watch.c: what the process has done so far; each returns how many were put into @out. */
size_t rm_objects(struct rm_object *out, size_t max);
size_t rm_tsgs(struct rm_tsg *out, size_t max);
size_t rm_controls_seen(struct rm_seen *out, size_t max);
/* The groups that compute runs on; with @compute_only false the copy engines' as well. */
size_t rm_targets(struct rm_tsg *out, size_t max, bool compute_only);

/* rm_control.c: each returns the driver's status (0: done) or a negative errno. */
int rm_call(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size);
int rm_schedule(const struct rm_tsg *tsg, bool on);
int rm_preempt(const struct rm_tsg *tsg);
int rm_channels(const struct rm_tsg *tsg, bool on);
int rm_get_timeslice(const struct rm_tsg *tsg, uint64_t *us);
int rm_set_timeslice(const struct rm_tsg *tsg, uint64_t us);
int rm_get_interleave(const struct rm_tsg *tsg, uint32_t *level);
int rm_set_interleave(const struct rm_tsg *tsg, uint32_t level);
int rm_make_realtime(const struct rm_tsg *tsg, bool on);
int rm_restart_runlist(const struct rm_tsg *tsg);
int rm_get_info(const struct rm_tsg *tsg, uint32_t *id);

#endif
