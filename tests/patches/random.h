/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers that a seed repeats. */
#ifndef PATCHES_RANDOM_H
#define PATCHES_RANDOM_H

#include <stdint.h>

static uint32_t seed;

/* 0 to @n - 1. */
static int below(int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return (int)(seed % (uint32_t)n);
}

#endif
