// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "agents.h"

#define process_of(entry) list_entry(entry, struct gpurt_agent_process, node)

/* Whether the process or its group must have the GPU alone. */
bool gpurt_agents_owns(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	return a->only && (a->only == p->number || a->only == p->group);
}

static bool obeyed(const struct gpurt_agent_process *p)
{
	return !p->registered || p->answered == p->sequence;
}

/* Whether the process is on only during its turn, while processes take turns. */
static bool takes_turns(const struct gpurt_agent_process *p)
{
	return p->registered && !p->rank && p->automatic && p->plain && !p->exempt;
}

/* Whether the process waits for its turn. */
static bool waits(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	return a->turning && p != a->turn && takes_turns(p);
}

/* Whether the TSGs of the process may run once step `off` is over. */
static bool wanted(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	if (!a->only)
		return !waits(a, p);
	return gpurt_agents_owns(a, p) || p->exempt || (a->beside && p == a->top && !p->inside);
}

/*
 * The one rule for orders: whether the TSGs of the process must run now.  Until step `off` is over, no process that is
 * off comes on, unless it is exempt.  Afterwards, while nobody owns the GPU, a process comes on only when it is
 * admitted.
 */
static bool target(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	bool may = a->open && (a->only || p == a->admitted);

	if (a->lazy && !wanted(a, p))
		return p->on;
	if (p == a->turn && a->owing[GPURT_AGENT_OWES_TURN])
		return wanted(a, p) && p->on;
	return wanted(a, p) && (p->on || p->exempt || may);
}

static u32 owes(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	bool late = p->late || (p->doubted && !a->wait);

	if (p->many && !p->given_up && a->only)
		return GPURT_AGENT_OWES_ANSWER;
	if (!a->only && waits(a, p))
		return (p->on || !obeyed(p)) && !late ? GPURT_AGENT_OWES_TURN : GPURT_AGENT_OWES_NOTHING;
	if (obeyed(p))
		return GPURT_AGENT_OWES_NOTHING;
	if (wanted(a, p))
		return gpurt_agents_owns(a, p) && !late ? GPURT_AGENT_OWES_START : GPURT_AGENT_OWES_NOTHING;
	return late ? GPURT_AGENT_OWES_LATE : GPURT_AGENT_OWES_ANSWER;
}

/* To be called after every change of a fact that owes() depends on. */
static void recount(struct gpurt_agents *a, struct gpurt_agent_process *p)
{
	a->owing[p->owes]--;
	p->owes = owes(a, p);
	a->owing[p->owes]++;
}

/* Until when no update waits for the user's agents; 0: the user is not doubted. */
static u64 doubted_until(const struct gpurt_agents *a, u64 user)
{
	u32 i;

	for (i = 0; i < GPURT_AGENT_USERS; i++)
		if (a->users[i].trust && a->users[i].user == user)
			return a->users[i].until;
	return 0;
}

/* The user's entry, or the entry to reuse for the user: a free one, or that of the user who was late first. */
static struct gpurt_agent_user *place_of(struct gpurt_agents *a, u64 user)
{
	struct gpurt_agent_user *place = a->users;
	u32 i;

	for (i = 0; i < GPURT_AGENT_USERS; i++) {
		if (a->users[i].trust && a->users[i].user == user)
			return &a->users[i];
		if (place->trust && (!a->users[i].trust || a->users[i].until < place->until))
			place = &a->users[i];
	}
	*place = (struct gpurt_agent_user){ .user = user };
	return place;
}

static void arm_at(struct gpurt_agents *a, u64 when)
{
	if (when < a->overdue)
		a->overdue = when;
	if (when < a->deadline)
		a->deadline = when;
}

/* Notes that an agent of the user is late. */
static void doubt(struct gpurt_agents *a, u64 user, u64 now)
{
	struct gpurt_agent_user *u;
	struct list_head *pos;
	u64 before;

	if (user == GPURT_AGENT_UNLIMITED)
		return;
	u = place_of(a, user);
	before = u->until;
	if (!u->trust || now > u->until + GPURT_AGENT_SOON * u->trust)
		u->trust = GPURT_AGENT_TRUST_NS;
	else if (now >= u->until && u->trust < GPURT_AGENT_TRUST_MAX_NS)
		u->trust *= 2;
	u->until = now + u->trust;
	arm_at(a, u->until);
	if (u->until == before)		/* another agent of the user was late at the same time: all is done */
		return;
	list_for_each(pos, &a->registered) {
		if (process_of(pos)->user != user)
			continue;
		process_of(pos)->until = u->until;
		process_of(pos)->doubted = true;
		recount(a, process_of(pos));
	}
}

/* When the process will be late, or its call for others will be given up, if nothing else happens. */
static u64 late_at(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	if (p->many && !p->given_up)
		return p->since + a->bound / 2;
	return p->late || obeyed(p) ? U64_MAX : p->since + a->bound;
}

/* When its order must be given again. */
static u64 again_at(const struct gpurt_agent_process *p)
{
	return obeyed(p) ? U64_MAX : p->again;
}

/* Answers do not move the deadlines: finding the next deadline would take a look at every process. */
static void arm(struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	u64 again = again_at(p);

	arm_at(a, late_at(a, p));
	if (p->doubted)
		arm_at(a, p->until);
	if (again < a->deadline)
		a->deadline = again;
}

/* Like strcmp(), which the core cannot call. */
static int compare(const char *one, const char *other)
{
	for (; *one && *one == *other; one++)
		other++;
	return (unsigned char)*one - (unsigned char)*other;
}

static void copy_name(char *to, const char *from)
{
	u32 i;

	for (i = 0; i < GPURT_NAME_LEN - 1 && from[i]; i++)
		to[i] = from[i];
	to[i] = '\0';
}

/* Counts one more agent under the name.  Returns the name's place, or GPURT_AGENT_NAMES if no place is free. */
static u32 count_name(struct gpurt_agents *a, const char *name)
{
	u32 i, free = GPURT_AGENT_NAMES;

	for (i = 0; i < GPURT_AGENT_NAMES; i++) {
		if (!a->kept.names[i].agents)
			free = i;
		else if (!compare(a->kept.names[i].text, name))
			break;
	}
	if (i == GPURT_AGENT_NAMES)
		i = free;
	if (i == GPURT_AGENT_NAMES)
		return i;
	if (!a->kept.names[i].agents)
		copy_name(a->kept.names[i].text, name);
	a->kept.names[i].agents++;
	return i;
}

/* To be called after every change of a fact of the process that gpurt_agents_facts() reports. */
static void retell(struct gpurt_agents *a, struct gpurt_agent_process *p)
{
	if (p->counted) {
		a->kept.late -= p->counted_late;
		a->kept.tiers[p->counted_tier]--;
		if (p->counted_name < GPURT_AGENT_NAMES)
			a->kept.names[p->counted_name].agents--;
	}
	p->counted = p->registered;
	if (!p->counted)
		return;
	p->counted_late = p->late;
	a->kept.late += p->late;
	p->counted_tier = p->tier < GPURT_TIER_COUNT ? p->tier : GPURT_TIER_COUNT - 1;
	a->kept.tiers[p->counted_tier]++;
	p->counted_name = count_name(a, p->driver);
}

/* The time from which an order's `bound` counts if it is given now. */
static u64 counts_from(const struct gpurt_agents *a, u64 now)
{
	return a->step ? a->step_since : now;
}

static void deliver(struct gpurt_agents *a, struct gpurt_agent_process *p)
{
	p->again = U64_MAX;
	p->sequence++;
	p->anew |= p->taker && !p->taken;
	a->ops->order(a, p);
}

static bool is_alone(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	return a->registered.next == &p->node && p->node.next == &a->registered;
}

static bool is_cut(const struct gpurt_agent_process *p)
{
	return p->single && p->has == GPURT_AGENT_SHORT;
}

/* Changes the facts that is_cut() depends on, for a process that has an agent. */
static void know(struct gpurt_agents *a, struct gpurt_agent_process *p, bool single, u32 has)
{
	a->uncut -= !is_cut(p);
	p->single = single;
	p->has = has;
	a->uncut += !is_cut(p);
}

/* How many processes that take turns may be on; @trusted: without late and doubted ones. */
static u32 count_on(const struct gpurt_agents *a, bool trusted)
{
	struct list_head *pos;
	u32 count = 0;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);
		bool may = p->on || !obeyed(p) || (p->taker && !p->taken);

		count += takes_turns(p) && may && !(trusted && (p->late || p->doubted));
	}
	return count;
}

/* Whether the process may begin without asking. */
static bool entitled(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	bool top = p == a->top && p->slice == GPURT_AGENT_LONG && a->uncut == 1 && a->holders == p->holds;

	if (top && a->turns)
		top = count_on(a, true) < 2;
	return (is_alone(a, p) || top) && p->plain && p->on && !p->late && !p->doubted && !a->recalls && !a->wait;
}

/*
 * The slice that the process must have.  A longer slice would delay others.  So no slice becomes longer while a process
 * owns the GPU, or while another process may begin without asking.
 */
static u32 slice_of(const struct gpurt_agents *a, const struct gpurt_agent_process *p)
{
	u32 slice = p == a->top ? GPURT_AGENT_LONG : GPURT_AGENT_SHORT;

	if (!a->top || !p->single)
		slice = GPURT_AGENT_DRIVERS;
	return (a->only || a->holders > p->holds) && slice > p->slice ? p->slice : slice;
}

static void hold(struct gpurt_agents *a, struct gpurt_agent_process *p, bool holds)
{
	a->holders += holds - p->holds;
	p->holds = holds;
}

static void give(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	p->since = counts_from(a, now);
	deliver(a, p);
	recount(a, p);
	arm(a, p);
}

/* The process with the turn comes on.  The next turn begins at least GPURT_AGENT_LAZY_NS later: bounds rest on that. */
static void start_turn(struct gpurt_agents *a, u64 now)
{
	a->turn_until = now + GPURT_AGENT_TURN_NS;
	if (a->idle_from < now + GPURT_AGENT_LAZY_NS)
		a->idle_from = now + GPURT_AGENT_LAZY_NS;
	arm_at(a, a->turn_until < a->idle_from ? a->turn_until : a->idle_from);
}

/* Gives the order that the rule asks for, unless that order holds already.  @taken: another agent carries it out. */
static void order_by(struct gpurt_agents *a, struct gpurt_agent_process *p, bool taken, u64 now)
{
	bool before = p->on, yields = p->yields;
	u32 slice = p->slice;

	if (!p->registered)
		return;
	p->slice = slice_of(a, p);
	if (p->slice != slice)
		know(a, p, p->single, GPURT_AGENT_UNKNOWN);
	p->on = target(a, p);
	a->held |= !p->on && !a->only && wanted(a, p);
	p->yields = entitled(a, p) && !is_alone(a, p);
	if (before && !p->on)
		p->went = ++a->goings;
	if (before == p->on && p->free == entitled(a, p) && p->yields == yields && p->slice == slice)
		return;
	p->free = entitled(a, p);
	if (p->free)
		hold(a, p, true);
	/* The agent does not know the order that another agent has carried out. */
	p->anew |= p->taken && !obeyed(p) && !taken;
	p->taken = taken;
	give(a, p, now);
	if (p == a->turn && p->on && a->turn_until == U64_MAX)
		start_turn(a, now);
}

static void order(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	order_by(a, p, false, now);
}

/* Whether others that are off wait for the process that was admitted last. */
static bool is_coming(const struct gpurt_agent_process *p)
{
	return p && p->on && !obeyed(p) && !p->late && !p->doubted;
}

/*
 * While nobody owns the GPU, processes that are off come on one after the other, and after `bound` all the rest.  Late
 * and doubted processes keep no process off.
 */
static void admit(struct gpurt_agents *a, u64 now)
{
	u64 all_at = a->step_since + a->bound;
	struct gpurt_agent_process *best = NULL;
	struct list_head *pos;
	u32 off = 0;

	if (a->only || !a->open)
		return;
	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		a->admitted = p;
		if (p->on || !target(a, p))
			continue;
		if (now >= all_at || p->late || p->doubted) {
			order(a, p, now);
			continue;
		}
		off++;
		if (!best || p->went < best->went)
			best = p;
	}
	if (best && !is_coming(a->coming)) {
		a->admitted = best;
		a->coming = best;
		order(a, best, now);
		off--;
	}
	a->admitted = NULL;
	a->held = off;
	if (off)
		arm_at(a, all_at);
}

/*
 * Called after a change that decides which process may begin without asking: a process that is alone, or the most
 * urgent one.  The most urgent one comes last, because it needs the others' slices.
 */
static void reconsider(struct gpurt_agents *a, u64 now)
{
	struct list_head *first = a->registered.next, *pos;

	for (pos = first; a->yields && pos != &a->registered; pos = pos->next)
		recount(a, process_of(pos));
	for (pos = first; a->yields && pos != &a->registered; pos = pos->next)
		if (process_of(pos) != a->top)
			order(a, process_of(pos), now);
	if (first != &a->registered)
		order(a, process_of(first), now);
	if (a->top)
		order(a, a->top, now);
	if (a->held)
		admit(a, now);
}

/* The process that alone is the most urgent, if it can begin without waiting; or NULL. */
static struct gpurt_agent_process *find_top(const struct gpurt_agents *a)
{
	struct gpurt_agent_process *top = NULL;
	bool equals = false;
	struct list_head *pos;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		equals = top && p->rank <= top->rank ? equals || p->rank == top->rank : false;
		top = top && p->rank <= top->rank ? top : p;
	}
	if (!top || equals || !top->rank || !top->single || !top->automatic || !top->plain)
		return NULL;
	return top->late || top->doubted || a->wait ? NULL : top;
}

/* The next process that takes turns and is in a segment, after the process with the turn; else that process itself. */
static struct gpurt_agent_process *next_turn(const struct gpurt_agents *a)
{
	struct list_head *from = a->turn ? &a->turn->node : (struct list_head *)&a->registered, *pos;
	struct gpurt_agent_process *any = a->turn && takes_turns(a->turn) && !a->turn->late ? a->turn : NULL;

	for (pos = from->next; pos != from; pos = pos->next) {
		struct gpurt_agent_process *p = process_of(pos);

		if (pos == &a->registered || !takes_turns(p) || p->late)
			continue;
		if (p->inside)
			return p;
		any = any ? any : p;
	}
	return any;
}

/* Passes the turn on if it is time; the caller then gives orders.  To be called after every change of its inputs. */
static void pass(struct gpurt_agents *a, u64 now)
{
	struct gpurt_agent_process *next, *held;
	struct list_head *pos;

	if (!a->turns)
		return;
	a->turning = false;
	list_for_each(pos, &a->registered)
		a->turning |= process_of(pos)->rank > 0;
	if (!a->turning)
		a->turn = NULL;
	if (!a->turning || a->only)
		return;
	held = a->turn;
	if (held && (held->inside || a->idle_from == U64_MAX))
		a->idle_from = held->inside ? U64_MAX : now + GPURT_AGENT_LAZY_NS;
	next = next_turn(a);
	if (held && next != held && takes_turns(held) && !held->late) {
		u64 until = a->turn_until == U64_MAX || a->turn_until < a->idle_from ? a->turn_until : a->idle_from;

		if (now < until) {
			arm_at(a, until);
			return;
		}
	}
	if (next == held && (!held || held->on || a->turn_until == U64_MAX))
		return;
	a->turn = next;
	a->turn_until = U64_MAX;
	a->idle_from = next && next->inside ? U64_MAX : now;
	if (next && next->on)
		start_turn(a, now);
}

/* To be called after every change of a fact that find_top() depends on. */
static void elect(struct gpurt_agents *a, u64 now)
{
	a->top = a->yields ? find_top(a) : NULL;
	pass(a, now);
	reconsider(a, now);
}

/* The process that must be alone, if its agent can switch others now. */
static struct gpurt_agent_process *caller(struct gpurt_agents *a)
{
	struct list_head *pos;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *c = process_of(pos);
		bool obeys;

		if (c->number != a->only)
			continue;
		obeys = obeyed(c) || (c->many == c->sequence && !c->given_up);
		return c->calls && obeys && !c->late && !c->doubted && !c->taker ? c : NULL;
	}
	return NULL;
}

/* Whether the agent of @c can take off @p, which must be off. */
static bool can_take(const struct gpurt_agents *a, const struct gpurt_agent_process *c,
		     const struct gpurt_agent_process *p)
{
	bool permitted = c->user == p->user || c->user == GPURT_AGENT_UNLIMITED;
	bool ready = obeyed(p) && !p->late && !p->doubted && !p->many && !p->taker;

	return p != c && permitted && ready && p->channels && p->on && !target(a, p);
}

/*
 * Has one agent take off two or more other processes, as many as one call can.  The rest take themselves off.
 */
static void take(struct gpurt_agents *a, u64 now)
{
	struct gpurt_agent_process *c = a->only && !a->open ? caller(a) : NULL;
	u32 count = 0, channels = 0;
	struct list_head *pos;

	if (!c)
		return;
	list_for_each(pos, &a->registered)
		count += can_take(a, c, process_of(pos));
	if (count < 2)
		return;
	c->many = c->sequence + 1;
	c->given_up = false;
	give(a, c, now);		/* first, because all wait for its call */
	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		if (!can_take(a, c, p) || channels + p->channels > GPURT_MAX_CHANNELS)
			continue;
		channels += p->channels;
		p->taker = c->number;
		p->taken_in = c->many;
		order_by(a, p, true, now);
	}
}

/*
 * The last call of the process's agent for others is over, or the host has given it up.  Processes get their present
 * order again if the agent may not have carried it out.
 */
static void taken_over(struct gpurt_agents *a, const struct gpurt_agent_process *c, bool well, bool over, u64 now)
{
	struct list_head *pos;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		if (p->taker != c->number)
			continue;
		if (over)
			p->taker = 0;
		if (well && !p->on && p->taken_in == c->many)
			continue;
		p->taken = false;
		p->anew = true;
		give(a, p, now);
	}
}

static void give_up(struct gpurt_agents *a, struct gpurt_agent_process *c, u64 now)
{
	c->given_up = true;
	taken_over(a, c, false, false, now);
	recount(a, c);
}

static void call_over(struct gpurt_agents *a, struct gpurt_agent_process *c, bool well, u64 now)
{
	taken_over(a, c, well && !c->given_up, true, now);
	c->many = 0;
	recount(a, c);
}

static void begin_step(struct gpurt_agents *a, u32 step, u64 now)
{
	struct list_head *pos;

	a->step = step;
	a->step_since = now;
	a->open = step == GPURT_AGENTS_ON;
	for (pos = a->registered.next; a->turning && pos != &a->registered; pos = pos->next)
		recount(a, process_of(pos));
	take(a, now);
	list_for_each(pos, &a->registered) {
		recount(a, process_of(pos));
		if (process_of(pos) != a->top)
			order(a, process_of(pos), now);
	}
	reconsider(a, now);
}

static void finish(struct gpurt_agents *a, int err, u64 now)
{
	a->step = GPURT_AGENTS_NO_UPDATE;
	a->failed = err;
	a->ops->finished(a, err, now);
}

/* Advances the present update as far as the answers so far permit. */
static void proceed(struct gpurt_agents *a, u64 now)
{
	if (a->step == GPURT_AGENTS_OFF && !a->owing[GPURT_AGENT_OWES_ANSWER]) {
		if (a->wait && a->owing[GPURT_AGENT_OWES_LATE]) {
			finish(a, -ETIMEDOUT, now);
			return;
		}
		begin_step(a, GPURT_AGENTS_ON, now);
	}
	if (a->step == GPURT_AGENTS_ON && !a->owing[GPURT_AGENT_OWES_START])
		finish(a, 0, now);
}

/* The owner began beside others and is still in its segment: takes the others off.  The host does not wait for that. */
static void hasten(struct gpurt_agents *a, u64 now)
{
	if (!a->lazy)
		return;
	a->lazy = false;
	begin_step(a, GPURT_AGENTS_OFF, now);
	proceed(a, now);
}

/* A process has changed: whatever waited for it may go on. */
static void settle(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	recount(a, p);
	if (a->step)
		proceed(a, now);
	else if (a->failed && !a->owing[GPURT_AGENT_OWES_LATE] && !a->owing[GPURT_AGENT_OWES_ANSWER])
		a->ops->retry(a);
}

static void notice(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	if (obeyed(p))
		return;
	if (p->many && !p->given_up && now >= p->since + a->bound / 2)
		give_up(a, p, now);
	if (!p->late && now >= p->since + a->bound) {
		p->late = true;
		recount(a, p);
		retell(a, p);
		a->ops->late(a, p, now);
		doubt(a, p->user, now);
		hold(a, p, false);
		elect(a, now);
	}
	gpurt_agents_remind(a, p, now);
}

/* The order is given again if the agent's driver refused it long enough ago. */
void gpurt_agents_remind(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	if (now < again_at(p))
		return;
	/* It has tried by itself, and by now it may have more channels than such a call can take. */
	p->taken = false;
	deliver(a, p);
}

/* Everyone may run, and there are no processes.  @wait and @bound as in struct gpurt_agents. */
void gpurt_agents_init(struct gpurt_agents *a, const struct gpurt_agents_ops *ops, void *host, u64 bound, bool wait)
{
	*a = (struct gpurt_agents){
		.ops = ops, .host = host, .bound = bound, .wait = wait, .open = true, .limit = GPURT_AGENT_LIMIT,
		.deadline = U64_MAX, .overdue = U64_MAX, .begun = U64_MAX,
	};
	INIT_LIST_HEAD(&a->registered);
}

/* When another process gets the GPU: whether the last segment beside others lasted for GPURT_AGENT_LAZY_NS. */
static void look_back(struct gpurt_agents *a, u64 only, u64 now)
{
	if (a->begun == U64_MAX || a->only == only)
		return;
	if (a->top && a->top->number == a->only)
		a->top->outlasts = now - a->begun >= GPURT_AGENT_LAZY_NS;
	a->begun = U64_MAX;
}

/*
 * Begins an update: the process or group of number @only (0: everyone) and exempt processes may run.  It replaces an
 * update in progress.
 */
void gpurt_agents_commit(struct gpurt_agents *a, u64 only, enum gpurt_agents_way way, u64 now)
{
	bool settled = a->open && !a->step && !a->failed, at_once;
	struct list_head *pos;

	a->deadline = U64_MAX;		/* no longer the lazy time of the last owner */
	a->overdue = U64_MAX;
	list_for_each(pos, &a->registered) {
		process_of(pos)->doubted = now < process_of(pos)->until;
		arm(a, process_of(pos));
	}
	a->top = a->yields ? find_top(a) : NULL;	/* orders by the new owner follow below */
	look_back(a, only, now);
	a->only = only;
	a->lazy = false;
	a->beside = way != GPURT_AGENTS_ALONE;
	at_once = a->top && a->top->outlasts;
	pass(a, now);
	if (way == GPURT_AGENTS_YIELD && settled && a->top && a->top->number == only && a->top->yields) {
		a->lazy = true;
		list_for_each(pos, &a->registered)
			recount(a, process_of(pos));
		a->begun = now;
		a->lazy_until = now + (at_once ? 0 : GPURT_AGENT_LAZY_NS);
		arm_at(a, a->lazy_until);
		finish(a, 0, now);
		if (at_once)
			hasten(a, now);
		return;
	}
	begin_step(a, only ? GPURT_AGENTS_OFF : GPURT_AGENTS_ON, now);
	proceed(a, now);
}

/* A process whose user is no longer doubted may have the flag again, even without an update. */
static void trust(struct gpurt_agents *a, u64 now)
{
	struct list_head *pos;
	bool any = false;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		if (!p->doubted || now < p->until)
			continue;
		p->doubted = false;
		recount(a, p);
		any = true;
	}
	if (any)
		elect(a, now);
}

/* To be called at a->deadline: notices lateness, and gives refused orders again. */
void gpurt_agents_tick(struct gpurt_agents *a, u64 now)
{
	struct list_head *pos;

	a->deadline = U64_MAX;
	a->overdue = U64_MAX;
	trust(a, now);
	if (a->turning)
		elect(a, now);
	if (a->lazy && now >= a->lazy_until)
		hasten(a, now);
	if (a->lazy)
		arm_at(a, a->lazy_until);
	if (a->held)
		admit(a, now);
	list_for_each(pos, &a->registered) {
		notice(a, process_of(pos), now);
		arm(a, process_of(pos));
	}
	proceed(a, now);
}

/* The process has a first client, perhaps again.  @late: it was late when its last client closed. */
void gpurt_agents_join(struct gpurt_agents *a, struct gpurt_agent_process *p, bool late)
{
	*p = (struct gpurt_agent_process){ .number = ++a->numbers, .owes = GPURT_AGENT_OWES_NOTHING, .late = late };
	p->slice = GPURT_AGENT_DRIVERS;
	INIT_LIST_HEAD(&p->node);
	a->owing[p->owes]++;
}

/* The process no longer has a client; its memory is the host's again.  It must not own the GPU. */
void gpurt_agents_leave(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	gpurt_agents_resign(a, p, now);
	a->owing[p->owes]--;
}

/* One more client of the process is exempt, or one less (@exempt). */
void gpurt_agents_exempt(struct gpurt_agents *a, struct gpurt_agent_process *p, bool exempt, u64 now)
{
	p->exempt += exempt ? 1 : -1;
	order(a, p, now);
	settle(a, p, now);
}

/* The number of a new group, which no process or other group has or will have. */
u64 gpurt_agents_group(struct gpurt_agents *a)
{
	return ++a->numbers;
}

/*
 * From now on the process is of @group: a client of it has joined, and an agent switches a process as a whole.  If
 * @group is 0, its last joined client is gone.  A process that joins the owner comes on with the host's next update,
 * whose step `off` waits for all others.
 */
void gpurt_agents_unite(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 group, u64 now)
{
	p->group = group;
	if (a->only && p->registered && wanted(a, p) && !p->on && !p->exempt)
		a->open = false;	/* others may have failed or registered since */
	order(a, p, now);
	settle(a, p, now);
}

/* Whether the user has as many agents as a user may have. */
static bool is_full(const struct gpurt_agents *a, u64 user)
{
	struct list_head *pos;
	u32 agents = 0;

	list_for_each(pos, &a->registered)
		agents += process_of(pos)->user == user;
	return user != GPURT_AGENT_UNLIMITED && agents >= a->limit;
}

/*
 * The agent of the process introduces itself.  A new agent, of @user, gets order 1, which says what holds already:
 * p->on.  @driver has less than GPURT_NAME_LEN bytes.  The host checks whether the process already has another agent.
 * Returns -EDQUOT if this would be one more agent of a user who has a->limit agents.
 */
int gpurt_agents_register(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 user, const char *driver,
			  u32 tier, u64 now)
{
	bool known = p->registered;

	if (!known && is_full(a, user)) {
		a->kept.refused++;
		return -EDQUOT;
	}
	copy_name(p->driver, driver);
	p->tier = tier;
	p->registered = true;
	retell(a, p);
	if (known)
		return 0;
	list_add_tail(&p->node, &a->registered);
	p->user = user;
	p->until = doubted_until(a, user);
	p->doubted = now < p->until;
	a->uncut += !is_cut(p);
	p->slice = GPURT_AGENT_DRIVERS;
	p->on = false;
	a->admitted = p;		/* it is on already */
	p->on = target(a, p);
	a->admitted = NULL;
	p->went = ++a->goings;
	p->free = entitled(a, p);
	hold(a, p, p->free);
	p->sequence = 1;
	p->answered = 0;
	p->since = counts_from(a, now);
	p->again = U64_MAX;
	recount(a, p);
	arm(a, p);
	elect(a, now);
	return 0;
}

/*
 * @calls: the agent can switch channels of others.  @channels: how many channels other agents can switch; 0: none.  To
 * be called after a change: a failed call for others may have failed because of the previous facts.
 */
void gpurt_agents_channels(struct gpurt_agents *a, struct gpurt_agent_process *p, bool calls, u32 channels)
{
	p->calls = calls;
	p->channels = channels;
}

/* @plain: the process may get the flag: it has no budget and no group, and the policy is `segment`. */
void gpurt_agents_plain(struct gpurt_agents *a, struct gpurt_agent_process *p, bool plain, u64 now)
{
	if (p->plain == plain)
		return;
	p->plain = plain;
	elect(a, now);
	proceed(a, now);
}

/*
 * @rank: the highest level that the process may begin with; 0: it is best effort.  @inside: it is in a segment.  Right
 * before an update the host may set the two fields instead.
 */
void gpurt_agents_rank(struct gpurt_agents *a, struct gpurt_agent_process *p, u32 rank, bool inside, u64 now)
{
	if (p->rank == rank && p->inside == inside)
		return;
	p->rank = rank;
	p->inside = inside;
	elect(a, now);
	proceed(a, now);
}

/*
 * @single: the process has at most one group for kernels, and its agent can set that group's slice.  @automatic: all
 * its work is in segments that its library begins.  To be called before the program can use the change.
 */
void gpurt_agents_single(struct gpurt_agents *a, struct gpurt_agent_process *p, bool single, bool automatic, u64 now)
{
	if (!p->registered || (p->single == single && p->automatic == automatic))
		return;
	p->automatic = automatic;
	if (p->single != single)
		know(a, p, single, GPURT_AGENT_UNKNOWN);
	if (p != a->top)
		order(a, p, now);
	elect(a, now);
	order(a, p, now);
	proceed(a, now);
}

/* Adds a reason why no process may have the flag, until gpurt_agents_recall_over().  It is done when @holders is 0. */
void gpurt_agents_recall(struct gpurt_agents *a, u64 now)
{
	a->recalls++;
	hasten(a, now);
	reconsider(a, now);
}

void gpurt_agents_recall_over(struct gpurt_agents *a, u64 now)
{
	a->recalls--;
	reconsider(a, now);
}

/* The process no longer has an agent: nothing waits for it. */
void gpurt_agents_resign(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 now)
{
	if (p->registered)
		a->uncut -= !is_cut(p);
	if (p == a->turn) {		/* as if the previous process had the turn, and its time were over */
		a->turn = p->node.prev == &a->registered ? NULL : process_of(p->node.prev);
		a->turn_until = now;
	}
	if (p == a->coming)
		a->coming = NULL;
	p->registered = false;
	p->single = false;
	p->outlasts = false;
	p->has = GPURT_AGENT_UNKNOWN;
	p->free = false;
	p->yields = false;
	p->taken = false;
	p->anew = false;
	p->channels = 0;
	p->taker = 0;
	list_del_init(&p->node);
	recount(a, p);
	retell(a, p);
	hold(a, p, false);
	if (p->many)
		call_over(a, p, false, now);
	elect(a, now);
	settle(a, p, now);
}

/* The process's last call for others failed.  Processes of other users may have lied about their channels. */
static bool distrust(struct gpurt_agents *a, const struct gpurt_agent_process *c)
{
	struct list_head *pos;
	bool any = false;

	list_for_each(pos, &a->registered) {
		struct gpurt_agent_process *p = process_of(pos);

		if (p->taker != c->number || p->taken_in != c->many || p->user == c->user)
			continue;
		p->channels = 0;
		any = true;
	}
	return any;
}

/*
 * The answer to order @number, which was, or came after, an order to switch others.  A stale handle (-ENOENT) says
 * nothing about the next call, nor does any error of a call for other users' processes.  After another error no call
 * follows.
 */
static void called(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 number, int result, u64 now)
{
	bool own = number == p->many;

	if (own && result)
		p->calls &= distrust(a, p) || result == -ENOENT;
	call_over(a, p, own && !result, now);
}

/*
 * The agent has carried out order @number, or its driver refused to (@result).  -EINVAL: that order was never given.
 * The answer to a superseded order says nothing.
 */
int gpurt_agents_answer(struct gpurt_agents *a, struct gpurt_agent_process *p, u64 number, int result, u64 now)
{
	if (number > p->sequence)
		return -EINVAL;
	if (p->many && number >= p->many)
		called(a, p, number, result, now);
	if (number < p->sequence)
		return 0;
	hold(a, p, p->free);
	if (!result) {
		p->answered = number;
		p->anew = false;
		p->late = false;
		p->again = U64_MAX;
		know(a, p, p->single, p->slice);
		retell(a, p);
		elect(a, now);
		settle(a, p, now);
		return 0;
	}
	if (obeyed(p)) {
		/* No update waits for an agent that takes back its answer. */
		p->answered = number - 1;
		p->since = counts_from(a, now);
		p->late = true;
		retell(a, p);
		a->ops->late(a, p, now);
		doubt(a, p->user, now);
		hold(a, p, false);
		elect(a, now);
	}
	p->again = now + (p->late ? a->bound : GPURT_AGENT_AGAIN_NS);
	recount(a, p);
	arm(a, p);
	return 0;
}

/* The most processes that may execute at once beside the most urgent process, by the answers so far. */
u32 gpurt_agents_at_once(const struct gpurt_agents *a)
{
	u32 on = count_on(a, false), others = 0, waiting = 0;
	struct list_head *pos;

	list_for_each(pos, &a->registered) {
		bool takes = a->turning && takes_turns(process_of(pos));

		waiting += takes;
		others += !takes && process_of(pos) != a->top;
	}
	if (!waiting)
		return others;
	return others + (on ? on : 1);
}

/* The first name in the alphabet after @last; NULL: there is no such name. */
static const char *name_after(const struct gpurt_agents_kept *kept, const char *last)
{
	const char *best = NULL;
	u32 i;

	for (i = 0; i < GPURT_AGENT_NAMES; i++) {
		const struct gpurt_agent_name *n = &kept->names[i];

		if (n->agents && compare(n->text, last) > 0 && (!best || compare(n->text, best) < 0))
			best = n->text;
	}
	return best;
}

/* Appends as much as fits.  Returns the text's new length. */
static u32 append(char *text, u32 length, const char *more)
{
	while (*more && length < GPURT_NAME_LEN - 1)
		text[length++] = *more++;
	text[length] = '\0';
	return length;
}

static void put_names(const struct gpurt_agents_kept *kept, char *text)
{
	const char *name = name_after(kept, "");
	u32 length = append(text, 0, name ? name : "none");

	while (name && length < GPURT_NAME_LEN - 1) {
		name = name_after(kept, name);
		if (name)
			length = append(text, append(text, length, "+"), name);
	}
}

void gpurt_agents_facts(const struct gpurt_agents_kept *kept, struct gpurt_agents_facts *facts)
{
	u32 tier;

	*facts = (struct gpurt_agents_facts){ .tier = GPURT_TIER_UNPATCHED, .late = kept->late };
	facts->refused = kept->refused;
	for (tier = 0; tier < GPURT_TIER_COUNT; tier++) {
		if (!kept->tiers[tier])
			continue;
		facts->tier = tier;
		break;
	}
	put_names(kept, facts->driver);
}
