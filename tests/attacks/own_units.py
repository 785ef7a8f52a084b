# SPDX-License-Identifier: GPL-2.0
"""The attack on the bounds of tasks that own units: random small tasksets, random and searched schedules.

Times are small whole numbers, so that many bounds exist and events often meet at one instant.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attack_outcome import Effort, Longest, Outcome
from attack_search import USUAL as USUAL_EFFORT
from attack_search import gathered
from units_searched import bounds, worst

from analysis.model import Copy, CpuSegment, GpuSegment, Kernel, Partition, Platform, Segment, Span, Task, Taskset
from analysis.rta import Test
from analysis.rtgpu.analyse import System
from analysis.rtgpu.method import Method
from analysis.rtgpu.simulate import Simulated, Way
from analysis.rtgpu.verdict import UnitsTest

#: Tasksets that one process takes at a time.  A seed's tasksets depend on this number.
SYSTEMS_A_BATCH = 500
#: How many CPUs a taskset may have.
MAX_CPUS_DRAWN = 3
#: How tasks are simulated, except for what is random.
USUAL = Way()


def _placed(taskset: Taskset, given: Sequence[int]) -> Taskset:
    """The taskset with each task's units."""
    own = dict(zip((task.name for task in taskset.real_time), given, strict=True))
    tasks = (replace(t, partition=Partition(own[t.name])) if own.get(t.name) else t for t in taskset)
    units = max(sum(given), taskset.platform.compute_units)
    return Taskset(replace(taskset.platform, compute_units=units), tuple(tasks))


def _span(rng: random.Random, most: int) -> Span:
    worst_case = rng.randint(0, most) * rng.choice([1, 1, 1, 0])
    return Span(worst_case, int(worst_case * rng.choice([0, 0.5, 1, 1, rng.random()])))


def _parts(rng: random.Random, most: int, table: bool) -> GpuSegment:
    """A kernel with none, one or two copies around it, or in another order."""
    copies = rng.choice([1, 2, 2, 0])
    parts: list[Copy | Kernel] = [Copy(_span(rng, most)) for _ in range(copies)]
    work = _span(rng, 4 * most)
    if table and rng.random() < 0.5:
        one = Kernel(work, times=tuple(_span(rng, 2 * most) for _ in range(rng.randint(1, 5))))
    else:
        one = Kernel(work, rng.randint(0, work.worst), rng.choice([1000, 1450, 1700, 1800]))
    parts.insert(rng.randint(0, copies) if rng.random() < 0.3 else min(copies, 1), one)
    return GpuSegment(Span.exactly(0), Span.exactly(0), parts=tuple(parts))


def _task(rng: random.Random, index: int, priority: int, cpus: int, table: bool) -> Task:
    segments: list[Segment] = []
    for _ in range(rng.randint(1, 3)):
        segments.append(CpuSegment(_span(rng, 6)))
        if rng.random() < 0.7:
            segments.append(_parts(rng, 4, table))
    if rng.random() < 0.7:
        segments.append(CpuSegment(_span(rng, 6)))
    if rng.random() < 0.2:
        segments.reverse()
    period = rng.randint(20, 200)
    deadline = period if rng.random() < 0.5 else rng.randint(period // 2, period)
    return Task(f"t{index}", rng.randrange(cpus), priority, period, deadline, tuple(segments))


def random_units(
    rng: random.Random, most_tasks: int = 4, cpus: int = 1, table: bool = False, ties: bool = False
) -> Taskset:  # fmt: skip
    """A few tasks on up to that number of CPUs.  ``table``: with measured times; ``ties``: with equal priorities."""
    count = rng.randint(1, most_tasks)
    tasks = tuple(
        _task(rng, index, rng.randint(1, count) if ties else count - index, cpus, table) for index in range(count)
    )
    return Taskset(Platform(cpus, compute_units=8), tasks)


def with_best_effort(rng: random.Random, taskset: Taskset) -> Taskset:
    """The taskset with a best-effort task that copies, but has no kernel."""
    task = replace(_task(rng, len(taskset), 0, taskset.platform.cpus, False), gpu_priority=None)
    segments = tuple(
        replace(s, parts=tuple(p for p in s.parts if isinstance(p, Copy))) if isinstance(s, GpuSegment) else s
        for s in task.segments
    )
    kept = tuple(s for s in segments if isinstance(s, CpuSegment) or s.parts)
    return Taskset(taskset.platform, (*taskset, replace(task, segments=kept)))


def attack_units(
    rng: random.Random, method: Method, runs: int, cpus: int = MAX_CPUS_DRAWN, way: Way = USUAL
) -> Outcome:  # fmt: skip
    """Attacks the bounds of one random taskset, on up to ``cpus`` CPUs, on random units."""
    taskset = random_units(rng, 4, rng.randint(1, cpus), table=rng.random() < 0.2)
    if rng.random() < 0.15:
        taskset = with_best_effort(rng, taskset)
    system = System(method, taskset, chunk=rng.choice([0, 0, 0, 1, 2]))
    given = tuple(rng.randint(1, 3) if user else 0 for user in system.users)
    found = bounds(system, given)
    if len(found) < len(system.tasks):
        return Outcome(method.name, 1)
    seen = worst(Simulated(system, given), runs, replace(way, seed=rng.getrandbits(60)))
    placed = _placed(taskset, given)
    rows = zip(system.tasks, found, seen.longest, seen.ways, seen.offsets, strict=False)
    longest = [Longest(placed, task.name, bound, got, run, at) for task, bound, got, run, at in rows]
    delayed = [one for one in longest[1:] if one.bound]
    broken = [one for one in longest if one.observed > one.bound]
    highest = max(delayed, key=lambda one: one.ratio, default=None)
    return Outcome(method.name, 1, 1, seen.jobs, bool(broken), highest, broken[0] if broken else None)


def attack_own(test: Test, tasksets: int, seed: int = 0, jobs: int = 1, effort: Effort = USUAL_EFFORT) -> Outcome:
    """Attacks a test of tasks that own units; as `attack_search.attack`."""
    assert isinstance(test.analysis, UnitsTest)
    one = partial(attack_units, method=test.analysis.method, runs=effort.runs + effort.steps)
    return gathered(test.name, f"{seed} {test.name} {MAX_CPUS_DRAWN}", SYSTEMS_A_BATCH, one, tasksets, jobs)
