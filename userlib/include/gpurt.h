/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * libgpurt: real-time GPU segments for programs.
 *
 *	gpurt_segment_begin(NULL, 0, 0);	// the task's own SCHED_FIFO priority counts
 *	... launch kernels, copy, synchronise ...
 *	gpurt_segment_end(NULL, 0);
 *
 * A handle is one client of gpurt's host (the kernel module, or `gpurt emulate`).  NULL means the process's own
 * handle.  It is opened on first use, and all threads share it.  After fork() the child opens its own.  Threads that
 * the host should schedule separately open a handle each.  Several threads may use one handle at the same time.
 *
 * Every function returns 0 or -errno.  The host is the first of these that is set or exists: the argument of
 * gpurt_open(), the environment variable GPURT_DEVICE, /dev/gpurt, the emulator's socket.  A character device is called
 * with ioctls, a socket with packets.  A new handle uses the GPU whose number is in GPURT_GPU, or GPU 0.  Then
 * gpurt_open() returns -ENXIO if the host has no such GPU, -EINVAL if the value is not a GPU's number.
 *
 * If there is no host, or the process may not open it, calls on the NULL handle return -ENODEV or -EACCES.  One line on
 * stderr says so and why once, and the program can run on unmanaged.  If the environment has GPURT_REQUIRED=1,
 * gpurt_segment_begin() prints the reason and calls abort() instead.
 *
 * Policy `boosted` (gpurt/uapi.h, "Raised threads") raises the thread that begins a segment.  A program states its form
 * with the flags of gpurt_segment_begin(), or the environment does for it: GPURT_FORM=self, owner or fence.  Without
 * either the form is `self`, which is right only for threads that never spin inside a segment.  A thread spins in
 * cudaStreamSynchronize() unless the device has cudaDeviceScheduleBlockingSync.  Under this policy a thread that may
 * not be raised begins no segment.  One line on stderr says once what the thread lacks.
 *
 * If the host cannot raise threads, the library raises the calling thread before the segment begins.  The library
 * lowers it after the client's last segment has ended, the client is closed, or a call finds that the host is gone.
 * Changes that the program makes to the thread's scheduling meanwhile stay.  After fork() in a segment the child is
 * lowered.  Threads that are made in a segment, and processes made by vfork() or posix_spawn(), inherit the raised
 * priority: make them before.
 *
 * gpurt_segment_end() on an open handle is async-signal-safe.  If a process dies inside a segment, the host ends
 * the segment.
 */
#ifndef GPURT_H
#define GPURT_H

#ifndef GPURT_CDEF
#include <stddef.h>
#include <stdint.h>
#include <gpurt/uapi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct gpurt_handle;

/* Opens a client.  @device NULL: choose as above.  -ENODEV: no host; -EACCES: not permitted; -EPROTO: not a host. */
int gpurt_open(struct gpurt_handle **handle, const char *device);
void gpurt_close(struct gpurt_handle *handle);

/*
 * Writes why gpurt_open() of @device returned @err.  The text has one line without a line feed: the place, the users
 * who may open it, and what to do.
 */
void gpurt_explain(const char *device, int err, char *text, size_t size);

/* Sets the GPU of the handle's calls, which is 0 at first.  -ENODEV if the host has no such GPU. */
int gpurt_use_gpu(struct gpurt_handle *handle, unsigned int gpu);

/*
 * Makes the handle a member of the group @name on every GPU: clients that need one another own a GPU together
 * (gpurt/uapi.h, "Groups").  When it is opened, a handle joins the group that GPURT_GROUP in the environment names;
 * `gpurt run --group` sets GPURT_GROUP.  Processes that a member makes open handles of their own.  -EOPNOTSUPP: the
 * host has no groups, or not on that GPU; -EBUSY: a segment is open, or the handle is in another group; -EDQUOT: too
 * many groups or members; -EINVAL: the name is empty, too long, or not printable ASCII.
 *
 * @flags: 0, or GPURT_GROUP_ALL: by this flag the first member makes the group raise all its threads under policy
 * `boosted`, and the group raises the calling thread for this handle.  Another thread of the process takes its place by
 * the same call.  Then also -EPERM or -ERANGE: the caller may not or cannot be raised.
 */
int gpurt_group_join(struct gpurt_handle *handle, const char *name, unsigned int flags);

/* Fills @query with the host's version, capabilities and policy. */
int gpurt_query_host(struct gpurt_handle *handle, struct gpurt_query *query);

/*
 * Begins a segment.  Segments nest.  With GPURT_BEGIN_WAIT in @flags it blocks until the segment holds the GPU;
 * GPURT_BEGIN_OWNER or GPURT_BEGIN_FENCE is for a thread that spins inside.  Returns -EINTR if a signal interrupted the
 * wait.  The segment has begun then: wait on with gpurt_segment_wait(), or end it.  After any other error none has
 * begun.
 * @priority: 0 for the caller's own, or 1..99; -EPERM if the caller may not take that priority itself.
 */
int gpurt_segment_begin(struct gpurt_handle *handle, unsigned int flags, unsigned int priority);

/*
 * Ends the innermost segment.  With GPURT_END_DRAIN in @flags it keeps the GPU until submitted work is done.  Returns
 * -EINTR if a signal interrupted that wait, -EOPNOTSUPP if the host does not see the GPU's work.  After these two the
 * segment is still open.
 */
int gpurt_segment_end(struct gpurt_handle *handle, unsigned int flags);

/* Blocks until the segment holds the GPU.  @timeout_ns: GPURT_FOREVER for no limit.  -ETIMEDOUT after that time. */
int gpurt_segment_wait(struct gpurt_handle *handle, uint64_t timeout_ns);

/*
 * Copies between memory and the GPU.  The bus carries one copy at a time, the most urgent first, and does not interrupt
 * copies:
 *
 *	gpurt_copy_begin(h, 0, GPURT_FOREVER);
 *	... copy, and wait until the copy is done ...
 *	gpurt_copy_end(h);
 *
 * gpurt_copy_next(), between two chunks of a long copy, lets more urgent copies come first.  A more urgent copy waits
 * for one chunk of this copy, and this copy for one chunk of a less urgent one.  With a @timeout_ns of GPURT_FOREVER
 * there is no limit, with 0 no wait.  After -ETIMEDOUT and -EINTR, also of gpurt_copy_next(), the caller does not have
 * the bus, and there is no copy to end.  A handle has one copy at a time (-EBUSY): threads that copy at the same time
 * open a handle each.  Returns -ENOENT if no copy is open.  A best-effort copy that has kept the bus from real-time
 * copies for GPURT_COPY_BOUND_NS has lost it, and also gets -ENOENT.  @priority: as for gpurt_segment_begin().
 */
int gpurt_copy_begin(struct gpurt_handle *handle, unsigned int priority, uint64_t timeout_ns);
int gpurt_copy_next(struct gpurt_handle *handle, uint64_t timeout_ns);
int gpurt_copy_end(struct gpurt_handle *handle);

/*
 * Makes a copy of @size bytes in chunks of @chunk bytes at most.  Calls @copy for each chunk with the bus held.  The
 * callback @copy returns when its part is copied: 0, or an error, which ends the whole copy and is the result.  A
 * signal does not end the copy.  @handle NULL and no host: copies all at once, unmanaged.  -EINVAL: @chunk is 0.
 */
int gpurt_copy_chunks(struct gpurt_handle *handle, unsigned int priority, size_t size, size_t chunk,
		      int (*copy)(void *context, size_t offset, size_t length), void *context);

/* For the virtual GPU: makes a time-slice group, gives it work, waits for work.  @work, @completed_ns: may be NULL. */
int gpurt_tsg_open(struct gpurt_handle *handle, uint32_t *tsg);
int gpurt_tsg_close(struct gpurt_handle *handle, uint32_t tsg);
int gpurt_submit_work(struct gpurt_handle *handle, uint32_t tsg, uint32_t engine, unsigned int flags,
		      uint64_t duration_ns, uint64_t *work);
/* A kernel that other kernels slow down (gpurt/uapi.h, "GPURT_IOC_SUBMIT").  @conflict: thousandths; 0: 1,000. */
int gpurt_submit_kernel(struct gpurt_handle *handle, uint32_t tsg, unsigned int flags, uint32_t conflict,
			uint64_t duration_ns, uint64_t *work);
/* Gives a time-slice group an interleave level and a slice; 0: that of the GPU. */
int gpurt_tsg_shape(struct gpurt_handle *handle, uint32_t tsg, uint32_t level, uint64_t slice_ns);
int gpurt_work_wait(struct gpurt_handle *handle, uint32_t tsg, uint64_t work, uint64_t timeout_ns,
		    uint64_t *completed_ns);

/*
 * Jobs on hosts that share a GPU's units (gpurt/uapi.h, "Units").  All answer -EOPNOTSUPP on other hosts.
 *
 *	gpurt_job_ready(NULL, "camera", 0, &job);
 *	gpurt_job_wait(NULL, job, GPURT_FOREVER, &grant);	// -ETIME: skipped; -EINTR: call it again
 *	... copy in, kernel on grant.units units from grant.first on of GPU grant.gpu ...
 *	gpurt_job_kernel_done(NULL, job);
 *	... copy out ...
 *	gpurt_job_done(NULL, job);
 */
int gpurt_job_ready(struct gpurt_handle *handle, const char *task, uint64_t release_ns, uint64_t *job);
int gpurt_job_wait(struct gpurt_handle *handle, uint64_t job, uint64_t timeout_ns, struct gpurt_job_wait *grant);
int gpurt_job_kernel_done(struct gpurt_handle *handle, uint64_t job);
int gpurt_job_done(struct gpurt_handle *handle, uint64_t job);

/*
 * For the virtual GPU: executes the job's copy in and its kernel, and returns when the kernel has ended.  A
 * @duration_ns of 0 is the worst case in the host's file.  After -EINTR the kernel executes on; gpurt_job_wait_kernel()
 * waits for it.
 * @completed_ns: may be NULL.
 */
int gpurt_job_run(struct gpurt_handle *handle, uint64_t job, uint32_t units, uint64_t duration_ns,
		  uint64_t *completed_ns);
int gpurt_job_wait_kernel(struct gpurt_handle *handle, uint64_t job, uint64_t timeout_ns, uint64_t *completed_ns);

/*
 * The units of a grant as a mask, as CU masks are given to a driver: bit n of word n / 32 is unit n.  Returns -EINVAL,
 * and changes nothing, if @words is too few.
 */
int gpurt_job_mask(const struct gpurt_job_wait *grant, uint32_t *mask, uint32_t words);

/*
 * Jobs that a program announces, on every host and under every policy.  Readers of events (`gpurt run`, `gpurt watch`,
 * `gpurt trace`) learn when each job was released, began and ended, and can judge it:
 *
 *	gpurt_job_begin(NULL, "camera", number, release_ns);
 *	... the job: CPU work, segments, copies ...
 *	gpurt_job_end(NULL);
 *
 * A thread has one job at a time (-EBUSY), and the same thread ends it (-ENOENT: it has no job of this handle).
 * Readers also learn the CPU time that the thread used during the job.  No decision of the host depends on
 * announcements.  The name of the task in the taskset file is @task.  NULL is the environment's GPURT_TASK_NAME, which
 * `gpurt run` sets, or else the program's name.  Returns -EINVAL if the name is empty or too long, or not printable
 * ASCII, or if the release is yet to come.  @job counts the task's jobs.  If the end of another task's job releases
 * this job (a triggered link of a [[chain]]), both have the same number, and this job is released when the program
 * learns of that end.  The release is @release_ns, CLOCK_MONOTONIC; 0: now.  After an error the job has not begun, and
 * there is no job to end.  After fork() the child has no job to end.  Readers can tell which task a segment belongs to
 * only if its client serves one task: threads of different tasks open a handle each.
 */
int gpurt_job_begin(struct gpurt_handle *handle, const char *task, uint64_t job, uint64_t release_ns);
int gpurt_job_end(struct gpurt_handle *handle);

/*
 * A periodic task:
 *
 *	gpurt_periodic_init(&p, NULL, "camera", 33000000, 0);
 *	while (!gpurt_periodic_next(&p))
 *		... the job ...
 *	gpurt_periodic_stop(&p);
 *
 * gpurt_periodic_next() ends the previous job, sleeps until the next release, and begins the next job.  Releases are at
 * first, first + period, first + 2 period and so on, however long jobs and sleeps take: releases do not drift.  A job
 * whose release has passed when the previous job ends begins at once, and counts in @behind.  Returns -EINTR if a
 * signal came before the release; call it again, or stop.  Other errors are those of gpurt_job_begin() and _end().  If
 * the handle is NULL and there is no host, the task runs unmanaged.
 *
 * The first release is at @first_ns, CLOCK_MONOTONIC; 0: a period from now.  The result of gpurt_periodic_init() is
 * -EINVAL if the period is 0 or above an hour, or the first release is more than an hour from now.
 */
struct gpurt_periodic {
	struct gpurt_handle *handle;
	uint64_t period_ns;
	uint64_t next_ns;		/* the next release */
	uint64_t job;			/* number of the last job, from 0 */
	uint64_t release_ns;		/* of that job */
	uint64_t jobs;			/* how many have begun */
	uint64_t behind;		/* of these, how many were released before the previous job had ended */
	uint64_t jitter_max_ns;		/* of the others, the time from release to wake-up */
	uint64_t jitter_sum_ns;
	uint32_t open;			/* the library's own */
	uint32_t slept;			/* the library's own */
	char task[GPURT_TASK_LEN];
};

int gpurt_periodic_init(struct gpurt_periodic *p, struct gpurt_handle *handle, const char *task, uint64_t period_ns,
			uint64_t first_ns);
int gpurt_periodic_next(struct gpurt_periodic *p);
int gpurt_periodic_stop(struct gpurt_periodic *p);

#ifdef __cplusplus
}
#endif

#endif /* GPURT_H */
