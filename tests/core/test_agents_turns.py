# SPDX-License-Identifier: GPL-2.0
"""Turns: one best-effort process is on at a time beside real-time ones.  What can happen in any order.

The core is the shipping one.  Agents, connections and the host are those of test_agents_yield.py.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents_pair
import pytest
from agents_pair import Pair, doubts
from effort import everything, tries
from test_agents_yield import BOUND, EVENTS, World, explore
from test_boosted_controls import CORE, compile_c

from gpurt._gpurt import ffi, lib

TURN, LAZY, NEVER = lib.GPURT_AGENT_TURN_NS, lib.GPURT_AGENT_LAZY_NS, 2**64 - 1


class Turns(World):
    """Process 0 is real-time, and 1 too with ``urgent`` 2.  The others are best effort, and the last one may change."""

    def __init__(self, size: int, urgent: int = 1, leave_out: str = "") -> None:
        self.one_at_most = False  # best-effort processes have been so since they take turns
        self.strangers: set[int] = set()  # that came since, or take turns only since, or were late
        self.begun = -1, 0, False  # whose turn it was last, since when, and whether it has been obedient since
        self.before: tuple[int, set[int]] = 0, set()  # the owner, and who was ordered on then
        super().__init__(size, urgent, leave_out, Pair(size, BOUND, wait=False, yields=True, turns=True))

    def copy(self) -> tuple[Any, ...]:
        return super().copy(), self.one_at_most, set(self.strangers), self.begun, self.before

    def restore(self, state: tuple[Any, ...]) -> None:
        super().restore(state[0])
        self.one_at_most, self.strangers, self.begun, self.before = state[1], set(state[2]), *state[3:]

    def key(self) -> tuple[Any, ...]:
        a, raws = self.pair.raw, [self.pair.array[name] for name in range(self.size)]
        turn = -1 if a.turn == ffi.NULL else int(a.turn - self.pair.array)
        ends = self.pair.now >= a.turn_until, a.idle_from == NEVER or self.pair.now >= a.idle_from, a.idle_from == NEVER
        own = [(raw.inside, raw.rank, raw.exempt) for raw in raws]
        begun = self.begun[0], min(self.pair.now - self.begun[1], LAZY), self.begun[2]
        known = self.one_at_most, tuple(sorted(self.strangers)), begun
        return super().key(), a.turning, turn, ends, repr(own), known

    def takers(self) -> list[int]:
        """Those that are on in their turn only."""
        raws = self.pair.array
        return [name for name in self.registered() if not raws[name].rank and not raws[name].exempt]

    def enter(self, name: int) -> None:
        super().enter(name)
        self.strangers.add(name)

    def decide(self, yields: bool = False) -> None:
        super().decide(yields)
        assert self.owner is not None or not self.pair.raw.step  # nothing waits for a turn

    def check(self) -> None:
        """Once one best-effort process at most may be on, it stays so."""
        super().check()
        self.check_turns()

    def check_turns(self) -> None:
        a, raws = self.pair.raw, self.pair.array
        self.strangers = {
            name for name in self.strangers
            if name in self.takers() and (raws[name].on or self.libraries[name].on or raws[name].late)
        }  # fmt: skip
        self.strangers |= {name for name in self.takers() if raws[name].late or raws[name].doubted}
        on = {name for name in self.takers() if raws[name].on or self.libraries[name].on} - self.strangers
        assert bool(a.turning) == any(raws[name].rank for name in self.registered())
        assert not (self.one_at_most and a.turning) or len(on) <= 1
        self.one_at_most = bool(a.turning) and len(on) <= 1
        self.check_count()
        self.check_hand_over()

    def check_count(self) -> None:
        """The core knows beside how many the most urgent process is on at most, also of the late.  It has the flag only
        beside one at most that takes turns."""
        a, raws = self.pair.raw, self.pair.array
        others = [name for name in self.registered() if a.top != self.pair.array + name]
        known = all(raws[name].answered == raws[name].sequence for name in others)
        most = len([name for name in others if name not in self.takers()]) + bool(self.takers())
        really = sum(self.libraries[name].on for name in others)
        assert really <= lib.gpurt_agents_at_once(a) <= (most if self.one_at_most and known else len(others))
        trusted = [name for name in self.takers() if not (raws[name].late or raws[name].doubted)]
        if any(raws[name].yields for name in self.registered()):
            assert sum(bool(raws[name].on or self.libraries[name].on) for name in trusted) <= 1

    def check_hand_over(self) -> None:
        """A turn lasts GPURT_AGENT_LAZY_NS at least.  Nobody gets one while a process owns the GPU."""
        a, raws = self.pair.raw, self.pair.array
        holder = -1 if a.turn == ffi.NULL or not a.turn.on else int(a.turn - self.pair.array)
        name, since, usual = self.begun
        usual &= name in self.takers() and name not in self.strangers
        if holder >= 0 and holder != name:
            assert not usual or self.pair.now >= since + LAZY
            name, since, usual = holder, self.pair.now, True
        self.begun = name, since, usual
        on = {name for name in self.takers() if raws[name].on} - self.strangers
        assert not a.only or a.only != self.before[0] or on <= self.before[1]
        self.before = a.only, on

    # Events

    def obey(self, name: int) -> bool:
        before = self.libraries[name].on
        obeyed = super().obey(name)
        if obeyed and self.leave_out == "off":
            self.libraries[name].on |= before
        return obeyed

    def work(self, name: int) -> bool:
        """A best-effort process begins or ends a segment."""
        raw = self.pair.array[name]
        if name not in self.takers() or name < self.urgent:
            return False
        self.pair.rank(name, 0, not raw.inside)
        return True

    def time(self, _name: int) -> bool:
        """The next time at which the turn is passed on."""
        a = self.pair.raw
        due = [when for when in (a.turn_until, a.idle_from) if self.pair.now < when < NEVER]
        if not a.turning or a.only or not due:
            return False
        self.passes(min(due) - self.pair.now)
        return True

    def promote(self, name: int) -> bool:
        """`gpurt set priority`, of a process that may wait."""
        raw = self.pair.array[name]
        if name != self.size - 1 or name < self.urgent or not raw.registered or raw.exempt:
            return False
        self.pair.rank(name, 0 if raw.rank else 20, bool(raw.inside))
        self.strangers.add(name)
        return True

    def exempt(self, name: int) -> bool:
        raw = self.pair.array[name]
        if name != self.size - 1 or not raw.registered or raw.rank or self.pair.raw.step:
            return False
        self.pair.exempt(name, not raw.exempt)
        self.pair.plain(name, not raw.exempt)
        self.strangers.add(name)
        return True

    # Progress

    def obedient(self) -> None:
        for _ in range(6):
            for name in range(self.size):
                steps = 0
                while self.obey(name) | self.answer(name) | self.read(name):
                    steps += 1
                    assert steps < 50, "each answer brings another order"
                self.end(name)
            self.go_on()

    def settle(self) -> None:
        """Once all obey: each busy process has its turn, although none ever ends its segment, and the most urgent one
        keeps the flag.  Once none is real-time any more all are on."""
        self.obedient()
        for name in self.takers():
            self.pair.rank(name, 0, inside=True)
        served: set[int] = set()
        late = {name for name in self.registered() if self.pair.array[name].late}
        for _ in range(2 * self.size + 2):
            self.obedient()
            on = {name for name in self.takers() if self.libraries[name].on}
            assert len(on) <= 1 or not self.pair.raw.turning
            assert self.pair.raw.top == ffi.NULL or self.pair.raw.top.free or doubts(self.pair)
            served |= on
            if self.pair.raw.turn != ffi.NULL and self.leave_out != "time":
                self.pair.tick(max(self.pair.raw.turn_until - self.pair.now, 0))
        assert served | late >= set(self.takers())
        assert all(self.libraries[name].on for name in set(self.registered()) - set(self.takers()))
        for name in range(self.size):
            self.pair.rank(name, 0, inside=False)
        super().settle()


MORE: list[Callable[[Any, int], bool]] = [
    *(getattr(Turns, one.__name__) for one in EVENTS), Turns.work, Turns.time, Turns.promote, Turns.exempt
]  # fmt: skip
SELDOM = (World.arrive, World.die, World.late, Turns.promote, Turns.exempt)
OFTEN = [one for one in MORE if one not in SELDOM]


@pytest.mark.parametrize(("size", "urgent"), [(3, 1), (4, 1), (4, 2)])
def test_one_at_a_time_and_everyone_in_turn(
    size: int, urgent: int, record_property: Callable[[str, object], None]
) -> None:
    """Registrations in the middle, deaths, late agents, priorities that change, ends while an order is under way."""
    record_property("states", explore(Turns(size, urgent), 2_000 if everything() else 300, MORE))


def walk(world: Turns, choose: random.Random, steps: int) -> None:
    """Something that can happen does, so many times; then all obey.  In some walks much comes and changes."""
    seldom = choose.choice([0.05, 0.5])
    for _ in range(steps):
        happened = False
        while not happened:
            events = MORE if choose.random() < seldom else OFTEN
            happened = choose.choice(events)(world, choose.randrange(world.size))
        world.check()
    world.settle()


def test_a_long_way_from_the_start() -> None:
    for seed in range(tries(120)):
        choose = random.Random(seed)
        walk(Turns(choose.choice([3, 4, 6]), choose.choice([1, 2])), choose, 60)


@pytest.mark.parametrize("rule", ["off", "time"])
def test_without_its_rules_it_is_wrong(rule: str) -> None:
    """An agent takes its process off before it answers; a turn ends, also of a process that is never idle."""

    def all_of_them() -> None:
        for seed in range(200):
            walk(Turns(4, 1, rule), random.Random(seed), 60)

    with pytest.raises(AssertionError):
        all_of_them()


class Planted:
    """kmod/core/agents.c with a change, in the place of the one that ships."""

    def __init__(self, folder: Path, right: str, wrong: str) -> None:
        text = (CORE / "agents.c").read_text(encoding="utf-8")
        assert text.count(right) == 1, f"agents.c does not say {right!r} once any more"
        (folder / "agents.c").write_text(text.replace(right, wrong), encoding="utf-8")
        compile_c("-shared", folder / "agents.c", "-o", folder / "planted.so")
        self.library, self.ships = ctypes.CDLL(str(folder / "planted.so")), lib

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("gpurt_agents_"):
            return getattr(self.ships, name)
        function = getattr(self.library, name)
        return lambda *arguments: function(*map(self._of_c, arguments))

    @staticmethod
    def _of_c(argument: Any) -> Any:
        if isinstance(argument, ffi.CData):
            return ctypes.c_void_p(int(ffi.cast("uintptr_t", argument)))
        return argument if isinstance(argument, bytes) else ctypes.c_uint64(argument & NEVER)


#: Each rule of turns, and what the core has without it.
RULES = {
    "the flag waits for the others": ("top = count_on(a, true) < 2;", "top = true;"),
    "so does the next one": ("if (p == a->turn && a->owing[GPURT_AGENT_OWES_TURN])", "if (false)"),
    "a turn lasts a while": ("a->idle_from = now + GPURT_AGENT_LAZY_NS;\n\tarm_at", "arm_at"),
    "the late may be on": ("bool may = p->on || !obeyed(p) ||", "bool may = p->on ||"),
    "nobody comes on beside an owner": ("a->lazy && !wanted(a, p))\n\t\treturn p->on", "a->lazy)\n\t\treturn true"),
    "also between urgent work": ("a->turning |= process_of(pos)->rank > 0", "a->turning |= process_of(pos)->inside"),
}


@pytest.mark.parametrize("rule", RULES)
def test_without_its_rules_the_core_is_wrong(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration, or a walk, finds each."""
    planted = Planted(tmp_path, *RULES[rule])
    monkeypatch.setattr(agents_pair, "lib", planted)
    monkeypatch.setattr(f"{__name__}.lib", planted)

    def all_of_them() -> None:
        for seed in range(1000):
            walk(Turns(4, 1 + seed % 2), random.Random(seed), 60)

    with pytest.raises(AssertionError):
        all_of_them()
