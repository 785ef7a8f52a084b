# SPDX-License-Identifier: GPL-2.0
"""Simulates how AMD's GPUs deal thread blocks to compute units (figures 5 to 7 of RTNS'21; rules R3 and R4).

An ACE deals a kernel's blocks to the shader engines of its mask in turn and never past a full one.  Each engine has a
slot for each ACE and serves the slots round robin; a block starts on the CU with the most free threads.  If a slot's
block fits on no CU, the next slot may cut ahead.  Several queues of one ACE, several XCCs and memory are not modelled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analysis.masks.mapping import LATEST, enabled
from analysis.masks.topology import CU_THREADS, Topology
from analysis.traces.trace import Event, Kind, Trace

_M64 = 2**64 - 1


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
    """The GPU: CUs of each shader engine, and the CUs of each engine that each stream may use."""

    units: tuple[int, ...]
    allowed: tuple[tuple[tuple[int, ...], ...], ...]
    threads: int = CU_THREADS


def dispatcher(streams: Sequence[LaunchStream], topology: Topology) -> Dispatcher:
    """The GPU for these streams."""
    assert topology.xccs == 1, "how blocks are dealt to several XCCs is not modelled"
    firsts = [[sum(engine[:array]) for array in range(len(engine))] for engine in topology.arrays]
    allowed = []
    for stream in streams:
        engines: list[set[int]] = [set() for _ in topology.arrays]
        for unit in enabled(stream.mask, topology, LATEST):
            engines[unit.engine].add(firsts[unit.engine][unit.array] + unit.index)
        assert any(engines), "a kernel without CUs never ends"
        allowed.append(tuple(tuple(sorted(units)) for units in engines))
    return Dispatcher(topology.engines, tuple(allowed))


class Model:
    """The model as it reads in the paper."""

    def __init__(self, gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> None:
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
        """Response times of each stream's finished kernels, ns, in order."""
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
        best = max(self.allowed[slot][engine], key=self.free[engine].__getitem__)
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


def simulate_blocks(gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> list[list[int]]:
    """Response times of each stream's finished kernels, ns, in order."""
    return Model(gpu, streams, settings).run()


class _Drawn(Model):
    """The model, which also notes what executes after each event, and each kernel."""

    def __init__(self, gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> None:
        super().__init__(gpu, streams, settings)
        self.threads: list[list[tuple[int, int]]] = [[(0, 0)] for _ in streams]
        self.kernels: list[Event] = []
        self._seen = [0] * len(streams)

    def _dispatch(self) -> None:
        super()._dispatch()
        for slot, stream in enumerate(self.streams):
            active = self.running[slot] * stream.threads
            if active != self.threads[slot][-1][1]:
                self.threads[slot].append((self.now, active))

    def _end(self) -> None:
        super()._end()
        for slot, times in enumerate(self.times):
            if len(times) > self._seen[slot]:
                self._seen[slot] = len(times)
                start, name = self.now - times[-1], self.streams[slot].name
                self.kernels.append(Event(start, Kind.GPU, name, len(times) - 1, times[-1]))


def timeline(gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings) -> Trace:
    """The kernels that end, and the threads of each stream that execute from each instant on."""
    drawn = _Drawn(gpu, streams, settings)
    drawn.run()
    counters = {f"threads of {one.name}": tuple(found) for one, found in zip(streams, drawn.threads, strict=True)}
    ordered = tuple(sorted(drawn.kernels, key=lambda event: event.time))
    return Trace({"source": "mask simulate", "clock": "virtual"}, ordered, {}, drawn.now, counters)


def kernel_time(counts: Iterable[int], blocks: int, block_time: int) -> int:
    """Time of one kernel alone, ns, rounded up (rule R5): equal blocks, ``block_time`` ns each on a CU.

    ``counts``: enabled CUs of each shader engine, some of which has one.
    """
    used = [count for count in counts if count]
    dealt = [blocks // len(used) + (place < blocks % len(used)) for place in range(len(used))]
    return max(-(-block_time * number // count) for number, count in zip(dealt, used, strict=True))
