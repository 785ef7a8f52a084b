# SPDX-License-Identifier: GPL-2.0
"""The findings of attacks on bounds, and how hard they try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from analysis.attack.exact import Times
from analysis.chains.bounds import bound_of
from analysis.chains.observed import MEASURE_KEYS
from analysis.model import CpuSegment, Segment, Taskset
from analysis.rta import Result
from analysis.rtgpu.simulate import Way
from analysis.simulation.simulate import Options

#: Stands for a time that nothing bounds, ns.
ENDLESS_NS = 2**62


@dataclass(frozen=True, slots=True)
class Effort:
    """For each taskset and way of execution: runs from random first releases, then steps of local search.

    Of tests of tasks that own units there are as many runs as both.
    """

    runs: int = 20
    steps: int = 40


@dataclass(frozen=True)
class Longest:
    """The longest response time observed of one task and its bound, ns, and how to observe it again.

    Or a time of a chain, whose name and key are the ``task``.  In tasksets whose tasks own units, each task has them as
    its partition.
    """

    taskset: Taskset
    task: str
    bound: int
    observed: int
    options: Options | Way
    offsets: tuple[int, ...]

    @property
    def ratio(self) -> Fraction:
        """Observed over bound."""
        return Fraction(self.observed, max(self.bound, 1))


@dataclass(frozen=True)
class Outcome:
    """The result of the attack on one test.

    ``worst``: the highest ratio, of a task that other tasks delay; ``smallest``: the simplest violation.
    """

    test: str
    tasksets: int = 0
    schedulable: int = 0
    jobs: int = 0
    violations: int = 0
    worst: Longest | None = None
    smallest: Longest | None = None

    def joined(self, other: Outcome) -> Outcome:
        """Both outcomes as one."""
        worst = max((f for f in (self.worst, other.worst) if f), key=lambda f: f.ratio, default=None)
        smallest = min((f for f in (self.smallest, other.smallest) if f), key=lambda f: size(f.taskset), default=None)
        return Outcome(
            self.test, self.tasksets + other.tasksets, self.schedulable + other.schedulable, self.jobs + other.jobs,
            self.violations + other.violations, worst, smallest,
        )  # fmt: skip


def pieces(segment: Segment) -> tuple[int, ...]:
    """The worst-case lengths of the pieces of a segment, ns."""
    if isinstance(segment, CpuSegment):
        return (segment.time.worst,)
    return segment.misc.worst, segment.pure.worst


def size(taskset: Taskset) -> tuple[int, int, int]:
    """How simple a counterexample is: number of tasks, of segments, and of digits of its times."""
    lengths = [piece for t in taskset for s in t.segments for piece in pieces(s)]
    return len(taskset), sum(len(t.segments) for t in taskset), sum(len(str(n).rstrip("0")) for n in lengths)


def limits_of(taskset: Taskset, result: Result) -> dict[str, Times]:
    """The bounds of chains that follow from those of their tasks, ns; ENDLESS_NS where there is none."""
    found = {}
    for one in taskset.chains:
        known = bound_of(one, taskset, result).latencies
        reaction, age, at_output = (known[key].bound if key in known else ENDLESS_NS for key in MEASURE_KEYS)
        found[one.name] = reaction, age, at_output
    return found


def named(chains: Mapping[str, Times]) -> dict[str, int]:
    """Times of chains by chain and key; without those that nothing bounds."""
    keyed = ((name, zip(MEASURE_KEYS, one, strict=True)) for name, one in chains.items())
    times = ((f"{name}: {key}", time) for name, one in keyed for key, time in one)
    return {name: time for name, time in times if time < ENDLESS_NS}
