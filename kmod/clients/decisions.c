// SPDX-License-Identifier: GPL-2.0
/*
 * Decisions for a client: its segments begin and end, the control plane sets its priority, its process becomes an
 * agent.  Here the scheduler also learns the driver's news.
 */
#include <linux/atomic.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "clients/clients.h"
#include "decide/decide.h"
#include "state/client.h"
#include "state/exits.h"
#include "state/team.h"

struct value_update {
	struct gpurt_update u;
	u64 value;
};

struct begin_update {
	struct gpurt_update u;
	u32 own, hint, form, state;
};

static int decide_begin(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct begin_update *b = container_of(u, struct begin_update, u);
	struct gpurt_sched_client *c = &u->client->core;
	bool asks = READ_ONCE(u->client->boost.asker) == current;	/* it is raised for this begin */
	int err;

	if (u->client->gone)
		return -ESTALE;
	if (!c->depth) {
		/* Since gpurt_boost_begins() the policy or a priority changed, or another thread ended the segment. */
		if (gpu->sched.policy == GPURT_POLICY_BOOSTED && !asks &&
		    gpurt_client_begin_level(c, b->own, b->hint))
			return -EAGAIN;
		WRITE_ONCE(u->client->killed, false);
		assign_bit(GPURT_BOOST_MAY, &u->client->boost.flags, asks);
		gpurt_boost_form(c, b->form);
	}
	/* A thread of form `self` has already raised itself for this, before it asked the gate. */
	if (asks)
		gpurt_boost_ask(&gpu->sched, c, gpurt_client_begin_level(c, b->own, b->hint), now);
	err = gpurt_begin(&gpu->sched, c, b->own, b->hint, now);
	if (asks)
		gpurt_boost_ask(&gpu->sched, c, 0, now);
	b->state = gpurt_state_of(&gpu->sched, c);
	return err;
}

/* A client of that @level may own the GPU soon, or its group owns it already, perhaps as a lock. */
static void may_keep(struct gpurt_client *client, u32 level)
{
	if (level)
		gpurt_exits_urgent(client);
	else if (client->seat)
		gpurt_exits_holds(client);
}

/*
 * Begins a segment.  The outermost begin states @form.  Returns -EOVERFLOW, or -ENODEV once the driver goes away.
 * After -EAGAIN the caller must call gpurt_boost_begins() and then this again.
 */
int gpurt_client_begin(struct gpurt_client *client, u32 own, u32 hint, u32 form, u32 *state)
{
	struct begin_update b = {
		.u = { .decide = decide_begin, .client = client, .flags = GPURT_UPDATE_OWN | GPURT_UPDATE_RESTS },
		.own = own, .hint = hint, .form = form,
	};
	u32 level = gpurt_level_of_begin(client, own, hint);
	int err;

	b.u.level = gpurt_client_queues_at(client, level);
	may_keep(client, level);
	err = gpurt_update(client->gpu, &b.u);
	/* The client may have become a member meanwhile. */
	if (unlikely(client->seat))
		may_keep(client, gpurt_level_now(client));
	/* Either gpurt_client_take_off() sees the segment, or this sees that the process ends. */
	smp_mb();
	if (unlikely(gpurt_exits_ends(client->file)))
		gpurt_client_take_off(client);
	*state = b.u.fault ? GPURT_STATE_PENDING : b.state;
	return err;
}

static int decide_end(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	if (u->client->gone)
		return -ESTALE;
	if (!u->client->core.depth)
		return gpurt_client_without_segment(u->client);
	return gpurt_end(&gpu->sched, &u->client->core, now);
}

/* Ends the innermost segment.  -ENOENT, -EIO, or -ENODEV once the driver goes away. */
int gpurt_client_end(struct gpurt_client *client)
{
	struct gpurt_update u = {
		.decide = decide_end, .client = client, .flags = GPURT_UPDATE_OWN,
		.level = gpurt_client_queues_at(client, gpurt_level_now(client)),
	};
	int err;

	err = gpurt_update(client->gpu, &u);
	if (unlikely(client->seat))
		gpurt_exits_calm(client);
	return err;
}

struct agent_update {
	struct gpurt_update u;
	struct gpurt_agent *agent;
};

static int decide_agent(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct gpurt_agent *agent = container_of(u, struct agent_update, u)->agent;
	int err;

	if (u->client->gone)
		return -ESTALE;
	err = gpu->ops.agents->agent(gpu->driver, u->client->ctx, agent, now);
	if (!err) {
		atomic_set(&u->client->tsgs, agent->tsgs);
		gpurt_set_tsgs(&gpu->sched, &u->client->core, agent->tsgs, now);
	}
	return err;
}

/*
 * The client is its process's agent, and that process has agent->tsgs TSGs now.  Errors as GPURT_IOC_AGENT.  An agent
 * registers between updates, so no update waits for a program that has just started.
 */
int gpurt_client_agent(struct gpurt_client *client, struct gpurt_agent *agent)
{
	struct gpurt_gpu *gpu = client->gpu;
	struct agent_update a = {
		.u = {
			.decide = decide_agent, .client = client,
			.flags = GPURT_UPDATE_OWN | GPURT_UPDATE_RESTS | GPURT_UPDATE_IN_THREAD,
			.level = gpurt_client_caller_level(client),
		},
		.agent = agent,
	};
	int err, token;

	if (!gpurt_gpu_hold(gpu, &token))
		return -ENODEV;
	err = gpurt_gate_update(gpu, &a.u);
	if (err == -EDQUOT)
		pr_warn_ratelimited("gpurt: GPU %u: process %d runs unmanaged: its user has too many agents (agent_limit)\n",
				    gpu->index, task_tgid_nr(current));
	/*
	 * A caller that was killed while it waited has registered an agent that never answers.  The process may have
	 * other threads that live until updates are over, and updates must not wait for that agent.
	 */
	if (fatal_signal_pending(current) && gpu->ops.client_ends)
		gpu->ops.client_ends(gpu->driver, client->ctx, true);
	if (!err && agent->tsgs)
		gpurt_job_tsg_opened(gpu);
	gpurt_gpu_release(gpu, token);
	return err;
}

static int decide_priority(struct gpurt_gpu *gpu, struct gpurt_update *u, u64 now)
{
	struct value_update *v = container_of(u, struct value_update, u);

	if (u->client->gone)
		return 0;
	if (u->client->seat)
		return gpurt_group_set_level(&u->client->seat->core, v->value, now);
	return gpurt_set_priority(&gpu->sched, &u->client->core, v->value, now);
}

/*
 * Called with the GPU held alive, and clients kept from being freed.  The control plane sets the priority of the client
 * or its group; see gpurt_set_priority() and gpurt_group_set_level().
 */
int gpurt_client_priority(struct gpurt_client *client, u32 priority)
{
	struct value_update v = {
		.u = { .decide = decide_priority, .client = client, .level = GPURT_GATE_CONTROL }, .value = priority,
	};
	int err;

	err = gpurt_gate_update(client->gpu, &v.u);
	gpurt_boost_returns(client, false);
	gpurt_group_leveled(client);
	return err;
}
