"""kmod/core/bus.c: every state that four clients at three levels can bring it to, against a sorted list."""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, replace

from gpurt._gpurt import ffi, lib

CLIENTS = 4
LEVELS = (0, 40, 99)
IDLE, PENDING, RUNNING = lib.GPURT_STATE_IDLE, lib.GPURT_STATE_PENDING, lib.GPURT_STATE_RUNNING
BOUND = 7


@dataclass(frozen=True)
class Model:
    """The holder of the bus, the waiters in the order of coming, and the level at which each has asked last."""

    levels: tuple[int, ...] = (0,) * CLIENTS
    holder: int | None = None
    waiting: tuple[int, ...] = ()

    def best(self) -> int | None:
        return max(self.waiting, key=lambda i: (self.levels[i], -self.waiting.index(i)), default=None)

    def at(self, who: int, level: int) -> Model:
        return replace(self, levels=(*self.levels[:who], level, *self.levels[who + 1 :]))

    def join(self, who: int) -> Model:
        return replace(self, waiting=(*self.waiting, who))

    def quit(self, who: int) -> Model:
        return replace(self, waiting=tuple(i for i in self.waiting if i != who))

    def free(self) -> Model:
        """The bus has been given back."""
        best = self.best()
        return replace(self if best is None else self.quit(best), holder=best)

    def step(self, call: str, who: int, level: int) -> tuple[Model, int]:
        """The state after a call, and its result."""
        asked = who == self.holder or who in self.waiting
        if call == "request":
            made = self.at(who, level).join(who)
            return (self, -errno.EBUSY) if asked else (made if self.holder is not None else made.free(), 0)
        if call == "next":
            return (self.join(who).free(), 0) if who == self.holder else (self, -errno.ENOENT)
        if call in ("release", "gone"):
            after = self.free() if who == self.holder else self.quit(who)
            return after, -errno.ENOENT if call == "release" and not asked else 0
        if call == "level":
            moved = self.quit(who).join(who) if who in self.waiting and self.levels[who] != level else self
            return moved.at(who, level), 0
        best = self.best()
        late = self.holder is not None and not self.levels[self.holder] and best is not None and self.levels[best] > 0
        return self.free() if late else self, 0


class Bus:
    """The compiled bus, at which `clock` counts the calls."""

    def __init__(self) -> None:
        self.raw = ffi.new("struct gpurt_bus *")
        lib.gpurt_bus_init(self.raw)
        self.nodes = [ffi.new("struct gpurt_bus_node *") for _ in range(CLIENTS)]
        for node in self.nodes:
            lib.gpurt_bus_node_init(node)
        self.clock = 0

    def step(self, call: str, who: int, level: int) -> int:
        self.clock += 1
        node, now = self.nodes[who], self.clock
        if call == "request":
            return int(lib.gpurt_bus_request(self.raw, node, level, now))
        if call == "level":
            return int(lib.gpurt_bus_set_level(self.raw, node, level))
        if call == "tick":
            return self.tick()
        if call == "gone":
            lib.gpurt_bus_gone(self.raw, node, now)
            return 0
        return int({"next": lib.gpurt_bus_next, "release": lib.gpurt_bus_release}[call](self.raw, node, now))

    def tick(self) -> int:
        """The bound passes, to the nanosecond."""
        self.raw.bound, holder = BOUND, self.raw.holder
        due = lib.gpurt_bus_deadline(self.raw)
        if due != lib.GPURT_FOREVER:
            self.clock = max(self.clock, due)
            assert lib.gpurt_bus_tick(self.raw, due - 1) == ffi.NULL
            assert lib.gpurt_bus_tick(self.raw, self.clock) == holder
        assert lib.gpurt_bus_tick(self.raw, self.clock) == ffi.NULL
        return 0

    def check(self, model: Model) -> None:
        """The memory of the bus has what the model says, and nothing else."""
        holder = self.raw.holder
        assert (None if holder == ffi.NULL else self.nodes.index(holder)) == model.holder
        states = [RUNNING if i == model.holder else PENDING if i in model.waiting else IDLE for i in range(CLIENTS)]
        assert [node.state for node in self.nodes] == states
        assert tuple(node.level for node in self.nodes) == model.levels
        assert self.raw.waiters == len(model.waiting)
        assert model.holder is not None or not model.waiting
        for level in LEVELS:
            assert self.queued(level) == [i for i in model.waiting if model.levels[i] == level]
            filled = bool(self.raw.waiting.filled[level // 64] >> level % 64 & 1)
            assert filled == bool(self.queued(level))

    def queued(self, level: int) -> list[int]:
        head = ffi.addressof(self.raw.waiting.level[level])
        found, link = [], head.next
        while link != head:
            found.append(self.nodes.index(ffi.cast("struct gpurt_bus_node *", link)))
            link = link.next
        return found


CALLS = [
    *(("request", who, level) for who in range(CLIENTS) for level in LEVELS),
    *(("level", who, level) for who in range(CLIENTS) for level in LEVELS),
    *((call, who, 0) for call in ("next", "release", "gone") for who in range(CLIENTS)),
    ("tick", 0, 0),
]


def build(model: Model) -> Bus:
    """A bus in that state."""
    bus = Bus()
    for who in (() if model.holder is None else (model.holder,)) + model.waiting:
        bus.step("request", who, model.levels[who])
    return bus


def test_every_call_in_every_state_does_what_a_sorted_list_does() -> None:
    """Levels of clients that have not asked are of no consequence: they count as 0 in a state."""
    seen, todo = {Model()}, deque([Model()])
    steps = 0
    while todo:
        state = todo.popleft()
        for call in CALLS:
            bus = build(state)
            after, result = state.step(*call)
            assert bus.step(*call) == result, (state, call)
            bus.check(after)
            steps += 1
            asked = {after.holder, *after.waiting}
            known = replace(after, levels=tuple(v if i in asked else 0 for i, v in enumerate(after.levels)))
            if known not in seen:
                seen.add(known)
                todo.append(known)
    # nobody; one of 4 at 3 levels; ordered pairs; triples; all: the holder, then the others in order of coming
    assert len(seen) == 1 + 4 * 3 + 4 * 3 * 9 + 24 * 27 + 24 * 81
    assert steps == len(seen) * len(CALLS)


def test_waits_and_times_are_counted() -> None:
    bus = Bus()
    first, second = bus.nodes[:2]
    lib.gpurt_bus_request(bus.raw, first, 5, 10)
    lib.gpurt_bus_request(bus.raw, second, 9, 12)
    lib.gpurt_bus_next(bus.raw, first, 20)  # the other one is more urgent
    lib.gpurt_bus_release(bus.raw, second, 23)
    lib.gpurt_bus_release(bus.raw, first, 30)
    waits = bus.raw.waits
    assert (waits.count, waits.min, waits.max, waits.sum) == (3, 0, 8, 0 + 8 + 3)
    assert (first.copies, first.held_ns, first.waited) == (2, 10 + 7, 3)
    assert (second.copies, second.held_ns, second.waited) == (1, 3, 8)


def test_real_time_holders_keep_the_bus() -> None:
    for holder, waiter in ((1, 99), (0, 0), (99, 0)):
        bus = Bus()
        lib.gpurt_bus_request(bus.raw, bus.nodes[0], holder, 0)
        lib.gpurt_bus_request(bus.raw, bus.nodes[1], waiter, 0)
        assert lib.gpurt_bus_deadline(bus.raw) == lib.GPURT_FOREVER
        assert lib.gpurt_bus_tick(bus.raw, 1 << 62) == ffi.NULL


def test_levels_out_of_range_are_refused() -> None:
    bus = Bus()
    assert lib.gpurt_bus_request(bus.raw, bus.nodes[0], 100, 0) == -errno.EINVAL
    assert lib.gpurt_bus_set_level(bus.raw, bus.nodes[0], 100) == -errno.EINVAL
    bus.check(Model())
