# SPDX-License-Identifier: GPL-2.0
"""A connection joins a group while an update is in flight: it is a member on all its GPUs or on none."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from worlds import go_on

from gpurt._gpurt import lib
from gpurt.enums import Command, Policy
from pycontrol.host.budgets import Budgets
from pycontrol.host.commands import Commands
from pycontrol.host.gpu import Decision, GpuClient
from pycontrol.host.groups import Group, Groups
from pycontrol.host.peer import Peer, Rules
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.wire import Refusal

MS = 1_000_000


@dataclass(eq=False)
class Joiner:
    """A connection, as groups see it."""

    peer: Peer
    clients: dict[int, GpuClient] = field(default_factory=dict)
    group: Group | None = None
    kept: bool = False
    closed: bool = False


class World:
    """Two GPUs in a time of their own, whose updates take a millisecond; `said` has results by what was asked."""

    def __init__(self) -> None:
        self.now = 0
        shape = Shape(alpha=MS)
        self.gpus = [
            VirtualGpu(i, shape, int(Policy.SEGMENT), lambda *_: None, lambda: self.now)
            for i in range(2)
        ]  # fmt: skip
        self.groups = Groups(self.gpus, True)
        self.joiners: list[Joiner] = []
        self.commands = Commands(
            self.gpus,
            Rules(),
            Budgets(),
            lambda: 0,
            lambda: self.now,
            groups=self.groups,
            connections=lambda: self.joiners,
        )
        self.said: dict[str, object] = {}

    def connection(self, pid: int) -> Joiner:
        peer = Peer(pid, 1000, f"c{pid}", 1)
        clients = {gpu.index: gpu.join(2 * pid + gpu.index, peer, False) for gpu in self.gpus}
        self.joiners.append(Joiner(peer, clients))
        return self.joiners[-1]

    def says(self, name: str) -> Callable[[object], None]:
        return lambda result: self.said.update({name: result})

    def begin(self, one: Joiner, gpu: int, name: str) -> None:
        client, on = one.clients[gpu], self.gpus[gpu]

        def decide(now: int) -> int:
            return int(lib.gpurt_begin(on.sched, client.core, 0, 10, now))

        on.update(Decision(decide, self.says(name), lambda: 10, client, call=True))

    def later(self) -> None:
        self.now += 10 * MS
        for gpu in self.gpus:
            gpu.advance(self.now)
        go_on(self.commands)


def test_what_another_thread_asks_for_meanwhile_comes_after_the_join_on_every_gpu() -> None:
    world = World()
    other, joiner = world.connection(1), world.connection(2)
    world.begin(other, 0, "other")
    assert "other" not in world.said  # the update of GPU 0 is in flight
    world.groups.join(joiner, "llm", 5, False, world.says("join"))
    world.begin(joiner, 1, "begin")
    world.later()
    assert (world.said["join"], world.said["begin"]) == (0, 0)
    assert [one.group is not None for one in joiner.clients.values()] == [True, True]
    assert joiner.group
    assert joiner.group.raw.open == 1


def test_a_command_whose_decision_fails_in_its_turn_says_so() -> None:
    """The client joins after the priority was asked for, and before its turn."""
    world = World()
    other, joiner = world.connection(1), world.connection(2)
    world.begin(other, 0, "other")
    request = {"PID": 2, "PRIORITY": 9, "GPU": 0}
    world.groups.join(joiner, "llm", 5, False, world.says("join"))
    world.commands.carry_out(Peer(1, 0, "admin", 1), Command.SET_PRIORITY, request, world.says("set"))
    world.later()
    assert world.said["join"] == 0
    refusal = world.said["set"]
    assert isinstance(refusal, Refusal)
    assert refusal.error == errno.EOPNOTSUPP
    world.commands.carry_out(Peer(1, 0, "admin", 1), Command.SET_PRIORITY, request, world.says("again"))
    world.later()
    assert world.said["again"] == []
    assert joiner.group
    assert joiner.group.raw.set == 9


def test_who_joins_twice_at_once_is_one_member() -> None:
    world = World()
    other, joiner = world.connection(1), world.connection(2)
    world.begin(other, 0, "other")
    for name in ("first", "second"):
        world.groups.join(joiner, "llm", 5, False, world.says(name))
    world.later()
    assert (world.said["first"], world.said["second"]) == (0, 0)
    assert joiner.group
    assert [(seat.raw.members, len(seat.members)) for seat in joiner.group.seats.values()] == [(1, 1), (1, 1)]


def test_a_connection_that_ends_while_it_joins_leaves_nothing() -> None:
    world = World()
    other, joiner = world.connection(1), world.connection(2)
    world.begin(other, 0, "other")
    world.groups.join(joiner, "llm", 5, False, world.says("join"))
    group = joiner.group
    assert group
    seats = list(group.seats.values())
    for gpu, client in joiner.clients.items():
        world.gpus[gpu].leave(client)
    world.groups.leave(joiner)
    world.later()
    assert world.groups.spanning is None
    assert [(seat.raw.members, seat.members) for seat in seats] == [(0, [])] * 2
    assert [sorted(gpu.clients) for gpu in world.gpus] == [[2], [3]]


def test_a_connection_that_has_ended_when_it_is_its_turn_is_moved_to_no_group() -> None:
    """Nobody would ever remove it from there."""
    world = World()
    first, second = world.connection(2), world.connection(2)
    request: dict[str, int | str] = {"PID": 2, "GROUP": "llm"}
    world.commands.carry_out(Peer(1, 0, "admin", 1), Command.SET_GROUP, request, world.says("set"))
    assert "set" not in world.said
    second.closed = True
    world.groups.leave(second)
    world.later()
    refusal = world.said["set"]
    assert isinstance(refusal, Refusal)
    assert (refusal.error, second.group) == (errno.ESRCH, None)
    assert first.group
    assert first.group.connections == {first}
