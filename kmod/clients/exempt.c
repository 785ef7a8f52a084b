// SPDX-License-Identifier: GPL-2.0
/* The clients that the administrator exempts: their TSGs stay on every runlist. */
#include <linux/export.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

#include "base/rules.h"
#include "clients/clients.h"
#include "decide/decide.h"
#include "drv/drv.h"
#include "state/client.h"
#include "state/process.h"

/* Whether any rule exempts this client. */
bool gpurt_exempt_matches(const struct gpurt_client *client)
{
	return gpurt_rule_holds(GPURT_RULE_EXEMPT, client->tgid, client->comm);
}

bool gpurt_process_is_exempt(struct pid *tgid)
{
	struct task_struct *task = get_pid_task(tgid, PIDTYPE_TGID);
	char comm[GPURT_COMM_LEN];

	if (!task)
		return false;
	get_task_comm(comm, task);
	put_task_struct(task);
	return gpurt_rule_holds(GPURT_RULE_EXEMPT, tgid, comm);
}
EXPORT_SYMBOL_GPL(gpurt_process_is_exempt);

/*
 * Called with the GPU held alive, when the rules have changed and every client has been told.  A driver that knows
 * processes without clients checks those, and the runlist is made anew.
 */
void gpurt_exempt_tell(struct gpurt_gpu *gpu)
{
	if (!gpu->ops.exemptions_changed)
		return;
	gpu->ops.exemptions_changed(gpu->driver);
	gpurt_updates_refresh(gpu);
}

struct exempt_update {
	struct gpurt_update u;
	bool exempt;
};

static int decide_exempt(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	bool exempt = container_of(u, struct exempt_update, u)->exempt;

	if (u->client->gone)
		return -ENOENT;
	if (u->client->core.exempt == exempt)
		return 0;
	gpu->ops.exempt(gpu->driver, u->client->ctx, exempt);
	gpurt_set_exempt(&gpu->sched, &u->client->core, exempt, now);
	atomic_add(exempt ? 1 : -1, &u->client->process->exempt);
	return 0;
}

/*
 * Called with the GPU held alive.  Exempts the client, or not, as the rules say.  They may change while the decision
 * waits, so it checks again afterwards.
 */
void gpurt_exempt_apply(struct gpurt_client *client)
{
	struct exempt_update e = {
		.u = {
			.decide = decide_exempt, .client = client, .level = GPURT_GATE_CONTROL,
			.flags = GPURT_UPDATE_IN_THREAD,
		},
	};

	if (!client->gpu->ops.exempt)
		return;
	do {
		e.exempt = gpurt_exempt_matches(client);
		/* Without rules most clients need not pass the gate. */
		if (e.exempt == READ_ONCE(client->core.exempt))
			return;
	} while (!gpurt_gate_update(client->gpu, &e.u));
}
