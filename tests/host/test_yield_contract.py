# SPDX-License-Identifier: GPL-2.0
"""Begins isolated and by yield in the real host, with whatever else it can do, at random: its contract holds.

Processes fork, end, are stopped, and connect anew.  Each has several connections, and an agent on each GPU, as
userlib/preload/agent.c and segments.c have them.  Their calls are those of uapi/gpurt.h, read one packet at a time.
Each world has some of the FEATURES.  `World.check` holds after each step, `World.check_rest` once no process has work
left, and `World.check_answer` when the host has told a client that it has the GPU.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from effort import tries
from worlds import go_on

from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, EventKind, Policy
from pycontrol.host.agents import AgentGpu, Obedience
from pycontrol.host.budgets import Allowance, Budgets
from pycontrol.host.calls import Call, Calls
from pycontrol.host.commands import Commands, set_limit
from pycontrol.host.gpu import GpuClient, Owner
from pycontrol.host.groups import Group, Groups
from pycontrol.host.peer import Peer, Rules
from pycontrol.host.threads import Band, Scheduling
from pycontrol.host.waiter import FOREVER, Deadlines
from pycontrol.host.wire import Refusal

BOUND, LAZY, MS = lib.GPURT_AGENT_BOUND_NS, lib.GPURT_AGENT_LAZY_NS, 1_000_000
ON, FREE, TAKEN = lib.GPURT_ORDER_ON, lib.GPURT_ORDER_FREE, lib.GPURT_ORDER_TAKEN
ANEW, MANY, YIELD = lib.GPURT_ORDER_ANEW, lib.GPURT_ORDER_MANY, lib.GPURT_ORDER_YIELD
SHORT, LONG = lib.GPURT_ORDER_SHORT, lib.GPURT_ORDER_LONG
WAIT, BEGUN, POST, BESIDE = lib.GPURT_BEGIN_WAIT, lib.GPURT_BEGIN_BEGUN, lib.GPURT_BEGIN_POST, lib.GPURT_BEGIN_YIELD
RUNNING, PENDING, OWN = lib.GPURT_STATE_RUNNING, lib.GPURT_STATE_PENDING, lib.GPURT_PRIORITY_OWN
SLICES = {lib.GPURT_AGENT_SHORT: SHORT, lib.GPURT_AGENT_DRIVERS: 0, lib.GPURT_AGENT_LONG: LONG}
CALLS = {
    lib.GPURT_IOC_BEGIN: "begin", lib.GPURT_IOC_END: "end", lib.GPURT_IOC_WAIT: "wait", lib.GPURT_IOC_AGENT: "agent",
    lib.GPURT_IOC_ORDER: "order", lib.GPURT_IOC_GROUP_JOIN: "group_join",
}  # fmt: skip
SEGMENT, TIMESLICED = int(Policy.SEGMENT), int(Policy.TIMESLICED)
BY_LEVEL = {SEGMENT, int(Policy.BOOSTED)}
POLICIES = [Policy.SEGMENT] * 4 + [Policy.LOCK_PRIORITY, Policy.LOCK_FIFO, Policy.TIMESLICED, Policy.BOOSTED]
ADMINISTRATOR = Peer(1, 0, "admin", 1)
FEATURES = "explicit stop second exempt policy group budget close refuse uncut".split()  # noqa: SIM905


class Who(Peer):
    """A process that there is not."""

    @property
    def right(self) -> int:
        return 99


@dataclass(eq=False)
class Thread:
    """The one of a process that makes all its calls."""

    priority: int

    def own(self) -> Scheduling:
        return Scheduling(os.SCHED_FIFO if self.priority else os.SCHED_OTHER, self.priority)

    def own_now(self) -> Scheduling:
        return self.own()

    def want(self, _who: object, _cpu: int) -> None:
        """It is raised, or not any more."""

    def level(self) -> int:
        return 0


@dataclass
class Order:
    """As an agent gets it."""

    on: int
    number: int
    set: int
    channels: list[int]  # pids of processes


@dataclass(eq=False)
class Board:
    """A GPU as a process's library knows it, and what the driver has: `runs`."""

    gpu: int
    runs: bool = False
    believed: bool | None = None
    slice: int = 0
    flag: int = 0  # FREE, or FREE | YIELD
    number: int = 0  # of the last order that was carried out
    result: int = 0
    set: int = 1
    single: bool = True
    uncut: bool = False
    automatic: bool = True
    introduced: bool = False
    telling: bool = False  # a call of the program's thread to the agent is under way
    serves: bool = False  # the agent's thread is there
    asks: bool = False  # it waits for an order
    order: Order | None = None  # that it has got
    heard: Order | None = None  # that the program's thread has got
    many: Order | None = None  # its call for others is under way
    inside: bool = False  # an automatic segment is open
    began: int | None = None  # without asking: the flag then
    lost: bool = False  # it was late then, or since: the host need not have taken that begin
    posts: bool = False  # its end may be posted
    busy: bool = False  # a thread of the program is in a call with the library's lock
    was_top: bool = False  # since it was on the GPU last


@dataclass(eq=False)
class Connection:
    """A connection of a process."""

    process: Process
    peer: Peer
    admit: Callable[[Connection, AgentGpu], GpuClient]
    clients: dict[int, GpuClient] = field(default_factory=dict)
    group: Group | None = None
    kept: bool = False
    closed: bool = False
    sent: deque[Callable[[], None]] = field(default_factory=deque)  # what the host has not read yet
    under_way: list[Call] = field(default_factory=list)
    depth: Counter[int] = field(default_factory=Counter)  # segments of the program's own, by GPU
    begins: set[int] = field(default_factory=set)  # where it waits for the answer of a begin
    waits: int = 0

    def thread(self) -> Thread:
        return self.process.thread

    def scheduling(self, thread: Thread) -> Scheduling:
        return thread.own()

    def client(self, gpu: AgentGpu) -> GpuClient:
        if gpu.index not in self.clients:
            self.clients[gpu.index] = self.admit(self, gpu)
        return self.clients[gpu.index]


@dataclass(eq=False)
class Process:
    """A process; its first connection is the library's."""

    peer: Peer
    thread: Thread
    boards: list[Board]
    flags: int
    connections: list[Connection] = field(default_factory=list)
    stopped: bool = False
    allowance: Allowance | None = None


class World:
    """Processes of one or two GPUs, and their host."""

    def __init__(self, rng: random.Random, gpus: int, obedience: Obedience, features: list[str]) -> None:
        self.rng, self.features, self.obedience = rng, features, obedience
        self.now, self.count, self.seen, self.log = 0, 0, Counter[str](), list[object]()
        make = partial(AgentGpu, obedience=obedience, policy=SEGMENT, tell=self.tell, clock=lambda: self.now)
        self.gpus = [make(index, band=Band(able=True)) for index in range(gpus)]
        self.groups, self.deadlines, self.rules = Groups(self.gpus, True), Deadlines(), Rules()
        self.calls = Calls(self.gpus, lambda: self.now, self.deadlines, self.groups)
        self.processes: list[Process] = []
        self.connections: list[Connection] = []
        self.commands = Commands(
            self.gpus, self.rules, Budgets(), lambda: 0, lambda: self.now, groups=self.groups,
            connections=lambda: self.connections,
        )  # fmt: skip
        self.told: dict[tuple[int, int], bool] = {}  # by GPU and client: it was told that it has the GPU, or has not

    # The host

    def tell(self, gpu: Any, client: Any, kind: EventKind, *_: object) -> None:
        """An event: what those that are in segments know."""
        has = kind is not EventKind.PREEMPT
        if kind not in (EventKind.GRANT, EventKind.RESUME, EventKind.PREEMPT):
            if client and kind in (EventKind.BEGIN, EventKind.END, EventKind.GONE):
                self.told.pop((gpu.index, client.id), None)
        elif client:
            self.told[gpu.index, client.id] = has
        else:
            spared = {one.id for one in gpu.runner.members} if gpu.runner else set()
            spared |= {one.id for one in gpu.clients.values() if one.core.exempt and not has}
            self.told.update({key: has for key in self.told if key[0] == gpu.index and key[1] not in spared})

    def admit(self, c: Connection, gpu: AgentGpu) -> GpuClient:
        """As Host.admit."""
        if c.group:
            c.group.check(gpu, c.peer, c.process.allowance)
        self.count += 1
        client = gpu.join(self.count, c.peer, self.rules.exempt.has(c.peer), c.process.allowance)
        if c.group:
            self.groups.enroll(c.group, gpu, client, 0, False, lambda _: None)
        return client

    def drop(self, c: Connection) -> None:
        """As Host.drop."""
        c.closed = True
        self.connections.remove(c)
        c.process.connections.remove(c)
        for call in c.under_way:
            call.forget()
        for index, client in sorted(c.clients.items(), key=lambda one: one[1].core.depth == 0):
            self.gpus[index].leave(client)
        self.groups.leave(c)

    def call(
        self, c: Connection, code: int, done: Callable[[int, Any], None], posted: bool = False, **fields: Any
    ) -> None:  # fmt: skip
        """Sends a packet; `done` gets its answer, once."""
        made = ffi.new(f"struct gpurt_{CALLS[code]} *")
        made.size = ffi.sizeof(made[0])
        for pid in fields.pop("switchable", []):
            made.channels.count, made.channels.clients[0] = 1, pid
        for name, value in fields.items():
            setattr(made, name, value)
        calls: list[Call] = []
        results: list[int] = []

        def answered(result: int, answer: Any) -> None:
            results.append(result)
            assert len(results) == 1
            c.under_way = [one for one in c.under_way if one not in calls]
            if not c.closed:
                done(result, answer)

        def read() -> None:
            try:
                calls.append(self.calls.call(c, code, bytes(ffi.buffer(made)), answered, posted))
            except Refusal as refusal:
                answered(-refusal.error, made)
            if not results:
                c.under_way += calls

        c.sent.append(read)

    # Processes

    def arrive(self, parent: Process | None = None) -> None:
        if len(self.processes) == 5:
            return
        self.count += 1
        uid, comm = self.rng.choice([0, 1000, 1000, 1001]), f"c{self.count}"
        peer = Who(10_000_000 + self.count, parent.peer.uid if parent else uid, parent.peer.comm if parent else comm, 1)
        thread = Thread(parent.thread.priority if parent else self.rng.choice([0, 0, 0, 10, 40]))
        flags = lib.GPURT_AGENT_FREE * (self.rng.random() < 0.95) | lib.GPURT_AGENT_MANY * (self.rng.random() < 0.8)
        one = Process(peer, thread, [Board(gpu.index) for gpu in self.gpus], flags)
        one.allowance = parent.allowance if parent else None
        self.processes.append(one)
        self.connect(one)
        for board in one.boards:
            self.declare(one, board)

    def connect(self, one: Process) -> None:
        if len(one.connections) < 3:
            one.connections.append(Connection(one, one.peer, self.admit))
            self.connections.append(one.connections[-1])

    def join(self, one: Process) -> None:
        name = self.rng.choice([b"a", b"b"])
        self.call(self.rng.choice(one.connections), lib.GPURT_IOC_GROUP_JOIN, lambda *_: None, name=name)

    def close(self, one: Process) -> None:
        """A connection ends; what it has sent last may be lost.  Without its first one a process starts anew (exec)."""
        c = self.rng.choice(one.connections)
        while c.sent and self.rng.random() < 0.97:
            c.sent.popleft()()
        first = c is one.connections[0]
        self.drop(c)
        if first:
            one.boards = [Board(board.gpu) for board in one.boards]
            self.connect(one)

    def die(self, one: Process) -> None:
        for c in list(one.connections):
            while c.sent:
                c.sent.popleft()()
            self.drop(c)
        self.processes.remove(one)

    def stop(self, one: Process) -> None:
        one.stopped = not one.stopped

    def renice(self, one: Process) -> None:
        one.thread.priority = self.rng.choice([0, 10, 40, 80])

    def signal(self, one: Process) -> None:
        """A signal comes to threads that wait for the GPU."""
        for call in [call for c in one.connections for call in c.under_way]:
            if "order" not in ffi.typeof(call._made).item.cname:
                call.interrupt()

    def read(self, one: Process) -> None:
        c = self.rng.choice(one.connections)
        for _ in range(min(len(c.sent), self.rng.choice([1, 1, 3]))):
            c.sent.popleft()()

    # The agent

    def declare(self, one: Process, board: Board | None = None) -> None:
        """A thread of the program tells of its channels, and carries out the order that it gets."""
        b = board or self.rng.choice(one.boards)
        if b.telling or one.stopped:
            return
        single, automatic = lib.GPURT_AGENT_SINGLE * (b.single and not b.uncut), lib.GPURT_AGENT_AUTOMATIC * b.automatic
        switchable = [one.peer.pid] if one.flags & lib.GPURT_AGENT_MANY else []
        b.telling = True

        def done(result: int, answer: Any) -> None:
            b.telling = False
            if not result:
                b.introduced = True
                b.heard = Order(answer.on, answer.sequence, 0, [])

        self.call(
            one.connections[0], lib.GPURT_IOC_AGENT, done, gpu=b.gpu, flags=one.flags | single | automatic, tsgs=1,
            tier=lib.GPURT_TIER_UNPATCHED, driver=b"nvidia-rm", set=b.set, switchable=switchable,
        )  # fmt: skip

    def hear(self, one: Process, board: Board | None = None) -> None:
        b = board or self.rng.choice(one.boards)
        if b.heard:
            order, b.heard, b.serves = b.heard, None, True
            if not order.on & MANY:
                self.carry_out(b, order)

    def carry_out(self, b: Board, o: Order) -> None:
        """As obey() in agent.c, whose lock this has."""
        if o.number <= b.number:
            return
        on, b.result = bool(o.on & ON), 0
        if o.on & ANEW:
            b.believed = None
        if o.on & TAKEN and o.set == b.set and b.believed is not None:
            b.believed = on
        elif o.on & TAKEN:
            b.believed, b.set = None, b.set + 1
        if b.believed is not on and "refuse" in self.features and self.rng.random() < 0.01:
            b.result = -errno.EIO
        elif b.believed is not on:
            b.runs = b.believed = on
        b.was_top &= on
        b.uncut |= "uncut" in self.features and self.rng.random() < 0.002
        b.slice = 0 if b.uncut else o.on & (SHORT | LONG)
        b.flag = o.on & (FREE | YIELD) if o.on & FREE and not b.result and not (b.uncut and o.on & YIELD) else 0
        b.number = o.number
        b.many = o if o.on & MANY and not b.result else None

    def obey(self, one: Process) -> None:
        """The agent's thread carries out what it has got."""
        for b in one.boards:
            if b.order and not b.many and not one.stopped:
                order, b.order = b.order, None
                self.carry_out(b, order)

    def switch_others(self, one: Process) -> None:
        """The driver carries out a call for others, perhaps long after the host has given it up."""
        for b in one.boards:
            if not b.many or (one.stopped and self.rng.random() < 0.9):
                continue
            order, b.many, err = b.many, None, -errno.EIO if self.rng.random() < 0.02 else 0
            others = [other for other in self.processes if other.peer.pid in order.channels]
            err = err or (0 if len(others) == len(order.channels) else -errno.ENOENT)
            raw = self.raw(self.gpus[b.gpu], one)
            self.seen["many, given up" if raw and raw.given_up else "many"] += 1
            for other in others if not err else ():
                other.boards[b.gpu].runs = False
            b.result = err if b.number == order.number else b.result

    def answer(self, one: Process) -> None:
        """The agent's thread says what it has done, and waits for the next order."""
        for b in one.boards:
            if one.stopped or not b.serves or b.asks or b.order or b.many:
                continue
            b.asks = True

            def done(result: int, answer: Any, b: Board = b) -> None:
                b.asks = False
                assert not result
                channels = [answer.channels.clients[i] for i in range(answer.channels.count)]
                b.order = Order(answer.on, answer.sequence, answer.set, channels)

            self.call(
                one.connections[0], lib.GPURT_IOC_ORDER, done, gpu=b.gpu, answered=b.number, result=b.result,
                timeout_ns=FOREVER, flags=lib.GPURT_ORDER_UNCUT * b.uncut,
            )  # fmt: skip

    def second(self, one: Process) -> None:
        """It makes a second group for kernels, or destroys that."""
        b = self.rng.choice(one.boards)
        if b.introduced and not one.stopped and not b.telling:
            b.single = not b.single
            self.declare(one, b)

    # Segments that the library begins

    def begin(self, one: Process) -> None:
        c, b = one.connections[0], self.rng.choice(one.boards)
        if one.stopped or b.inside or b.busy or not b.introduced or not b.automatic:
            return
        flags, gpu = self.rng.choice([BESIDE, BESIDE, 0]), self.gpus[b.gpu]
        if b.flag:
            self.check_flag(gpu, one)
            self.seen["by yield" if b.flag & YIELD else "free"] += 1
            b.inside = b.posts = True
            b.began, b.lost = b.flag, bool(self.raw(gpu, one).late)
            flags = POST | BESIDE * bool(b.flag & YIELD)
            self.call(c, lib.GPURT_IOC_BEGIN, lambda *_: None, True, gpu=b.gpu, flags=flags, raised=one.thread.priority)
            return
        b.busy = True

        def done(result: int, answer: Any) -> None:
            b.busy = False
            if not result:
                b.inside, b.began, b.posts = True, None, bool(answer.flags & POST)
                self.check_answer(c, gpu, answer.state, bool(flags))

        self.call(c, lib.GPURT_IOC_BEGIN, done, gpu=b.gpu, flags=flags)

    def alone(self, one: Process) -> None:
        """Work that is no kernel of one stream: a nested begin has others taken off first, and ends."""
        c, b = one.connections[0], self.rng.choice(one.boards)
        if one.stopped or not b.inside or b.busy:
            return
        b.busy = True

        def done(result: int, answer: Any) -> None:
            b.busy = False
            if not result:
                self.check_answer(c, self.gpus[b.gpu], answer.state, False)
                self.end_one(c, b.gpu, bool(answer.flags & POST))

        self.call(c, lib.GPURT_IOC_BEGIN, done, gpu=b.gpu)

    def end_one(self, c: Connection, gpu: int, posted: bool) -> None:
        self.call(c, lib.GPURT_IOC_END, lambda *_: None, posted, gpu=gpu)

    def end(self, one: Process) -> None:
        b = self.rng.choice(one.boards)
        if b.inside and not b.busy and not one.stopped:
            b.inside = False
            self.end_one(one.connections[0], b.gpu, b.posts and self.rng.random() < 0.9)

    # Segments of the program's own

    def explicit(self, one: Process) -> None:
        c, gpu = self.rng.choice(one.connections), self.rng.choice(self.gpus)
        b, first = one.boards[gpu.index], c is one.connections[0]
        if one.stopped or gpu.index in c.begins or c.depth[gpu.index] > 2 or (first and b.busy):
            return
        if first and b.automatic:
            if self.rng.random() < 0.97:
                return
            b.automatic = False
            if b.inside:
                b.inside = False
                self.end_one(c, b.gpu, b.posts)
            self.declare(one, b)
        self.begin_own(c, gpu, self.rng.choice([0, WAIT, WAIT]), self.rng.choice([0, 0, 5, 45, 70]))

    def begin_own(self, c: Connection, gpu: AgentGpu, flags: int, priority: int = 0) -> None:
        c.begins.add(gpu.index)

        def done(result: int, answer: Any) -> None:
            c.begins.discard(gpu.index)
            begun = result == -errno.EINTR and answer.flags & BEGUN
            c.depth[gpu.index] += (not result or bool(begun)) and not flags & BEGUN
            if begun and self.rng.random() < 0.7:
                self.begin_own(c, gpu, WAIT | BEGUN)
            elif not result:
                self.check_answer(c, gpu, answer.state, False)

        self.call(c, lib.GPURT_IOC_BEGIN, done, gpu=gpu.index, flags=flags, priority=priority)

    def end_own(self, one: Process) -> None:
        c, gpu = self.rng.choice(one.connections), self.rng.choice(self.gpus).index
        if not one.stopped and gpu not in c.begins and c.depth[gpu]:
            c.depth[gpu] -= 1
            self.end_one(c, gpu, self.rng.random() < 0.5)

    def wait(self, one: Process) -> None:
        """Also of a thread of its own, in an automatic segment."""
        c, gpu = self.rng.choice(one.connections), self.rng.choice(self.gpus)
        if one.stopped or c.waits == 3:
            return
        c.waits += 1

        def done(result: int, _answer: Any) -> None:
            c.waits -= 1
            if not result:
                assert self.state(gpu, c) == RUNNING or not gpu.open_segments(c.clients[gpu.index])
                self.check_answer(c, gpu, RUNNING, False)

        timeout = self.rng.choice([FOREVER, FOREVER, 0, LAZY // 2, 3 * MS])
        self.call(c, lib.GPURT_IOC_WAIT, done, gpu=gpu.index, what=lib.GPURT_WAIT_GRANT, timeout_ns=timeout)

    # The administrator

    def command(self, command: Command, **request: int | str) -> None:
        with suppress(Refusal):
            self.commands.carry_out(ADMINISTRATOR, command, request, lambda *_: None)

    def exempt(self, one: Process) -> None:
        """Those that it has forked, too."""
        self.command(Command.SET_EXEMPT, EXEMPT=self.rng.randrange(2), COMM=one.peer.comm)

    def policy(self, _one: Process) -> None:
        gpu = {"GPU": self.rng.choice(self.gpus).index} if self.rng.random() < 0.5 else {}
        self.command(Command.SET_POLICY, POLICY=int(self.rng.choice(POLICIES)), **gpu)

    def priority(self, one: Process) -> None:
        self.command(Command.SET_PRIORITY, PID=one.peer.pid, PRIORITY=self.rng.choice([0, 30, 50, 60, OWN]))

    def group(self, one: Process) -> None:
        self.command(Command.SET_GROUP, PID=one.peer.pid, GROUP=self.rng.choice(["a", "b"]))

    def budget(self, one: Process) -> None:
        """As Commands.set_budget, whose processes are real ones."""
        limit, action = self.rng.choice([0, MS // 2, MS, 2 * MS]), self.rng.choice([lib.GPURT_OVERRUN_DEMOTE] * 3 + [0])
        allowance = one.allowance or Allowance(one.peer.pid, 1)
        for seat in self.groups.seats:
            if len({allowance if m.peer is one.peer else m.allowance for m in seat.members} - {None}) > 1:
                return
        for gpu in self.gpus:
            set_limit(gpu, allowance, limit, 10 * MS if limit else 0, action, lambda _: None)
        one.allowance = allowance if limit else None
        for c in one.connections:
            for index, client in c.clients.items():
                if client.allowance is not one.allowance:
                    self.gpus[index].put_under(client, one.allowance, lambda _: None)

    # Time

    def due(self) -> int:
        return min(self.deadlines.next(), *(gpu.times()[0] for gpu in self.gpus))

    def passes(self, ns: int, on_time: bool = True) -> None:
        """Time passes, and the host's timer goes off in time, or once."""
        until, looks = self.now + ns, 0
        while on_time and self.due() <= until:
            looks = 0 if self.due() > self.now else looks + 1
            assert looks < 100, self.log  # it spins
            self.now = max(self.now, self.due())
            self.catch_up()
        self.now = until
        self.catch_up()

    def catch_up(self) -> None:
        for gpu in self.gpus:
            if gpu.times()[0] <= self.now:
                gpu.advance(self.now)
        self.deadlines.expire(self.now)
        self.turns()

    def turns(self) -> None:
        while any(gpu.more for gpu in self.gpus) or self.commands.errands.more:
            go_on(self.commands)
            for gpu in self.gpus:
                gpu.go_on()

    def a_while(self, _one: Process) -> None:
        self.passes(self.rng.choice([MS // 1000, LAZY // 3, LAZY // 3, LAZY]))

    def late(self, _one: Process) -> None:
        self.passes(BOUND, self.rng.random() < 0.5)

    # What holds

    def raw(self, gpu: AgentGpu, one: Process) -> Any:
        """The core's process, if it has an agent."""
        found = gpu._processes.get((one.peer.pid, one.peer.start))
        return found.raw if found and found.raw.registered else None

    def agents(self, gpu: AgentGpu) -> list[tuple[Process, Board, Any]]:
        found = ((one, one.boards[gpu.index], self.raw(gpu, one)) for one in self.processes)
        return [one for one in found if one[2]]

    def state(self, gpu: AgentGpu, c: Connection) -> int:
        return gpu.state(c.clients[gpu.index])

    def others(self, gpu: AgentGpu, owner: Owner) -> list[tuple[Process, Board, Any]]:
        """Those that must be off beside an owner: the host may rely on their agents, and they are not exempt."""
        mine, wait = {one.own.raw for one in owner.members}, not self.obedience.go_on
        return [
            one for one in self.agents(gpu) if one[2] not in mine and not one[2].exempt and not one[2].taker
            and (wait or not (one[2].late or one[2].doubted))
        ]  # fmt: skip

    def check_answer(self, c: Connection, gpu: AgentGpu, state: int, beside: bool) -> None:
        """The host has answered: if the process owns the GPU others are off; or the most urgent may stay on."""
        client = c.clients[gpu.index]
        if client.gone or not gpu.runner or gpu.runner is not (client.group or client) or state != RUNNING or gpu.fault:
            return
        self.seen["isolated"] += 1
        for one, board, raw in self.others(gpu, gpu.runner):
            stays = beside and (gpu.agents.top == raw or (board.was_top and raw.sequence != raw.answered))
            assert not board.runs or stays, (c.peer.pid, one.peer.pid, self.log)
            assert not (stays and board.runs and board.inside and board.began is None), (one.peer.pid, self.log)

    def check_flag(self, gpu: AgentGpu, one: Process) -> None:
        """It begins without asking: it is alone, or by yield; and it has nothing that must not have the flag."""
        if self.raw(gpu, one).late:
            return
        others = [other for other, _, raw in self.agents(gpu) if other is not one and not raw.late]
        assert one.boards[gpu.index].flag & YIELD or not others, self.log
        assert gpu.sched.policy == SEGMENT, self.log
        clients = [c.clients[gpu.index] for c in one.connections if gpu.index in c.clients]
        assert not any(c.core.budget != ffi.NULL or c.core.exempt or c.group for c in clients), self.log

    def check_yield(self, gpu: AgentGpu) -> None:
        """One process may begin beside others: it has a long slice, all others have a short one."""
        able = [one for one in self.agents(gpu) if one[1].flag & YIELD and not one[2].late]
        assert len(able) <= 1, self.log
        for one, board, _ in able:
            assert board.slice == LONG, (one.peer.pid, self.log)
            for other, b, raw in self.agents(gpu):
                known = b.slice == SHORT or b.telling or b.uncut  # the host is told
                assert other is one or raw.late or known, (one.peer.pid, other.peer.pid, self.log)

    def check_begun(self, gpu: AgentGpu) -> None:
        """A segment began without asking, and the host has not decided yet: others are off, or have short slices."""
        for one, board, raw in self.agents(gpu):
            client = one.connections[0].clients.get(gpu.index)
            decided = client and client.core.depth and not (gpu.agents.lazy and gpu.runner is client)
            if not client or raw.late or not board.inside or not board.runs or not board.began or board.lost or decided:
                continue
            urgent = lib.gpurt_client_begin_level(client.core, one.thread.priority, 0)
            for other, b, its in self.agents(gpu) if urgent else ():
                beside = board.began & YIELD and (b.slice == SHORT or b.telling or b.uncut or its.doubted)
                assert other is one or its.late or not b.runs or beside, (one.peer.pid, other.peer.pid, self.log)

    def check_owner(self, gpu: AgentGpu) -> None:
        """The update for the owner is over: others are off."""
        core = gpu.agents
        if gpu.in_flight or not gpu.runner or core.lazy or core.step or gpu.fault:
            return
        for one, board, raw in self.others(gpu, gpu.runner):
            beside = core.beside and ((core.top == raw and not raw.inside) or raw.sequence != raw.answered)
            assert not board.runs or beside, (one.peer.pid, self.log)

    def check_counts(self, gpu: AgentGpu) -> None:
        core, processes = gpu.agents, gpu._processes.values()
        raws = [one.raw for one in processes if one.raw.registered]
        assert core.holders == sum(raw.holds for raw in raws)
        assert core.uncut == sum(not raw.single or raw.has != lib.GPURT_AGENT_SHORT for raw in raws)
        assert gpu.facts().late == sum(raw.late for raw in raws)
        assert sum(core.owing) == len(processes)
        assert gpu.tsgs == sum(one.core.tsgs for one in gpu.clients.values())
        for one in processes:
            assert one.raw.exempt == sum(bool(client.core.exempt) for client in one.clients)
            assert bool(one.raw.group) == bool(one.seat)

    def check_budget(self, gpu: AgentGpu) -> None:
        """The owner has not used its budget up, unless the host has still to notice that."""
        runner = gpu.sched.runner
        if runner and runner.budget and runner.level and not gpu.in_flight and not gpu.fault and self.due() > self.now:
            assert not lib.gpurt_budget_spent(runner.budget), self.log

    def check(self) -> None:
        for gpu in self.gpus:
            for one, board, raw in self.agents(gpu):
                board.was_top |= gpu.agents.top == raw and board.runs
                board.lost |= bool(raw.late and board.inside and board.began is not None)
                assert one.peer.pid == gpu._by_raw[raw].key[0]
            for check in (self.check_yield, self.check_begun, self.check_owner, self.check_counts, self.check_budget):
                check(gpu)

    def check_rest(self) -> None:
        """No process has anything left to do: those that may run do, and no call waits for what has happened."""
        assert not self.commands.errands._all, self.log
        for gpu in self.gpus:
            core = gpu.agents
            assert not any((gpu.in_flight, gpu._waiting, gpu._aside, gpu.fault)), self.log
            assert not any((core.recalls, core.step, core.failed, core.lazy)), self.log
            self.check_order(gpu)
            for one in self.agents(gpu):
                self.check_process(gpu, *one)
            self.check_best(gpu)
            for c in self.connections:
                if gpu.index in c.clients:
                    self.check_client(gpu, c)

    def check_order(self, gpu: AgentGpu) -> None:
        """The policy says which client or group owns the GPU."""
        inside = [one for one in gpu.clients.values() if one.core.depth]
        entries, owner = [(one.group or one).core for one in inside], gpu.runner
        for one in inside:
            level = lib.gpurt_begin_level(one.core.set, one.core.own, one.core.hint)
            assert one.group or one.core.level == (0 if one.core.demoted else level), self.log
            self.seen["demoted"] += (one.group or one).core.demoted > 0
        if gpu.sched.policy in BY_LEVEL:
            most = max((entry.level for entry in entries), default=0)
            assert (owner.core.level if owner else 0) == most, self.log
        locks = gpu.sched.policy not in BY_LEVEL | {TIMESLICED} and any(not entry.demoted for entry in entries)
        assert bool(owner) >= locks, self.log
        assert not owner or owner.core in entries, self.log
        self.seen["owned"] += bool(owner)

    def check_process(self, gpu: AgentGpu, one: Process, board: Board, raw: Any) -> None:
        """It is on or off, and has the slice and the flag, as the host has it."""
        core, owner = gpu.agents, gpu.runner
        mine = owner and raw in [member.own.raw for member in owner.members]
        beside = core.beside and core.top == raw and not raw.inside
        assert board.runs == bool((not owner and not self.waits(gpu, raw)) or mine or raw.exempt or beside), self.log
        assert board.number == raw.sequence == raw.answered, (one.peer.pid, self.log)
        assert not raw.late, (one.peer.pid, self.log)
        assert not raw.doubted, (one.peer.pid, self.log)
        assert board.uncut or board.slice == SLICES[raw.slice], (one.peer.pid, self.log)
        assert bool(board.flag) == bool(raw.free), (one.peer.pid, self.log)
        if not owner:
            top = LONG if core.top == raw else SHORT
            assert SLICES[raw.slice] == (top if core.top and raw.single else 0), (one.peer.pid, self.log)

    def waits(self, gpu: AgentGpu, raw: Any) -> bool:
        """It is another one's turn."""
        return bool(gpu.agents.turning and gpu.agents.turn != raw and not raw.rank and raw.automatic and raw.plain)

    def check_best(self, gpu: AgentGpu) -> None:
        """The process that should be able to begin without asking is, once no process owns the GPU."""
        agents, yields = self.agents(gpu), self.obedience.yields
        if gpu.runner:
            return
        plain, ranks = set(), {}
        for one, _, raw in agents:
            clients = [c.clients[gpu.index] for c in one.connections if gpu.index in c.clients]
            bound = any(client.group or client.allowance or client.core.exempt for client in clients)
            ranks[raw] = max(c.seen if c.core.set == OWN else c.core.set for c in clients) if yields else 0
            if one.flags & lib.GPURT_AGENT_FREE and gpu.sched.policy == SEGMENT and not bound:
                plain.add(raw)
        most = [raw for raw in ranks if ranks[raw] == max(ranks.values())]
        best = {*most} if len(most) == 1 and max(ranks.values()) and all(raw.single for raw in ranks) else set()
        best = {raw for raw in best if raw.automatic} if len(agents) > 1 else {*ranks}
        best &= plain if self.obedience.go_on else set()
        for _, _, raw in agents:
            assert bool(raw.free) == (raw in best), self.log
            assert bool(raw.yields) == (raw in best and len(agents) > 1), self.log

    def check_client(self, gpu: AgentGpu, c: Connection) -> None:
        client, state, i = c.clients[gpu.index], self.state(gpu, c), gpu.index
        board, first = c.process.boards[i], c is c.process.connections[0]
        assert not client.calls, self.log
        known = (first and board.lost) or i in c.begins or client.core.depth == c.depth[i] + (first and board.inside)
        assert known, self.log
        if state != PENDING:
            assert i not in c.begins, self.log
            assert all(one.answered for one in client.grant_waiters._all), self.log
        if client.core.depth:
            assert self.told.get((i, client.id), state == RUNNING) == (state == RUNNING), self.log

    # Steps

    def step(self) -> None:
        if not self.processes or self.rng.random() < 0.006:
            self.arrive()
        usual: list[Callable[[Process], None]] = [
            *[self.begin, self.end] * 10, *[self.read] * 14, *[self.obey, self.answer] * 5,
            *[self.hear, self.switch_others, self.a_while, self.end_own] * 2,
        ]  # fmt: skip
        seldom = [*[self.alone] * 3, self.declare, self.die, self.arrive, self.priority, self.renice, self.late]
        more = {"explicit": [self.connect, self.wait, *[self.signal] * 2], "group": [self.group, self.join],
                "stop": [self.stop] * 2, "budget": [self.budget] * 2}  # fmt: skip
        for feature in self.features:
            seldom += more.get(feature) or [getattr(self, feature, self.declare)]
        usual += [self.explicit, self.wait] * 2 if "explicit" in self.features else []
        one, event = self.rng.choice(self.processes), self.rng.choice(usual if self.rng.random() < 0.96 else seldom)
        self.log.append((event.__name__, one.peer.pid))
        event(one)
        self.turns()
        self.check()

    def end_all(self, one: Process) -> bool:
        """Whether there was a segment to be ended."""
        own = [(c, gpu) for c in one.connections for gpu, depth in c.depth.items() if depth and gpu not in c.begins]
        open_ = [board for board in one.boards if board.inside and not board.busy]
        for board in open_:
            board.inside = False
            self.end_one(one.connections[0], board.gpu, board.posts)
        for c, gpu in own:
            c.depth[gpu] -= 1
            self.end_one(c, gpu, False)
        return bool(own or open_)

    def settle(self, ends: bool = False) -> None:
        """All that was sent is read, all orders are carried out, nobody is stopped, and time passes; segments end.

        Processes that take turns would have new orders for ever, if they did not end theirs.
        """
        calm, ends = 0, ends or self.obedience.turns
        for one in self.processes:
            one.stopped = False
        while calm < 5:
            busy = False
            for one in self.processes:
                for board in one.boards:
                    busy |= bool(board.heard or board.order or board.many)
                    self.hear(one, board)
                self.obey(one)
                self.switch_others(one)
                self.answer(one)
                for c in one.connections:
                    busy |= bool(c.sent)
                    while c.sent:
                        c.sent.popleft()()
                        self.turns()
                        self.check()
                busy |= ends and self.end_all(one)
            calm = 0 if busy else calm + 1
            self.passes([0, MS, MS, 3 * BOUND, 0, 0][calm])
            if calm == 4:
                self.passes(max(0, max(one.until for gpu in self.gpus for one in gpu.agents.users) - self.now))
        assert self.due() > self.now, self.log  # it spins
        self.check_rest()

    def finish(self) -> None:
        """All segments end, and then all processes do: nothing is left of them."""
        self.settle(ends=True)
        for one in list(self.processes):
            self.die(one)
            self.turns()
        self.passes(BOUND)
        for gpu in self.gpus:
            core, left = gpu.agents, (gpu.clients, gpu._processes, gpu._by_raw, gpu._by_core, gpu._granted, gpu._seats)
            assert not any(left), self.log
            assert not any((core.holders, sum(core.owing), core.recalls, core.step, core.only, gpu.tsgs)), self.log
            assert not gpu.runner, self.log
        assert not self.groups._all


def run(seed: int, steps: int = 500) -> Counter[str]:
    """One world; what has happened there how often."""
    rng = random.Random(seed)
    features = [one for one in FEATURES if rng.random() < 0.4]
    yields = rng.random() < 0.85
    obedience = Obedience(yields=yields, go_on=rng.random() < 0.85, turns=yields and seed % 2 == 1)
    world = World(rng, rng.choice([1, 1, 2]), obedience, features)
    for _ in range(3):
        world.arrive()
    world.settle()
    world.command(Command.SET_PRIORITY, PID=world.processes[0].peer.pid, PRIORITY=50)
    world.turns()
    for _ in range(steps):
        world.step()
        if rng.random() < 0.008:
            world.settle()
    world.finish()
    return world.seen


@pytest.mark.parametrize("seed", range(4))
def test_the_contract_holds(seed: int) -> None:
    seen = sum((run(seed * 100_000 + number) for number in range(tries(56, at_least=7))), Counter[str]())
    assert seen["by yield"] > 2
    assert seen["isolated"] > 20
    assert seen["owned"] > 10


def test_a_begin_that_fails_takes_nobody_off_and_a_wait_after_it_does() -> None:
    """The segment began by yield.  It is nested as deeply as it may be."""
    world = World(random.Random(1), 1, Obedience(yields=True), [])
    world.arrive()
    world.arrive()
    world.settle()
    one, gpu = world.processes[0], world.gpus[0]
    world.command(Command.SET_PRIORITY, PID=one.peer.pid, PRIORITY=50)
    world.settle()
    board, core, sent = one.boards[0], one.connections[0].clients[0].core, one.connections[0].sent
    assert board.flag & YIELD
    world.begin(one)
    sent.popleft()()
    core.depth = lib.GPURT_MAX_DEPTH
    world.alone(one)
    sent.popleft()()
    assert not board.busy
    core.depth = 1
    assert gpu.agents.lazy
    world.wait(one)
    sent.popleft()()
    assert not gpu.agents.lazy
    world.settle()
    assert world.seen["isolated"] == 1
