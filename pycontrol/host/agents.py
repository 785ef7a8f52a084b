# SPDX-License-Identifier: GPL-2.0
"""Real GPUs of the user-space host: the agents of the processes carry out runlist updates (`gpurt serve`).

The protocol is core/agents.  This file carries its messages: orders to the agents' waiting calls, and answers back.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cap, Cause, EventKind, Tier
from gpurt.types import CData
from pycontrol.host.gpu import Decision, Facts, Gpu, GpuClient, Owner, Tell, heard, table
from pycontrol.host.groups import Seat
from pycontrol.host.peer import Peer
from pycontrol.host.pieces import READS
from pycontrol.host.threads import Band
from pycontrol.host.waiter import Waiter
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs


@dataclass(frozen=True)
class Obedience:
    """Demands on agents: an answer within `bound` ns; `go_on`: the host goes on without agents that do not answer.

    `limit`: how many agents an unprivileged user may have.  `yields`: the most urgent process may begin before others
    are off the GPU.  `turns`: best-effort processes take turns while a real-time process is there.
    """

    bound: int = lib.GPURT_AGENT_BOUND_NS
    go_on: bool = True
    limit: int = lib.GPURT_AGENT_LIMIT
    yields: bool = False
    turns: bool = False


@dataclass(eq=False)
class Process:
    """A process with clients of the GPU.  One of these clients is its agent."""

    key: tuple[int, int]
    seat: Seat | None = None  # the seat of its group
    raw: CData = field(default_factory=lambda: ffi.new("struct gpurt_agent_process *"))
    clients: set[GpuClient] = field(default_factory=set)
    agent: GpuClient | None = None
    knows_flag: bool = False  # GPURT_AGENT_FREE
    told: tuple[bool, int] | None = None  # whether its agent can switch other processes, and the state of its channels
    set: int = 0  # the state of its channels
    channels: list[tuple[int, int]] = field(default_factory=list)  # handles of clients and channels
    taken: tuple[int, list[tuple[int, int]]] = (0, [])  # both as of its last order that another agent executes
    waiter: Waiter | None = None  # the agent's call that waits for the next order
    flags: int = 0  # enum gpurt_agent_flags

    def level(self) -> tuple[int, bool]:
        """The highest level that the process may begin with (set, else seen); whether the process is in a segment."""
        clients = [(one.core.set, one.seen) for one in self.clients if not one.gone]
        highest = max((seen if set_ == lib.GPURT_PRIORITY_OWN else set_ for set_, seen in clients), default=0)
        return highest, any(one.core.depth for one in self.clients)


AGENT_EVENTS = ("order", "late", "finished", "retry")
heard(AGENT_EVENTS)
#: The bits of an order (enum gpurt_order_on), and the facts of the core that they state.
ORDERS = {
    "on": lib.GPURT_ORDER_ON, "free": lib.GPURT_ORDER_FREE,
    "taken": lib.GPURT_ORDER_TAKEN, "anew": lib.GPURT_ORDER_ANEW, "yields": lib.GPURT_ORDER_YIELD,
}  # fmt: skip

#: The answers of an agent that something may wait for.
AWAITED = (lib.GPURT_AGENT_OWES_ANSWER, lib.GPURT_AGENT_OWES_START, lib.GPURT_AGENT_OWES_TURN)

SLICES = {lib.GPURT_AGENT_SHORT: lib.GPURT_ORDER_SHORT, lib.GPURT_AGENT_LONG: lib.GPURT_ORDER_LONG}


def order_of(process: Process) -> int:
    """The process's order in force (enum gpurt_order_on)."""
    order: int = sum(bit for name, bit in ORDERS.items() if getattr(process.raw, name))
    order |= SLICES.get(process.raw.slice, 0)
    if process.raw.many == process.raw.sequence:
        order |= lib.GPURT_ORDER_MANY
    return order


class AgentGpu(Gpu):
    """A GPU whose TSGs the agents of their processes switch."""

    def __init__(
        self, index: int, obedience: Obedience, policy: int, tell: Tell, clock: Callable[[], int],
        band: Band = Band(),  # noqa: B008
    ) -> None:  # fmt: skip
        self.obedience = obedience
        self._processes: dict[tuple[int, int], Process] = {}
        self._by_raw: dict[CData, Process] = {}
        self._ordered: list[Process] = []
        #: Processes that were late when their last client went.
        self._late: OrderedDict[tuple[int, int], None] = OrderedDict()
        super().__init__(index, policy, tell, clock, band)

    def prepare(self, now: int) -> None:
        """Makes the core's state for agents, without any process."""
        self._agents_ops = table("struct gpurt_agents_ops", AGENT_EVENTS)
        self.agents = ffi.new("struct gpurt_agents *")
        bound, wait = self.obedience.bound, not self.obedience.go_on
        lib.gpurt_agents_init(self.agents, self._agents_ops, self._handle, bound, wait)
        self.agents.limit, self.agents.yields = self.obedience.limit, self.obedience.yields
        self.agents.turns = self.obedience.turns

    def facts(self) -> Facts:
        """The agents' drivers, the lowest tier of an agent, how many agents are late, and how many were refused."""
        facts = ffi.new("struct gpurt_agents_facts *")
        lib.gpurt_agents_facts(ffi.addressof(self.agents[0], "kept"), facts)
        driver = ffi.string(facts.driver).decode()
        caps = Cap.AGENTS | Cap.EMULATED
        return Facts(Tier(facts.tier), driver, caps, late=facts.late, refused=facts.refused,
                     yields=self.obedience.yields, ready=self._ready(),
                     at_once=lib.gpurt_agents_at_once(self.agents) if self.obedience.turns else None)  # fmt: skip

    def _ready(self) -> int | None:
        """The number of less urgent agents that the most urgent process begins beside; None: it begins alone."""
        agents = [one.raw for one in self._processes.values() if one.raw.registered]
        return len(agents) - 1 if any(one.free for one in agents) else None

    def yielding(self, client: GpuClient) -> bool | None:
        """Whether the client's process can begin by yield if it is the most urgent; None: no process begins by yield.

        Passing states do not count: the last orders, and who owns the GPU (entitled() in kmod/core/agents.c).
        """
        if not self.obedience.yields:
            return None
        process: Process = client.own
        agents = [one.raw for one in self._processes.values() if one.raw.registered]
        cut = len(agents) == 1 or (process.raw.automatic and all(one.single for one in agents))
        obeys = not (process.raw.late or process.raw.doubted)
        return bool(process.raw.registered and cut and obeys and self._is_plain(process))

    @property
    def awaits_agents(self) -> bool:
        """Whether an update, a turn, processes that are to come on again, or a decision that takes the flag back waits
        for an agent's answer."""
        agents = self.agents
        waits = (agents.held and not agents.only) or (agents.recalls and agents.holders)
        return bool(waits) or any(agents.owing[what] for what in AWAITED)

    @property
    def takes_posts(self) -> bool:
        """Whether the policy is `segment`: no thread stays raised there until its segment's end is known."""
        return bool(self.sched.policy == lib.GPURT_POLICY_SEGMENT)

    # The flag

    @property
    def has_recalled(self) -> bool:
        """Whether no process may begin without asking."""
        return not self.agents.holders

    def recall(self, over: bool) -> None:
        """Adds a reason why no process may begin without asking, or removes one (`over`)."""
        if over:
            self._reconsider()  # the decision may have changed which processes can be given the flag
            lib.gpurt_agents_recall_over(self.agents, self.clock())
        else:
            lib.gpurt_agents_recall(self.agents, self.clock())

    def _reconsider(self) -> None:
        """Tells the core if a single process, or the most urgent one if it yields, may begin without asking."""
        processes = [one for one in self._processes.values() if one.raw.registered]
        for one in processes if len(processes) == 1 or self.obedience.yields else ():
            lib.gpurt_agents_plain(self.agents, one.raw, self._is_plain(one), self.clock())
            if self.obedience.yields:
                lib.gpurt_agents_rank(self.agents, one.raw, *one.level(), self.clock())

    def decided(self, client: GpuClient) -> None:
        """A decision may have changed the level of the client's process, or whether the process is in a segment."""
        if self.obedience.yields and not client.gone:
            lib.gpurt_agents_rank(self.agents, client.own.raw, *self._level(client), self.clock())

    def _level(self, client: GpuClient) -> tuple[int, bool]:
        """The level of the client's process, after the client's present level is noted."""
        client.seen = max(client.seen, int(lib.gpurt_client_level(client.core)))
        own: Process = client.own
        return own.level()

    def _is_plain(self, process: Process) -> bool:
        segment = self.sched.policy == lib.GPURT_POLICY_SEGMENT
        bound = any(one.allowance or one.group or one.core.exempt for one in process.clients)
        return bool(process.knows_flag and segment and not process.seat and not bound)

    # What the core says

    def on_order(self, raw: CData) -> None:
        """Notes a process with a new order; `settle` answers its waiting call."""
        process = self._by_raw[raw]
        if raw.taken:
            process.taken = process.set, process.channels
        self._ordered.append(process)

    def on_late(self, raw: CData, now: int) -> None:
        """Tells subscribers that an agent is late."""
        self.tell(self, self._by_raw[raw].agent, EventKind.LATE, now, None, now - raw.since)

    def on_finished(self, err: int, _now: int) -> None:
        """The update is over."""
        if self.in_flight:
            self.finished(err, self.clock() - self.in_flight.began)
        else:  # the other processes are off now, perhaps sooner than required; the owner has begun beside them
            lib.gpurt_latency_record(self.latency[Cause.BEGIN], max(0, self.clock() - self.agents.lazy_until))

    # Updates and time

    def commit(self, only: Owner | None, now: int) -> None:
        """Has the agents carry out an update."""
        alone = only.own if isinstance(only, Seat) else only.own.raw.number if only else 0
        way = lib.GPURT_AGENTS_ALONE
        if isinstance(only, GpuClient) and self.obedience.yields:
            asks = self._current.client if self._current else None
            for one in {only, asks or only}:  # the decision may have changed these ranks; the core reads them next
                one.own.raw.rank, one.own.raw.inside = self._level(one)
            if not only.alone:
                way = lib.GPURT_AGENTS_YIELD if only is self.yields else lib.GPURT_AGENTS_BESIDE
        lib.gpurt_agents_commit(self.agents, alone, way, now)

    def isolate(self, client: GpuClient, now: int) -> None:
        """Has the owner begin again if a client that must be off now may be on: another client, or this client, which
        came later."""
        agents, owner = self.agents, self.runner
        if self.in_flight or not isinstance(owner, GpuClient) or not (agents.lazy or agents.step or agents.beside):
            return
        if client.alone if owner is client else owner.own is not client.own and agents.top == client.own.raw:
            self._apply(owner, Cause.BEGIN, now)

    def wait_grant(self, client: GpuClient, waiter: Waiter) -> None:
        """Answers once the client, which is in a segment, holds the GPU, and others are off.

        A begin that the client has posted may still have to be taken.
        """
        if not self.obedience.yields or (client.alone and not client.calls):
            super().wait_grant(client, waiter)
            return

        def decide(now: int) -> int:
            client.alone = True
            self.isolate(client, now)
            return 0

        def done(_result: int) -> None:
            super(AgentGpu, self).wait_grant(client, waiter)

        self.update(Decision(decide, done, lambda: int(lib.gpurt_client_level(client.core)), client, call=True))

    def settle(self) -> None:
        """Takes decisions and answers calls, then delivers the orders that were given meanwhile."""
        super().settle()
        while self._ordered:
            process = self._ordered.pop(0)
            if process.waiter:
                waiter, process.waiter = process.waiter, None
                waiter.finish(0)

    def times(self) -> tuple[int, int]:
        """When the GPU will next act by itself or an agent will be late, and when a client may have to be told
        something."""
        due, told = super().times()
        return min(due, self.agents.deadline), told

    def advance(self, now: int) -> None:
        """Notices late agents, and gives orders again that a driver refused."""
        if self.agents.deadline <= now:
            lib.gpurt_agents_tick(self.agents, now)
        super().advance(now)

    # Clients

    def enter(self, client: GpuClient) -> None:
        """A client has joined; its process may have other clients already."""
        key = (client.peer.pid, client.peer.start)
        process = self._processes.get(key)
        if process is None:
            process = self._processes[key] = Process(key)
            self._by_raw[process.raw] = process
            lib.gpurt_agents_join(self.agents, process.raw, key in self._late)
            self._late.pop(key, None)
            self._prune()
        process.clients.add(client)
        client.own = process

    def _prune(self) -> None:
        """Forgets some late processes if they have ended; the next call checks others."""
        for _ in range(min(READS, len(self._late))):
            key, _ = self._late.popitem(last=False)
            if not procs.ended(*key):
                self._late[key] = None

    def mark(self, client: GpuClient, exempt: bool, now: int) -> None:
        """A client is to be on every runlist, or no longer."""
        lib.gpurt_agents_exempt(self.agents, client.own.raw, exempt, now)

    def may_unite(self, peer: Peer, seat: Seat | None) -> bool:
        """Whether the process is in no other group: an agent switches its whole process."""
        process = self._processes.get((peer.pid, peer.start))
        own = process.seat if process else None
        return own is None or own is seat

    def seated(self, seat: Seat) -> None:
        """A group comes to this GPU.  It owns the GPU by a number of its own."""
        super().seated(seat)
        seat.own = seat.own or lib.gpurt_agents_group(self.agents)

    def unite(self, client: GpuClient, seat: Seat, now: int) -> None:
        """The client's whole process belongs to the group until the last of its clients in the group has gone."""
        client.own.seat = seat
        lib.gpurt_agents_unite(self.agents, client.own.raw, seat.own, now)

    def ends(self, client: GpuClient) -> None:
        """The connection of a client ends: if the client is an agent, no update waits for it any longer."""
        process: Process = client.own
        if process.agent is client:
            process.agent = process.waiter = process.told = None
            client.agent = False
            lib.gpurt_agents_resign(self.agents, process.raw, self.clock())
            self._reconsider()

    def part(self, client: GpuClient, now: int) -> None:
        """A client has gone.  With its last client the process goes, too."""
        process: Process = client.own
        process.clients.remove(client)
        if process.seat and not any(one.group for one in process.clients):
            process.seat = None
            lib.gpurt_agents_unite(self.agents, process.raw, 0, now)
        if client.core.exempt:
            lib.gpurt_agents_exempt(self.agents, process.raw, False, now)
        if not process.clients:
            if process.raw.late:
                self._late[process.key] = None
            lib.gpurt_agents_leave(self.agents, process.raw, now)
            del self._processes[process.key], self._by_raw[process.raw]
        self._reconsider()

    # Agents

    def register(
        self, client: GpuClient, driver: str, tier: Tier, tsgs: int, done: Callable[[int, int, int], None],
        flags: int = 0, set_: int = 0, channels: Sequence[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        """The agent says how many TSGs its process has; `done` gets the result, the order in force and its number.

        ``flags``: enum gpurt_agent_flags; ``channels``: the channels that other agents can switch; ``set_``: the
        channels' state.

        The agent's arrival is a decision like any other: it waits until no update is in flight, and until no other
        process may begin without asking.
        """
        process: Process = client.own

        def decide(now: int) -> int:
            if process.agent not in (None, client):
                return -errno.EBUSY
            user = lib.GPURT_AGENT_UNLIMITED if client.peer.administrator else client.peer.uid
            name = driver.encode("ascii")
            err = int(lib.gpurt_agents_register(self.agents, process.raw, user, name, int(tier), now))
            if err:
                who = f"process {client.peer.pid} of user {client.peer.uid} runs unmanaged"
                why = f"that user has too many agents (--user-limit agents={self.obedience.limit})"
                self.journal.note(f"GPU {self.index}: {who}: {why}", client.peer.uid)
                return err
            process.flags = flags
            process.agent, process.knows_flag = client, bool(flags & lib.GPURT_AGENT_FREE)
            knows_many = bool(flags & lib.GPURT_AGENT_MANY)
            told = knows_many and tsgs > 0, set_
            if told != process.told:
                process.told, process.set, process.channels = told, set_, list(channels)
                lib.gpurt_agents_channels(self.agents, process.raw, told[0], knows_many * len(channels))
            single, automatic = bool(flags & lib.GPURT_AGENT_SINGLE), bool(flags & lib.GPURT_AGENT_AUTOMATIC)
            lib.gpurt_agents_single(self.agents, process.raw, single, automatic, now)
            client.agent = True
            lib.gpurt_set_tsgs(self.sched, client.core, tsgs, now)
            return 0

        def over(result: int) -> None:
            done(result, order_of(process), int(process.raw.sequence))

        changes = not process.raw.registered or (self.obedience.yields and flags != process.flags)
        self.update(Decision(decide, over, lambda: int(client.core.level), client, call=True, recalls=changes))

    def channels_of_others(self, process: Process) -> list[tuple[int, int]]:
        """The channels of other processes that the process's agent is to switch."""
        raw = process.raw
        call = raw.number, raw.many
        others = (one for one in self._processes.values() if (one.raw.taker, one.raw.taken_in) == call)
        return [channel for one in others for channel in one.taken[1]]

    def answer(self, client: GpuClient, answered: int, result: int, flags: int = 0) -> None:
        """An agent has carried out an order, or its driver refused the order or the slice (enum gpurt_order_flags).

        Raises:
            Refusal: ENOENT, the client is no agent; EBUSY, the agent waits already; EINVAL, no order has that number.
        """
        process: Process = client.own
        if process.agent is not client:
            raise Refusal(errno.ENOENT, "the client is not its process's agent")
        if process.waiter and not process.waiter.answered:
            raise Refusal(errno.EBUSY, "the agent waits for an order already")
        if flags & lib.GPURT_ORDER_UNCUT:
            lib.gpurt_agents_single(self.agents, process.raw, False, process.raw.automatic, self.clock())
        if lib.gpurt_agents_answer(self.agents, process.raw, answered, result, self.clock()):
            raise Refusal(errno.EINVAL, f"there is no order {answered}")
        self.advance(self.clock())

    def next_order(self, client: GpuClient, answered: int, waiter: Waiter) -> None:
        """Answers once there is an order newer than `answered`."""
        if client.own.raw.sequence > answered:
            waiter.finish(0)
        else:
            client.own.waiter = waiter
