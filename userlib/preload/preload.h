/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * libgpurt-preload: real-time GPU behaviour for programs that know nothing of it.
 *
 *	preload.c	the libc calls it stands in front of: open, close, dup, ioctl and their kin
 *	files.c		which descriptors are a GPU driver's, through dup, close and fork
 *	agent.c		the process's TSGs, and the threads that switch them when the host says so
 *	nvidia_rm.c nvgpu_tsg.c kfd_queue.c	what the ioctls of one driver family mean
 *	segments.c	automatic segments: what has been launched and not yet waited for
 *	cuda.c hip.c	the entry points of the CUDA driver and HIP libraries
 *	explicit.c	programs that mark their segments themselves
 *
 * It only ever touches objects that this process made, through the descriptor that it made them with.  Every call
 * reaches the real function unchanged; what is not recognised is passed on and counted.  If there is no host, or it
 * goes away, TSGs are back on the GPU and the program runs on unmanaged.
 *
 * Environment: GPURT_DEVICE (which host), GPURT_AUTO=0 (no automatic segments), GPURT_QUIET=1 (no lines on stderr),
 * GPURT_VERBOSE=1 (a summary at exit), GPURT_FORCE=1 (use a driver release that is not known), GPURT_NVIDIA_METHOD,
 * GPURT_CU_MASK.
 */
#ifndef GPURT_PRELOAD_H
#define GPURT_PRELOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <gpurt/uapi.h>

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* A driver's open file.  All descriptors of one are the same file; it ends with the last. */
struct gpu_file {
	const struct family *family;
	int kind;			/* the family's: which node */
	unsigned int descriptors;
	int descriptor;			/* one of them, most likely */
	uint64_t id;			/* never used again */
	struct gpu_file *next;
};

/* A time-slice group, or what plays its part: the thing that is switched. */
struct tsg {
	struct tsg *next;
	struct gpu_file *file;
	unsigned int gpu;
	bool idle;			/* cannot have work yet: there is nothing to switch */
	bool off;
	/* The family's own. */
	uint32_t client, handle, parent;
	uint32_t value[2];
	uint64_t address;
};

struct family {
	const char *name;		/* as `gpurt status` shows it */
	/* Which of the family's nodes @path is, from 1; 0: none. */
	int (*node)(const char *path);
	/* After the real ioctl: what has become of the process's objects.  Called with the lock held. */
	void (*after)(struct gpu_file *file, int fd, unsigned long request, void *argument, int result);
	/* The last descriptor is closed, all objects of the file with it.  Called with the lock held; may be NULL. */
	void (*closed)(struct gpu_file *file);
	/* Takes the TSG off the GPU and waits until it is off, or puts it back.  0 or -errno. */
	int (*turn)(struct tsg *tsg, int fd, bool on);
	/* Whether the driver's release is known, else a reason in @why. */
	bool (*known)(char *why, size_t size);
	/* What was reached and why not more, for one line on stderr. */
	const char *tier;
};

extern const struct family family_nvidia_rm, family_nvgpu_tsg, family_kfd_queue;

/* One lock for files, objects and TSGs; never held while the host is asked for anything. */
void preload_lock(void);
void preload_unlock(void);

/* Lines on stderr, unless GPURT_QUIET=1. */
void preload_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool preload_flag(const char *variable);

/* preload.c: the real calls */
int real_ioctl(int fd, unsigned long request, void *argument);
void *real_dlsym(void *handle, const char *name);
bool preload_own_process(void);

/* files.c; all with the lock held but for the first two, which are quick and may be called anywhere */
bool files_tracked(int fd);
/* A descriptor that is no driver's is closed: what comes next under its number must be looked at again. */
void files_forget(int fd);
void files_opened(int fd, const char *path);
void files_seen(int fd);
void files_duplicated(int fd, int copy);
void files_closed(int fd);
struct gpu_file *files_get(int fd);
int files_descriptor(struct gpu_file *file);
void files_forked(void);

/* agent.c; with the lock held */
struct tsg *agent_add(const struct tsg *like);
struct tsg *agent_find(const struct gpu_file *file, uint32_t client, uint32_t handle);
void agent_remove(struct tsg *tsg);
void agent_remove_file(const struct gpu_file *file);
/* The program or the driver may have switched it on, or it can have work now: brings it to what the host ordered. */
void agent_refresh(struct tsg *tsg);
void agent_forked(void);
/* Without the lock: tells the host of TSGs that were made or went. */
void agent_settle(void);
unsigned int agent_number(unsigned int gpu);
unsigned int agent_gpus(unsigned int *gpus, unsigned int size);

/* What happened, for the summary at exit. */
enum count {
	COUNT_CALLS, COUNT_UNKNOWN, COUNT_ORDERS, COUNT_REFUSED, COUNT_SEGMENTS, COUNT_LAUNCHES, COUNT_UNHOOKED, COUNT_END,
};
void preload_count(enum count what);
uint64_t preload_counted(enum count what);

/* segments.c */
typedef const void *stream_key;
#define DEFAULT_STREAM ((stream_key)0)
struct place {			/* where work goes: a stream of a context */
	const void *context;
	stream_key stream;
	long thread;		/* of a per-thread default stream, else 0 */
	unsigned int gpu;
	bool captured;		/* it goes into a graph, not to the GPU */
};
struct snapshot;
void segments_launch(const struct place *place);
void segments_stream(const struct place *place, bool nonblocking);
struct snapshot *segments_snapshot(const struct place *place);
struct snapshot *segments_snapshot_context(const void *context);
struct snapshot *segments_snapshot_event(const void *event);
/* What the snapshot holds is done, if @done; frees it. */
void segments_synchronised(struct snapshot *snapshot, bool done);
void segments_record(const void *event, const struct place *place);
void segments_wait_event(const struct place *place, const void *event);
void segments_forget_event(const void *event);
void segments_explicit(void);
void segments_forked(void);
void segments_lock(void);
void segments_unlock(void);

/* cuda.c, hip.c: the function that stands in front of @name, given the real one; NULL: none does */
void *cuda_wrapper(const char *name, void *real);
void *hip_wrapper(const char *name, void *real);

#endif
