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
 * A process may run if no process or group must be alone, or if it, or its group, must be alone.  An exempt process,
 * that is a process with an exempt client, may also run.  It is ordered on at once; every other process only when step
 * `off` is over.
 *
 * An order replaces the previous one, which is then no longer delivered.  An agent that has not carried out an order
 * within `bound` is late.  An agent that takes back its answer to the present order is late, too.  A late agent stays
 * late, and no update waits for it, until it answers an order.  A new agent of the same process inherits lateness, even
 * if the process had no client in the meantime.  Processes cost their user nothing, so the user counts as late, too.
 * Without `wait`, no update waits for agents of that user until none of them has been late for GPURT_AGENT_TRUST_NS.
 * If an agent is late soon after that, the time doubles, up to GPURT_AGENT_TRUST_MAX_NS.  So a user who forks delays
 * updates hardly more often than once in GPURT_AGENT_SOON times GPURT_AGENT_TRUST_NS.  With `wait` an update fails
 * (-ETIMEDOUT) if a late process must be off; the host tries it again, later or when `retry` says so.  If an agent
 * reports that its driver refused, it gets the order again, with a new number.
 *
 * The flag: a process may begin without asking while no other process has an agent, because then no process has to be
 * off.  An order gives the flag, and a later order takes it back.  The agent counts as having given it back when it has
 * answered the later order, is late, or is gone.  The host takes the flag back before it registers another agent, and
 * before it does something that rules the flag out (gpurt_agents_recall()).  With `wait` there is no flag, because a
 * late process might still have it.
 *
 * An agent that registers in the middle of a step has only the rest of that step's time.  So each step takes at most
 * `bound`, whatever the processes do.
 *
 * While nobody owns the GPU, processes that are off come on one after the other, with late and doubted ones beside
 * them.  The GPU executes the work of the first process as soon as that is on.  The firmware carries out one call after
 * the other.  So a begin that comes meanwhile waits for one call, and fewer processes have to go off.  The process that
 * has been off for the longest time comes first; otherwise urgent processes in no segment could always go first.  The
 * next process waits only for the agent that was ordered on last, not for an agent that registers.  After `bound` all
 * the rest come on, whatever agents do.
 *
 * One call for many: the agent of the process that must be alone takes the channels of several other processes off by
 * one call.  Otherwise the firmware would carry out one call after the other.  The agent gets such an order only if it
 * and the others owe nothing else.  Also, all have the same user, or the agent is an administrator's.  The others have
 * orders of their own, which they answer as soon as they know them.  If an agent cannot rely on that call because its
 * channels have changed, it carries out its order itself.  If the call fails, or is not over after half of `bound`, the
 * others get their order again: `anew`.  After a failure, processes of other users switch themselves until they have
 * other channels.  A call that was given up can still be carried out later.  So each of its processes is ordered again
 * when the call is over.
 *
 * Yield, where the host asks for it (`yields`): the process that alone is the most urgent may begin without asking
 * although others run (GPURT_ORDER_YIELD).  Its slice is long, and those of all others are short: it waits for one
 * short slice, or at worst for one of each.  It has the flag only while no other process holds the flag.  Each other
 * process must have at most one group for kernels, and have answered that its slice is short.  Its update is over at
 * once.  After GPURT_AGENT_LAZY_NS the two steps above take the others off, and the host does not wait for that.  If
 * the segment ends before, it costs no order.  If the process's last such segment lasted longer, the others are taken
 * off at its begin.  Otherwise the next segment would wait for others' slices, and then for the others to go off.  The
 * process may always have them off, because only a process with a priority begins so.  A begin of another kind, or a
 * recall, takes them off at once.  While a less urgent process owns the GPU, the most urgent one stays on.  It goes off
 * if the owner began to be alone, or if it is in a segment itself, of a lower level than the owner's.
 *
 * Turns, where the host asks for them too (`turns`): one best-effort process is on at a time.  They last as long as a
 * process with an agent has a priority.  So the most urgent process waits for one best-effort process, not for a slice
 * of each, and an update takes one off.  The process that has the turn passes it on after GPURT_AGENT_TURN_NS, or once
 * it has been in no segment for GPURT_AGENT_LAZY_NS.  It keeps the turn for at least GPURT_AGENT_LAZY_NS, then passes
 * it only to a process in a segment.  The next process is ordered on when all others that take turns have answered that
 * they are off, or are late or doubted.  Its time begins then, so while a process does not answer, no other process
 * gets the turn until it is late.  No update, begin or launch waits for a turn: the GPU just executes the work later.
 * While a process owns the GPU, also beside others, no process gets a turn.  The most urgent process has the flag only
 * while at most one process that takes turns may be on, except late and doubted ones.  A process takes no turns if its
 * library does not begin all its segments.  Nor does a process with a priority, a group, a budget or an exemption.
 * Such a process is on whenever nobody owns the GPU.  The count of gpurt_agents_at_once() includes each of them.  Of
 * the processes that take turns it includes all that may be on, also late ones.
 *
 * The caller serialises all calls for one gpurt_agents and passes a clock that never runs backwards.  Nothing here
 * locks, allocates, or reads a clock.  A reminder, the facts, and a process's answer (unless the host yields, or others
 * must come on) cost the same however many processes there are.  An update, a tick, a registration, and a call for
 * others and its answer visit each process that has an agent.  So the number of agents of one user is limited: his
 * processes cost the host time at a priority that they do not have.
 */
#ifndef GPURT_CORE_AGENTS_H
#define GPURT_CORE_AGENTS_H

#include "env.h"
#include "../uapi/gpurt.h"

#define GPURT_AGENT_BOUND_NS		100000000ULL	/* how long an agent may take, unless the host says otherwise */
#define GPURT_AGENT_BOUND_MIN_NS	1000000ULL
#define GPURT_AGENT_BOUND_MAX_NS	60000000000ULL
#define GPURT_AGENT_AGAIN_NS		1000000ULL	/* from a refusal until the order is given again */
#define GPURT_AGENT_LIMIT		32U		/* agents of one user, unless the host says otherwise */
#define GPURT_AGENT_UNLIMITED		U64_MAX		/* a user who may have any number of agents */
#define GPURT_AGENT_TRUST_NS		1000000000ULL
#define GPURT_AGENT_TRUST_MAX_NS	(1024 * GPURT_AGENT_TRUST_NS)
#define GPURT_AGENT_SOON		16	/* after this many times its duration, a doubt is forgotten */
#define GPURT_AGENT_USERS		16	/* late users that are remembered: the last ones */
#define GPURT_AGENT_LAZY_NS		1000000ULL	/* how long the most urgent process may run beside others */
#define GPURT_AGENT_TURN_NS		20000000ULL	/* a best-effort process's turn, while others want one */
#define GPURT_AGENT_NAMES		(GPURT_NAME_LEN / 2)	/* names that fit into a text, with '+' between them */

/* What the owner of an update needs.  BESIDE and YIELD are only for hosts that yield. */
enum gpurt_agents_way {
	GPURT_AGENTS_ALONE,
	GPURT_AGENTS_BESIDE,	/* the most urgent process may stay on */
	GPURT_AGENTS_YIELD,	/* the most urgent process, by GPURT_ORDER_YIELD: others go off later */
};

enum gpurt_agents_step {
	GPURT_AGENTS_NO_UPDATE,
	GPURT_AGENTS_OFF,
	GPURT_AGENTS_ON,
};

/* The answer that a process still owes. */
enum gpurt_agent_owes {
	GPURT_AGENT_OWES_NOTHING,	/* it has answered, has no agent, or may run beside the owner */
	GPURT_AGENT_OWES_ANSWER,	/* the answer that it is off */
	GPURT_AGENT_OWES_LATE,		/* an answer, but no update waits for it: it or its user is late */
	GPURT_AGENT_OWES_START,		/* the answer that it is on: it or its group owns the GPU */
	GPURT_AGENT_OWES_TURN,		/* the answer that it is off, before another turn; no update waits */
	GPURT_AGENT_OWES_COUNT,
};

/*
 * The slice of a process's group for kernels: by GPURT_ORDER_SHORT, without an order, by GPURT_ORDER_LONG.
 */
enum gpurt_agent_slice {
	GPURT_AGENT_UNKNOWN,		/* an order is not answered yet */
	GPURT_AGENT_SHORT,
	GPURT_AGENT_DRIVERS,		/* the driver's, or the program's own */
	GPURT_AGENT_LONG,
};

struct gpurt_agent_process {
	struct list_head node;		/* of gpurt_agents.registered */
	u64 number;			/* its number as owner */
	u64 group;			/* its group's number as owner; 0: no group */
	u64 user;			/* the agent's user, as the host numbers users */
	u32 exempt;			/* number of its exempt clients */
	u32 owes;			/* enum gpurt_agent_owes, as counted in gpurt_agents.owing */
	bool late;			/* outlives the agent, and the process's clients */
	bool doubted;			/* its user was late, as of the last update or tick */
	u64 until;			/* when the doubt is over */
	bool registered;		/* has an agent; without it the rest is void */
	bool on;			/* the last order: may its TSGs run */
	bool free;			/* the last order: may it begin without asking */
	bool plain;			/* it may get @free; set by the host */
	bool yields;			/* the last order: it may begin beside others */
	bool automatic;			/* its library begins a segment for all its work */
	bool outlasts;			/* its last segment beside others lasted for the lazy time */
	bool single;			/* at most one group for kernels, and its agent can set the slice */
	u32 slice;			/* the last order: enum gpurt_agent_slice */
	u32 has;			/* its slice as answered */
	u32 rank;			/* highest level that it may begin with; set by the host */
	bool inside;			/* it is in a segment; set by the host */
	bool holds;			/* it may still use @free: the recall is not answered yet */
	bool calls;			/* its agent can switch channels of others */
	bool given_up;			/* no process waits for the call of order @many */
	bool taken;			/* the last order: another agent carries it out */
	bool anew;			/* the last order: such a call may or may not have been carried out */
	u32 channels;			/* how many it has; 0: other agents cannot switch it */
	u64 many;			/* the unanswered order to switch others; 0: none */
	u64 taker;			/* number of the process whose agent may still switch its channels; 0: none */
	u64 taken_in;			/* the last order of @taker that did so */
	u32 tier;			/* enum gpurt_tier */
	u64 sequence;			/* number of the last order */
	u64 answered;			/* number of the last order that was carried out */
	u64 since;			/* when the last order began to hold */
	u64 again;			/* when the order is given again; U64_MAX: not refused */
	u64 went;			/* gpurt_agents.goings when it last went off */
	char driver[GPURT_NAME_LEN];
	/* How it is counted in gpurt_agents. */
	bool counted, counted_late;
	u32 counted_tier;
	u32 counted_name;		/* GPURT_AGENT_NAMES: not counted, no place was free */
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
	u64 trust;			/* duration from the last lateness; 0: the place is free */
};

struct gpurt_agents;

/* None of these may call a function of this file. */
struct gpurt_agents_ops {
	/* There is a newer order for the process: p->sequence, p->on. */
	void (*order)(struct gpurt_agents *a, struct gpurt_agent_process *p);
	/* The process has not carried out the order of p->since in time, or takes its answer back. */
	void (*late)(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now);
	/*
	 * The update is over: 0, or -ETIMEDOUT.  Also called from inside gpurt_agents_commit().  After a lazy update it
	 * is called once more if the others were taken off.
	 */
	void (*finished)(struct gpurt_agents *a, int err, u64 now);
	/* The last update failed, and would succeed now. */
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
	struct list_head registered;	/* processes with an agent, in the order of registration */
	u32 limit;			/* the most agents of one user; the host may change it */
	u64 only;			/* number of the process or group to be alone; 0: everyone may run */
	u64 numbers;			/* how many numbers were given */
	u32 step;			/* enum gpurt_agents_step */
	u32 owing[GPURT_AGENT_OWES_COUNT];	/* how many processes owe what */
	u64 step_since;			/* when the step began */
	u64 bound;			/* ns */
	u64 deadline;			/* call gpurt_agents_tick() then; U64_MAX: no need.  May be too early */
	u64 overdue;			/* the same, if agents are reminded when to get orders again */
	bool wait;			/* an update fails rather than go on without a late process */
	bool open;			/* the last step `off` is over: @only may run */
	bool failed;			/* the last update failed */
	bool yields;			/* the most urgent process may begin beside others; set by host */
	bool beside;			/* the most urgent process may stay on beside @only */
	bool lazy;			/* @only began by yield, and no other is taken off yet */
	u64 lazy_until;
	u64 begun;			/* when @only began beside others; U64_MAX: it did not */
	struct gpurt_agent_process *top;	/* the most urgent process; NULL: none can begin so */
	bool turns;			/* best-effort processes take turns; set by the host */
	bool turning;			/* they take turns now: a process has a priority */
	struct gpurt_agent_process *turn;	/* the process with the turn; NULL: none */
	u64 turn_until;			/* end of the turn, if another process wants it; U64_MAX: not on yet */
	u64 idle_from;			/* the same, because of no segment; U64_MAX: in a segment */
	u32 uncut;			/* processes with agents whose slice is not known to be short */
	struct gpurt_agent_user users[GPURT_AGENT_USERS];
	u64 goings;			/* how often a process has gone off */
	bool held;			/* nobody owns the GPU, and some that may run may be off */
	const struct gpurt_agent_process *admitted;	/* the process to order on now */
	struct gpurt_agent_process *coming;	/* others come on after this one; NULL: its agent is gone */
	u32 recalls;			/* reasons against the flag */
	u32 holders;			/* processes that hold the flag, 0 or 1 */
	struct gpurt_agents_kept kept;
};

/* A GPU's facts about itself in GPURT_CMD_GET_STATUS. */
struct gpurt_agents_facts {
	/*
	 * Names of the agents' drivers, sorted, each once, joined by '+' and cut.  If agents have more than
	 * GPURT_AGENT_NAMES different names, the last ones may be missing until their agents register anew.
	 */
	char driver[GPURT_NAME_LEN];
	u32 tier;			/* the lowest tier of an agent */
	u32 late;			/* number of late agents */
	u64 refused;			/* registrations refused because of the limit of agents of a user */
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
