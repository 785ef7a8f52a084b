# SPDX-License-Identifier: GPL-2.0
"""One agent switches the channels of several processes: what can happen in any order, down to the channels.

The core is the shipping one.  An agent and its library are a few lines each, as userlib/preload/agent.c and boards.c
have them.  The host's part is that of pycontrol/host/agents.py.  The driver carries out a call at any time until it
returns.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from agents_pair import Pair
from effort import tries

from gpurt._gpurt import lib

BOUND, NEVER = 200_000_000, 2**64 - 1
#: The urgent process, which is an administrator's, and the others.
URGENT, SIZE = 2, 4
Channels = tuple[int, ...]


@dataclass
class Order:
    """As an agent gets it."""

    number: int
    on: bool
    taken: bool
    anew: bool
    set: int
    many: Channels | None


@dataclass
class Library:
    """One process: its channels, each on or off, and the beliefs of its agent."""

    channels: list[bool] = field(default_factory=lambda: [True])  # what the driver has
    believed: list[bool | None] = field(default_factory=lambda: [True])
    on: bool = True
    set: int = 0
    report: int = 0  # the set that is on its way to the host
    told: int = 0  # the set that the host knows
    number: int = 0  # of the last order that was carried out
    answered: int = 0  # of the last order that its agent has answered
    heard: Order | None = None  # what the host answered to what it was told
    order: Order | None = None  # that it is carrying out
    by_program: bool = False  # a thread of the program does so, and answers nothing
    calls: bool = False  # the driver has not carried out its call yet
    own: list[int] = field(default_factory=list)  # of its own channels, that the call is for
    answer: tuple[int, bool] | None = None  # to the host, which has not read it


class World:
    """Four processes.  One makes another channel once, the urgent one has none for a while."""

    def __init__(self, leave_out: str = "") -> None:
        """``leave_out``: a rule that this world does not have."""
        self.leave_out = leave_out
        self.pair = Pair(SIZE, BOUND, wait=False)
        self.libraries = [Library() for _ in range(SIZE)]
        self.sent: dict[int, tuple[int, int, int]] = {}  # a taken order's set, how many channels that had, and number
        for name in range(SIZE):
            self.pair.join(name)
            self.pair.register(name)
            self.pair.channels(name, True, 1)
            self.pair.answer(name, True)
            self.libraries[name].number = self.libraries[name].answered = 1
        self.owner: int | None = None
        self.pair.check()

    # The host

    def given(self) -> None:
        """Orders that another agent carries out are for the channels that are known when they are given."""
        for name in range(SIZE):
            raw, library = self.pair.array[name], self.libraries[name]
            if raw.taken and raw.sequence != self.sent.get(name, (0, 0, 0))[2]:
                self.sent[name] = library.told, self.pair.array[name].channels, raw.sequence
        self.pair.check()

    def begin(self, name: int) -> bool:
        if name == 1 or self.owner == name or not self.pair.array[name].registered:
            return False
        self.pair.commit(name)
        self.owner = name
        return True

    def end(self, name: int) -> bool:
        if self.owner != name:
            return False
        self.pair.commit(None)
        self.owner = None
        return True

    def read(self, name: int) -> bool:
        library, raw = self.libraries[name], self.pair.array[name]
        if not library.answer:
            return False
        number, well = library.answer
        library.answer = None
        self.pair.answer(name, well, raw.sequence - number)
        return True

    def again(self, name: int) -> bool:
        """The host gives an order again that was refused."""
        if self.pair.array[name].again == NEVER or not self.pair.array[name].registered:
            return False
        self.pair.tick(lib.GPURT_AGENT_AGAIN_NS)
        return True

    def order_of(self, name: int) -> Order:
        """The order that holds."""
        raw, many = self.pair.array[name], None
        if raw.many == raw.sequence:
            call, raws = (raw.number, raw.many), [self.pair.array[one] for one in range(SIZE)]
            taken = [one for one, r in enumerate(raws) if r.registered and (r.taker, r.taken_in) == call]
            many = tuple(taken)
        return Order(raw.sequence, bool(raw.on), bool(raw.taken), bool(raw.anew), self.sent.get(name, (0, 0, 0))[0],
                     many)  # fmt: skip

    # An agent, and its driver

    def fetch(self, name: int) -> bool:
        """The agent gets the order that holds by then, and makes its own process's part of the driver's calls."""
        library, raw = self.libraries[name], self.pair.array[name]
        if library.order or library.answer or not raw.registered or raw.sequence == library.answered:
            return False
        if raw.sequence == library.number:  # the program's thread has carried it out
            library.answered, library.answer = library.number, (library.number, True)
        else:
            self.obey(library, self.order_of(name), by_program=False)
        return True

    def obey(self, library: Library, o: Order, by_program: bool) -> None:
        library.order, library.by_program = o, by_program
        if o.anew and self.leave_out != "anew":
            library.believed = [None] * len(library.believed)
        if o.taken and (o.set == library.set or self.leave_out == "set"):
            library.believed = [o.on] * len(library.believed)
        library.on = o.on
        library.own = [i for i, on in enumerate(library.believed) if on is not o.on]
        library.calls = bool(library.own) or o.many is not None

    def carry_out(self, name: int) -> bool:
        """The driver does what was called for."""
        library = self.libraries[name]
        if not library.calls or not library.order:
            return False
        if library.order.many is not None and not library.channels and self.leave_out != "empty":
            return self.fail(name)
        for i in library.own:
            library.channels[i] = library.order.on
        for other in (library.order.many or ()) if library.channels else ():
            theirs = self.libraries[other]
            for i in range(self.sent[other][1]):
                theirs.channels[i] = False
        library.calls = False
        return True

    def fail(self, name: int) -> bool:
        """The driver refuses the call for others, and has done nothing."""
        library = self.libraries[name]
        if not library.calls or not library.order or library.order.many is None or library.own:
            return False
        library.calls = False
        self.answers(library, False)
        return True

    def answers(self, library: Library, well: bool) -> None:
        """The order was carried out, or not."""
        assert library.order
        library.number, library.order = library.order.number, None
        if not library.by_program:
            library.answered, library.answer = library.number, (library.number, well)

    def finish(self, name: int) -> bool:
        """The call has returned: the agent knows where its channels are, and answers."""
        library = self.libraries[name]
        if not library.order or library.calls:
            return False
        library.believed = [library.on] * len(library.believed)
        self.answers(library, True)
        return True

    # The program

    def make(self, name: int) -> bool:
        """It makes a channel, on the GPU, and the library puts that where the last order says."""
        library = self.libraries[name]
        if name not in (1, URGENT) or len(library.channels) > (name == 1) or library.order:
            return False
        library.channels.append(library.on)
        library.believed.append(library.on)
        library.set += 1
        return True

    def drop(self, name: int) -> bool:
        """It destroys all its channels."""
        library = self.libraries[name]
        if name != URGENT or not library.channels or library.order:
            return False
        library.channels, library.believed = [], []
        library.set += 1
        return True

    def change(self, name: int) -> bool:
        """It makes a call after which others must not rely on its channels."""
        if self.libraries[name].order:
            return False
        self.libraries[name].set += 1
        return True

    def report(self, name: int) -> bool:
        """It reads what is to be told, under the lock that an order takes."""
        library = self.libraries[name]
        if library.report == library.set or library.order or library.heard:
            return False
        library.report = library.set
        return True

    def tell(self, name: int) -> bool:
        """The host is told of that, in no update, and answers with the order that holds."""
        library = self.libraries[name]
        if library.told == library.report or self.pair.raw.step or not self.pair.array[name].registered:
            return False
        library.told = library.report
        self.pair.channels(name, bool(library.channels), len(library.channels))
        if not library.channels and self.owner == name:
            self.end(name)
        library.heard = self.order_of(name)
        return True

    def hear(self, name: int) -> bool:
        """The program's thread carries that out itself.  It leaves a call for others to the agent's."""
        library, o = self.libraries[name], self.libraries[name].heard
        if library.order or not o:
            return False
        library.heard = None
        if o.number > library.number and o.many is None:
            o.taken = False
            self.obey(library, o, by_program=True)
        return True

    def die(self, name: int) -> bool:
        """Calls of a process that is killed are carried out before it is gone, or not at all."""
        if name != URGENT or not self.pair.array[name].registered or self.libraries[name].calls:
            return False
        self.pair.resign(name)
        if self.owner == name:
            self.pair.commit(None)
            self.owner = None
        self.libraries[name].order = self.libraries[name].answer = self.libraries[name].heard = None
        return True

    def wait(self, name: int) -> bool:
        """The call for others is not over in time.  Nobody else is late: those had half of the time."""
        raw, library = self.pair.array[name], self.libraries[name]
        if not raw.many or raw.given_up or not library.order:
            return False
        self.pair.tick(BOUND // 2)
        return True

    # Rules

    def rest(self) -> bool:
        """Whether nobody has anything left to do."""
        idle = all(not (one.order or one.answer or one.heard) for one in self.libraries)
        raws = [self.pair.array[name] for name in range(SIZE)]
        return idle and all(not raw.registered or (raw.sequence == one.answered and raw.again == NEVER)
                            for raw, one in zip(raws, self.libraries, strict=True))  # fmt: skip

    def check(self) -> None:
        """The owner is alone once its update is over; and when nothing is left to do, all are where they should be."""
        self.given()
        raw = self.pair.raw
        others = [name for name in range(SIZE) if name != self.owner and self.pair.array[name].registered]
        late = any(self.pair.array[name].late for name in range(SIZE))
        if self.owner is not None and not raw.step and not late:
            assert not any(on for name in others for on in self.libraries[name].channels)
        if self.rest() and not raw.step:
            for name in range(SIZE):
                wanted = self.owner in (None, name)
                if self.pair.array[name].registered:
                    assert set(self.libraries[name].channels) <= {wanted}, (name, self.libraries[name])


EVENTS: list[Callable[[World, int], bool]] = [
    World.begin, World.end, World.read, World.fetch, World.carry_out, World.fail, World.finish, World.make,
    World.report, World.tell, World.hear, World.die, World.wait, World.again, World.drop, World.change,
]  # fmt: skip


def walk(world: World, choose: random.Random, steps: int) -> None:
    """Something that can happen does, so many times."""
    for _ in range(steps):
        happened = False
        while not happened:
            happened = choose.choice(EVENTS)(world, choose.randrange(SIZE))
        world.check()


def test_the_owner_is_alone_and_nobody_stays_off() -> None:
    for seed in range(tries(4000)):
        walk(World(), random.Random(seed), 60)


def through(world: World, *names: int) -> None:
    """Each of them does all that it has to do."""
    for name in names:
        while world.carry_out(name) or world.finish(name) or world.read(name) or world.fetch(name):
            world.check()


def channel_of_which_the_host_does_not_know(world: World) -> None:
    """It is in no call of another agent."""
    world.make(1)
    world.begin(URGENT)
    through(world, URGENT, 0, 1, 3)
    assert not world.pair.raw.step


def call_that_fails(world: World) -> None:
    """The others have relied on it."""
    world.begin(URGENT)
    world.fetch(URGENT)
    through(world, 0, 1, 3)
    world.fail(URGENT)
    through(world, URGENT, 0, 1, 3)
    world.again(URGENT)
    through(world, URGENT)
    assert not world.pair.raw.step


def call_that_is_not_heard_of(world: World) -> None:
    """It has been carried out when the process may run again, whose agent has not heard of it."""
    world.begin(3)
    through(world, 3)
    world.begin(0)
    world.end(0)
    through(world, 0, 1, 2, 3, 0, 1, 2, 3)
    assert world.rest()


def caller_without_channels(world: World) -> None:
    """It has destroyed its last channel before it is to take the others off, and has not told the host."""
    world.drop(URGENT)
    world.begin(URGENT)
    for _ in range(2):
        through(world, URGENT, 0, 1, 3)
        world.again(URGENT)
    assert world.rest()
    world.check()


@pytest.mark.parametrize(
    ("scene", "rule"),
    [(channel_of_which_the_host_does_not_know, "set"), (call_that_fails, "anew"),
     (call_that_is_not_heard_of, "anew"), (caller_without_channels, "empty")],
)  # fmt: skip
def test_what_happens_in_an_unlucky_order(scene: Callable[[World], None], rule: str) -> None:
    scene(World())
    with pytest.raises(AssertionError):
        scene(World(rule))
