# SPDX-License-Identifier: GPL-2.0
"""Exact worst cases: every sporadic schedule of a small taskset, on the compiled core that ships.

Time is counted in the largest unit that divides every time of the taskset.  Releases come at whole units, and each
demand takes any whole number of units from best to worst (analysis/native/explore.h).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from analysis.model import Chain, CpuSegment, Segment, Span, Task, Taskset
from analysis.rta import Test
from analysis.simulation.simulate import MAX_VIRTUAL_NS, PLACES, Options, SimulationError, SimulatorCall
from gpurt._gpurt import ffi, lib

#: The longest reaction, age and age at an output of a chain, ns.
Times: TypeAlias = tuple[int, int, int]
#: By default, an exploration gives up after this many states.
MAX_EXACT_STATES = 5_000_000
#: The most tasks that an exploration can have.
TASKS = 64


class TooManyStatesError(SimulationError):
    """There are more states than an exploration may visit; ``least``: a lower bound of their number."""

    def __init__(self, least: int, most: int, seen: int = 0) -> None:
        what = f"gave up after {seen} states" if seen else f"it has at least {least} states"
        super().__init__(f"{what}, and {most} may be looked at")
        self.least = least


@dataclass(frozen=True)
class Exact:
    """The longest response of each task over all schedules, ns, and the size of the search.

    ``unit``: ns.  ``late``: a task that exceeded its limit; schedules end there, so the other numbers may be too small.
    ``steps``: ways from one state to another.  ``chains``: the longest times of each chain, ns.
    """

    worst: Mapping[str, int]
    unit: int
    states: int
    steps: int
    late: str | None
    chains: Mapping[str, Times] = field(default_factory=dict)


def least_states(taskset: Taskset, unit: int) -> int:
    """A lower bound of the number of states in every exploration of the taskset.

    The times since the last releases take every combination.  A combination counts if a task may be released in it.
    """
    periods = [t.period // unit for t in taskset if t.name not in taskset.started]
    return math.prod(p + 1 for p in periods) - math.prod(periods)


def unit_of(taskset: Taskset, poll: int = 0) -> int:
    """The largest time that divides all times of the taskset, ns."""
    costs = [cost for part in taskset.parts for cost in taskset.platform.costs(part)]
    turns = [part.slice or taskset.platform.time_slice for part in taskset.parts]
    own = [t.partition.slice for t in taskset if t.partition and t.partition.slice]
    tasks = [time for t in taskset for time in (t.period, t.deadline, t.jitter, t.max_period or 0, *_times(t))]
    sections = [section.time for one in taskset.resources for section in one.sections]
    yields = taskset.platform.yields.times.values() if taskset.platform.yields else ()
    return math.gcd(*costs, *turns, *own, *yields, *tasks, *sections, poll, taskset.platform.cpu_latency) or 1


def explore(
    taskset: Taskset,
    options: Options,
    limits: Mapping[str, int] | None = None,
    states: int = MAX_EXACT_STATES,
    chains: Mapping[str, Times] | None = None,
    *,
    periodic: bool = False,
    stop: bool = False,
    finer: int = 1,
) -> Exact:
    """Every schedule of the taskset; ``limits``: response times beyond which a schedule is not followed; None: the
    deadlines.

    ``chains``: limits for chains, by name: a reaction, an age and an age at an output; None: no limits.
    ``periodic``: after its first release a task is released each period.  ``stop``: end with the first response beyond
    its limit.  ``finer``: releases also come at multiples of a unit divided by this.  All ``options`` count except
    those of releases and demands.  Raises TooManyStatesError, before or after the search begins, and SimulationError.
    """
    if not options.rules.turns and not any(t.uses_gpu for t in taskset if t.name in taskset.forked):
        taskset = _endless(taskset)
    unit = unit_of(taskset, options.poll if options.rules.jobs else 0)
    unit = unit // finer if unit % finer == 0 else unit
    least = least_states(taskset, unit)
    if least > states or len(taskset) > TASKS:
        raise TooManyStatesError(least, states)
    horizon, poll = MAX_VIRTUAL_NS // 4, options.poll // unit
    options = replace(options, execution="random", sporadic=False, horizon=horizon, poll=poll)
    call = SimulatorCall(in_units(taskset, unit), options, None)
    count = len(taskset)
    bounds = [_limits_of(one, unit, chains) for one in taskset.chains]
    for at, few in enumerate(bounds):
        call.chains[at].limit = max(few)
    found, worst = ffi.new("struct gpurt_exploration *"), ffi.new("uint64_t[]", count + 3 * len(bounds) + 1)
    found.most_states = states
    found.flags = lib.GPURT_EXPLORE_PERIODIC * periodic | lib.GPURT_EXPLORE_STOP * stop
    limit = ffi.new("uint64_t[]", [_limit(t, unit, limits) for t in taskset] + [*chain.from_iterable(bounds)] or 1)
    status = lib.gpurt_explore(call.config, call.tasks, count, call.segments, limit, found, worst)
    if status == -lib.GPURT_SIM_ETIME:
        raise TooManyStatesError(least, states, found.states)
    if status == -lib.GPURT_SIM_EFULL:
        raise SimulationError(f"{lib.GPURT_SIM_BACKLOG} jobs of a task are pending, and no more can be explored")
    if status == -lib.GPURT_SIM_ENOMEM:
        raise MemoryError
    if status:
        raise SimulationError("the simulator refused the taskset")
    names = [*(t.name for t in taskset), *(one.name for one in taskset.chains for _ in range(3))]
    late = names[found.late - 1] if found.late else None
    seen = [worst[index] * unit for index in range(len(names))]
    measured = {
        one.name: (seen[at], seen[at + 1], seen[at + 2])
        for one, at in zip(taskset.chains, range(count, len(names), 3), strict=True)
    }
    return Exact(dict(zip(names, seen[:count], strict=False)), unit, found.states, found.steps, late, measured)


def prioritised(test: Test, taskset: Taskset) -> Taskset:
    """The taskset, with the GPU priorities that the test assigns, if it assigns any."""
    priorities = test.assign(taskset).priorities if test.assigns else None
    return taskset if priorities is None else taskset.with_gpu_priorities(priorities)


def exact_ways(test: Test, taskset: Taskset | None = None) -> Iterator[Options]:
    """The systems that a test's bounds are for; with a taskset, those that its bounds are for.

    In each system, all critical sections are at the begin of CPU segments, in their middle, or at their end.
    """
    for form in test.forms if taskset is None else test.forms_of(taskset):
        for place in PLACES if taskset is not None and taskset.resources else [*PLACES][:1]:
            yield Options(test.policy, test.waiting, poll=test.poll, form=form, sections=place)


def _limit(task: Task, unit: int, limits: Mapping[str, int] | None) -> int:
    if task.best_effort:
        return 2**64 - 1
    return (task.deadline if limits is None else limits[task.name]) // unit


def _limits_of(one: Chain, unit: int, limits: Mapping[str, Times] | None) -> list[int]:
    return [2**64 - 1] * 3 if limits is None else [time // unit for time in limits[one.name]]


def _endless(taskset: Taskset) -> Taskset:
    """The taskset without time slices, which only delay best effort if no workers use the GPU."""
    parts = taskset.with_partitions(lambda part: replace(part, slice=None))
    return replace(parts, platform=replace(parts.platform, time_slice=0))


def _times(task: Task) -> list[int]:
    spans = [
        span for s in task.segments for span in ((s.time,) if isinstance(s, CpuSegment) else (s.misc, s.pure))
    ]  # fmt: skip
    return [time for span in spans for time in (span.worst, span.best)]


def in_units(taskset: Taskset, unit: int) -> Taskset:
    """The taskset with every time divided by ``unit``."""
    if unit == 1:
        return taskset
    yields = taskset.platform.yields
    platform = replace(
        taskset.platform, alpha=taskset.platform.alpha // unit, theta=taskset.platform.theta // unit,
        time_slice=taskset.platform.time_slice // unit, cpu_latency=taskset.platform.cpu_latency // unit,
        yields=yields and replace(yields, **{key: time // unit for key, time in yields.times.items()}),
    )  # fmt: skip
    tasks = tuple(
        replace(t, period=t.period // unit, deadline=t.deadline // unit, jitter=t.jitter // unit,
                max_period=_divided(t.max_period, unit),
                segments=tuple(_segment(s, unit) for s in t.segments))
        for t in taskset
    )  # fmt: skip
    resources = tuple(
        replace(one, sections=tuple(replace(s, time=s.time // unit) for s in one.sections)) for one in taskset.resources
    )
    return replace(taskset, platform=platform, tasks=tasks, resources=resources).with_partitions(
        lambda part: replace(part, slice=_divided(part.slice, unit), alpha=_divided(part.alpha, unit),
                             theta=_divided(part.theta, unit))
    )  # fmt: skip


def _divided(time: int | None, unit: int) -> int | None:
    return time if time is None else time // unit


def _segment(segment: Segment, unit: int) -> Segment:
    def span(old: Span) -> Span:
        return Span(old.worst // unit, old.best // unit)

    if isinstance(segment, CpuSegment):
        return CpuSegment(span(segment.time))
    return replace(segment, misc=span(segment.misc), pure=span(segment.pure), parts=(), scaling=None)
