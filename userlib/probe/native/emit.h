/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the probe has seen, as JSON objects, one a line, on standard output.  Samples go out as they were taken:
 * percentiles are the reader's work, so that they can be tested without a GPU.
 */
#ifndef PROBE_EMIT_H
#define PROBE_EMIT_H

#include <stddef.h>
#include <stdint.h>

void emit_open(const char *record);
void emit_text(const char *key, const char *value);
void emit_number(const char *key, long long value);
void emit_handle(const char *key, uint32_t value);
void emit_numbers(const char *key, const uint64_t *values, size_t count);
/* @json is put in as it is. */
void emit_raw(const char *key, const char *json);
/* Writes the line with one call, so that lines of two processes never mix within a pipe's or file's append. */
void emit_close(void);

/* A line of its own that says what went wrong; the part goes on or ends as its caller chooses. */
void emit_error(const char *what, const char *why);

/* Nanoseconds of CLOCK_MONOTONIC_RAW, which no clock discipline bends. */
uint64_t now_ns(void);
void sleep_ns(uint64_t ns);

#endif
