# SPDX-License-Identifier: GPL-2.0
"""Begin by yield in the real host, with whatever else it can do, at random: who is isolated by contract is isolated.

A process is a few lines, as userlib/preload/agent.c and segments.c have it.  Its packets are read one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from effort import tries
from worlds import go_on

from gpurt._gpurt import lib
from gpurt.enums import Command, Policy, Tier
from pycontrol.host.agents import AgentGpu, Obedience, order_of
from pycontrol.host.budgets import Budgets
from pycontrol.host.commands import Commands
from pycontrol.host.gpu import Decision, GpuClient
from pycontrol.host.peer import Peer, Rules
from pycontrol.host.waiter import Waiter

BOUND, LAZY, MS = lib.GPURT_AGENT_BOUND_NS, lib.GPURT_AGENT_LAZY_NS, 1_000_000
AUTOMATIC, SINGLE, FREE, YIELD = (
    lib.GPURT_AGENT_AUTOMATIC, lib.GPURT_AGENT_SINGLE, lib.GPURT_ORDER_FREE, lib.GPURT_ORDER_YIELD,
)  # fmt: skip
BESIDE = lib.GPURT_BEGIN_YIELD
SHORT, LONG = lib.GPURT_ORDER_SHORT, lib.GPURT_ORDER_LONG
ADMINISTRATOR = Peer(1, 0, "admin", 1)


@dataclass(eq=False)
class Program:
    """One process: what its agent has carried out, and what the host has not read yet."""

    client: GpuClient
    level: int  # of its thread
    flags: int = lib.GPURT_AGENT_FREE | SINGLE | AUTOMATIC
    order: int = 0  # carried out
    number: int = 0
    answers: bool = False  # it has carried that out, and not answered yet
    depth: int = 0
    posts: bool = False  # the segment began without asking
    calls: bool = False  # a call is under way
    dead: bool = False
    sent: list[Callable[[], None]] = field(default_factory=list)

    @property
    def on(self) -> bool:
        return bool(self.order & lib.GPURT_ORDER_ON)


class World:
    """Processes of one GPU and its host."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now, self.count, self.log = rng, 0, 0, list[object]()
        self.gpu = AgentGpu(0, Obedience(yields=True), int(Policy.SEGMENT), lambda *_: None, lambda: self.now)
        rules = Rules()
        self.commands = Commands([self.gpu], rules, Budgets(), lambda: 0, lambda: self.now)
        self.programs: list[Program] = []
        self.yielded = self.isolated = 0

    # Programs

    def arrive(self) -> None:
        if len(self.programs) == 4:
            return
        self.count += 1
        client = self.gpu.join(self.count, Peer(self.count, 0, f"c{self.count}", 1), False)
        program = Program(client, self.rng.choice([0, 0, 0, 10, 40]))
        self.programs.append(program)
        self.register(program)

    def register(self, one: Program) -> None:
        def done(result: int, order: int, number: int) -> None:
            if not result and not one.dead and number > one.number:
                one.order, one.number, one.answers = order, number, True

        name = "nvidia-rm"
        self.gpu.register(one.client, name, Tier.UNPATCHED, 1, done, one.flags)

    def another_group(self, one: Program) -> None:
        if one.number:
            one.flags ^= SINGLE
            self.register(one)

    def begin(self, one: Program) -> None:
        """As the library does: it posts where it may, and calls otherwise."""
        if one.calls or one.depth or not one.number:
            return
        if one.order & FREE:
            flags = BESIDE if one.order & YIELD else 0
            self.yielded += bool(flags)
            one.depth, one.posts = 1, True
            one.sent.append(lambda: self.gpu.begin_posted(one.client, one.level, flags))
            self.check()
        else:
            self.call(one, self.rng.choice([0, 0, BESIDE]))

    def alone(self, one: Program) -> None:
        """Work that is no kernel of one stream: a nested begin has others taken off first, and ends."""
        if one.depth and not one.calls:
            self.call(one, 0)

    def call(self, one: Program, flags: int) -> None:
        one.calls = True

        def begun(result: int) -> None:
            one.calls = False
            if one.dead or result:
                return
            one.depth += 1
            self.promised(one, flags)

        def ask() -> None:
            self.gpu.update(Decision(
                lambda now: self.gpu.begin(one.client, one.level, 0, flags, now), begun,
                lambda: int(lib.gpurt_client_begin_level(one.client.core, one.level, 0)), one.client, call=True,
            ))  # fmt: skip

        one.sent.append(ask)

    def wait(self, one: Program) -> None:
        if not one.depth or one.calls:
            return
        one.calls = True

        def done(result: int, _when: int) -> None:
            one.calls = False
            if not result and not one.dead:
                self.promised(one, 0)

        one.sent.append(lambda: self.gpu.wait_grant(one.client, Waiter(done)))

    def end(self, one: Program) -> None:
        if one.depth and not one.calls:
            one.depth -= 1
            one.sent.append(lambda: self.gpu.end_posted(one.client))

    def obey(self, one: Program) -> None:
        """The agent has the order that holds by now."""
        raw = one.client.own.raw
        if one.number and not one.answers and raw.sequence != one.number:
            one.order, one.number, one.answers = order_of(one.client.own), int(raw.sequence), True

    def answer(self, one: Program) -> None:
        if one.answers:
            one.answers, number = False, one.number
            one.sent.append(lambda: self.gpu.answer(one.client, number, 0))

    def read(self, one: Program) -> None:
        if one.sent:
            one.sent.pop(0)()

    def die(self, one: Program) -> None:
        while one.sent:
            self.read(one)
        one.dead = True
        self.programs.remove(one)
        self.gpu.leave(one.client)

    # The administrator

    def command(self, command: Command, **request: int | str) -> None:
        self.commands.carry_out(ADMINISTRATOR, command, request, lambda *_: None)

    def change(self, one: Program) -> None:
        pid, which = one.client.peer.pid, self.rng.randrange(5)
        if which == 0:
            self.command(Command.SET_EXEMPT, EXEMPT=self.rng.randrange(2), COMM=one.client.peer.comm)
        elif which == 1:
            self.command(Command.SET_POLICY, POLICY=int(self.rng.choice([Policy.SEGMENT] * 3 + [Policy.LOCK_PRIORITY])))
        else:
            priority = self.rng.choice([0, 30, 50, 60, lib.GPURT_PRIORITY_OWN])
            self.command(Command.SET_PRIORITY, PID=pid, PRIORITY=priority)

    def late(self, _one: Program) -> None:
        self.passes(BOUND)

    def passes(self, ns: int) -> None:
        self.now += ns
        self.gpu.advance(self.now)

    def a_while(self, _one: Program) -> None:
        self.passes(self.rng.choice([LAZY // 3, LAZY]))

    # What holds

    def others(self, one: Program) -> list[Program]:
        """Those that must be off beside an owner: they have answered in time, and are not exempt."""
        return [
            other for other in self.programs if other is not one and other.number and not other.client.core.exempt
            and not other.client.own.raw.late and other.client.own.raw.registered
        ]  # fmt: skip

    def promised(self, one: Program, flags: int) -> None:
        """The host has answered: if the process has the GPU all others are off, or may stay on as it has said."""
        if self.gpu.runner is not one.client or self.gpu.sched.policy != lib.GPURT_POLICY_SEGMENT:
            return
        top = self.gpu.agents.top
        self.isolated += 1
        for other in self.others(one):
            stays = flags and top == other.client.own.raw
            assert not other.on or stays, (one, other, self.log)
            assert not (stays and other.on and other.depth and not other.posts), (one, other, self.log)

    def check(self) -> None:
        """Who may begin beside others has a long slice, all others have a short one, and nobody else may."""
        able = [one for one in self.programs if one.order & YIELD and not one.client.own.raw.late]
        assert len(able) <= 1, self.log
        for one in able:
            assert one.order & LONG, self.log
            for other in self.programs:
                if other is one or not other.number or other.client.own.raw.late or not other.client.own.raw.registered:
                    continue
                assert other.order & SHORT, (one, other, self.log)
                assert other.flags & SINGLE or other.client.calls, (one, other, self.log)  # the host is told

    def step(self) -> None:
        if not self.programs or self.rng.random() < 0.005:
            self.arrive()
        one = self.rng.choice(self.programs)
        usual = [self.begin, self.end] * 4 + [self.read, self.obey, self.answer] * 8 + [self.a_while, self.wait]
        seldom = [self.alone, self.another_group, self.change, self.die, self.late]
        event = self.rng.choice(usual if self.rng.random() < 0.99 else seldom)
        self.log.append((event.__name__, one.client.id))
        event(one)
        self.go_on()

    def go_on(self) -> None:
        go_on(self.commands)
        while self.gpu.more:
            self.gpu.go_on()
        self.check()

    def settle(self) -> None:
        """Everyone does what it has to do, and all segments end: then all are on."""
        for _ in range(60):
            for one in list(self.programs):
                for event in (self.obey, self.answer, self.end, self.read, self.read):
                    event(one)
                self.go_on()
            self.passes(MS)
        for one in self.programs:
            assert one.on, (one, self.log)
            assert not one.calls, (one, self.log)


@pytest.mark.parametrize("seed", range(4))
def test_who_is_isolated_by_contract_is_isolated(seed: int) -> None:
    yielded = isolated = 0
    for number in range(tries(400)):
        world = World(random.Random(seed * 10_000 + number))
        for _ in range(3):
            world.arrive()
        world.settle()
        world.command(Command.SET_PRIORITY, PID=1, PRIORITY=50)
        world.settle()
        for _ in range(400):
            world.step()
        world.settle()
        yielded, isolated = yielded + world.yielded, isolated + world.isolated
    assert yielded > 50
    assert isolated > 50
