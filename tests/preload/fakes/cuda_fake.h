/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the files of the fake libcuda share. */
#ifndef CUDA_FAKE_H
#define CUDA_FAKE_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define INVALID_VALUE 1
#define INVALID_CONTEXT 201
#define NOT_FOUND 500
#define FAILED 999

struct stream;
struct event { struct stream *stream; uint64_t work; };
struct graph { uint64_t us; struct event *event; };

/* cuda.c: gives the stream's context @us of work, or the graph that captures the stream. */
int fake_submit(struct stream *s, uint64_t us);
int fake_begin_capture(struct stream *s);

/* One form of a function, as cuGetProcAddress() knows it.  @per_thread: that for the per-thread default stream, or NULL. */
struct fake_form { const char *name; int since; void *plain, *per_thread; };
/* cuda_work.c: forms that are no others' of cuda.c; ends with an empty name. */
extern const struct fake_form fake_work[];

#endif
