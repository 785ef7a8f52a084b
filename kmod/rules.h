/* SPDX-License-Identifier: GPL-2.0 */
/* The administrator's rules about processes. */
#ifndef GPURT_RULES_H
#define GPURT_RULES_H

#include <linux/types.h>

struct pid;

/* What a rule says of the processes that it names. */
enum gpurt_rule {
	GPURT_RULE_EXEMPT,		/* their TSGs stay on every runlist (exempt.c) */
	GPURT_RULE_BARRED,		/* policy `boosted` does not raise their threads (boost.c) */
	GPURT_RULE_COUNT,
};

int gpurt_rule_change(enum gpurt_rule what, u32 attr, const char *text, struct pid *pid, bool add, const char **why);
bool gpurt_rule_holds(enum gpurt_rule what, struct pid *tgid, const char *comm);
void gpurt_rules_clear(void);

bool gpurt_has_cgroups(void);
bool gpurt_cgroup_is_below(const char *path, const char *prefix);
void gpurt_cgroup_of(struct pid *tgid, char *path, size_t size);

#endif
