# SPDX-License-Identifier: GPL-2.0
"""Yield: the most urgent process begins beside others.  What can happen in any order, down to the slices.

The core is the shipping one.  An agent, its connection and the host's part are a few lines each, as
userlib/preload/agent.c, segments.c and pycontrol/host/agents.py have them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from agents_pair import Pair, Saved, doubts
from effort import everything

from gpurt._gpurt import lib

BOUND, LAZY = 100_000_000, lib.GPURT_AGENT_LAZY_NS
SHORT, DRIVERS, LONG = (getattr(lib, f"GPURT_AGENT_{name}") for name in ("SHORT", "DRIVERS", "LONG"))
#: Packets that a connection holds.
MOST = 2


@dataclass
class Library:
    """One process: what its agent believes, what the driver has, and what the host has not read yet."""

    on: bool = True
    slice: int = DRIVERS
    flag: bool = False  # it may begin beside others
    inside: bool = False  # in a segment that it began so
    obeyed: int = 0  # the last order that it has carried out
    answers: bool = False  # it has carried that out, and not answered yet
    sent: list[int] = field(default_factory=list)  # answers, by their numbers; 0: a begin, -1: an end


class World:
    """Process 0 and, with ``urgent`` 2, process 1 are real-time; the last one registers, resigns and comes again.

    Process 0's segments begin by yield while it may; a less urgent one's begin by a call that the host answers.
    """

    def __init__(self, size: int, urgent: int, leave_out: str = "", pair: Pair | None = None) -> None:
        """``leave_out``: a rule that this world does not have."""
        self.leave_out, self.size, self.urgent = leave_out, size, urgent
        self.pair = pair or Pair(size, BOUND, wait=False, yields=True)
        self.libraries = [Library() for _ in range(size)]
        self.comes: list[int] = []  # processes whose registration waits
        self.owner: int | None = None  # as the host's scheduler has it, once carried out
        self.inside: list[int] = []  # in a segment as the host knows, the most urgent first
        self.forgiven: set[int] = set()  # that were late: what they have is not known
        for name in range(size):
            self.pair.join(name)
            self.pair.plain(name)
            if name < urgent:
                self.pair.rank(name, 50 - name)
            self.register(name)
        for _ in range(4):
            for name in range(size):
                self.obey(name)
                self.answer(name)
                self.read(name)
        assert self.libraries[0].flag
        self.pair.check()

    def copy(self) -> tuple[Any, ...]:
        return Saved(self.pair), copy.deepcopy((self.libraries, self.comes, self.owner, self.inside, self.forgiven))

    def restore(self, state: tuple[Any, ...]) -> None:
        state[0].restore(self.pair)
        self.libraries, self.comes, self.owner, self.inside, self.forgiven = copy.deepcopy(state[1])

    # The host

    def register(self, name: int) -> None:
        """A decision: it waits until no process has the flag, and nobody is given that until it is over."""
        self.comes.append(name)
        self.pair.recall()
        self.go_on()

    def go_on(self) -> None:
        while self.comes and not (self.pair.raw.holders and self.leave_out != "waits") and not self.pair.raw.step:
            self.enter(self.comes.pop(0))

    def enter(self, name: int) -> None:
        """It makes its group when it has carried out the order that the host answers with."""
        self.pair.register(name)
        self.pair.single(name)
        self.pair.recall(over=True)
        raw = self.pair.array[name]
        self.libraries[name] = Library(on=bool(raw.on), slice=raw.slice, obeyed=raw.sequence, answers=True)

    def decide(self, yields: bool = False) -> None:
        """The owner is the most urgent one inside."""
        owner = self.inside[0] if self.inside else None
        if owner == self.owner:
            return
        self.owner = owner
        for name in range(self.urgent):
            self.pair.inside(name, name in self.inside)
        self.pair.commit(owner, None, "YIELD" if yields else "BESIDE" if owner is not None else "ALONE")

    # Invariants

    def registered(self) -> list[int]:
        return [name for name in range(self.size) if self.pair.array[name].registered]

    def check(self) -> None:
        self.pair.check()
        holders = [name for name in self.registered() if self.libraries[name].flag]
        assert len(set(holders) - self.forgiven) <= 1
        for name in holders:
            if name in self.forgiven:
                continue
            assert self.libraries[name].slice == LONG
            for other in set(self.registered()) - {name} - self.forgiven:
                # who is on and may be in its way has a short slice
                assert self.libraries[other].slice == SHORT
        self.check_isolation()

    def check_isolation(self) -> None:
        """Once an update is over, all are off but the owner, the most urgent one, and where it is not due yet."""
        raw = self.pair.raw
        if raw.step or not raw.only or raw.lazy or self.owner is None:
            return
        for name in set(self.registered()) - {self.owner} - self.forgiven:
            one = self.pair.array[name]
            may = raw.top == self.pair.array + name or one.exempt
            assert may or one.answered != one.sequence or not self.libraries[name].on

    # Events

    def begin(self, name: int) -> bool:
        """Process 0 posts where it may; otherwise, and for others, the host decides in the same step as it is asked."""
        library, raw = self.libraries[name], self.pair.array[name]
        if name >= self.urgent or not raw.registered or library.inside or name in self.inside:
            return False
        if library.flag:
            if len(library.sent) >= MOST:
                return False
            library.sent.append(0)
            library.inside = True
            return True
        if library.sent or self.pair.raw.step:
            return False
        self.inside = sorted([*self.inside, name])
        self.decide()
        return True

    def end(self, name: int) -> bool:
        library = self.libraries[name]
        if name >= self.urgent or not self.pair.array[name].registered or len(library.sent) >= MOST:
            return False
        if library.inside:
            library.sent.append(-1)
            library.inside = False
            return True
        if name not in self.inside or library.sent or self.pair.raw.step:
            return False
        self.inside.remove(name)
        self.decide()
        return True

    def obey(self, name: int) -> bool:
        """The agent gets the order that holds by then.  It clears the flag under the lock of begins that are posted."""
        library, raw = self.libraries[name], self.pair.array[name]
        if not raw.registered or library.answers or library.obeyed == raw.sequence:
            return False
        library.obeyed, library.answers = raw.sequence, True
        library.on, library.flag = bool(raw.on), bool(raw.yields)
        if self.leave_out != "slices":
            library.slice = int(raw.slice)
        return True

    def answer(self, name: int) -> bool:
        library = self.libraries[name]
        if not library.answers or len(library.sent) >= MOST:
            return False
        library.answers = False
        library.sent.append(library.obeyed)
        return True

    def read(self, name: int) -> bool:
        """The host reads a packet.  A decision waits while an update is in flight that the host waits for."""
        library, raw = self.libraries[name], self.pair.array[name]
        if not library.sent or not raw.registered:
            return False
        number = library.sent.pop(0)
        if number > 0:
            self.pair.answer(name, True, raw.sequence - number)
            self.forgiven -= {name} if number == raw.sequence or not raw.late else set()
        elif number == 0 and name not in self.inside:
            self.inside = sorted([*self.inside, name])
            self.decide(yields=True)
        elif number < 0 and name in self.inside:
            self.inside.remove(name)
            self.decide()
        self.go_on()
        return True

    def lazy(self, _name: int) -> bool:
        if not self.pair.raw.lazy:
            return False
        self.pair.tick(LAZY)
        return True

    def arrive(self, name: int) -> bool:
        if self.pair.array[name].registered or name in self.comes:
            return False
        self.register(name)
        return True

    def die(self, name: int) -> bool:
        """Of the real-time ones the last may die, and of the others."""
        if not self.pair.array[name].registered or name not in (0, self.size - 1):
            return False
        self.pair.resign(name)
        self.libraries[name] = Library()
        self.forgiven -= {name}
        if name in self.inside:
            self.inside.remove(name)
            self.decide()
        self.go_on()
        return True

    def late(self, _name: int) -> bool:
        self.passes(BOUND)
        return True

    def passes(self, time: int) -> None:
        self.pair.tick(time)
        self.forgiven |= {name for name in range(self.size) if self.pair.array[name].late}
        self.go_on()

    def settle(self) -> None:
        """Everyone does what it has to do, and all segments end: then all are on, with the slices of the rule."""
        for _ in range(12):
            for name in range(self.size):
                while self.obey(name) | self.answer(name) | self.read(name):
                    pass
                self.end(name)
            self.go_on()
        assert not self.inside
        assert not self.comes
        top = self.pair.raw.top
        for name in self.registered():
            library = self.libraries[name]
            assert library.on
            if self.pair.now < doubts(self.pair):
                continue
            expected = DRIVERS if not top else LONG if top == self.pair.array + name else SHORT
            assert library.slice == expected
            assert library.flag == (expected == LONG and len(self.registered()) > 1)

    def key(self) -> tuple[Any, ...]:
        raws = [self.pair.array[name] for name in range(self.size)]
        own = [
            (raw.registered, raw.on, raw.slice, raw.has, raw.free, raw.yields, raw.holds, raw.late, raw.doubted,
             raw.outlasts, raw.sequence - raw.answered if raw.registered else 0) for raw in raws
        ]  # fmt: skip
        theirs = [
            (one.on, one.slice, one.flag, one.inside, raw.sequence - one.obeyed if raw.registered else 0, one.answers,
             [raw.sequence - number if number > 0 else number - 2 for number in one.sent])
            for one, raw in zip(self.libraries, raws, strict=True)
        ]  # fmt: skip
        a = self.pair.raw
        begun = a.begun < 2**64 - 1 and min(self.pair.now - a.begun, LAZY)
        shared = begun, a.step, a.open, a.lazy, a.beside, bool(a.only), a.recalls, doubts(self.pair) > self.pair.now
        host = tuple(self.comes), self.owner, tuple(self.inside), tuple(sorted(self.forgiven))
        return repr(own), repr(theirs), shared, host


EVENTS: list[Callable[[World, int], bool]] = [
    World.begin, World.end, World.obey, World.answer, World.read, World.lazy, World.arrive, World.die, World.late
]  # fmt: skip


def explore(world: World, most: int, events: Sequence[Callable[[Any, int], bool]] = EVENTS) -> int:
    """The states that can be reached, breadth first, up to so many; how many were looked at."""
    seen, front = {world.key()}, [world.copy()]
    while front and len(seen) < most:
        reached = []
        for state in front:
            for event in events:
                for name in range(world.size):
                    world.restore(state)
                    if not event(world, name) or world.key() in seen:
                        continue
                    seen.add(world.key())
                    world.check()
                    reached.append(world.copy())
                    world.settle()
        front = reached
    return len(seen)


@pytest.mark.parametrize(("size", "urgent"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_the_first_states_that_can_be_reached(
    size: int, urgent: int, record_property: Callable[[str, object], None]
) -> None:
    """Registrations in the middle, deaths, late agents, overtaken orders."""
    record_property("states", explore(World(size, urgent), 4_000 if everything() else 400))


@pytest.mark.parametrize("rule", ["waits", "slices"])
def test_without_its_rules_it_is_wrong(rule: str) -> None:
    """The host waits for the flag before another process comes; an agent sets the slice before it answers."""
    with pytest.raises(AssertionError):
        explore(World(2, 1, rule), 2_000)
