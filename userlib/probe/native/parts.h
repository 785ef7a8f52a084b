/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The parts of the probe; each runs alone in its process and says what it sees through emit.h. */
#ifndef PROBE_PARTS_H
#define PROBE_PARTS_H

struct options {
	unsigned int calls, preemptions, seconds;
};

int part_info(const struct options *options);
int part_objects(const struct options *options);
int part_controls(const struct options *options);
int part_stop(const struct options *options);
int part_intact(const struct options *options);
int part_copies(const struct options *options);
int part_slices(const struct options *options);
int part_latency(const struct options *options);
int part_partition(const struct options *options);
int part_mps(const struct options *options);

/* The other end of part_controls: calls through a descriptor that comes over socket @fd. */
int caller_main(int fd);

#endif
