/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Between gpurt, which decides whose work a GPU may execute, and the GPU's
 * driver, which carries that out.  The driver exports a struct gpurt_port.
 * gpurt finds it by symbol_get(), and attaches a struct gpurt_hooks.  A driver
 * that is unloaded calls removed() instead.  Without hooks everyone runs.
 *
 * "TSG" stands for what is on the runlist, or off it, as a whole: on AMD GPUs
 * all user queues of a process.  @gpu is the driver's, opaque to gpurt.
 *
 * Locks, the outermost first:
 * - gpurt's mutex in attach() and detach(), which no hook takes;
 * - the driver's mutex of its GPUs: attach() and detach() take it, the first
 *   three hooks are called with it, and commit() never takes it;
 * - what commit() takes of one GPU: added() and tsgs() of that GPU may be
 *   called with it, removed() not;
 * - gpurt's mutexes in the first three hooks; gpurt allocates memory there, so
 *   the driver holds no lock that reclaim takes;
 * - the driver's spinlocks, with which it calls the other hooks;
 * - gpurt's raw spinlocks.
 */
#ifndef GPURT_PORT_H
#define GPURT_PORT_H

#include <linux/types.h>

/*
 * Of both structures.  Each side compares the other's version before it reads
 * anything else; whatever changes below changes the version.
 */
#define GPURT_PORT_VERSION 1

struct module;
struct pid;

/*
 * Offered by gpurt until detach().  None calls the port.  The first three are
 * called in process context, one at a time, and may sleep, tsgs() for a short
 * time; the others in any context except interrupts, and beside all calls.  Of
 * a GPU that is not yet added, is refused, or is removed, everyone may run,
 * and gpurt ignores the rest.
 */
struct gpurt_hooks {
	u32 version;
	/*
	 * The GPU is there; its driver may still be powering it, and commit()
	 * waits for that, so this must not wait for commit().  @refused: why
	 * commit() cannot work, or NULL.
	 */
	void (*added)(void *gpu, const char *name, const char *refused);
	/* It goes.  gpurt calls commit() while this waits, and not later. */
	void (*removed)(void *gpu);
	/*
	 * The process has @change more TSGs.  Right after added() it is told
	 * of those that are older.  @tgid is valid until the last one closes.
	 */
	void (*tsgs)(void *gpu, struct pid *tgid, int change);
	/*
	 * May the process's TSGs be on the runlist?  Asked whenever the driver
	 * builds one, not only for commit(); so none comes back by itself.
	 */
	bool (*may_run)(void *gpu, struct pid *tgid);
	/* Work of the process was aborted, because it failed. */
	void (*killed)(void *gpu, struct pid *tgid);
	/*
	 * The GPU is being reset; or is usable again.  If a reset fails, the
	 * next begins without an end of the first.
	 */
	void (*reset)(void *gpu, bool begins);
};

/* Offered by the driver.  All are called in process context, and may sleep. */
struct gpurt_port {
	u32 version;
	struct module *owner;		/* the driver's, for messages */
	/* -EINVAL: another version; -EBUSY: somebody is attached. */
	int (*attach)(const struct gpurt_hooks *hooks);
	/* Calls removed() for each GPU, then puts everyone on the runlist. */
	void (*detach)(void);
	/*
	 * Make the runlists what may_run() says, and return when nothing else
	 * executes any more.  Called by the GPU's thread, without a lock, one
	 * at a time for a GPU, beside attach(), detach() and hooks.
	 * -ETIMEDOUT: it is not known what executes.  Any other error:
	 * nothing has changed; -EOPNOTSUPP: nor can it, for now.
	 */
	int (*commit)(void *gpu);
};

/* The symbols that drivers export. */
extern const struct gpurt_port amdgpu_gpurt_port, nvgpu_gpurt_port, nvidia_gpurt_port;

#endif
