// SPDX-License-Identifier: GPL-2.0
/*
 * The table of compiled formulas.  A row of the registry (analysis/answers/registry.py) refers to a formula by its name and
 * states all other facts of the test.
 */
#include "rta_internal.h"

static const struct rta_formula formulas[] = {
	{ "gcaps-suspend", rta_gcaps_suspend, NULL, RTA_DEMAND },
	{ "gcaps-busy", rta_gcaps_busy, NULL, RTA_DEMAND },
	{ "tsg-rr-suspend", rta_tsg_rr_suspend, NULL, RTA_ROUNDS },
	{ "tsg-rr-busy", rta_tsg_rr_busy, NULL, RTA_ROUNDS },
	{ "boosted-suspend", rta_boosted_suspend, &rta_boosted_suspend_segments, RTA_WINDOWS },
	{ "boosted-busy", rta_boosted_busy, &rta_boosted_busy_segments, RTA_WINDOWS },
	{ "boosted-busy-fence", rta_boosted_fence, &rta_boosted_fence_segments, RTA_WINDOWS },
	{ "boosted-mixed", rta_boosted_mixed, &rta_boosted_mixed_segments, RTA_WINDOWS },
	{ "thesis-kthread-busy", rta_kthread_busy, NULL, RTA_DEMAND },
};

const char *gpurt_rta_formula(u32 formula)
{
	return formula < sizeof(formulas) / sizeof(*formulas) ? formulas[formula].name : NULL;
}

bool rta_test_init(struct rta_test *test, const struct gpurt_rta_test *from)
{
	if (!gpurt_rta_formula(from->formula) || from->busy > GPURT_RTA_SOME || from->poll < 0)
		return false;
	*test = (struct rta_test){
		.formula = &formulas[from->formula], .busy = from->busy, .any_order = from->any_order, .poll = from->poll,
	};
	return true;
}
