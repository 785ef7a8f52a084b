# SPDX-License-Identifier: GPL-2.0
"""How much may grow before a taskset misses: C or G of a task, epsilon, or all times (a slower clock).

A binary search on the exact test finds a factor at which the test passes.  The test fails at all larger factors if its
bounds grow with demand, as the bounds of the registry do (tests/analysis/test_gcaps.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from analysis.answers.verdict import proved
from analysis.model import (
    Copy,
    CpuSegment,
    GpuSegment,
    Kernel,
    Partition,
    Platform,
    Resource,
    Section,
    Segment,
    Span,
    Task,
    Taskset,
)
from analysis.rta import Test

#: The most tasks of a file whose single times are searched.
MAX_TASKS_SEARCHED = 500
#: Factors are searched in steps of one millionth, up to a thousand.
FACTOR_STEPS = 1_000_000
UNLIMITED = Fraction(1000)


_WORDS = {"C": "CPU time", "G": "GPU time", "epsilon": "epsilon and theta alike", "clock": "all times together"}

#: Called with the number of steps of a search that are done: runs of the test, and runs that were not needed.
Tick = Callable[[int], None]


def unwatched(_steps: int) -> None:
    """The tick for searches that nobody watches."""


class Grows(str, Enum):
    """The kinds of times that may grow."""

    CPU = "C"
    GPU = "G"
    EPSILON = "epsilon"
    CLOCK = "clock"

    @property
    def words(self) -> str:
        """The name of the quantity that grows, in words."""
        return _WORDS[self.value]


@dataclass(frozen=True, slots=True)
class Margin:
    """The largest ``factor`` at which the taskset passes: above 1 times may grow, below 1 they must shrink.

    ``task`` is None for epsilon and the clock.  ``now``: the time to which the factor applies, ns (0 for the clock).
    ``factor`` is UNLIMITED if that passes, and None if the test fails at every factor above 0.
    """

    what: Grows
    task: str | None
    now: int
    factor: Fraction | None

    @property
    def most(self) -> int | None:
        """The largest time that passes, ns; None for the clock, for no limit, and if no time passes."""
        if self.factor is None or self.factor == UNLIMITED or self.what is Grows.CLOCK:
            return None
        return _scaled(self.now, self.factor)


def time_margins(test: Test, taskset: Taskset, tick: Tick = unwatched, own: bool = True) -> Iterator[Margin]:
    """One by one, the margins of each task's C and G unless 0 (if ``own``), of epsilon, and of the clock."""
    for name, what, now in own_times(taskset) if own else ():
        yield Margin(what, name, now, task_margin(test, taskset, name, what, tick))
    if taskset.platform.epsilon:
        factor = largest(lambda f: with_epsilon(taskset, f), test, tick)
        yield Margin(Grows.EPSILON, None, taskset.platform.epsilon, factor)
    yield Margin(Grows.CLOCK, None, 0, largest(lambda f: slowed(taskset, f), test, tick))


def own_times(taskset: Taskset) -> list[tuple[str, Grows, int]]:
    """Each task's C and G, ns, unless they are 0."""
    both = (
        (t.name, what, now) for t in taskset for what, now in ((Grows.CPU, t.cpu_time), (Grows.GPU, t.gpu_time))
    )
    return [one for one in both if one[2]]


def margin_steps(taskset: Taskset) -> int:
    """The number of steps that `time_margins` and `epsilon_budget` report to their ``tick``."""
    searches = len(own_times(taskset)) + bool(taskset.platform.epsilon) + 1
    return searches * steps(int(UNLIMITED * FACTOR_STEPS)) + steps(_longest(taskset))


def task_margin(
    test: Test, taskset: Taskset, name: str, what: Grows, tick: Tick = unwatched
) -> Fraction | None:  # fmt: skip
    """The largest factor for C or G of one task.  Raises ValueError for another quantity or an unknown task."""
    if what not in (Grows.CPU, Grows.GPU):
        raise ValueError(f"{what.value} is not a task's")
    if name not in {t.name for t in taskset}:
        raise ValueError(f"there is no task {name!r}")

    return largest(lambda factor: changed(taskset, name, what, factor), test, tick)


def changed(taskset: Taskset, name: str, what: Grows, factor: Fraction) -> Taskset:
    """The taskset with C or G of one task scaled."""
    tasks = (_task(t, factor, cpu=what is Grows.CPU, gpu=what is Grows.GPU) if t.name == name else t for t in taskset)
    grown = replace(taskset, tasks=tuple(tasks))
    return replace(grown, resources=_sections(taskset, factor, {name})) if what is Grows.CPU else grown


def epsilon_budget(test: Test, taskset: Taskset, tick: Tick = unwatched) -> int | None:
    """The largest epsilon with which the taskset passes, ns; None if the test fails even without epsilon.

    Theta keeps its share of epsilon; if epsilon is 0, all of it is alpha.  The same holds for a partition with its own
    costs.  The search ends at the longest deadline.
    """
    platform = taskset.platform

    def costs(epsilon: int, part: Partition | None) -> tuple[int, int]:
        alpha, theta = platform.costs(part)
        theta = epsilon * theta // (alpha + theta) if theta else 0
        return epsilon - theta, theta

    def passes(epsilon: int) -> bool:
        def own(part: Partition) -> Partition:
            alpha, theta = costs(epsilon, part)
            return replace(part, alpha=alpha, theta=part.theta and theta) if part.own_costs else part

        alpha, theta = costs(epsilon, None)
        return proved(test, replace(taskset.with_partitions(own), platform=replace(platform, alpha=alpha, theta=theta)))

    return _search(passes, _longest(taskset), tick)


def _longest(taskset: Taskset) -> int:
    return max((t.deadline for t in taskset.real_time), default=0)


def largest(scaled: Callable[[Fraction], Taskset], test: Test, tick: Tick = unwatched) -> Fraction | None:
    """The largest factor at which the test passes; None: it fails at each above 0; UNLIMITED: it passes at any.

    If the test passes at 1, smaller factors are not tried: a last CPU segment of 0 ns can make a bound larger.
    """

    def passes(steps: int) -> bool:
        return proved(test, scaled(Fraction(steps, FACTOR_STEPS)))

    found = _search(passes, int(UNLIMITED * FACTOR_STEPS), tick, FACTOR_STEPS)
    return Fraction(found, FACTOR_STEPS) if found else None  # factor 0 removes the work, which makes it another file


def steps(limit: int) -> int:
    """The most values up to ``limit`` that a search tries."""
    return 2 * limit.bit_length() + 2


def _search(passes: Callable[[int], bool], limit: int, tick: Tick, now: int = 0) -> int | None:
    """A value up to ``limit`` that passes while the next one fails; the limit if that passes, None if 0 fails.

    The result is at least ``now`` if ``now`` passes.
    """
    left = steps(limit)

    def tried(value: int) -> bool:
        nonlocal left
        answer = passes(value)
        left -= 1
        tick(1)
        return answer

    found = galloped(tried, now, limit)
    if found is None and now:
        found = bisected(tried, 0, now)
    tick(left)
    return found


def galloped(passes: Callable[[int], bool], low: int, high: int) -> int | None:
    """As `bisected`, with steps that double from ``low`` on: the limit of a system is seldom far from it."""
    if not passes(low):
        return None
    step = max(low, 1)
    while low < high:
        middle = min(low + step, high)
        if not passes(middle):
            return _between(passes, low, middle)
        low, step = middle, 2 * step
    return high


def bisected(passes: Callable[[int], bool], low: int, high: int) -> int | None:
    """A value that passes while the next one fails; ``high`` if that passes, None if ``low`` fails."""
    if not passes(low):
        return None
    return high if passes(high) else _between(passes, low, high)


def _between(passes: Callable[[int], bool], low: int, high: int) -> int:
    """A value that passes while the next one fails, where ``low`` passes and ``high`` fails."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def with_epsilon(taskset: Taskset, factor: Fraction) -> Taskset:
    """The taskset with alpha and theta scaled, also in its partitions."""

    def costs(part: Partition) -> Partition:
        alpha = None if part.alpha is None else _scaled(part.alpha, factor)
        return replace(part, alpha=alpha, theta=None if part.theta is None else _scaled(part.theta, factor))

    return replace(taskset.with_partitions(costs), platform=_platform(taskset.platform, factor))


def slowed(taskset: Taskset, factor: Fraction) -> Taskset:
    """The taskset on a machine where all execution, updates and switches take ``factor`` times as long."""
    names, platform = {task.name for task in taskset}, taskset.platform
    yields = platform.yields and replace(platform.yields, decision=_scaled(platform.yields.decision, factor))
    platform = replace(
        platform, region=_scaled(platform.region, factor), cpu_latency=_scaled(platform.cpu_latency, factor),
        bus_chunk=_scaled(platform.bus_chunk, factor), yields=yields,
    )  # fmt: skip
    tasks = tuple(_task(t, factor, cpu=True, gpu=True) for t in taskset)
    grown = replace(taskset, platform=platform, tasks=tasks, resources=_sections(taskset, factor, names))
    return with_epsilon(grown, factor)


def _sections(taskset: Taskset, factor: Fraction, names: Collection[str]) -> tuple[Resource, ...]:
    """The resources with the critical sections of these tasks scaled, as their CPU segments are."""

    def scaled(one: Section) -> Section:
        return replace(one, time=_scaled(one.time, factor)) if one.task in names else one

    return tuple(replace(one, sections=tuple(map(scaled, one.sections))) for one in taskset.resources)


def _platform(platform: Platform, factor: Fraction) -> Platform:
    return replace(platform, alpha=_scaled(platform.alpha, factor), theta=_scaled(platform.theta, factor))


def _task(task: Task, factor: Fraction, *, cpu: bool, gpu: bool) -> Task:
    return replace(task, segments=tuple(_segments(task.segments, factor, cpu, gpu)))


def _segments(segments: Sequence[Segment], factor: Fraction, cpu: bool, gpu: bool) -> list[Segment]:
    changed: list[Segment] = []
    for s in segments:
        if isinstance(s, CpuSegment):
            changed.append(replace(s, time=_span(s.time, factor)) if cpu else s)
        else:
            parts = tuple(_part(part, factor) for part in s.parts)
            grown = GpuSegment(_span(s.misc, factor), _span(s.pure, factor), parts=parts, ready=s.ready)
            changed.append(grown if gpu else s)
    return changed


def _part(part: Copy | Kernel, factor: Fraction) -> Copy | Kernel:
    if isinstance(part, Copy):
        return Copy(_span(part.time, factor))
    return replace(
        part, work=_span(part.work, factor), overhead=_scaled(part.overhead, factor),
        block=_scaled(part.block, factor), times=tuple(_span(time, factor) for time in part.times),
    )  # fmt: skip


def _span(span: Span, factor: Fraction) -> Span:
    """The span with its worst case scaled.  The best case may shrink; it never grows: nothing guarantees that."""
    worst = _scaled(span.worst, factor)
    return Span(worst, min(span.best, int(span.best * factor), worst))


def _scaled(time: int, factor: Fraction) -> int:
    """The time scaled and rounded up, to be on the safe side."""
    return -(-time * factor.numerator // factor.denominator)
