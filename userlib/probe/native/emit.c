// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "emit.h"

static void quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < ' ' ? ' ' : *text);
	}
	putchar('"');
}

static void key_of(const char *key)
{
	putchar(',');
	quoted(key);
	putchar(':');
}

void emit_open(const char *record)
{
	printf("{\"record\":");
	quoted(record);
}

void emit_text(const char *key, const char *value)
{
	key_of(key);
	quoted(value);
}

void emit_number(const char *key, long long value)
{
	key_of(key);
	printf("%lld", value);
}

void emit_numbers(const char *key, const uint64_t *values, size_t count)
{
	size_t i;

	key_of(key);
	putchar('[');
	for (i = 0; i < count; i++)
		printf("%s%" PRIu64, i ? "," : "", values[i]);
	putchar(']');
}

void emit_close(void)
{
	puts("}");
	fflush(stdout);
}

void emit_error(const char *what, const char *why)
{
	emit_open("error");
	emit_text("what", what);
	emit_text("why", why);
	emit_close();
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_ns(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (nanosleep(&left, &left))
		;
}
