# SPDX-License-Identifier: GPL-2.0
"""Simulates how AMD's GPUs deal thread blocks to compute units (figures 5 and 6 of the paper; rules R3 and R4).

An ACE deals a kernel's blocks to the shader engines of its mask in turn and never past a full one.  Each engine has a
slot for each ACE and serves the slots round robin; a block starts on the CU with the most free threads.  If a slot's
block fits on no CU, the next slot may cut ahead.

``simulate_blocks`` calls the model in C (analysis/native/dispatch.c); tests/masks/readable_dispatch.py is in Python.
Several queues of one ACE, several XCCs and memory are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def simulate_blocks(
    gpu: Dispatcher, streams: Sequence[LaunchStream], settings: Settings = Settings()
) -> list[list[int]]:  # fmt: skip
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
