/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A GPU's policy, and the way in which policy `job` notices.  The policies' decisions are
 * core/sched.c.
 */
#ifndef GPURT_POLICY_H
#define GPURT_POLICY_H

#include <linux/types.h>

struct gpurt_gpu;

#define GPURT_POLICY_SPANNED \
	"a group is in segments on several GPUs, which no lock policy can have; try again later"

int gpurt_policy_check(void);
const char *gpurt_policy_words(void);
void gpurt_policy_init(struct gpurt_gpu *gpu);
void gpurt_policy_stop(struct gpurt_gpu *gpu);
int gpurt_policy_may(struct gpurt_gpu *gpu, u32 policy);
int gpurt_policy_set(struct gpurt_gpu *gpu, u32 policy, u32 notice, u64 poll_ns, const char **why);

#endif
