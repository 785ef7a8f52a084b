// SPDX-License-Identifier: GPL-2.0
/*
 * The table of compiled formulas.  A row of the registry (analysis/answers/registry.py) refers to a formula by its name
 * and states all other facts of the test.
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

const struct rta_formula *rta_formula(u32 place)
{
	return place < sizeof(formulas) / sizeof(*formulas) ? &formulas[place] : NULL;
}

const char *gpurt_rta_formula(u32 place)
{
	return rta_formula(place) ? formulas[place].name : NULL;
}
