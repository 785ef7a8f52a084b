// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emit.h"

static char *line;
static size_t used, room;

static void grow(size_t more)
{
	if (used + more + 1 <= room)
		return;
	room = (used + more + 1) * 2;
	line = realloc(line, room);
	if (!line)
		abort();
}

static void put(const char *text, size_t length)
{
	grow(length);
	memcpy(line + used, text, length);
	used += length;
}

__attribute__((format(printf, 1, 2)))
static void putf(const char *format, ...)
{
	char text[64];
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	put(text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

static void quoted(const char *text)
{
	put("\"", 1);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			put("\\", 1);
		if ((unsigned char)*text < ' ')
			put(" ", 1);
		else
			put(text, 1);
	}
	put("\"", 1);
}

static void key_of(const char *key)
{
	put(",", 1);
	quoted(key);
	put(":", 1);
}

void emit_open(const char *record)
{
	used = 0;
	put("{\"record\":", 10);
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
	putf("%lld", value);
}

void emit_numbers(const char *key, const uint64_t *values, size_t count)
{
	size_t i;

	key_of(key);
	put("[", 1);
	for (i = 0; i < count; i++)
		putf("%s%" PRIu64, i ? "," : "", values[i]);
	put("]", 1);
}

void emit_close(void)
{
	size_t done = 0;
	ssize_t written;

	put("}\n", 2);
	while (done < used) {
		written = write(STDOUT_FILENO, line + done, used - done);
		if (written < 0)
			break;
		done += (size_t)written;
	}
	used = 0;
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
