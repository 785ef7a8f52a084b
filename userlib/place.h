/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Where a host may be: a place that is named, or one of the usual places. */
#ifndef GPURT_PLACE_H
#define GPURT_PLACE_H

#include <stdbool.h>

#define GPURT_PLACE_SIZE 256

/* @device if it is given, else the environment's GPURT_DEVICE, else NULL. */
__attribute__((visibility("hidden")))
const char *gpurt_named_place(const char *device);

/* Writes the @index-th usual place.  Returns false beyond the last. */
__attribute__((visibility("hidden")))
bool gpurt_usual_place(unsigned int index, char place[GPURT_PLACE_SIZE]);

#endif
