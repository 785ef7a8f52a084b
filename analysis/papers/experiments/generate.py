# SPDX-License-Identifier: GPL-2.0
"""Random tasksets by the tables of the GCAPS paper (table 3) and the thesis (table 4.2).

Tasks and load of each CPU are drawn first, then each task's utilization (C + G) / T by UUniFast.  Then come the tasks
that use the GPU, periods, numbers of GPU segments, G / C and G^m / G, and last the best-effort tasks.  C is cut into
eta + 1 CPU segments around eta GPU segments, at places drawn uniformly, and so is G.  Deadlines equal periods,
priorities are rate monotonic, and the paper re-allocates tasks by worst fit decreasing.  A ratio G / C of 0 leaves
empty GPU segments, which still begin and end.  All times are whole ns; taskset i of a seed is always the same.  Method
`published` divides a load as the code published with the paper does.  There each task gets what UUniFast leaves to the
others, so one task gets most of the load.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from analysis.model import MS, US, CpuSegment, GpuSegment, Platform, Segment, Span, Task, Taskset

#: The published platform: epsilon 1 ms, with 200 us for a context switch, and a time slice of 1024 us.
PLATFORM = Platform(4, alpha=800 * US, theta=200 * US, time_slice=1024 * US)

DRAW_METHODS = ("uunifast", "published")
#: The range from which the published code draws each task's utilization if the number of tasks is given.
PUBLISHED_SHARE = (0.05, 0.3)
#: For each CPU, the number of tasks and the load.
Shape: TypeAlias = Sequence[tuple[int, float]]
_WHOLE = 2**64


@dataclass(frozen=True)
class Parameters:
    """The ranges from which values are drawn; shares are of 1, times in ns.

    ``tasks``: the total number, dealt to the CPUs in turn, instead of ``tasks_per_cpu`` on each.  ``overlap``: add two
    CPU-only tasks of high utilization and short periods and one of long GPU execution (thesis, figure 4.13).
    """

    cpus: int = 4
    tasks: int = 0
    tasks_per_cpu: tuple[int, int] = (3, 6)
    users: tuple[float, float] = (0.4, 0.6)
    load: tuple[float, float] = (0.4, 0.6)
    period: tuple[int, int] = (30 * MS, 500 * MS)
    segments: tuple[int, int] = (1, 3)
    ratio: tuple[float, float] = (0.2, 2.0)
    misc: tuple[float, float] = (0.1, 0.3)
    best_effort: float = 0.0
    reallocate: bool = True
    overlap: bool = False

    def __post_init__(self) -> None:
        pairs = (self.tasks_per_cpu, self.users, self.load, self.period, self.segments, self.ratio, self.misc)
        if any(low > high or low < 0 for low, high in pairs) or self.cpus < 1 or self.tasks < 0:
            raise ValueError("a range must be 0 <= low <= high, and there must be a CPU")
        if max(self.users[1], self.misc[1], self.best_effort) > 1 or self.best_effort < 0:
            raise ValueError("a share is at most 1")
        if not 1 <= self.period[0] <= self.period[1] < 2**50 or self.segments[0] < 1 or self.segments[1] > 1000:
            raise ValueError("periods must be 1 ns to 2^50 ns, GPU segments 1 to 1000")
        if max(self.load[1], self.ratio[1]) > 1000 or self._room > 10**6:
            raise ValueError("loads and ratios up to 1000, tasksets up to 10^6 tasks")

    @property
    def _room(self) -> int:
        return self.tasks or self.cpus * self.tasks_per_cpu[1]


#: Table 3 of ECRTS'24 and table 4.2 of the thesis, which has no step of re-allocation.
PAPER = Parameters()
THESIS = replace(PAPER, ratio=(0.2, 0.5), reallocate=False)


class Draws:
    """Random numbers from a seed, the same on every machine (splitmix64, as analysis/native/random.h)."""

    def __init__(self, seed: int, index: int) -> None:
        self.state = seed % _WHOLE ^ 0x6A09E667F3BCC909
        self.state = self.bits() ^ index * 0xD1342543DE82EF95 % _WHOLE
        self.state = self.bits()

    def bits(self) -> int:
        """64 random bits."""
        self.state = z = (self.state + 0x9E3779B97F4A7C15) % _WHOLE
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WHOLE
        z = (z ^ z >> 27) * 0x94D049BB133111EB % _WHOLE
        return z ^ z >> 31

    def unit(self) -> float:
        """A number in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def between(self, ends: tuple[float, float]) -> float:
        """A number from a range."""
        return ends[0] + (ends[1] - ends[0]) * self.unit()

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high."""
        return low + (self.bits() * (high - low + 1) >> 64)

    def choose(self, count: int, size: int) -> list[int]:
        """``size`` of the numbers below ``count``, in random order."""
        order = list(range(count))
        for i in range(size):
            j = self.integer(i, count - 1)
            order[i], order[j] = order[j], order[i]
        return order[:size]

    def cut(self, time: int, count: int) -> list[int]:
        """A time in ``count`` parts, cut at places drawn uniformly."""
        places = [0, *sorted(self.integer(0, time) for _ in range(count - 1)), time]
        return [end - begin for begin, end in pairwise(places)]


@dataclass
class _Draft:
    """A task before its segments are cut: ``ratio`` is G / C, ``misc`` G^m / G."""

    cpu: int
    utilization: float
    period: int = 0
    eta: int = 0
    ratio: float = 0.0
    misc: float = 0.0
    best_effort: bool = False


def generate(
    parameters: Parameters, seed: int, count: int, start: int = 0, method: str = "uunifast",
    platform: Platform = PLATFORM,
) -> list[Taskset]:  # fmt: skip
    """Tasksets ``start`` to ``start + count - 1`` of a seed, on the platform's costs.

    Raises ValueError for an unknown method.
    """
    if method not in DRAW_METHODS:
        raise ValueError(f"no method is called {method!r}; there are {', '.join(DRAW_METHODS)}")
    if method == "published":  # worst fit places only tasks without a CPU there: those drawn by total number
        parameters = replace(parameters, reallocate=parameters.reallocate and bool(parameters.tasks))
    placed = replace(platform, cpus=parameters.cpus)
    indexes = range(start, start + count)
    return [Taskset(placed, tuple(_tasks(parameters, seed % _WHOLE, index, method))) for index in indexes]


def _tasks(p: Parameters, seed: int, index: int, method: str) -> Iterator[Task]:
    draws = Draws(seed, index)
    shape = [(_count(p, cpu, draws), draws.between(p.load)) for cpu in range(p.cpus)]
    drawn = [_uunifast(draws, tasks, load) for tasks, load in shape]
    if method == "published":
        drawn = _published(p, seed, index, shape)
    drafts = [_Draft(cpu, share) for cpu, shares in enumerate(drawn) for share in shares]
    users = set(draws.choose(len(drafts), int(draws.between(p.users) * len(drafts) + 0.5)))
    for i, one in enumerate(drafts):
        one.period = draws.integer(*p.period)
        if i in users:
            one.eta, one.ratio = draws.integer(*p.segments), draws.between(p.ratio)
            one.misc = draws.between(p.misc)
    if p.overlap:
        drafts += _overlapping(p, draws)
    for i in draws.choose(len(drafts), int(p.best_effort * len(drafts) + 0.5)):
        drafts[i].best_effort = True
    if p.reallocate:
        _reallocate(p.cpus, drafts)
    ranked = sorted(drafts, key=lambda one: (one.best_effort, one.period))
    for i, one in enumerate(ranked):
        priority = 0 if one.best_effort else len(ranked) - i
        yield Task(f"t{i}", one.cpu, priority, one.period, one.period, _segments(draws, one))


def _count(p: Parameters, cpu: int, draws: Draws) -> int:
    return p.tasks // p.cpus + (cpu < p.tasks % p.cpus) if p.tasks else draws.integer(*p.tasks_per_cpu)


def _uunifast(draws: Draws, tasks: int, load: float) -> list[float]:
    """UUniFast (Bini and Buttazzo 2005) for the tasks of one CPU."""
    shares = []
    for others in range(tasks - 1, -1, -1):
        rest = load * draws.unit() ** (1 / others) if others else 0.0
        shares.append(load - rest)
        load = rest
    return shares


def _overlapping(p: Parameters, draws: Draws) -> Iterator[_Draft]:
    """Tasks for figure 4.13, which gives no numbers: "high utilization and small periods", "long GPU execution"."""
    for cpu, shortest, longest, eta in ((0, 5, 10, 0), (1 % p.cpus, 5, 10, 0), (0, 300, 500, 1)):
        period = draws.integer(shortest * MS, longest * MS)
        share = draws.between((0.2, 0.3))
        yield _Draft(cpu, share, period, eta, *((10.0, p.misc[0]) if eta else ()))


def _reallocate(cpus: int, drafts: list[_Draft]) -> None:
    """Worst fit decreasing: each task, the largest first, to the CPU with the least load so far."""
    loads = [0.0] * cpus
    for one in sorted(drafts, key=lambda one: -one.utilization):
        one.cpu = loads.index(min(loads))
        loads[one.cpu] += one.utilization


def _segments(draws: Draws, one: _Draft) -> tuple[Segment, ...]:
    total = _rounded(one.utilization * one.period)
    gpu = _rounded(total * one.ratio / (1 + one.ratio)) if one.eta else 0
    segments: list[Segment] = [CpuSegment(Span.exactly(time)) for time in draws.cut(total - gpu, one.eta + 1)]
    for i, time in enumerate(draws.cut(gpu, one.eta) if one.eta else ()):
        misc = _rounded(time * one.misc)
        segments.insert(2 * i + 1, GpuSegment(Span.exactly(misc), Span.exactly(time - misc)))
    return tuple(segments)


def _rounded(time: float) -> int:
    """The nearest ns, halves rounded up; times are not negative."""
    whole = int(time)
    return whole + (time - whole >= 0.5)


def on_costs(tasksets: Sequence[Taskset], alpha: int, theta: int) -> list[Taskset]:
    """The same tasksets on a platform with these costs of an update and a context switch, ns."""
    return [replace(one, platform=replace(one.platform, alpha=alpha, theta=theta)) for one in tasksets]


def _published(p: Parameters, seed: int, index: int, shape: Shape) -> list[list[float]]:
    """Utilizations of all tasks as the code published with ECRTS'24 draws them, in hundredths, at least one each."""
    own, drawn = random.Random(f"published {seed} {index}"), []
    for tasks, load in shape:
        if p.tasks:
            shares = [own.uniform(*PUBLISHED_SHARE) for _ in range(tasks)]
        else:
            shares = _wrong_way_round(own, load, tasks)
        drawn.append([max(round(share, 2), 0.01) for share in shares])
    return drawn


def _wrong_way_round(own: random.Random, load: float, tasks: int) -> list[float]:
    """A load divided by UUniFast, except that each task gets what the others should, in random order."""
    shares, left = [], load
    for others in range(tasks - 1, 0, -1):
        shares.append(left * own.random() ** (1 / others))
        left -= shares[-1]
    shares += [left] if tasks else []
    own.shuffle(shares)
    return shares
