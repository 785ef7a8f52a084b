/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Runlist updates of one GPU whose TSGs are switched by agents: one in each process, on an unmodified driver
 * (GPURT_IOC_AGENT, GPURT_IOC_ORDER).  This is the protocol; a host only carries its messages.
 *
 * An update that gives the GPU to one process has two steps.
 *
 *   off	Every process whose TSGs must be off is ordered off.  The step is over when each of them has
 *		answered or is late.
 *   on		Every process that may run is ordered on.  The step is over when the owner's agent has
 *		answered or is late, or each agent of the group that owns the GPU.  Then the update
 *		is finished.
 *
 * An update that opens the GPU to everyone takes no process off, so it finishes at once.
 *
 * A process may run if no process is to be alone, if it is that one, or if it is of the group
 * that is to be alone.  An exempt process may run as well: one of its clients is exempt.  An
 * exempt process is ordered on at once; every other one only when step `off` is over.
 *
 * An order replaces the previous one, which is then no longer delivered.  An agent
 * that has not carried out an order within `bound` is late.  An agent that takes back its answer to the present order
 * is late, too.  A late agent stays late, and no update waits for it, until it answers an order.  A new agent of the
 * same process inherits that, even if the process had no client in the meantime.  Processes cost their user nothing, so
 * lateness is the user's as well.  Without `wait`, no update waits for an agent of a user's until none of them has been
 * late for GPURT_AGENT_TRUST_NS.  If one is late soon after it, the time doubles, up to GPURT_AGENT_TRUST_MAX_NS.  So a
 * user who forks delays updates hardly more often than once in GPURT_AGENT_SOON times GPURT_AGENT_TRUST_NS.  With
 * `wait` an update fails (-ETIMEDOUT) if a late process must be off; the host tries it again, later or when `retry`
 * says so.  An agent that says that its driver refused gets the order again, with a new number.
 *
 * The flag: a process may begin without asking while it is the only one with an agent.  Nobody else has to be off then.
 * An order gives the flag, and a later one takes it back.  The agent counts as having given it back when it has
 * answered that order, is late, or is gone.  The host takes the flag back before it registers another agent, and before
 * it decides what a process with the flag must not have (gpurt_agents_recall()).  A host that fails rather than go on
 * gives no flag: a process that was late might still have it.
 *
 * An agent that registers in the middle of a step has the rest of that step's time.  So each step takes `bound`
 * at most, whatever the processes do.
 *
 * While nobody owns the GPU those that are off come on one after the other, late and doubted ones beside them.  The GPU
 * executes the work of the first one as soon as that is on.  The firmware carries out one call after the other.  So a
 * begin that comes meanwhile waits for one of them, and fewer have to go off.  The process that has been off for the
 * longest time comes first: urgent ones in no segment could fill each such while.  Others wait only for the agent that
 * was ordered on last, not for one that registers.  After `bound` all that are left come on, whatever agents do.
 *
 * One call for many: the agent of the process that is to be alone takes the channels of several others off by one
 * call.  Otherwise the firmware would carry out one call after the other.  It is asked only if it and they owe nothing
 * else, and if all are one user's, or it is an administrator's.  The others have orders of their own, which they
 * answer as soon as they know.  An agent that cannot rely on that call, for its channels changed, carries its order
 * out itself.  If the call fails, or is not over after half of `bound`, the others get their order again: `anew`.
 * After a failure those of other users switch themselves until they have other channels.  A call that was given up can
 * still be carried out, later.  So each of its processes is ordered again when it is over.
 *
 * Yield, where the host asks for it (`yields`): the single most urgent process may begin without asking although others
 * run (GPURT_ORDER_YIELD).  Its slice is long, and those of all others are short: so it waits for one short slice, or
 * at worst for one of each.  It has the flag only while no other process holds it.  Each other one must have one group
 * for kernels at most, and have answered that its slice is short.  Its update is over at once.  After
 * GPURT_AGENT_LAZY_NS the others are taken off, by the two steps above, for which the host does not wait.  An end that
 * comes before costs no order.  If the process's last such segment went on for longer, they are taken off at its begin.
 * Else the next one would wait for others' slices, and for their end as well.  It may have them off in any case: only a
 * process with a priority begins so.  A begin of another kind, or a recall, takes them off at once.  While a
 * less urgent process owns the GPU the most urgent one stays on, unless that one began to be alone, or it is in a
 * segment itself, which is less urgent yet.
 *
 * Turns, where the host asks for them too (`turns`): one best-effort process is on at a time.  They last as long as a
 * process with an agent has a priority.  So the most urgent process waits for one of them, not for a slice of each,
 * and an update takes one off.  The process that has the turn passes it on after GPURT_AGENT_TURN_NS, or once it has
 * been in no segment for GPURT_AGENT_LAZY_NS.  It keeps the turn for so long at least, then passes it only
 * to a process in a segment, which is ordered on when all others that take turns have answered that they are off, or
 * are late or doubted.  Its time begins then, so nobody else gets the turn before one that does not answer is late.  No
 * update, begin or launch waits for a turn: it is the GPU that executes the work later.  While a process owns the GPU
 * nobody gets a turn, also where it has begun beside others.  The most urgent process has the flag only while at most
 * one that takes turns may be on, except late and doubted ones.  A process takes no turns if its library does not
 * begin all its segments, nor with a priority, a group, a budget or an exemption.  It is on whenever nobody owns
 * the GPU.  gpurt_agents_at_once() counts each of those, and of the others all that may be on, also late ones.
 *
 * The caller serialises all calls for one gpurt_agents and passes a clock that never runs backwards.  Nothing here
 * locks, allocates, or reads a clock.  An answer for its own process (unless the host yields, or others are to come
 * on), a reminder and the facts cost the same however many processes there are.  An update, a tick, a registration,
 * and a call for others and its answer visit each process that has an agent.  So the number of agents of one user is
 * limited.  His processes cost the host time at a priority that they do not have.
 */
#ifndef GPURT_CORE_AGENTS_H
#define GPURT_CORE_AGENTS_H

#include "env.h"
#include "../uapi/gpurt.h"

#define GPURT_AGENT_BOUND_NS		100000000ULL	/* how long an agent may take, unless the host says otherwise */
#define GPURT_AGENT_BOUND_MIN_NS	1000000ULL
#define GPURT_AGENT_BOUND_MAX_NS	60000000000ULL
#define GPURT_AGENT_AGAIN_NS		1000000ULL	/* after a refusal the order is given again so much later */
#define GPURT_AGENT_LIMIT		32U		/* agents of one user, unless the host says otherwise */
#define GPURT_AGENT_UNLIMITED		U64_MAX		/* a user who may have any number */
#define GPURT_AGENT_TRUST_NS		1000000000ULL
#define GPURT_AGENT_TRUST_MAX_NS	(1024 * GPURT_AGENT_TRUST_NS)
#define GPURT_AGENT_SOON		16	/* times as long as the last one: that is forgotten then */
#define GPURT_AGENT_USERS		16	/* late ones that are remembered: those who were late last */
#define GPURT_AGENT_LAZY_NS		1000000ULL	/* how long the most urgent process may run beside the others */
#define GPURT_AGENT_TURN_NS		20000000ULL	/* a best-effort process's, while others want one */
#define GPURT_AGENT_NAMES		(GPURT_NAME_LEN / 2)	/* that fit into a text, with '+' between them */

/* The owner of an update may ask for less than to be alone, if the host yields. */
enum gpurt_agents_way {
	GPURT_AGENTS_ALONE,
	GPURT_AGENTS_BESIDE,	/* the most urgent process may stay on */
	GPURT_AGENTS_YIELD,	/* it is that one, and began by GPURT_ORDER_YIELD: others go off later, if it may */
};

enum gpurt_agents_step {
	GPURT_AGENTS_NO_UPDATE,
	GPURT_AGENTS_OFF,
	GPURT_AGENTS_ON,
};

/* The answer that a process still owes. */
enum gpurt_agent_owes {
	GPURT_AGENT_OWES_NOTHING,	/* it has answered, has no agent, or may run beside the owner */
	GPURT_AGENT_OWES_ANSWER,	/* that it is off */
	GPURT_AGENT_OWES_LATE,		/* an answer that no update waits for: it or its user is late */
	GPURT_AGENT_OWES_START,		/* that it is on: it owns the GPU, or its group does */
	GPURT_AGENT_OWES_TURN,		/* that it is off, before another one's turn; no update waits for that */
	GPURT_AGENT_OWES_COUNT,
};

/*
 * The slice of a process's group for kernels, shortest first: by GPURT_ORDER_SHORT, without order, by GPURT_ORDER_LONG.
 */
enum gpurt_agent_slice {
	GPURT_AGENT_UNKNOWN,		/* an order is not answered yet */
	GPURT_AGENT_SHORT,
	GPURT_AGENT_DRIVERS,		/* the driver's, or the program's own */
	GPURT_AGENT_LONG,
};

struct gpurt_agent_process {
	struct list_head node;		/* of gpurt_agents.registered */
	u64 number;			/* by which it owns the GPU alone */
	u64 group;			/* number of its group, with which it owns the GPU; 0: it is in none */
	u64 user;			/* whose the agent is, as the host numbers users */
	u32 exempt;			/* how many of its clients are */
	u32 owes;			/* enum gpurt_agent_owes, as counted in gpurt_agents.owing */
	bool late;			/* outlives the agent, and the process's clients */
	bool doubted;			/* its user was late, as of the last update or tick */
	u64 until;			/* when that is over */
	bool registered;		/* has an agent; without one the rest means nothing */
	bool on;			/* the last order: may its TSGs run */
	bool free;			/* the last order: may it begin without asking */
	bool plain;			/* it may be given that: the host's word */
	bool yields;			/* the last order: it is not alone where it may */
	bool automatic;			/* its library begins a segment for all its work */
	bool outlasts;			/* its last segment beside others went on until these were to be off */
	bool single;			/* it has one group for kernels at most, and its agent can set its slice */
	u32 slice;			/* the last order: enum gpurt_agent_slice */
	u32 has;			/* the same, as answered */
	u32 rank;			/* highest level that it may begin with: the host's word */
	bool inside;			/* it is in a segment: the host's word */
	bool holds;			/* its agent may act upon it: that it was taken back is not answered yet */
	bool calls;			/* its agent can switch channels of others */
	bool given_up;			/* nothing waits for the call of order @many */
	bool taken;			/* the last order: another agent carries it out */
	bool anew;			/* the last order: such a call may have been carried out, or not */
	u32 channels;			/* how many it has; 0: no other agent can switch it */
	u64 many;			/* the order to its agent to switch others; 0: none is to be answered */
	u64 taker;			/* number of the process whose agent may still switch its channels; 0: none */
	u64 taken_in;			/* that one's order that did so last */
	u32 tier;			/* enum gpurt_tier */
	u64 sequence;			/* number of the last order */
	u64 answered;			/* number of the last order that was carried out */
	u64 since;			/* when the last order began to hold */
	u64 again;			/* when it is given again; U64_MAX: its driver did not refuse it */
	u64 went;			/* number of its last going off, of all (gpurt_agents.goings) */
	char driver[GPURT_NAME_LEN];
	/* How it is counted in gpurt_agents. */
	bool counted, counted_late;
	u32 counted_tier;
	u32 counted_name;		/* GPURT_AGENT_NAMES: not at all, for there was no place */
};

/* A name that agents' drivers have. */
struct gpurt_agent_name {
	char text[GPURT_NAME_LEN];
	u32 agents;			/* how many; 0: the place is free */
};

/* A user one of whose agents was late. */
struct gpurt_agent_user {
	u64 user;
	u64 until;			/* no update waits for the user's agents until then */
	u64 trust;			/* how long that takes from the last lateness on; 0: the place is free */
};

struct gpurt_agents;

/* None of these may call a function of this file. */
struct gpurt_agents_ops {
	/* There is a newer order for the process: p->sequence, p->on. */
	void (*order)(struct gpurt_agents *a, struct gpurt_agent_process *p);
	/* The process has not carried out the order of p->since in time, or takes back that it has. */
	void (*late)(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now);
	/*
	 * The update is over: 0, or -ETIMEDOUT.  Also called from inside gpurt_agents_commit().  After a lazy update it
	 * is called once more if the others were taken off.
	 */
	void (*finished)(struct gpurt_agents *a, int err, u64 now);
	/* The last update failed, and nothing stands in its way any more. */
	void (*retry)(struct gpurt_agents *a);
};

/* Facts for gpurt_agents_facts(), kept up to date.  A copy fits on the kernel's stack. */
struct gpurt_agents_kept {
	u32 late;
	u64 refused;
	u32 tiers[GPURT_TIER_COUNT];
	struct gpurt_agent_name names[GPURT_AGENT_NAMES];
};

struct gpurt_agents {
	const struct gpurt_agents_ops *ops;
	void *host;			/* the host's own */
	struct list_head registered;	/* processes that have an agent, in the order in which these came */
	u32 limit;			/* how many of them may be one user's; the host may change it */
	u64 only;			/* number of who is to be alone, a process or a group; 0: everyone may run */
	u64 numbers;			/* how many were given */
	u32 step;			/* enum gpurt_agents_step */
	u32 owing[GPURT_AGENT_OWES_COUNT];	/* how many processes owe what */
	u64 step_since;			/* when the step began */
	u64 bound;			/* ns */
	u64 deadline;			/* call gpurt_agents_tick() then; U64_MAX: no need.  May be too early */
	u64 overdue;			/* the same, if each agent is reminded when its order is to be given again */
	bool wait;			/* fail rather than go on without a late process */
	bool open;			/* the last step `off` is over: `only` may run */
	bool failed;			/* the last update did */
	bool yields;			/* the most urgent process may begin beside others: the host's word */
	bool beside;			/* @only does not mind the most urgent process */
	bool lazy;			/* @only has begun so, and no other is taken off yet */
	u64 lazy_until;
	u64 begun;			/* when @only began beside others; U64_MAX: it did not */
	struct gpurt_agent_process *top;	/* that process; NULL: there is none that can */
	bool turns;			/* best-effort processes take turns: the host's word */
	bool turning;			/* they do now: a process has a priority */
	struct gpurt_agent_process *turn;	/* whose it is; NULL: nobody's */
	u64 turn_until;			/* when it passes that on, if another one wants it; U64_MAX: it is not on yet */
	u64 idle_from;			/* the same, for it is in no segment; U64_MAX: it is in one */
	u32 uncut;			/* processes with agents whose slice is not known to be short */
	struct gpurt_agent_user users[GPURT_AGENT_USERS];
	u64 goings;			/* how often a process has gone off */
	bool held;			/* some may be off that may come on, while nobody owns the GPU */
	const struct gpurt_agent_process *admitted;	/* that is to be ordered on now */
	struct gpurt_agent_process *coming;	/* after which others come on; NULL: it has no agent any more */
	u32 recalls;			/* reasons why nobody has the flag */
	u32 holders;			/* processes that hold it, 0 or 1 */
	struct gpurt_agents_kept kept;
};

/* A GPU's facts about itself in GPURT_CMD_GET_STATUS. */
struct gpurt_agents_facts {
	/*
	 * Names of the agents' drivers, sorted, each once, joined by '+' and cut.  If agents have more than
	 * GPURT_AGENT_NAMES different ones, those that came last may be missing until their agents register anew.
	 */
	char driver[GPURT_NAME_LEN];
	u32 tier;			/* the lowest that an agent reached */
	u32 late;			/* how many agents are */
	u64 refused;			/* how many registrations were refused because their users had no agent left */
};

void gpurt_agents_init(struct gpurt_agents *a, const struct gpurt_agents_ops *ops, void *host, u64 bound, bool wait);
void gpurt_agents_commit(struct gpurt_agents *a, u64 only, enum gpurt_agents_way way, u64 now);
bool gpurt_agents_owns(const struct gpurt_agents *a, const struct gpurt_agent_process *p);
u32 gpurt_agents_at_once(const struct gpurt_agents *a);
void gpurt_agents_tick(struct gpurt_agents *a, u64 now);
void gpurt_agents_remind(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now);
void gpurt_agents_facts(const struct gpurt_agents_kept *kept, struct gpurt_agents_facts *facts);

void gpurt_agents_join(struct gpurt_agents *a, struct gpurt_agent_process *p, bool late);
void gpurt_agents_leave(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now);
void gpurt_agents_exempt(struct gpurt_agents *a, struct gpurt_agent_process *p, bool exempt, u64 now);
u64 gpurt_agents_group(struct gpurt_agents *a);
void gpurt_agents_unite(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 group, u64 now);
int gpurt_agents_register(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 user, const char *driver,
			  u32 tier, u64 now);
void gpurt_agents_channels(struct gpurt_agents *a, struct gpurt_agent_process *p, bool calls, u32 channels);
void gpurt_agents_plain(struct gpurt_agents *a, struct gpurt_agent_process *p, bool plain, u64 now);
void gpurt_agents_rank(struct gpurt_agents *a, struct gpurt_agent_process *p, u32 rank, bool inside, u64 now);
void gpurt_agents_single(struct gpurt_agents *a, struct gpurt_agent_process *p, bool single, bool automatic, u64 now);
void gpurt_agents_recall(struct gpurt_agents *a, u64 now);
void gpurt_agents_recall_over(struct gpurt_agents *a, u64 now);
void gpurt_agents_resign(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now);
int gpurt_agents_answer(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 number, int result, u64 now);

#endif
