/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of compiled formulas: name, function, extra functions if it looks at single segments, and what it charges
 * (enum rta_charges).  A row of the registry (analysis/answers/registry.py) refers to a formula by its name and states
 * all other facts of the test.
 */
#ifndef GPURT_RTA_FORMULAS_H
#define GPURT_RTA_FORMULAS_H

#define RTA_FORMULAS(FORMULA) \
	/* C + G on the CPU, no GPU: the classic recurrence, to measure against; no row refers to it */ \
	FORMULA("fixed-priority", rta_fixed_priority, NULL, RTA_INDEPENDENT) \
	/* rta_gcaps.c */ \
	FORMULA("gcaps-suspend", rta_gcaps_suspend, NULL, RTA_DEMAND) \
	FORMULA("gcaps-busy", rta_gcaps_busy, NULL, RTA_DEMAND) \
	FORMULA("gcaps-suspend-printed", rta_gcaps_suspend_printed, NULL, RTA_DEMAND) \
	FORMULA("gcaps-busy-printed", rta_gcaps_busy_printed, NULL, RTA_DEMAND) \
	FORMULA("gcaps-busy-evaluated", rta_gcaps_busy_evaluated, NULL, RTA_DEMAND) \
	FORMULA("tsg-rr-suspend", rta_tsg_rr_suspend, NULL, RTA_ROUNDS) \
	FORMULA("tsg-rr-busy", rta_tsg_rr_busy, NULL, RTA_ROUNDS) \
	FORMULA("tsg-rr-suspend-printed", rta_tsg_rr_suspend_printed, NULL, RTA_ROUNDS) \
	FORMULA("tsg-rr-busy-printed", rta_tsg_rr_busy_printed, NULL, RTA_ROUNDS) \
	/* rta_boosted.c */ \
	FORMULA("boosted-suspend", rta_boosted_suspend, &rta_boosted_suspend_segments, RTA_WINDOWS) \
	FORMULA("boosted-busy", rta_boosted_busy, &rta_boosted_busy_segments, RTA_WINDOWS) \
	FORMULA("boosted-busy-fence", rta_boosted_fence, &rta_boosted_fence_segments, RTA_WINDOWS) \
	FORMULA("boosted-mixed", rta_boosted_mixed, &rta_boosted_mixed_segments, RTA_WINDOWS) \
	/* rta_locks.c */ \
	FORMULA("mpcp-suspend", rta_mpcp_suspend, NULL, RTA_QUEUES) \
	FORMULA("mpcp-busy", rta_mpcp_busy, NULL, RTA_QUEUES) \
	FORMULA("mpcp-suspend-published", rta_mpcp_suspend_published, NULL, RTA_QUEUES) \
	FORMULA("mpcp-busy-published", rta_mpcp_busy_published, NULL, RTA_QUEUES) \
	FORMULA("fmlp-suspend", rta_fmlp_suspend, NULL, RTA_QUEUES) \
	FORMULA("fmlp-busy", rta_fmlp_busy, NULL, RTA_QUEUES) \
	FORMULA("fmlp-suspend-published", rta_fmlp_suspend_published, NULL, RTA_QUEUES) \
	FORMULA("fmlp-busy-published", rta_fmlp_busy_published, NULL, RTA_QUEUES) \
	/* rta_thesis.c */ \
	FORMULA("thesis-kthread-busy", rta_kthread_busy, NULL, RTA_DEMAND) \
	FORMULA("thesis-kthread-busy-printed", rta_kthread_busy_printed, NULL, RTA_DEMAND) \
	FORMULA("thesis-ioctl-suspend-printed", rta_ioctl_suspend_printed, NULL, RTA_DEMAND) \
	FORMULA("thesis-ioctl-busy-printed", rta_ioctl_busy_printed, NULL, RTA_DEMAND)

#endif
