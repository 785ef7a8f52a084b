# SPDX-License-Identifier: GPL-2.0
"""Simulates how AMD's GPUs deal thread blocks to compute units (figures 5 and 6 of the paper; rules R3 and R4).

An ACE deals a kernel's blocks to the shader engines of its mask in turn and never past a full one.  Each engine has a
slot for each ACE and serves the slots round robin; a block starts on the CU with the most free threads.  If a slot's
block fits on no CU, the next slot may cut ahead.

``Readable`` is the model in Python; ``simulate`` calls the same model in C (analysis/native/dispatch.c).
``tests/masks/test_dispatch.py`` holds them equal.  Several queues of one ACE, several XCCs and memory are not modelled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Thread

from analysis.masks.mapping import LATEST, Release, enabled
from analysis.masks.topology import CU_THREADS, MOST_ENGINES, Topology
from gpurt._gpurt import ffi, lib
from gpurt.types import CData

#: ACEs of a Radeon VII, and so the streams that are simulated at most.
ACES = 4
#: Times, ns, so short that all blocks of a run one after the other fit into 64 bits.
MAX_BLOCK_NS = 2**34
MAX_BLOCKS = 2**31 - 1
#: Responses of one stream that are kept, and block starts of one run, at most.
MOST_LAUNCHES, MOST_STARTS = 100_000, 200_000_000
_M64 = 2**64 - 1


class SimulationError(ValueError):
    """The request cannot be simulated, or its simulation would not end."""


@dataclass(frozen=True, slots=True)
class LaunchStream:
    """A kernel that is launched again and again, on an ACE of its own.

    ``blocks`` of ``threads`` threads; a block executes for ``shortest`` to ``longest`` ns, uniformly.  ``gap``: ns from
    the end of a kernel to the next launch.  ``offset``: time of the first launch, ns.
    """

    name: str
    mask: int
    blocks: int
    threads: int
    shortest: int
    longest: int
    gap: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """``launches``: how many kernels of the first stream are waited for.  ``cut_ahead``: see above."""

    launches: int = 100
    seed: int = 1
    cut_ahead: bool = True


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The GPU: CUs of each shader engine, and the CUs of each engine that each stream may use, bit i for CU i."""

    units: tuple[int, ...]
    allowed: tuple[tuple[int, ...], ...]
    threads: int = CU_THREADS


def dispatcher(streams: Sequence[LaunchStream], topology: Topology, release: Release = LATEST) -> Dispatcher:
    """The GPU for these streams.  Raises SimulationError for what cannot be simulated."""
    _check(streams, topology)
    firsts = [[sum(engine[:array]) for array in range(len(engine))] for engine in topology.arrays]
    allowed = []
    for stream in streams:
        engines = [0] * len(topology.arrays)
        for unit in enabled(stream.mask, topology, release):
            engines[unit.engine] |= 1 << (firsts[unit.engine][unit.array] + unit.index)
        if not any(engines):
            raise SimulationError(f"{stream.name}: the mask has none of the chip's CUs: the kernel never ends")
        allowed.append(tuple(engines))
    return Dispatcher(topology.engines, tuple(allowed))


def _check(streams: Sequence[LaunchStream], topology: Topology) -> None:
    if topology.xccs > 1:
        raise SimulationError(f"{topology.name} has {topology.xccs} XCCs; how blocks are dealt to them is not modelled")
    if not 1 <= len(streams) <= ACES:
        raise SimulationError(f"{len(streams)} streams; 1 to {ACES} can be simulated, each on an ACE of its own")
    for one in streams:
        if not 1 <= one.blocks <= MAX_BLOCKS:
            raise SimulationError(f"{one.name}: a kernel has 1 to {MAX_BLOCKS} blocks, not {one.blocks}")
        if not 1 <= one.threads <= CU_THREADS:
            raise SimulationError(f"{one.name}: a CU takes blocks of 1 to {CU_THREADS} threads, not {one.threads}")
        times = one.shortest, one.longest, one.gap, one.offset
        if not 1 <= one.shortest <= one.longest or min(times) < 0 or max(times) > MAX_BLOCK_NS:
            most = MAX_BLOCK_NS // 10**9
            raise SimulationError(f"{one.name}: a block takes 1 ns to {most} s, and gaps are no longer")


def simulate(gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings = Settings()) -> list[list[int]]:
    """Response times of each stream's finished kernels, ns, in order.  Raises SimulationError if it takes too long."""
    if not 1 <= settings.launches <= MOST_LAUNCHES:
        raise SimulationError(f"1 to {MOST_LAUNCHES} launches can be simulated, not {settings.launches}")
    room = MOST_LAUNCHES if len(streams) > 1 else settings.launches
    config = ffi.new("struct gpurt_dispatch_config *", {
        "engines": len(gpu.units), "threads": gpu.threads, "cut_ahead": settings.cut_ahead, "room": room,
        "launches": settings.launches, "seed": settings.seed & _M64, "most_starts": MOST_STARTS,
        "units": [*gpu.units, *[0] * (MOST_ENGINES - len(gpu.units))],
    })  # fmt: skip
    table: CData = ffi.new("struct gpurt_dispatch_stream[]", len(streams))
    for row, stream, allowed in zip(table, streams, gpu.allowed, strict=True):
        for field in ("blocks", "threads", "shortest", "longest", "gap", "offset"):
            setattr(row, field, getattr(stream, field))
        row.allowed[0 : len(allowed)] = list(allowed)
    times = ffi.new("u64[]", room * len(streams))
    finished = ffi.new("u32[]", len(streams))
    status = _interruptible(lambda: lib.gpurt_dispatch(config, table, len(streams), times, finished))
    if status == -lib.GPURT_DISPATCH_ENOMEM:
        raise MemoryError
    if status:
        raise SimulationError(f"gave up after {MOST_STARTS} blocks; simulate fewer launches")
    return [list(times[index * room : index * room + min(count, room)]) for index, count in enumerate(finished)]


def _interruptible(call: Callable[[], int]) -> int:
    """The result of a long call to C.  The call runs in a thread, because Ctrl-C is heard only where Python runs."""
    found: list[int] = []
    worker = Thread(target=lambda: found.append(call()), daemon=True)
    worker.start()
    worker.join()
    return found[0]


class Readable:
    """The model as it reads in the paper; slow."""

    def __init__(self, gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings = Settings()) -> None:
        self.streams, self.settings = streams, settings
        self.free = [[gpu.threads] * count for count in gpu.units]
        self.allowed = gpu.allowed
        self.active = [[engine for engine, units in enumerate(mine) if units] for mine in gpu.allowed]
        self.staged = [[False] * len(streams) for _ in gpu.units]
        self.pointer = [0] * len(gpu.units)
        self.next: list[int | None] = [None] * len(streams)  # block to deal; None: no kernel is launched
        self.running = [0] * len(streams)
        self.launched = [0] * len(streams)
        self.due: list[int | None] = [stream.offset for stream in streams]
        self.seed = settings.seed & _M64
        self.now, self.starts = 0, 0
        self.ends: list[tuple[int, int, int, int, int]] = []
        self.times: list[list[int]] = [[] for _ in streams]

    def run(self) -> list[list[int]]:
        """What `simulate` returns."""
        while True:
            self._launch()
            self._dispatch()
            events = [self.ends[0][0]] if self.ends else []
            self.now = min(events + [due for due in self.due if due is not None])
            while self.ends and self.ends[0][0] == self.now:
                self._end()
            if len(self.times[0]) >= self.settings.launches:
                return self.times

    def _launch(self) -> None:
        for number, due in enumerate(self.due):
            if due is not None and due <= self.now:
                self.due[number], self.next[number], self.launched[number] = None, 0, self.now

    def _dispatch(self) -> None:
        self._stage()
        while True:
            for engine in range(len(self.free)):
                while self._start(engine):
                    pass
            if not self._stage():
                return

    def _stage(self) -> bool:
        """Each ACE deals blocks until the engine whose turn it is still has the one before."""
        any_staged = False
        for number, stream in enumerate(self.streams):
            while (block := self.next[number]) is not None and block < stream.blocks:
                engine = self.active[number][block % len(self.active[number])]
                if self.staged[engine][number]:
                    break
                self.staged[engine][number] = any_staged = True
                self.next[number] = block + 1
        return any_staged

    def _slots(self, engine: int) -> Iterator[int]:
        """The slots with a block, from the pointer on; without cutting ahead only the first."""
        count = len(self.streams)
        waiting = [slot % count for slot in range(self.pointer[engine], self.pointer[engine] + count)]
        waiting = [slot for slot in waiting if self.staged[engine][slot]]
        yield from waiting if self.settings.cut_ahead else waiting[:1]

    def _fit(self, engine: int, slot: int) -> int | None:
        """The CU that has the most free threads, if the slot's block fits there; of equal ones the first."""
        mine = [unit for unit in range(len(self.free[engine])) if self.allowed[slot][engine] >> unit & 1]
        best = max(mine, key=lambda unit: (self.free[engine][unit], -unit))
        return best if self.free[engine][best] >= self.streams[slot].threads else None

    def _start(self, engine: int) -> bool:
        for slot in self._slots(engine):
            unit = self._fit(engine, slot)
            if unit is not None:
                stream = self.streams[slot]
                self.staged[engine][slot] = False
                self.pointer[engine] = (slot + 1) % len(self.streams)
                self.free[engine][unit] -= stream.threads
                self.running[slot] += 1
                end = self.now + self._random(stream.shortest, stream.longest)
                heapq.heappush(self.ends, (end, self.starts, slot, engine, unit))
                self.starts += 1
                return True
        return False

    def _end(self) -> None:
        _, _, slot, engine, unit = heapq.heappop(self.ends)
        stream = self.streams[slot]
        self.free[engine][unit] += stream.threads
        self.running[slot] -= 1
        if self.running[slot] == 0 and self.next[slot] == stream.blocks and not any(row[slot] for row in self.staged):
            self.times[slot].append(self.now - self.launched[slot])
            self.next[slot], self.due[slot] = None, self.now + stream.gap

    def _random(self, low: int, high: int) -> int:
        """As random_integer() in analysis/native/random.h."""
        self.seed = (self.seed + 0x9E3779B97F4A7C15) & _M64
        z = self.seed
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _M64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _M64
        return low + ((z ^ z >> 31) * (high - low + 1) >> 64)
