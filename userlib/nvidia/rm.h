/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * NVIDIA's resource manager (RM) behind /dev/nvidiactl and /dev/nvidia*: request numbers, classes, controls, statuses
 * and layouts.  The preload library and the probe include this file, so that each fact is stated once.  It holds facts
 * only; what a program does with them is its own.
 *
 * Source: NVIDIA's open-gpu-kernel-modules, releases 535.43.02 to 595.45.04, in the headers that each section names.
 * scripts/check-abi was run on all of these releases: they agree, with two exceptions, at struct rm_schedule and
 * RM_STATUS_INVALID_PARAM_STRUCT.  The sources of 610.43.02 to 620.06 are not published: gVisor's nvproxy agrees as far
 * as it has these facts.  In 515 to 530 both structures of an allocation are shorter.  docs/unpatched.md says which
 * facts have been seen on hardware.
 *
 * The fake drivers of the tests (tests/preload/fakes, tests/unit/probe_fake) state the same facts again on purpose.  If
 * they included this file, a wrong number would agree with itself and every test would pass.
 */
#ifndef GPURT_NVIDIA_RM_H
#define GPURT_NVIDIA_RM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* Checks a structure's size against the driver's. */
#define RM_LAYOUT(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type " as the driver has it")

/*
 * Requests: nv_escape.h, nv-ioctl-numbers.h, nv-ioctl.h, nvos.h.
 *
 * A request's number is its type 'F', one of these numbers, and the size of its structure.  RM_NR_TRANSFER carries any
 * other request: its structure has the other request's number, size and address.
 */
#define RM_IOCTL_TYPE	'F'
#define RM_NR_FREE	0x29
#define RM_NR_CONTROL	0x2a
#define RM_NR_ALLOC	0x2b
#define RM_NR_DUP	0x34
#define RM_NR_IDLE	0x41	/* an older form of C0080_IDLE_CHANNELS */
#define RM_NR_TRANSFER	211

struct rm_free {
	uint32_t client, parent, object, status;
};

struct rm_control {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t size, status;
};

/* @client: for a class that RM_CLASS_IS_ROOT, the new client's handle is @object. */
struct rm_alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t size, status;
};

/* The longer form of struct rm_alloc has the same number.  Both are the same up to and including @params. */
struct rm_alloc_access {
	uint32_t client, parent, object, class;
	uint64_t params, rights;
	uint32_t size, flags, status, pad;
};

/* A second handle for an object: @object of @client, below @parent. */
struct rm_dup {
	uint32_t client, parent, object, source_client, source, flags, status;
};

struct rm_transfer {
	uint32_t number, size;
	uint64_t address;
};

RM_LAYOUT(rm_free, 16);
RM_LAYOUT(rm_control, 32);
RM_LAYOUT(rm_alloc, 32);
RM_LAYOUT(rm_alloc_access, 48);
RM_LAYOUT(rm_dup, 28);
RM_LAYOUT(rm_transfer, 16);

#define RM_FREE		_IOWR(RM_IOCTL_TYPE, RM_NR_FREE, struct rm_free)
#define RM_CONTROL	_IOWR(RM_IOCTL_TYPE, RM_NR_CONTROL, struct rm_control)
#define RM_ALLOC	_IOWR(RM_IOCTL_TYPE, RM_NR_ALLOC, struct rm_alloc)
#define RM_ALLOC_ACCESS	_IOWR(RM_IOCTL_TYPE, RM_NR_ALLOC, struct rm_alloc_access)
#define RM_TRANSFER	_IOWR(RM_IOCTL_TYPE, RM_NR_TRANSFER, struct rm_transfer)

/*
 * Classes: cl0000.h, cl0080.h, cl2080.h, cla06c.h, clc637.h, clc638.h and the headers of the channel and compute classes.
 *
 * Each architecture has classes of its own for channels and compute objects.  Only their low byte is the same.
 */
#define RM_CLASS_IS_ROOT(class)		((class) <= 0x0001 || (class) == 0x0041)
#define RM_CLASS_DEVICE			0x0080u
#define RM_CLASS_SUBDEVICE		0x2080u
#define RM_CLASS_TSG			0xa06cu
/* Below a subdevice: the GPU instance that the device belongs to (MIG); below that, the compute instance. */
#define RM_CLASS_GPU_INSTANCE		0xc637u
#define RM_CLASS_COMPUTE_INSTANCE	0xc638u
#define RM_CLASS_IS_CHANNEL(class)	(((class) & 0xff) == 0x6f && (class) > 0x5000)
#define RM_CLASS_IS_COMPUTE(class)	(((class) & 0xff) == 0xc0 && (class) > 0x5000)

/*
 * Offsets of 32-bit numbers in the parameters of an allocation: the device's instance (cl0080.h), the id of a GPU
 * instance (clc637.h), and the engine of a group (nvos.h).
 */
#define RM_DEVICE_INSTANCE_AT	0
#define RM_GPU_INSTANCE_AT	8
#define RM_TSG_ENGINE_AT	12
/* The engine types of the graphics engines, which compute runs on: cl2080_notification.h. */
#define RM_ENGINE_IS_GRAPHICS(engine)	((engine) >= 1 && (engine) <= 8)

/*
 * Controls: ctrla06c.h (of a group), ctrla06fgpfifo.h (of a channel), ctrl2080fifo.h (of a subdevice).
 *
 * The time slice is a uint64_t in microseconds.
 */
#define A06C_GPFIFO_SCHEDULE	0xa06c0101u
#define A06C_SET_TIMESLICE	0xa06c0103u
#define A06C_GET_TIMESLICE	0xa06c0104u
#define A06C_PREEMPT		0xa06c0105u
#define A06F_GPFIFO_SCHEDULE	0xa06f0103u
#define C2080_DISABLE_CHANNELS	0x2080110bu
/* Up to release 550.163.01 the call of a channel also has a number for each class of channels (ctrlc36f.h). */
#define RM_IS_CHANNEL_SCHEDULE(cmd)	(((cmd) & 0xffff) == 0x0103 && RM_CLASS_IS_CHANNEL((cmd) >> 16))
/* The reset of a channel, likewise; every release also has 0x906f0102: ctrl906f.h. */
#define RM_IS_CHANNEL_RESET(cmd)	(((cmd) & 0xffff) == 0x0102 && RM_CLASS_IS_CHANNEL((cmd) >> 16))
/*
 * Calls for a device.  The first puts channels on the runlist (up to release 560.35.03), the second takes them off
 * until their work is done (ctrl0080fifo.h).
 */
#define C0080_START_CHANNELS	0x801705u
#define C0080_IDLE_CHANNELS	0x801714u
/* Preempts, unbinds and binds a channel while it changes it. */
#define C0080_SET_PROPERTIES	0x80170fu
/* Calls for a subdevice, which change contexts: ctrl2080gr.h. */
#define C2080_ZCULL_MODE	0x20801205u
#define C2080_PM_MODE		0x20801207u
#define C2080_BIND_ZCULL	0x20801208u
#define C2080_BIND_PM		0x20801209u
#define C2080_SMPC_MODE		0x2080120eu
#define C2080_SET_PREEMPTION	0x20801210u
#define C2080_BIND_PREEMPTION	0x20801211u
#define C2080_BIND_SETUP	0x2080123au	/* from release 550 on */
/* Calls for a channel and for a debugger's session: ctrl506f.h, ctrl83dedebug.h. */
#define C506F_RESET_CHANNEL	0x506f0105u
#define C83DE_RESUME_CONTEXT	0x83de0318u
/* Calls for a client, which change nothing: ctrl0000gpu.h. */
#define C0000_GET_ATTACHED_IDS	0x201u
#define C0000_GET_ID_INFO	0x205u
#define C0000_GET_PCI_INFO	0x21bu

/* GPUs that somebody has open; the ids behind the last one are RM_NO_GPU_ID. */
#define RM_ATTACHED_MAX	32
#define RM_NO_GPU_ID	0xffffffffu
struct rm_attached_ids { uint32_t ids[RM_ATTACHED_MAX]; };
struct rm_id_info { uint32_t id, flags, device, subdevice, sli, board, gpu; int32_t numa; };
struct rm_pci_info { uint32_t id, domain; uint16_t bus, slot; };

RM_LAYOUT(rm_attached_ids, 128);
RM_LAYOUT(rm_id_info, 32);
RM_LAYOUT(rm_pci_info, 12);

/*
 * Releases before 575.51.02 have no @skip_enable: their structure has RM_SCHEDULE_SHORT bytes (ctrla06fgpfifo.h; the
 * structure of a group is the same).  RM compares the size of a control's parameters for equality and refuses any other
 * size.
 */
struct rm_schedule {
	uint8_t enable, skip_submit, skip_enable;
};
#define RM_SCHEDULE_SHORT 2
#define RM_SCHEDULE_LONG_SINCE 575	/* the first major release of the longer structure */

struct rm_preempt {
	uint8_t wait, manual_timeout;
	uint32_t timeout_us;
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
RM_LAYOUT(rm_disable_channels, 536);
_Static_assert(offsetof(struct rm_disable_channels, event) == 16, "as the driver has it");

/*
 * Statuses: nvstatuscodes.h, as far as these controls can return them.  The probe's reports take their names from
 * here (userlib/probe/summary.py), so each stays on a line of its own.
 *
 * If the parameters have another size, a driver returns INVALID_PARAM_STRUCT (rs_resource.c).  Drivers from 535.161.07
 * and from 550.40.53 on return INVALID_ARGUMENT, since rmapi/control.c compares first; those of 545 do not.
 */
#define RM_STATUS_OK				0x00
#define RM_STATUS_GPU_IS_LOST			0x0f
#define RM_STATUS_IN_USE			0x17
#define RM_STATUS_INSUFFICIENT_PERMISSIONS	0x1b
#define RM_STATUS_INVALID_ARGUMENT		0x1f
#define RM_STATUS_INVALID_CHANNEL		0x21
#define RM_STATUS_INVALID_CLASS			0x22
#define RM_STATUS_INVALID_CLIENT		0x23
#define RM_STATUS_INVALID_COMMAND		0x24
#define RM_STATUS_INVALID_DEVICE		0x26
#define RM_STATUS_INVALID_OBJECT		0x31
#define RM_STATUS_INVALID_OBJECT_HANDLE		0x33
#define RM_STATUS_INVALID_OPERATION		0x38
#define RM_STATUS_INVALID_OWNER			0x39
#define RM_STATUS_INVALID_PARAM_STRUCT		0x3a
#define RM_STATUS_INVALID_PARAMETER		0x3b
#define RM_STATUS_INVALID_STATE			0x40
#define RM_STATUS_NOT_SUPPORTED			0x56
#define RM_STATUS_OBJECT_NOT_FOUND		0x57
#define RM_STATUS_TIMEOUT			0x65
#define RM_STATUS_TIMEOUT_RETRY			0x66
#define RM_STATUS_GENERIC			0xffff

#endif
