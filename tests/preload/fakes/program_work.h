/* SPDX-License-Identifier: GPL-2.0 */
/* program_work.c: work that program.c gives to streams by the name of a function. */
#ifndef PROGRAM_WORK_H
#define PROGRAM_WORK_H

#include <stddef.h>
#include <stdint.h>

typedef int (*look_up)(const char *, void **, int, uint64_t, int *);
/* The program's objects that the work is about.  @event: what a launch is to record, or NULL. */
struct objects { void *context, *graph, *stream, *event; };

int program_work(look_up get, int version, uint64_t flags, const char *name, const struct objects *o, size_t us);

#endif
