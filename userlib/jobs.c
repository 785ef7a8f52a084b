// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Jobs that get units of a GPU: the functions gpurt_job_* of gpurt.h. */
#include <errno.h>
#include <string.h>

#include <gpurt.h>

#include "handle.h"

int gpurt_job_ready(struct gpurt_handle *h, const char *task, uint64_t release_ns, uint64_t *job)
{
	struct gpurt_job_ready r = { .size = sizeof(r), .release_ns = release_ns };
	int err;

	if (strlen(task) >= sizeof(r.task))
		return -ENOENT;		/* no task has a name of that length */
	strcpy(r.task, task);
	err = gpurt_call(h, GPURT_IOC_JOB_READY, &r, false);
	if (!err)
		*job = r.job;
	return err;
}

static int wait_for(struct gpurt_handle *h, uint32_t what, uint64_t job, uint64_t timeout_ns, struct gpurt_job_wait *w)
{
	*w = (struct gpurt_job_wait){ .size = sizeof(*w), .what = what, .job = job, .timeout_ns = timeout_ns };
	return gpurt_call(h, GPURT_IOC_JOB_WAIT, w, true);
}

int gpurt_job_wait(struct gpurt_handle *h, uint64_t job, uint64_t timeout_ns, struct gpurt_job_wait *grant)
{
	return wait_for(h, GPURT_JOB_GRANT, job, timeout_ns, grant);
}

int gpurt_job_wait_kernel(struct gpurt_handle *h, uint64_t job, uint64_t timeout_ns, uint64_t *completed_ns)
{
	struct gpurt_job_wait w;
	int err = wait_for(h, GPURT_JOB_KERNEL, job, timeout_ns, &w);

	if (!err && completed_ns)
		*completed_ns = w.when_ns;
	return err;
}

int gpurt_job_run(struct gpurt_handle *h, uint64_t job, uint32_t units, uint64_t duration_ns, uint64_t *completed_ns)
{
	struct gpurt_job_run r = { .size = sizeof(r), .units = units, .job = job, .duration_ns = duration_ns };
	int err = gpurt_call(h, GPURT_IOC_JOB_RUN, &r, false);

	return err ? err : gpurt_job_wait_kernel(h, job, GPURT_FOREVER, completed_ns);
}

static int say(struct gpurt_handle *h, uint32_t code, uint64_t job)
{
	struct gpurt_job_done d = { .size = sizeof(d), .job = job };

	return gpurt_call(h, code, &d, false);
}

int gpurt_job_kernel_done(struct gpurt_handle *h, uint64_t job)
{
	return say(h, GPURT_IOC_JOB_KERNEL_DONE, job);
}

int gpurt_job_done(struct gpurt_handle *h, uint64_t job)
{
	return say(h, GPURT_IOC_JOB_DONE, job);
}

int gpurt_job_mask(const struct gpurt_job_wait *grant, uint32_t *mask, uint32_t words)
{
	uint32_t unit, end = grant->first + grant->units;

	if (end < grant->first || end > (uint64_t)words * 32)
		return -EINVAL;
	memset(mask, 0, words * sizeof(*mask));
	for (unit = grant->first; unit < end; unit++)
		mask[unit / 32] |= UINT32_C(1) << unit % 32;
	return 0;
}
