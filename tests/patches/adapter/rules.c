// SPDX-License-Identifier: GPL-2.0
/*
 * The rules about processes (kmod/base/rules.c, as rules.inc), read and changed at once.  The function that is told of
 * each rule does here what one CPU does in the middle of another one's reading.
 */
#include "shim.h"

#define CONFIG_CGROUPS
#undef list_del_rcu
#undef rcu_read_lock
#undef rcu_read_unlock
#define smp_load_acquire(p) (*(p))
#define smp_store_release(p, v) (*(p) = (v))

/* A reader of the entry goes on. */
static void list_del_rcu(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

/* Functions that are given to call_rcu() while somebody reads are kept until nobody does. */
static struct {
	struct rcu_head *head;
	void (*function)(struct rcu_head *head);
} later[100];
static int readers, callbacks;

static void rcu_read_lock(void)
{
	readers++;
}

static void rcu_read_unlock(void)
{
	if (--readers)
		return;
	while (callbacks) {
		callbacks--;
		later[callbacks].function(later[callbacks].head);
	}
}

static void call_rcu(struct rcu_head *head, void (*function)(struct rcu_head *head))
{
	assert(callbacks < 100);
	later[callbacks].head = head;
	later[callbacks++].function = function;
}

/* Processes: which live, and where. */
typedef struct {
	unsigned int value;
} kuid_t;
struct kernfs_node {
	char path[1000];
};
struct cgroup {
	struct kernfs_node *kn;
};
#define PROCESSES 4
#define INVALID_UID ((kuid_t){ -1 })
#define task_uid(task) ((kuid_t){ (task)->pid->number })
static struct pid pids[PROCESSES];
static struct task_struct tasks[PROCESSES];
static struct kernfs_node nodes[PROCESSES];
static struct cgroup cgroups[PROCESSES];
static bool tells_less;			/* Linux 6.9 and newer: of a path that is too long, the length of what was written */

static struct task_struct *pid_task(struct pid *pid, int type)
{
	assert(readers);
	return tasks[pid->number].pid ? &tasks[pid->number] : NULL;
}

static struct cgroup *task_dfl_cgroup(struct task_struct *task)
{
	assert(readers);
	return &cgroups[task->pid->number];
}

static int kernfs_path(struct kernfs_node *node, char *text, size_t size)
{
	int length = snprintf(text, size, "%s", node->path);

	return tells_less && length >= (int)size ? (int)size - 1 : length;
}

struct file_system_type {
	void *fs_supers;
	struct module *owner;
};
static struct file_system_type cgroup2 = { &pids };
#define get_fs_type(name) (&cgroup2)
#define hlist_empty(list) (!*(list))
#define ktime_get_ns() 5

#include "rules.inc"

static void put_on(struct pid *pid, bool add)
{
	const char *why = NULL;

	assert(!gpurt_rule_change(GPURT_RULE_EXEMPT, GPURT_A_PID, "", pid, add, &why) && !why);
}

static void put_below(const char *path, bool add)
{
	const char *why = NULL;

	assert(!gpurt_rule_change(GPURT_RULE_BARRED, GPURT_A_CGROUP, path, NULL, add, &why) && !why);
}

static bool is_exempt(int process)
{
	return gpurt_rule_holds(GPURT_RULE_EXEMPT, &pids[process], "x");
}

static bool is_barred(int process)
{
	return gpurt_rule_holds(GPURT_RULE_BARRED, &pids[process], "x");
}

/* The processes that the walk has told of. */
static int told[PROCESSES], tellings;

/* Another CPU removes this rule and the next one meanwhile, makes one, and asks. */
static int change_while_told(const struct gpurt_rule_entry *rule, void *about)
{
	if (!tellings) {
		assert(is_exempt(0) && is_exempt(1));
		put_on(&pids[0], false);
		put_on(&pids[1], false);
		put_on(&pids[3], true);
		assert(!is_exempt(0) && !is_exempt(1) && is_exempt(3));
	}
	assert(rule->pid->references > 0);
	told[tellings++] = rule->pid->number;
	return 0;
}

static void test_rules_that_change_while_they_are_read(void)
{
	unsigned int before, after;
	u64 last;
	int i;

	for (i = 0; i < 3; i++)
		put_on(&pids[i], true);
	last = gpurt_rules_last();
	assert(!gpurt_rules_walk(0, last, &before, change_while_told, NULL));
	/* The walk may tell of the second one or not. */
	assert(told[0] == 0 && told[tellings - 1] == 2 && tellings <= 3);
	assert(!gpurt_rules_walk(last, last, &after, change_while_told, NULL) && told[tellings - 1] == 2);
	assert(before && after && before != after);
	assert(!pids[0].references && !pids[1].references && pids[2].references == 1);
	tasks[2].pid = NULL;		/* a process that ends: its rule is not told of, and goes with the next change */
	tellings = 1;
	assert(!gpurt_rules_walk(0, gpurt_rules_last(), &after, change_while_told, NULL));
	assert(tellings == 2 && told[1] == 3);
	put_on(&pids[0], true);
	assert(!pids[2].references && is_exempt(3));
	gpurt_rules_clear();
	rcu_read_lock();
	rcu_read_unlock();
	for (i = 0; i < PROCESSES; i++)
		assert(!pids[i].references);
	tasks[2].pid = &pids[2];
}

/* A process below a cgroup is below it however far. */
static void test_long_paths(void)
{
	char rule[GPURT_CGROUP_LEN];
	int kernel;

	for (kernel = 0; kernel < 2; kernel++) {
		tells_less = kernel;
		strcpy(nodes[0].path, "/a");
		memset(nodes[0].path + 2, 'b', 900);
		nodes[0].path[902] = '\0';
		assert(!is_barred(0));
		put_below("/a", true);
		assert(!is_barred(0));	/* a path's beginning is not a cgroup above it */
		nodes[0].path[2] = '/';
		assert(is_barred(0));
		put_below("/a", false);
		/* The longest rule, and a path that goes on with a character, or with a cgroup, or not. */
		memcpy(rule, nodes[0].path, sizeof(rule));
		rule[sizeof(rule) - 1] = '\0';
		put_below(rule, true);
		assert(!is_barred(0));
		nodes[0].path[strlen(rule)] = '/';
		assert(is_barred(0));
		nodes[0].path[strlen(rule)] = '\0';
		assert(is_barred(0));
		put_below(rule, false);
		assert(!is_barred(0));
	}
	tasks[0].pid = NULL;
	put_below("/", true);
	assert(is_barred(1) && !is_barred(0));
	gpurt_rules_clear();
	rcu_read_lock();
	rcu_read_unlock();
}

int main(void)
{
	int i;

	for (i = 0; i < PROCESSES; i++) {
		pids[i].number = i;
		tasks[i].pid = &pids[i];
		cgroups[i].kn = &nodes[i];
		strcpy(nodes[i].path, "/");
	}
	test_rules_that_change_while_they_are_read();
	test_long_paths();
	puts("ok");
	return 0;
}
