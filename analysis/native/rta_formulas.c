// SPDX-License-Identifier: GPL-2.0
/* The table of compiled formulas as an array. */
#include "rta_internal.h"

#define ROW(name, function, segmented, charges) { name, function, segmented, charges },
static const struct rta_formula formulas[] = { RTA_FORMULAS(ROW) };
#undef ROW

#define COUNT (sizeof(formulas) / sizeof(*formulas))

const char *gpurt_rta_formula(u32 formula)
{
	return formula < COUNT ? formulas[formula].name : NULL;
}

bool rta_test_init(struct rta_test *test, const struct gpurt_rta_test *from)
{
	if (from->formula >= COUNT || from->equals > GPURT_RTA_UNBOUNDED || from->busy > GPURT_RTA_SOME ||
	    from->poll < 0)
		return false;
	*test = (struct rta_test){
		.formula = &formulas[from->formula], .equals = from->equals, .busy = from->busy,
		.ordered = from->ordered, .any_order = from->any_order, .poll = from->poll,
	};
	return true;
}
