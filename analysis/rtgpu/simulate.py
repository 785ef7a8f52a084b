# SPDX-License-Identifier: GPL-2.0
"""Simulation of the system of analysis/rtgpu (analysis/native/rtgpu_sim.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.rtgpu.chain import Need
from analysis.rtgpu.compiled import Batch
from analysis.rtgpu.method import Method
from gpurt._gpurt import ffi, lib

EXECUTION: dict[str, int] = {
    "worst": lib.GPURT_RTGPU_WORST, "best": lib.GPURT_RTGPU_BEST, "extreme": lib.GPURT_RTGPU_EXTREME,
    "random": lib.GPURT_RTGPU_RANDOM,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """How to simulate: ``execution``, ``sporadic`` releases or periodic ones, and a ``seed`` for what is random.

    ``early``: at one instant the bus is given back first, and the least urgent ask first; otherwise all ask first.
    ``stream``: where tasks wait busily, a chain of copies and kernels goes on without its CPU.
    """

    execution: str = "worst"
    sporadic: bool = False
    seed: int = 0
    stream: bool = True
    early: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a step, ns.  ``asked``: of a copy, when it came to the bus."""

    task: int
    need: Need
    begin: int
    end: int
    asked: int


def prepared(batch: Batch, index: int, method: Method, way: Way, given: Sequence[int], cycles: int) -> tuple[Any, Any]:
    """The C struct that says how to simulate taskset ``index``, and the units, which must outlive it.

    Raises ValueError: a task with a kernel has no unit, or more than the batch knows.
    """
    begin, end = map(int, batch.first[index : index + 2])
    users = batch.numbers["user"][begin:end].tolist()
    if any(user and not 1 <= units <= batch.columns for user, units in zip(users, given, strict=False)):
        raise ValueError(f"every task with a kernel needs 1 to {batch.columns} units")
    units = ffi.new("u32[]", [*given, *[1] * (end - begin - len(given)), 0])
    longest = max(map(int, batch.times["period"][begin:end]), default=0)
    sim = ffi.new("struct gpurt_rtgpu_sim *")
    sim.spins, sim.stream, sim.merges = not method.forms, way.stream, method.merges
    sim.execution, sim.sporadic, sim.seed = EXECUTION[way.execution], way.sporadic, way.seed % 2**64
    sim.early, sim.horizon, sim.given = way.early, cycles * longest, units
    return sim, units


def simulate_units(
    batch: Batch, index: int, method: Method, given: Sequence[int], offsets: Sequence[int], way: Way = Way(),
    cycles: int = 4, room: int = 0,
) -> tuple[tuple[int, ...], list[Stretch]]:  # fmt: skip
    """The longest response of each task, ns, and up to ``room`` stretches of what happened.

    ``given``: units of the real-time tasks.  Jobs are released during ``cycles`` times the longest period.
    """
    sim, _units = prepared(batch, index, method, way, given, cycles)
    count = int(batch.first[index + 1]) - int(batch.first[index])
    first, longest = ffi.new("int64_t[]", [*offsets, 0]), ffi.new("int64_t[]", count + 1)
    sim.offset = first
    spans = ffi.new("struct gpurt_rtgpu_span[]", room) if room else ffi.NULL
    used = lib.gpurt_rtgpu_simulate(batch.view(), index, sim, longest, spans, room)
    if used < 0:
        raise MemoryError
    found = [Stretch(s.task, Need(s.need), s.begin, s.end, s.asked) for s in spans[0 : min(used, room)]] if room else []
    return tuple(longest[0:count]), found
