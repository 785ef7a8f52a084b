/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * libgpurt-preload: real-time GPU priorities for programs that do not use libgpurt.
 *
 *	preload.c	the libc functions it replaces: open, close, dup, ioctl and their variants
 *	process.c	its process: children, cancelled threads, signal handlers, sandboxes
 *	files.c		which descriptors belong to a GPU driver, through dup, close and fork
 *	agent.c		the threads that receive the host's orders
 *	boards.c	the process's TSGs on each GPU, and how an order is applied to them
 *	numbers.c	the host's number of each of the process's GPUs
 *	nvidia_rm.c nvgpu_tsg.c kfd_queue.c amdgpu_userq.c	the ioctls of one driver family each
 *	nvidia_objects.c nvidia_switch.c	NVIDIA's: what the process has allocated; how it is taken off
 *	nvidia_address.c	NVIDIA's: where a GPU is
 *	mps.c		clients of NVIDIA's MPS, which no agent switches
 *	kfd_topology.c kfd_mask.c	AMD's: which GPUs there are; the compute units that queues may use
 *	segments.c	automatic segments: work that was launched and not yet waited for
 *	cuda.c hip.c	the entry points of the CUDA driver and HIP libraries
 *	cuda.table hip.table	what each function of theirs does; wrappers.py writes the wrappers from it
 *	passed.c	functions that are passed on and counted
 *	explicit.c	programs that mark their segments themselves
 *
 * The library acts only on objects that this process made, through the descriptor that made them.  Every call of the
 * program reaches the real function unchanged, except calls that make or change a queue of KFD (kfd_queue.c).  Calls
 * that are not recognised are counted.  If there is no host, or the host goes away, the TSGs are put back on the GPU and
 * the program runs unmanaged.  Where the host's driver switches the GPU itself (tier T2), the library makes automatic
 * segments only.
 *
 * Policy `boosted` raises the thread that launches the first work of a segment.  The library cannot know whether the
 * program spins when it waits for its work, and most do.  So the form is `owner`, which is right either way.
 * GPURT_FORM says otherwise.
 *
 * Environment: GPURT_DEVICE (which host), GPURT_AUTO=0 (no automatic segments), GPURT_QUIET=1 (no lines on stderr),
 * GPURT_VERBOSE=1 (a summary at exit), GPURT_FORCE=1 (use a driver release that is not known), GPURT_NVIDIA_METHOD,
 * GPURT_NVIDIA_MANY=1 (one call takes several processes off),
 * GPURT_CU_MASK, GPURT_FORM.
 */
#ifndef GPURT_PRELOAD_H
#define GPURT_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <gpurt/uapi.h>

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* A driver's open file.  Duplicated descriptors share it.  It ends when the last one is closed. */
struct gpu_file {
	const struct family *family;
	int kind;			/* which of the family's nodes */
	unsigned int descriptors;
	int descriptor;			/* a hint: files_descriptor() checks it */
	uint64_t id;			/* unique: no later file gets it */
	struct gpu_file *next;
};

/* Where a TSG is.  Before each call that switches it, it is TSG_UNSURE: the driver may fail after its first step. */
enum tsg_state { TSG_ON, TSG_UNSURE, TSG_OFF };

/* An object that is switched: a time-slice group, a channel without a group, or a user queue of KFD. */
struct tsg {
	struct tsg *next;
	struct gpu_file *file;
	unsigned int gpu;		/* the host's number */
	const char *device;		/* the GPU's address; "" or NULL: not known.  Copied by agent_add() */
	unsigned int own;		/* its driver's own number of the GPU */
	unsigned int part;		/* 1 + the id of the GPU instance that it is on (MIG); 0: the whole GPU */
	bool empty;			/* it has no channel, so it has no work and is not switched */
	bool copies;			/* it is on the runlist of a copy engine */
	bool resliced;			/* its slice may differ from the slice that was set last */
	unsigned int slice_us;		/* set by the agent; 0: it has its own */
	enum tsg_state state;
	/* The meaning of these depends on the family. */
	uint32_t client, handle, parent;
	uint32_t value[2];
	uint64_t address;
};

struct family {
	const char *name;		/* as `gpurt status` shows it */
	/* Returns which of the family's nodes @path is, from 1, or 0 if it is none. */
	int (*node)(const char *path);
	/*
	 * Called without the lock, in place of the real ioctl: makes it, perhaps with other arguments, and updates the
	 * list of the process's objects.  May be NULL.
	 */
	int (*call)(int fd, unsigned long request, void *argument);
	/* Called with the lock held, after the real ioctl: updates the list of the process's objects.  May be NULL. */
	void (*after)(struct gpu_file *file, int fd, unsigned long request, void *argument, int result);
	/* Called with the lock held when the file ends, and all its objects with it.  May be NULL. */
	void (*closed)(struct gpu_file *file);
	/* Called in a child: forgets the objects, which are the parent's, and frees nothing.  May be NULL. */
	void (*forked)(void);
	/*
	 * Takes the TSG off the GPU and waits until it is off, or puts back what the program itself had on.  Returns 0
	 * only if that is so, otherwise -errno.  NULL: nothing takes such TSGs off, so an order off is -EOPNOTSUPP.
	 */
	int (*turn)(struct tsg *tsg, int fd, bool on);
	/*
	 * The same for as many TSGs of the list as one call of the driver can take.  Changes the state of only these
	 * TSGs; turn() is called for those that are not @on afterwards.  May be NULL.
	 */
	void (*together)(struct tsg *tsgs, bool on);
	/*
	 * Sets the slice of the TSG; @us 0: its own slice.  Returns 0 or -errno.  NULL: slices are not known.
	 */
	int (*slice)(struct tsg *tsg, int fd, unsigned int us);
	/* Whether at most one TSG of the list executes kernels, and slice() can set its slice.  NULL: it cannot. */
	bool (*single)(const struct tsg *tsgs);
	/* All channels of the list's TSGs, or none if one call cannot take all of them off the GPU.  May be NULL. */
	void (*channels)(struct tsg *tsgs, struct gpurt_channels *channels);
	/* Whether the driver's calls are known to switch channels of other processes.  NULL: they are not. */
	bool (*for_others)(void);
	/*
	 * Called with the lock held; releases it meanwhile, so that the program's launches do not wait for the
	 * firmware.  Switches channels of other processes on the GPU of the list's TSGs.  0 or -errno; -ENOENT: a
	 * handle is stale.
	 */
	int (*switch_others)(struct tsg *tsgs, const struct gpurt_channels *channels, bool on);
	/* Returns whether the driver's release is known.  If not, fills @why.  NULL: every release is known. */
	bool (*known)(char *why, size_t size);
	/*
	 * The tier that the family reaches (enum gpurt_tier).  @how, a line for stderr, names the method and why no
	 * better tier is reached.
	 */
	unsigned int (*tier)(const char **how);
};

extern const struct family family_nvidia_rm, family_nvgpu_tsg, family_kfd_queue, family_amdgpu_userq, family_nvidia_mps;

/* One lock for files, objects and TSGs.  It is never held during a call to the host. */
void preload_lock(void);
void preload_unlock(void);

/*
 * Prints a line on stderr, unless GPURT_QUIET=1.  Prints nothing if descriptor 2 is another file than when the program
 * began: the program has closed its stderr, and what it has opened since is its own.
 */
void preload_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, only the first time that the process comes here. */
#define preload_say_once(...)							\
	do {									\
		static _Atomic(bool) told;					\
										\
		if (!atomic_exchange(&told, true))				\
			preload_say(__VA_ARGS__);				\
	} while (0)
/* Whether the environment variable is "1". */
bool preload_flag(const char *variable);

/*
 * process.c: called around code that holds a lock.  There a thread is not cancelled, and its signal handlers call
 * libc's real functions only.
 */
void preload_enter(void);
void preload_leave(void);
/* Whether this thread is in such code: the caller is a signal handler, or the library itself. */
bool preload_entered(void);
bool preload_own_process(void);
/* Called once, before any of these. */
void process_begins(void);
/* process_seals(): the program is about to forbid itself system calls.  process_sealed(): whether that was called. */
void process_seals(void);
bool process_sealed(void);

/*
 * preload.c.  Whether the library is ready.  The loader makes it ready, or an earlier call that concerns a GPU.
 * Earlier calls are passed on: they come from allocators and sanitizers, which are not ready either.
 */
bool preload_ready(void);
/* Prints a warning if an earlier library has a dlsym() that does not call this one's. */
void preload_check_chain(void);
/* The real calls. */
int real_ioctl(int fd, unsigned long request, void *argument);
/* The agent's descriptors begin at this number, if the process may have it.  The program's get lower numbers. */
#define KEPT	512
/* A duplicate that is closed on exec and whose number is not below @lowest, or -1. */
int real_duplicate(int fd, int lowest);
/* libc's dlsym(), with RTLD_NEXT: behind this library. */
void *real_dlsym(void *handle, const char *name);

/* files.c.  These three need no lock. */
bool files_tracked(int fd);
/* Whether the path, which can be NULL, is a driver's. */
bool files_driver(const char *path);
/* Called when a descriptor of no driver is closed: the library must look at the next file with that number. */
void files_forget(int fd);
/* Called with the lock held. */
void files_opened(int fd, const char *path);
void files_seen(int fd);
void files_duplicated(int fd, int copy);
void files_closed(int fd);
struct gpu_file *files_get(int fd);
int files_descriptor(struct gpu_file *file);
void files_forked(void);

/* boards.c, agent.c.  Called with the lock held. */
struct tsg *agent_add(const struct tsg *like);
struct tsg *agent_find(const struct gpu_file *file, uint32_t client, uint32_t handle);
void agent_remove(struct tsg *tsg);
void agent_remove_file(const struct gpu_file *file);
/* The file's TSGs now belong to file @to; NULL: to none. */
void agent_move_file(const struct gpu_file *from, struct gpu_file *to);
/* The tier that was reached has changed: agent_settle() tells the host. */
void agent_retell(const struct tsg *tsg);
/*
 * The TSG has other channels now, or one may have been switched behind the agent's back.  agent_settle() tells the host
 * where other agents switch them.
 */
void agent_relist(const struct tsg *tsg);
/*
 * The TSG may have been switched on behind the agent's back, or has a channel from now on.  The last order is then
 * applied to it by agent_catch_up().
 */
void agent_refresh(struct tsg *tsg);
/* The same for a TSG that is off the GPU now. */
void agent_refresh_off(struct tsg *tsg);
/* agent_refresh() for all TSGs of a driver family. */
void agent_refresh_all(const struct family *family);
/* Applies the last order to TSGs that do not obey it yet.  Returns whether agent_insist() must follow. */
bool agent_catch_up(void);
void agent_begins(void);
/*
 * Called without the lock.  Begins an outermost segment of the process's own handle, at its thread's priority, if the process
 * is alone on the GPU and need not ask.  Returns whether it has begun.  @yields: whether it may begin beside others; on
 * return, whether it has.
 */
bool agent_begins_freely(unsigned int gpu, unsigned int flags, bool *yields);
/* Called without the lock.  From now on the program does work outside of the library's segments. */
void agent_explicit(void);
/* Called without the lock.  Repeats agent_catch_up() until the driver has done it, or for 100 ms. */
void agent_insist(void);
/* Called without the lock.  Tells the host of TSGs that were made or removed. */
void agent_settle(void);
/* Called with the lock held. */
unsigned int agent_number(unsigned int gpu);
/* Whether the last order took the process off that GPU. */
bool agent_is_off(unsigned int gpu);
unsigned int agent_gpus(unsigned int *gpus, unsigned int size);

/* numbers.c */
#define NO_GPU	(~0u)
/* Called without the lock: asks the host once which GPUs it has. */
void numbers_learn(void);
/*
 * Called with the lock held.  The host's number of the GPU at @address, which is its driver's @index-th.  The address
 * is a PCI address as 0000:c1:00.0, "" for a GPU that is not on PCI, or NULL if it cannot be found out.  NO_GPU: the
 * host has no such GPU; reports that.
 */
unsigned int numbers_of(const char *driver, const char *address, unsigned int index);
/* cuDeviceGetPCIBusId() and hipDeviceGetPCIBusId() */
typedef int pci_bus_id(char *text, int size, int device);
/* Called without the lock.  The address of a runtime's device, or "" if it cannot be found out. */
const char *numbers_address(int device, pci_bus_id *ask);
/*
 * Called without the lock.  The host's number of the GPU that a runtime calls @device, if the process has TSGs there.
 * @ask: the runtime's function, or NULL.  NO_GPU: it is not known.
 */
unsigned int numbers_of_device(int device, pci_bus_id *ask);

/* mps.c: called without the lock, before the first work on a device. */
void mps_look(int device, pci_bus_id *ask);

/* Counts for the summary at exit. */
enum count {
	COUNT_CALLS, COUNT_UNKNOWN, COUNT_ORDERS, COUNT_REFUSED, COUNT_SEGMENTS, COUNT_LAUNCHES, COUNT_END,
};
void preload_count(enum count what);

/* segments.c */
typedef const void *stream_key;
#define DEFAULT_STREAM ((stream_key)0)
/* Where work goes: a stream of a context. */
struct place {
	const void *context;
	stream_key stream;
	long thread;		/* of a per-thread default stream; 0 for other streams */
	unsigned int gpu;
	bool captured;		/* the work goes into a graph, not to the GPU */
	bool kernel;		/* the work is one kernel */
};
/* The work that is known to be done when a wait succeeds.  Taken before the wait. */
struct snapshot;
/*
 * Called before work is launched.  The launch is under way until segments_launched() says that the real call is over;
 * meanwhile no wait ends its work.  NULL: the launch begins no segment, and segments_launched() does nothing.
 */
void *segments_launch(const struct place *place);
void segments_launched(void *launch);
/* Like segments_launched(), for a call that launched work and, if @done, also waited for it and for @snapshot. */
void segments_copied(void *launch, struct snapshot *snapshot, bool done);
/* Called before an operation that is ordered in a stream but is no work.  It prolongs a segment, but begins none. */
void segments_turn(const struct place *place);
void segments_stream(const struct place *place, bool nonblocking);
struct snapshot *segments_snapshot(const struct place *place);
struct snapshot *segments_snapshot_context(const void *context);
struct snapshot *segments_snapshot_event(const void *event);
/* If @done, marks the snapshot's work as done and ends the segments that have no work left.  Frees the snapshot. */
void segments_synchronised(struct snapshot *snapshot, bool done);
void segments_record(const void *event, const struct place *place);
void segments_wait_event(const struct place *place, const void *event);
/* From now on the event covers nothing: it is recorded after work that the library does not know. */
void segments_forget_event(const void *event);
/* A graph records the event when it is launched.  So the event's cover stays unknown until the event is destroyed. */
void segments_graph_event(const void *event);
void segments_destroy_event(const void *event);
void segments_explicit(void);
/* Whether all work of the process is in segments that the library begins. */
bool segments_automatic(void);
void segments_begin(void);
void segments_lock(void);
void segments_unlock(void);

/* passed.c: a function that counts each call and goes on to @real, or @real itself if there is no room for another. */
void *passed(const char *name, void *real);
/* How often such functions were called.  @name: one of them, or NULL. */
uint64_t passed_calls(const char **name);

/* cuda.c, hip.c: the wrapper of @name for the code at @caller, given the real function, or NULL if there is no wrapper. */
void *cuda_wrapper(const char *name, void *real, const void *caller);
void *hip_wrapper(const char *name, void *real, const void *caller);

#endif
