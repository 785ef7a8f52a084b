// SPDX-License-Identifier: GPL-2.0
/*
 * The table of compiled formulas.  A row of the registry (analysis/answers/registry.py) refers to a formula by its name and
 * states all other facts of the test.
 */
#include "rta_internal.h"

static const struct rta_formula formulas[] = {
	{ "gcaps-suspend", rta_gcaps_suspend, NULL, false },
	{ "gcaps-busy", rta_gcaps_busy, NULL, false },
	{ "boosted-suspend", rta_boosted_suspend, &rta_boosted_suspend_segments, true },
	{ "boosted-busy", rta_boosted_busy, &rta_boosted_busy_segments, true },
	{ "boosted-busy-fence", rta_boosted_fence, &rta_boosted_fence_segments, true },
	{ "boosted-mixed", rta_boosted_mixed, &rta_boosted_mixed_segments, true },
};

const char *gpurt_rta_formula(u32 formula)
{
	return formula < sizeof(formulas) / sizeof(*formulas) ? formulas[formula].name : NULL;
}

bool rta_test_init(struct rta_test *test, const struct gpurt_rta_test *from)
{
	if (!gpurt_rta_formula(from->formula) || from->busy > GPURT_RTA_SOME)
		return false;
	*test = (struct rta_test){
		.formula = &formulas[from->formula], .busy = from->busy, .any_order = from->any_order,
	};
	return true;
}
