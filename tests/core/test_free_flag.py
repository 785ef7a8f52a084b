# SPDX-License-Identifier: GPL-2.0
"""The flag, with which a process that is alone on a GPU begins without asking: every order of what can happen.

The core is the shipping one.  An agent, its connection and the host's part are a few lines each, as
userlib/preload/agent.c and pycontrol/host/agents.py have them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from agents_pair import Pair, Saved

BOUND = 1_000_000
#: Begins that a process has under way at most, and packets that a connection holds.
MOST = 2


@dataclass
class Library:
    """One process: what its agent believes, what it still has to answer, and what the host has not read yet."""

    free: bool = False
    obeyed: int = 0  # the last order that it has carried out
    answers: bool = False  # it has carried that out, and not answered yet
    sent: list[int] = field(default_factory=list)  # answers, by their numbers; 0: a begin that was posted


class World:
    """Two processes; the second one registers, resigns and comes again."""

    def __init__(self, locked: bool = True, waits: bool = True) -> None:
        """``locked``: the agent forgets the flag before it answers; ``waits``: the host waits for that answer."""
        self.locked, self.waits = locked, waits
        self.pair = Pair(2, BOUND, wait=False)
        self.libraries = [Library(), Library()]
        self.comes: list[int] = []  # processes whose registration waits
        self.forgiven: set[int] = set()  # that were late: what they had is not waited for
        for name in range(2):
            self.pair.join(name)
            self.pair.plain(name)
        self.register(0)
        self.pair.check()

    def copy(self) -> tuple[Any, ...]:
        return Saved(self.pair), copy.deepcopy((self.libraries, self.comes, self.forgiven))

    def restore(self, state: tuple[Any, ...]) -> None:
        state[0].restore(self.pair)
        self.libraries, self.comes, self.forgiven = copy.deepcopy(state[1])

    # The host

    def register(self, name: int) -> None:
        """A decision: it waits until no process has the flag, and nobody is given that until it is over."""
        self.pair.recall()
        self.comes.append(name)
        self.go_on()

    def go_on(self) -> None:
        while self.comes and not (self.pair.raw.holders and self.waits):
            name = self.comes.pop(0)
            self.pair.register(name)
            self.pair.recall(over=True)
            raw = self.pair.array[name]
            self.libraries[name] = Library(bool(raw.free), raw.sequence)

    def check(self) -> None:
        """Once two are registered none may begin without asking, or has done so unread."""
        self.pair.check()
        if all(self.pair.array[name].registered for name in range(2)):
            for name in {0, 1} - self.forgiven:
                assert not self.libraries[name].free
                assert 0 not in self.libraries[name].sent

    # Events

    def post(self, name: int) -> bool:
        library = self.libraries[name]
        if not library.free or len(library.sent) >= MOST:
            return False
        library.sent.append(0)
        return True

    def obey(self, name: int) -> bool:
        """The agent gets the order that holds by then."""
        library, raw = self.libraries[name], self.pair.array[name]
        if not raw.registered or library.answers or library.obeyed == raw.sequence:
            return False
        library.obeyed, library.answers = raw.sequence, True
        if raw.free or self.locked:
            library.free = bool(raw.free)
        return True

    def answer(self, name: int) -> bool:
        library = self.libraries[name]
        if not library.answers or len(library.sent) >= MOST:
            return False
        library.answers = False
        library.sent.append(library.obeyed)
        return True

    def forget(self, name: int) -> bool:
        """Without the lock it forgets the flag some time after it has answered."""
        late = not self.locked and self.libraries[name].free and not self.pair.array[name].free
        if late:
            self.libraries[name].free = False
        return late

    def read(self, name: int) -> bool:
        library, raw = self.libraries[name], self.pair.array[name]
        if not library.sent or not raw.registered:
            return False
        number = library.sent.pop(0)
        if number:
            self.pair.answer(name, True, raw.sequence - number)
            self.forgiven -= {name} if number == raw.sequence or not raw.late else set()
        self.go_on()
        return True

    def arrive(self, name: int) -> bool:
        if self.pair.array[name].registered or name in self.comes:
            return False
        self.register(name)
        return True

    def die(self, name: int) -> bool:
        if not self.pair.array[name].registered:
            return False
        self.pair.resign(name)
        self.libraries[name] = Library()
        self.forgiven -= {name}
        self.go_on()
        return True

    def late(self, _name: int) -> bool:
        self.pair.tick(BOUND)
        self.forgiven |= {name for name in range(2) if self.pair.array[name].late}
        self.go_on()
        return True

    def key(self) -> tuple[Any, ...]:
        raws = [self.pair.array[name] for name in range(2)]
        own = [(bool(raw.registered), bool(raw.on), bool(raw.free), bool(raw.holds), bool(raw.late),
                raw.sequence - raw.answered if raw.registered else 0) for raw in raws]  # fmt: skip
        theirs = [(one.free, raw.sequence - one.obeyed if raw.registered else 0, one.answers,
                   [raw.sequence - number if number else -1 for number in one.sent])
                  for one, raw in zip(self.libraries, raws, strict=True)]  # fmt: skip
        return repr(own), repr(theirs), tuple(self.comes), self.pair.raw.recalls, tuple(sorted(self.forgiven))


EVENTS: list[Callable[[World, int], bool]] = [
    World.post, World.obey, World.answer, World.forget, World.read, World.arrive, World.die, World.late
]  # fmt: skip


def explore(world: World) -> int:
    """Every state that can be reached, breadth first; how many there are."""
    seen, front = {world.key()}, [world.copy()]
    while front:
        reached = []
        for state in front:
            for event in EVENTS:
                for name in range(2):
                    world.restore(state)
                    happened = event(world, name)
                    world.check()
                    if happened and world.key() not in seen:
                        seen.add(world.key())
                        reached.append(world.copy())
        front = reached
        assert len(seen) < 200_000
    return len(seen)


def test_nobody_else_is_there_while_a_process_begins_without_asking(
    record_property: Callable[[str, object], None]
) -> None:
    """All states: registrations in the middle, deaths, late agents, overtaken orders."""
    record_property("states", explore(World()))


@pytest.mark.parametrize("wrong", ["locked", "waits"])
def test_without_its_two_rules_it_is_wrong(wrong: str) -> None:
    with pytest.raises(AssertionError):
        explore(World(**{wrong: False}))
