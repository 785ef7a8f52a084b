# SPDX-License-Identifier: GPL-2.0
"""Bounds on given units, and the longest responses that a search in the simulator of own units finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from analysis.papers.experiments.generate import Draws
from analysis.rtgpu.allocate import named_allocation
from analysis.rtgpu.analyse import System, on_units
from analysis.rtgpu.simulate import EXECUTION, Simulated, Way
from gpurt._gpurt import ffi, lib


def bounds(system: System, given: Sequence[int]) -> tuple[int, ...]:
    """Bounds on an allocation, ns: of the tasks, most urgent first, before the first one without a bound."""
    result = on_units(system, named_allocation(system, given))
    found = (result.wcrt(task.name) for task in system.tasks)
    return tuple(wcrt for wcrt in takewhile(lambda one: one is not None, found) if wcrt is not None)


@dataclass(frozen=True)
class SeenResponses:
    """The longest response of each task, ns, and how to see it again: by task, first releases and the way."""

    longest: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    ways: tuple[Way, ...]
    jobs: int


class _Random(Draws):
    """As analysis/native/random.h."""

    def __init__(self, seed: int) -> None:
        self.state = seed % 2**64


def _varied(random: _Random, periods: Sequence[int], known: Sequence[int]) -> list[int]:
    """New first releases: random ones, or the best known of a task with one moved."""
    climb, moved, found = random.bits() & 1, random.integer(0, len(periods) - 1), []
    for at, period in enumerate(periods):
        if climb and at != moved:
            found.append(known[at])
        elif climb and random.bits() & 1:
            found.append(known[at] + (1 if random.bits() & 1 or not known[at] else -1))
        else:
            found.append(random.integer(0, period - 1))
    return found


def worst(simulated: Simulated, runs: int, way: Way = Way(), cycles: int = 4) -> SeenResponses:  # noqa: B008
    """The longest responses over so many runs, the first with all releases at 0.

    The others begin with random first releases, or with those of the longest response of a task so far, one of them
    moved.  All ways of execution.
    """
    sim, periods = simulated.prepared(way, cycles), [task.period for task in simulated.order]
    count, executions, random = len(periods), list(EXECUTION), _Random(way.seed)
    longest, offset = ffi.new("int64_t[]", count + 1), ffi.new("int64_t[]", count + 1)
    sim.offset, sim.seen = offset, (seen := ffi.new("struct gpurt_rtgpu_seen[]", count + 1))
    best, offsets, ways = [0] * count, [(0,) * count] * count, [way] * count
    for run in range(runs):
        target = random.integer(0, count - 1) if count else 0
        execution = executions[random.integer(0, 3)] if run else "worst"
        sporadic, early = (run > 1 and bool(random.bits() & 1) for _ in range(2))
        seed = random.bits()
        if run and count:
            offset[0:count] = _varied(random, periods, offsets[target])
        sim.execution, sim.sporadic, sim.early, sim.seed = EXECUTION[execution], sporadic, early, seed
        assert lib.gpurt_rtgpu_simulate(sim, longest, ffi.NULL, 0) >= 0
        for at in range(count):
            if longest[at] > best[at]:
                best[at], offsets[at] = longest[at], tuple(offset[0:count])
                ways[at] = Way(execution, sporadic, seed, way.stream, early)
    return SeenResponses(tuple(best), tuple(offsets), tuple(ways), sum(one.finished for one in seen[0:count]))
