/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Records: JSON objects on standard output, one in each line.  The probe writes every sample.  Its Python side computes
 * the percentiles, so that they can be tested without a GPU.
 */
#ifndef PROBE_EMIT_H
#define PROBE_EMIT_H

#include <stddef.h>
#include <stdint.h>

void emit_open(const char *record);
void emit_text(const char *key, const char *value);
void emit_number(const char *key, long long value);
void emit_numbers(const char *key, const uint64_t *values, size_t count);
/* Ends the record, and has it written. */
void emit_close(void);

/* Writes a record of an error.  The caller decides whether the part ends. */
void emit_error(const char *what, const char *why);

/* Nanoseconds of CLOCK_MONOTONIC_RAW, which NTP does not adjust. */
uint64_t now_ns(void);
void sleep_ns(uint64_t ns);

#endif
