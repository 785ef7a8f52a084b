# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted` in the user-space host: what changes while a begin waits for its turn, or a segment is open."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
from worlds import go_on

from gpurt._gpurt import ffi, lib
from gpurt.enums import Command, EventKind, Policy
from pycontrol.host import threads
from pycontrol.host.budgets import Budgets
from pycontrol.host.calls import Calls
from pycontrol.host.commands import Commands
from pycontrol.host.gpu import Gpu, GpuClient
from pycontrol.host.groups import Groups
from pycontrol.host.keeper import SLOT, SLOTS, Keeper
from pycontrol.host.peer import Peer, Rules
from pycontrol.host.threads import NONE, Band, HostThread, Scheduling
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.waiter import Deadlines
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs

MS = 1_000_000
N = lib.GPURT_NORMAL_DEFAULT
OWNER, SELF = lib.GPURT_BEGIN_OWNER, 0
ORDINARY = 1000


def fifo(priority: int) -> Scheduling:
    """A thread of SCHED_FIFO."""
    return Scheduling(os.SCHED_FIFO, priority)


@dataclass(eq=False)
class Thread:
    """The numbers of a thread that may be gone."""

    pid: int
    tid: int


def test_a_thread_that_was_lowered_leaves_nothing_to_the_keeper() -> None:
    """A number that stays there could be that of a thread to come, whose priority the keeper would change."""
    keeper = Keeper()
    keeper._memory = mmap.mmap(-1, SLOTS * SLOT.size)
    one, other = (Thread(pid, pid + 1) for pid in (70, 80))
    keeper.note(one, (0, 0), (1, 7))
    keeper.note(other, (0, 0), (1, 8))
    keeper.forget(one)
    assert [row for row in SLOT.iter_unpack(keeper._memory) if any(row)] == [(81, 80, 0, 0, 1, 8)]
    keeper.forget(one)
    keeper.forget(other)
    assert not any(keeper._memory[:])
    assert len(keeper._free) == SLOTS


class Program:
    """A process with one thread, in a kernel that does what it is told."""

    def __init__(self, world: World, number: int, has: Scheduling, uid: int) -> None:
        self.world = world
        self.tid = number
        self.peer = Peer(number, uid, f"c{number}", 1)
        alive = Path("/proc/self/comm").open("rb", buffering=0)  # noqa: SIM115 the thread's, which keeps it
        self.own_thread = HostThread(number, number, alive, alive, Keeper())
        self.own_client: GpuClient = world.gpu.join(number, self.peer, False)
        world.kernel[number] = has

    def thread(self) -> HostThread:
        return self.own_thread

    def scheduling(self, thread: HostThread) -> Scheduling:
        return thread.own_now()

    def client(self, _gpu: Gpu) -> GpuClient:
        return self.own_client

    @property
    def has(self) -> int:
        """Its thread's real-time priority."""
        return self.world.kernel[self.tid].own

    def begin(self, flags: int, name: str = "begin") -> None:
        self.call(lib.GPURT_IOC_BEGIN, "struct gpurt_begin", name, flags=flags)

    def end(self) -> None:
        self.call(lib.GPURT_IOC_END, "struct gpurt_end", "end")

    def call(self, code: int, kind: str, name: str, **fields: int) -> None:
        """Makes a call; `World.said` has its result once it is answered."""
        made = ffi.new(f"{kind} *", {"size": ffi.sizeof(kind), **fields})
        payload = bytes(ffi.buffer(made))
        self.world.calls.call(
            self, code, payload, lambda result, _made: self.world.said.update({(self.tid, name): result})
        )


class World:
    """A GPU whose updates take a millisecond, in a time of its own, and threads that have what they are given."""

    def __init__(self) -> None:
        self.now = 0
        self.kernel: dict[int, Scheduling] = {}
        self.said: dict[tuple[int, str], int] = {}
        band = Band(N, able=True)
        self.gpu: Any = VirtualGpu(0, Shape(alpha=MS), int(Policy.SEGMENT), self.tell, lambda: self.now, band)
        self.rules = Rules()
        self.calls = Calls([self.gpu], lambda: self.now, Deadlines(), Groups([self.gpu], able=True))
        self.commands = Commands([self.gpu], self.rules, Budgets(), lambda: 0, lambda: self.now)

    def tell(self, _gpu: Gpu, _client: GpuClient | None, _kind: EventKind, *_: object) -> None:
        """Nobody listens."""

    def command(self, command: Command, **request: int) -> None:
        self.commands.carry_out(Peer(1, 0, "admin", 1), command, request, lambda _records: None)
        go_on(self.commands)

    def updates(self) -> None:
        """All updates that are due in the next second are over."""
        for _ in range(1000):
            self.now += MS
            self.gpu.advance(self.now)
            go_on(self.commands)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(threads, "scheduling", lambda tid: made.kernel[tid])
    monkeypatch.setattr(threads, "schedule", made.kernel.__setitem__)
    return made


def test_a_begin_whose_priority_is_set_while_it_waits_is_checked(world: World) -> None:
    """Best effort needs no right; a real-time segment is that of a thread that can be raised."""
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    world.updates()
    first, later = Program(world, 1, fifo(9), 0), Program(world, 2, NONE, ORDINARY)
    first.begin(OWNER)
    world.command(Command.SET_PRIORITY, PID=2, PRIORITY=20)
    later.begin(SELF)
    assert (2, "begin") not in world.said
    world.updates()
    assert world.said == {(1, "begin"): 0, (2, "begin"): -errno.ERANGE}
    assert (later.own_client.core.depth, first.has, later.has) == (0, N + 9, 0)


def test_a_begin_during_which_the_policy_becomes_boosted_is_checked(world: World) -> None:
    first, later = Program(world, 1, fifo(9), 0), Program(world, 2, NONE, ORDINARY)
    first.begin(OWNER)
    commands = world.commands
    changes = commands.set_policy({"POLICY": int(Policy.BOOSTED)}), commands.set_priority({"PID": 2, "PRIORITY": 20})
    for step in filter(None, chain(*changes)):
        step(lambda _result: None)  # both are at the gate, before the begin
    later.begin(SELF)
    world.updates()
    assert world.said == {(1, "begin"): 0, (2, "begin"): -errno.ERANGE}
    assert later.own_client.core.depth == 0


@pytest.mark.parametrize("form", [SELF, OWNER])
def test_a_process_that_is_barred_while_its_begin_waits_begins_and_is_lowered(world: World, form: int) -> None:
    """Its begin was checked before, as that of a segment that is open already; so does the module."""
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    world.updates()
    first, later = Program(world, 1, fifo(5), 0), Program(world, 2, fifo(9), 0)
    first.begin(OWNER)
    later.begin(form)
    waiting = N + 9 if form == SELF else 9
    assert later.has == waiting
    later.own_client.boost.bar(True)
    assert later.has == waiting
    world.updates()
    assert world.said == {(1, "begin"): 0, (2, "begin"): 0}
    assert world.gpu.sched.runner == later.own_client.core
    assert (later.own_client.core.depth, later.has) == (1, 9)
    later.begin(form, "nested")
    later.end()
    later.end()
    world.updates()
    later.begin(form, "next")
    world.updates()
    assert (later.own_client.core.depth, later.has, world.said[2, "next"]) == (0, 9, -errno.EPERM)


def test_a_process_that_is_barred_while_its_end_waits_is_not_raised_after_it(world: World) -> None:
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    world.updates()
    one, other = Program(world, 1, fifo(9), 0), Program(world, 2, fifo(5), 0)
    for name in ("begin", "nested"):
        one.begin(OWNER, name)
        world.updates()
    other.begin(OWNER)
    one.end()
    one.own_client.boost.bar(True)
    world.updates()
    assert (one.own_client.core.depth, one.has, other.has) == (1, 9, 5)


def test_a_begin_that_comes_to_the_gate_once_more_is_raised_and_answered_once(world: World) -> None:
    """Its client is made real-time while it waits."""
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    first, later = Program(world, 1, fifo(5), 0), Program(world, 2, fifo(9), 0)
    world.command(Command.SET_PRIORITY, PID=2, PRIORITY=0)
    world.updates()
    first.begin(OWNER)
    world.command(Command.SET_PRIORITY, PID=2, PRIORITY=lib.GPURT_PRIORITY_OWN)
    later.begin(OWNER)
    world.updates()
    assert world.said == {(1, "begin"): 0, (2, "begin"): 0}
    assert (later.own_client.core.depth, first.has, later.has) == (1, 5, N + 9)


def test_nobody_is_raised_above_what_its_user_has_the_right_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator sets a higher priority in the middle of a segment."""
    monkeypatch.setattr(procs, "rt_limit", lambda _pid: N + 7)
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    world.updates()
    one = Program(world, 1, fifo(5), ORDINARY)
    one.begin(SELF)
    world.updates()
    assert one.has == N + 5
    world.command(Command.SET_PRIORITY, PID=1, PRIORITY=20)
    world.updates()
    assert (one.own_client.core.level, one.has) == (20, N + 7)
    privileged = Program(world, 2, fifo(5), 0)
    privileged.begin(SELF)
    world.command(Command.SET_PRIORITY, PID=2, PRIORITY=21)
    world.updates()
    assert privileged.has == N + 21


def test_a_nested_begin_changes_neither_form_nor_thread(world: World) -> None:
    world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    world.updates()
    one = Program(world, 1, fifo(5), 0)
    one.begin(OWNER)
    world.updates()
    outer, inner = one.own_thread, Program(world, 2, fifo(8), 0)
    one.own_thread = inner.own_thread
    one.begin(SELF, "nested")
    world.updates()
    boost = one.own_client.boost
    assert (boost.core.depth, boost.core.boost.form, boost.thread) == (2, lib.GPURT_FORM_OWNER, cast(Any, outer))
    assert (one.has, inner.has) == (N + 5, 8)


def test_random_operations_leave_nobody_raised_without_a_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begins, nested ones too, and whatever an administrator may change meanwhile, in any order."""
    rng, limits = random.Random(1), dict(enumerate((N + 12, N + 12, 2 * N + 1, 99), 1))
    monkeypatch.setattr(procs, "rt_limit", lambda pid: limits[pid])
    owns = (fifo(5), fifo(9), fifo(20), NONE)
    programs = [Program(world, at, own, ORDINARY) for at, own in enumerate(owns, 1)]
    policies = (Policy.SEGMENT, Policy.BOOSTED, Policy.BOOSTED, Policy.LOCK_FIFO)
    raises = 0
    for _ in range(5000):
        one = rng.choice(programs)
        often = ("begin", "begin", "end", "end", "end", "time", "time") * 8
        operation = rng.choice((*often, "policy", *["priority"] * 4, "bar"))
        if operation == "begin":
            one.begin(rng.choice((SELF, OWNER, lib.GPURT_BEGIN_FENCE)))
        elif operation == "end":
            one.end()
        elif operation == "policy":
            world.command(Command.SET_POLICY, POLICY=int(rng.choice(policies)))
        elif operation == "priority":
            with contextlib.suppress(Refusal):
                priority = rng.choice((0, 3, N, N + 1, lib.GPURT_PRIORITY_OWN, lib.GPURT_PRIORITY_OWN))
                world.command(Command.SET_PRIORITY, PID=one.tid, PRIORITY=priority)
        elif operation == "bar":
            one.own_client.boost.bar(rng.random() < 0.3)
        else:
            world.now += rng.choice((1, MS))
            world.gpu.advance(world.now)
            go_on(world.commands)
        for each, own in zip(programs, owns, strict=True):
            if world.kernel[each.tid] != own:
                raises += 1
                check_raised(world, each, own, limits[each.tid])
    assert raises > 1000
    for one in programs:
        world.updates()
        while one.own_client.core.depth:
            one.end()
            world.updates()
    assert [world.kernel[one.tid] for one in programs] == list(owns)


def check_raised(world: World, program: Program, own: Scheduling, limit: int) -> None:
    """Why a thread may be raised, and how far."""
    boost, core = program.own_client.boost, program.own_client.core
    assert own.own
    assert own.own < program.has <= limit
    at_gate = core.boost.asked or core.boost.turn
    assert at_gate or (core.depth and not boost.barred)
    if core.boost.form != lib.GPURT_FORM_SELF and not core.boost.turn:
        assert world.gpu.sched.policy == lib.GPURT_POLICY_BOOSTED
        assert world.gpu.sched.runner == core
