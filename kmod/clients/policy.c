// SPDX-License-Identifier: GPL-2.0
/* Sets a GPU's policy, and how policy `job` notices changes. */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/printk.h>

#include "clients/clients.h"
#include "decide/decide.h"
#include "state/gpu.h"

static unsigned int first_policy = GPURT_POLICY_SEGMENT;
module_param_named(policy, first_policy, uint, 0444);
MODULE_PARM_DESC(policy, "policy of new GPUs: 0 timesliced, 1 segment (default), 2 job, 3, 4 lock-*, 5 boosted");

static unsigned int lock_bound_ms = GPURT_LOCK_BOUND_NS / NSEC_PER_MSEC;
module_param(lock_bound_ms, uint, 0444);
MODULE_PARM_DESC(lock_bound_ms, "how long best effort may hold the GPU under lock-* (default 1000; 0: for ever)");

/* 0 if the module's parameter is valid, else -EINVAL or -EOPNOTSUPP. */
int gpurt_policy_check(void)
{
	if (first_policy == GPURT_POLICY_BOOSTED && gpurt_boost_why_not()) {
		pr_err("gpurt: policy=%u: %s\n", first_policy, gpurt_boost_why_not());
		return -EOPNOTSUPP;
	}
	if (first_policy < GPURT_POLICY_COUNT)
		return 0;
	pr_err("gpurt: policy=%u: 0 to %u\n", first_policy, GPURT_POLICY_COUNT - 1);
	return -EINVAL;
}

/*
 * The policy that new GPUs have, in words for people, and a warning if taskset files assume another one.
 */
const char *gpurt_policy_words(void)
{
	static const char * const words[] = {
		[GPURT_POLICY_TIMESLICED] = "timesliced", [GPURT_POLICY_SEGMENT] = "segment",
		[GPURT_POLICY_JOB] = "job",
		[GPURT_POLICY_LOCK_PRIORITY] = "lock-priority", [GPURT_POLICY_LOCK_FIFO] = "lock-fifo",
		[GPURT_POLICY_BOOSTED] = "boosted, which raises the CPU priorities of threads",
	};

	BUILD_BUG_ON(ARRAY_SIZE(words) != GPURT_POLICY_COUNT);
	if (first_policy == GPURT_POLICY_SEGMENT)
		return "segment; taskset files that name none are for boosted, which policy=5 starts with";
	return words[first_policy];
}

struct policy_update {
	struct gpurt_update u;
	u32 policy;
};

static int decide_policy(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	int err = gpurt_set_policy(&gpu->sched, container_of(u, struct policy_update, u)->policy, now);

	/* The previous policy's runner does not have the GPU until an update has succeeded. */
	if (gpu->runlist.fault)
		gpurt_boost_lost(&gpu->sched, now);
	return err;
}

static int decide_spans(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	return gpurt_is_spanned(&gpu->sched) ? -EBUSY : 0;
}

/* Whether the GPU could have the policy now: 0, -EBUSY, or -ENODEV.  The caller asks all GPUs before it changes one. */
int gpurt_policy_may(struct gpurt_gpu *gpu, u32 policy)
{
	struct gpurt_update u = { .decide = decide_spans, .level = GPURT_GATE_CONTROL };

	return gpurt_policy_locks(policy) ? gpurt_update(gpu, &u) : 0;
}

/* -EINVAL, -EOPNOTSUPP or -EBUSY with the reason in @why, or -ENODEV.  On success @why may be a warning. */
int gpurt_policy_set(struct gpurt_gpu *gpu, u32 policy, u32 notice, u64 poll_ns, const char **why)
{
	struct policy_update p = { .u = { .decide = decide_policy, .level = GPURT_GATE_CONTROL }, .policy = policy };
	int err;

	if (poll_ns < GPURT_POLL_MIN_NS || poll_ns > GPURT_POLL_MAX_NS) {
		*why = "a polling period must be 0.1 ms to 10 s";
		return -EINVAL;
	}
	if (policy == GPURT_POLICY_BOOSTED && gpurt_boost_why_not()) {
		*why = gpurt_boost_why_not();
		return -EOPNOTSUPP;
	}
	mutex_lock(&gpu->policy_lock);
	gpurt_job_stop(gpu);
	WRITE_ONCE(gpu->job.notice, notice);
	WRITE_ONCE(gpu->job.poll_ns, poll_ns);
	err = gpurt_update(gpu, &p.u);
	if (err == -EBUSY)
		*why = GPURT_POLICY_SPANNED;
	if (READ_ONCE(gpu->sched.policy) == GPURT_POLICY_JOB && !READ_ONCE(gpu->dying))
		gpurt_job_start(gpu, why);
	mutex_unlock(&gpu->policy_lock);
	return err;
}

/* Called before the GPU can be found: no lock is needed. */
void gpurt_policy_init(struct gpurt_gpu *gpu)
{
	const char *why = NULL;

	mutex_init(&gpu->policy_lock);
	gpurt_job_init(gpu);
	gpu->sched.lock_bound = (u64)lock_bound_ms * NSEC_PER_MSEC;
	gpurt_set_policy(&gpu->sched, first_policy, ktime_get_ns());
	mutex_lock(&gpu->policy_lock);
	if (first_policy == GPURT_POLICY_JOB)
		gpurt_job_start(gpu, &why);
	mutex_unlock(&gpu->policy_lock);
}

/* The GPU is dying: gpurt_policy_set() no longer starts policy `job`. */
void gpurt_policy_stop(struct gpurt_gpu *gpu)
{
	mutex_lock(&gpu->policy_lock);
	gpurt_job_stop(gpu);
	mutex_unlock(&gpu->policy_lock);
}
