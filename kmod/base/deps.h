/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits that lockdep does not see by itself: for the gate, for the flush of a kernel thread's work item, for readers
 * (SRCU, before 6.3).  For lockdep each is a lock.  The thread that others wait for holds it, and a waiting thread
 * takes it.  Without lockdep nothing of this is compiled.  docs/locks.md has the order of all locks.
 */
#ifndef GPURT_DEPS_H
#define GPURT_DEPS_H

#include <linux/lockdep.h>

#ifdef CONFIG_LOCKDEP
#define GPURT_DEP(name) struct lockdep_map name = STATIC_LOCKDEP_MAP_INIT("gpurt " #name, &(name))
#else
#define GPURT_DEP(name) struct lockdep_map name
#endif

/* The caller executes what others may wait for, until gpurt_dep_end(). */
static inline void gpurt_dep_begin(struct lockdep_map *dep)
{
	lock_map_acquire(dep);
}

/* The same for readers, which may be many at once, and nested. */
static inline void gpurt_dep_read(struct lockdep_map *dep)
{
	lock_map_acquire_read(dep);
}

static inline void gpurt_dep_end(struct lockdep_map *dep)
{
	lock_map_release(dep);
}

/* The caller waits until no thread executes it. */
static inline void gpurt_dep_wait(struct lockdep_map *dep)
{
	lock_map_acquire(dep);
	lock_map_release(dep);
}

#endif
