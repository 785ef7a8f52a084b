/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVIDIA's numbers and layouts, as far as the fakes here need them.  They repeat userlib/nvidia/rm.h on purpose and
 * include nothing of it.  A wrong number there must disagree with this file, so that a test fails.
 */
#ifndef PROBE_FAKE_H
#define PROBE_FAKE_H

#include <stdint.h>

#define FAKE_FREE		0xc0104629u
#define FAKE_CONTROL		0xc020462au
#define FAKE_ALLOC		0xc020462bu

#define FAKE_DEVICE		0x80
#define FAKE_SUBDEVICE		0x2080
#define FAKE_TSG		0xa06c

#define FAKE_SCHEDULE		0xa06c0101
#define FAKE_SET_TIMESLICE	0xa06c0103
#define FAKE_GET_TIMESLICE	0xa06c0104
#define FAKE_PREEMPT		0xa06c0105
#define FAKE_DISABLE_CHANNELS	0x2080110b

struct fake_free {
	uint32_t client, parent, object, status;
};

struct fake_control {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t size, status;
};

struct fake_alloc {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t size, status;
};

struct fake_channels {
	uint8_t disable, pad1[3];
	uint32_t count;
	uint8_t only_scheduling, rewind, pad2[6];
	uint64_t event;
	uint32_t clients[64], channels[64];
};

#endif
