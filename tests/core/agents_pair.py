"""kmod/core/agents.c and its model, to which the same happens; both are compared after every event."""

from __future__ import annotations

import copy
import errno
from typing import Any

from agents_model import LIMIT, Model, Process

from gpurt._gpurt import ffi, lib

#: The users of the processes, in turn.
USERS = (1000, 1000, lib.GPURT_AGENT_UNLIMITED)
STEPS = {lib.GPURT_AGENTS_NO_UPDATE: "", lib.GPURT_AGENTS_OFF: "off", lib.GPURT_AGENTS_ON: "on"}
DRIVERS = ("nvidia-rm", "kfd-queue", "a-name-of-thirty-one-characters", "x")


class Mute(Model):
    """Knows who is there, and nothing of turns: it is compared with nothing."""

    def register(self, p: Process, driver: str, tier: int, now: int) -> int:
        p.agent = True
        return 0

    def resign(self, p: Process, now: int) -> None:
        p.agent = False


def say_nothing(*_about: Any) -> int:
    return 0


for name in ("plainly", "recall", "recall_over", "answer", "ranked", "is_single", "commit", "tick", "set_exempt"):
    setattr(Mute, name, say_nothing)


class Pair:
    """One GPU with `size` processes at most; names of processes are indices."""

    def __init__(
        self, size: int, bound: int, wait: bool, limit: int = LIMIT, yields: bool = False, turns: bool = False
    ) -> None:
        """``turns``: best-effort processes take turns, of which the model knows nothing."""
        self.model, self.now, self.size = (Mute if turns else Model)(bound, wait, limit, yields), 0, size
        self.said: list[tuple[object, ...]] = []
        self.late: frozenset[int] = frozenset()  # processes that were late when they left
        self.unsafe: list[int] = []  # processes that were in the way of an owner, or called late too early
        self.refusing = False  # an agent that takes back its answer is late at once
        self.raw = ffi.new("struct gpurt_agents *")
        self.array = ffi.new("struct gpurt_agent_process[]", size)
        self.groups: list[int] = []
        self.ops = ffi.new("struct gpurt_agents_ops *")
        self.keep = [
            ffi.callback("void(struct gpurt_agents *, struct gpurt_agent_process *)", self.on_order),
            ffi.callback("void(struct gpurt_agents *, struct gpurt_agent_process *, u64)", self.on_late),
            ffi.callback("void(struct gpurt_agents *, int, u64)", self.on_finished),
            ffi.callback("void(struct gpurt_agents *)", lambda _: self.said.append(("retry",))),
        ]
        self.ops.order, self.ops.late, self.ops.finished, self.ops.retry = self.keep
        lib.gpurt_agents_init(self.raw, self.ops, ffi.NULL, bound, wait)
        self.raw.limit, self.raw.yields, self.raw.turns = limit, yields, turns
        self.groups = [lib.gpurt_agents_group(self.raw) for _ in range(2)]

    # What the core says

    def index(self, raw: Any) -> int:
        return int(raw - self.array)

    def on_order(self, _a: Any, p: Any) -> None:
        self.said.append(("order", self.index(p), bool(p.on), p.sequence))
        before = self.find(self.index(p))
        owns = self.raw.only and self.raw.only in (p.number, p.group)
        if p.on and owns and not p.exempt and before and not before.on:
            self.unsafe += [other.name for other in self.model.processes if self.in_the_way(other.name)]

    def in_the_way(self, name: int) -> bool:
        """Whether the owner must not be ordered on yet: a process is on, or has not answered, and is waited for."""
        raw = self.array[name]
        if not raw.registered or raw.exempt or (self.raw.only and self.raw.only in (raw.number, raw.group)):
            return False
        if self.raw.beside and self.raw.top == self.array + name and not raw.inside:
            return False
        off = not raw.on and raw.answered == raw.sequence
        waits = not raw.late and (self.model.wait or not raw.doubted)
        return not off and (waits or self.model.wait or bool(raw.on))

    def on_late(self, _a: Any, p: Any, now: int) -> None:
        self.said.append(("late", self.index(p)))
        if now < p.since + self.model.bound and not self.refusing:
            self.unsafe.append(self.index(p))

    def on_finished(self, _a: Any, err: int, _now: int) -> None:
        self.said.append(("finished", err))

    # Events

    def find(self, name: int) -> Process | None:
        return next((p for p in self.model.processes if p.name == name), None)

    def join(self, name: int) -> None:
        if self.find(name):
            return
        late = name in self.late
        user = USERS[name % len(USERS)]
        lib.gpurt_agents_join(self.raw, self.array + name, late)
        self.model.processes.append(Process(name, user, late=late))

    def leave(self, name: int) -> None:
        p = self.find(name)
        if p and self.model.only is not p:
            self.late = self.late - {name} | ({name} if p.late else frozenset())
            lib.gpurt_agents_leave(self.raw, self.array + name, self.now)
            self.model.leave(p, self.now)

    def register(self, name: int, driver: int = 0, tier: int = 1) -> None:
        if p := self.find(name):
            text = DRIVERS[driver].encode()
            code = lib.gpurt_agents_register(self.raw, self.array + name, p.user, text, tier, self.now)
            assert code == self.model.register(p, DRIVERS[driver], tier, self.now)

    def resign(self, name: int) -> None:
        if p := self.find(name):
            lib.gpurt_agents_resign(self.raw, self.array + name, self.now)
            self.model.resign(p, self.now)

    def exempt(self, name: int, exempt: bool) -> None:
        p = self.find(name)
        if p and (exempt or p.exempt):
            lib.gpurt_agents_exempt(self.raw, self.array + name, exempt, self.now)
            self.model.set_exempt(p, exempt, self.now)

    def channels(self, name: int, calls: bool = True, channels: int = 4) -> None:
        """Whether its agent can switch channels of others, and how many it has."""
        p = self.find(name)
        if p and p.agent:
            lib.gpurt_agents_channels(self.raw, self.array + name, calls, channels)
            p.calls, p.channels = calls, channels

    def plain(self, name: int, plain: bool = True) -> None:
        """Whether it may be given the flag."""
        if p := self.find(name):
            lib.gpurt_agents_plain(self.raw, self.array + name, plain, self.now)
            self.model.plainly(p, plain, self.now)

    def recall(self, over: bool = False) -> None:
        """The flag is taken back for one more reason, or for one less."""
        if not over:
            lib.gpurt_agents_recall(self.raw, self.now)
            self.model.recall(self.now)
        elif self.raw.recalls:
            lib.gpurt_agents_recall_over(self.raw, self.now)
            self.model.recall_over(self.now)

    def answer(self, name: int, well: bool, behind: int = 0) -> None:
        """The last order's answer, or that of the one so many before; -1: of one that was never given."""
        p, sequence = self.find(name), self.array[name].sequence
        if not p or not p.agent or sequence < behind:
            return
        number, result = sequence - behind, 0 if well else -errno.EIO
        self.refusing = not well
        code = lib.gpurt_agents_answer(self.raw, self.array + name, number, result, self.now)
        self.refusing = False
        assert code == self.model.answer(p, number, well, self.now)

    def rank(self, name: int, rank: int = 50, inside: bool = False) -> None:
        """The highest level that it may begin with, and whether it is in a segment."""
        if p := self.find(name):
            lib.gpurt_agents_rank(self.raw, self.array + name, rank, inside, self.now)
            self.model.ranked(p, rank, inside, self.now)

    def inside(self, name: int, inside: bool = True) -> None:
        """Whether it is in a segment, before the update that follows from that."""
        if p := self.find(name):
            self.array[name].inside = p.inside = inside

    def single(self, name: int, single: bool = True, automatic: bool = True) -> None:
        """Whether it has one group for kernels, whose slice can be set, and all its work is in automatic segments."""
        p = self.find(name)
        if p and p.agent:
            lib.gpurt_agents_single(self.raw, self.array + name, single, automatic, self.now)
            self.model.is_single(p, single, automatic, self.now)

    def commit(self, name: int | None, group: int | None = None, way: str = "ALONE") -> None:
        """The process is to be alone, or a group, or nobody is."""
        p = None if name is None else self.find(name)
        if group is not None:
            lib.gpurt_agents_commit(self.raw, self.groups[group], lib.GPURT_AGENTS_ALONE, self.now)
            self.model.commit(group, self.now)
        elif name is None or p:
            number = 0 if name is None else self.array[name].number
            lib.gpurt_agents_commit(self.raw, number, getattr(lib, f"GPURT_AGENTS_{way}"), self.now)
            self.model.commit(p, self.now, way)

    def unite(self, name: int, group: int | None = 0) -> None:
        """The process belongs to a group, or to none."""
        if p := self.find(name):
            lib.gpurt_agents_unite(self.raw, self.array + name, 0 if group is None else self.groups[group], self.now)
            self.model.unite(p, group, self.now)

    def tick(self, passed: int = 0) -> None:
        self.now += passed
        lib.gpurt_agents_tick(self.raw, self.now)
        self.model.tick(self.now)

    def wait(self) -> None:
        """Nothing happens until the deadline."""
        if self.raw.deadline != 2**64 - 1:
            self.tick(max(self.raw.deadline - self.now, 0))

    # Comparison

    def check(self) -> None:
        """Both have told their host the same, know the same, and nothing is waited for without an end."""
        a, m = self.raw, self.model
        assert self.unsafe == []  # exceptions do not get out of a callback
        if a.turns:
            self.said.clear()
            return
        assert self.said == m.said, (self.said, m.said)
        assert (STEPS[a.step], bool(a.open), bool(a.failed)) == (m.step, m.open, m.failed)
        for p in m.processes:
            raw = self.array[p.name]
            assert (bool(raw.registered), bool(raw.late), raw.exempt) == (p.agent, p.late, p.exempt)
            if p.agent:
                assert (bool(raw.on), raw.sequence, raw.answered) == (p.on, p.sequence, p.answered)
                assert p.on == m.target(p)
                assert (bool(raw.yields), bool(raw.single), raw.slice, raw.has) == (p.yields, p.single, p.slice, p.has)
                assert bool(raw.outlasts) == p.outlasts
                assert (bool(raw.taken), bool(raw.anew), raw.many) == (p.taken, p.anew, p.many)
                assert (bool(raw.calls), raw.channels) == (p.calls, p.channels)
                assert raw.taker == (self.array[p.taker.name].number if p.taker else 0)
            assert (bool(raw.free), bool(raw.holds)) == (p.free, any(p.flags))
        assert bool(a.lazy) == (m.lazy_until is not None)
        assert a.uncut == sum(p.agent and not p.is_cut for p in m.processes)
        assert a.holders == sum(any(p.flags) for p in m.processes) <= 1
        owing = [p for p in m.debtors() if m.waits(p)], [p for p in m.debtors() if not m.waits(p)]
        assert [a.owing[1], a.owing[2], sum(a.owing)] == [len(owing[0]), len(owing[1]), len(m.processes)]
        assert (due := m.next()) is None or a.deadline <= due
        off = [p for p in m.processes if p.agent and not p.on] if m.only is None and m.open else []
        assert not off or (m.coming and m.coming.owes and self.now < a.step_since + m.bound)
        assert not off or a.held
        if m.step:
            assert a.deadline <= a.step_since + m.bound
        facts = ffi.new("struct gpurt_agents_facts *")
        lib.gpurt_agents_facts(ffi.addressof(a[0], "kept"), facts)
        assert (ffi.string(facts.driver).decode(), facts.tier, facts.late, facts.refused) == m.facts()
        self.said.clear()
        m.said.clear()


def doubts(pair: Pair) -> int:
    """Until when any user is doubted."""
    return max(int(one.until) for one in pair.raw.users)


class Saved:
    """A state of a pair to come back to: the C memory stays where it is."""

    def __init__(self, pair: Pair) -> None:
        self.raw, self.array = bytes(ffi.buffer(pair.raw)), bytes(ffi.buffer(pair.array))
        self.model, self.now = copy.deepcopy(pair.model), pair.now

    def restore(self, pair: Pair) -> None:
        ffi.buffer(pair.raw)[:], ffi.buffer(pair.array)[:] = self.raw, self.array
        pair.model, pair.now = copy.deepcopy(self.model), self.now
        pair.said.clear()
