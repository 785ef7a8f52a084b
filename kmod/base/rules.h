/* SPDX-License-Identifier: GPL-2.0 */
/* The administrator's rules about processes. */
#ifndef GPURT_RULES_H
#define GPURT_RULES_H

#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "uapi/gpurt.h"

struct pid;

/* A rule's effect on the processes that it names. */
enum gpurt_rule {
	GPURT_RULE_EXEMPT,		/* their TSGs stay on every runlist (exempt.c) */
	GPURT_RULE_BARRED,		/* policy `boosted` does not raise their threads (boost.c) */
	GPURT_RULE_COUNT,
};

/* Never changes. */
struct gpurt_rule_entry {
	struct list_head node;		/* read under RCU */
	struct rcu_head rcu;
	enum gpurt_rule what;
	u32 attr;			/* GPURT_A_PID, GPURT_A_COMM or GPURT_A_CGROUP */
	struct pid *pid;
	char text[GPURT_CGROUP_LEN];
	kuid_t user;			/* of the process, when the rule was made */
	u64 id;				/* later rules have higher ids */
	u64 since;			/* CLOCK_MONOTONIC */
};

/* Called under RCU.  An error ends the walk. */
typedef int (*gpurt_rule_fn)(const struct gpurt_rule_entry *rule, void *about);

int gpurt_rule_change(enum gpurt_rule what, u32 attr, const char *text, struct pid *pid, bool add, const char **why);
bool gpurt_rule_holds(enum gpurt_rule what, struct pid *tgid, const char *comm);
u64 gpurt_rules_last(void);
int gpurt_rules_walk(u64 after, u64 last, unsigned int *changes, gpurt_rule_fn fn, void *about);
void gpurt_rules_clear(void);

/*
 * The size that gpurt_cgroup_of() fills: one character more than a rule can have shows whether a path is longer.
 */
#define GPURT_CGROUP_START (GPURT_CGROUP_LEN + 1)

bool gpurt_has_cgroups(void);
bool gpurt_cgroup_is_below(const char *path, const char *prefix);
void gpurt_cgroup_of(struct pid *tgid, char path[GPURT_CGROUP_START]);

#endif
