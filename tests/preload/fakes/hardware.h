/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of one runlist of the H200 of docs/hardware and of its firmware, in a file that processes share.  FAKE_HARDWARE
 * names the file.  Without it the fake GPU's server executes work by engine.py, at once.
 *
 *  - Groups that have work take turns.  A turn ends when the slice is used up and another group has work.  So a group that
 *    is alone is not cut.  If its slice is over, it yields at once when another one comes.
 *  - A switch to another group takes theta.
 *  - A slice is rounded down to units of 1.024 us.
 *  - The firmware carries out all processes' calls one after the other.  A group stops before the call returns.
 *  - Copy engines have runlists of their own, of which only the calls' times are modelled.
 *
 * Each function lets time pass until now first, under the file's lock.  So nothing has to execute meanwhile.
 */
#ifndef FAKE_HARDWARE_H
#define FAKE_HARDWARE_H

#include <stdint.h>

/* The handles of the channels of the copy group of number 1 begin here, those of number 2 at twice that, and so on. */
#define FAKE_COPIES 0x2000u

struct hardware;

/* The parameters of FIFO_DISABLE_CHANNELS (ctrl2080fifo.h). */
struct fake_channels {
	uint8_t off, pad[3];
	uint32_t count;
	uint8_t hint, rewind, more[6];
	uint64_t event;
	uint32_t clients[64], channels[64];
};

/* Makes the file.  All times are @scale / 1000 times as long.  Returns 0 or -1. */
int hardware_make(const char *path, int scale);
/* This process's view of the file that FAKE_HARDWARE names, or NULL. */
struct hardware *hardware_open(void);

/* A client has a compute group from now on. */
void hardware_add(struct hardware *h, uint32_t client);
/* The number of the work, or 0 if too much is queued. */
uint64_t hardware_submit(struct hardware *h, uint32_t client, int64_t ns);
int hardware_done(struct hardware *h, uint32_t client, uint64_t number);
void hardware_wait(struct hardware *h, uint32_t client, uint64_t number);
/* For how long the client's work has executed, ns. */
int64_t hardware_executed(struct hardware *h, uint32_t client);

/* Each returns the driver's status, when the call returns. */
uint32_t hardware_switch(struct hardware *h, const struct fake_channels *channels);
uint32_t hardware_set_slice(struct hardware *h, uint32_t client, uint64_t us);

#endif
