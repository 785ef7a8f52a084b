/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers from a seed; equal seeds give equal numbers on every machine. */
#ifndef GPURT_RANDOM_H
#define GPURT_RANDOM_H

#include "../../kmod/core/env.h"

/* 64 random bits, by splitmix64. */
static inline u64 random_bits(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* An integer from low to high.  The probabilities differ by at most 2^-32. */
static inline u64 random_integer(u64 *state, u64 low, u64 high)
{
	return low + (u64)(((unsigned __int128)random_bits(state) * (high - low + 1)) >> 64);
}

#endif
