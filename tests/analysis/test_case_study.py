# SPDX-License-Identifier: GPL-2.0
"""The published case study (ECRTS'24, table 4) in virtual time: no observation exceeds its bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import ms

from analysis import rta
from analysis.model import CpuSegment, GpuSegment, Segment, Span, Task, Taskset
from analysis.simulate import Options, worst_over_offsets
from analysis.taskset import TasksetFile, load

FILE = Path(__file__).resolve().parents[2] / "examples" / "case-study.toml"
OFFSETS = 1000
BOUNDED = ["gcaps-suspend", "gcaps-busy", "tsg-rr-suspend", "tsg-rr-busy"]


@pytest.fixture(scope="module")
def case_study() -> TasksetFile:
    return load(FILE)


@pytest.mark.parametrize("execution", ["worst", "random"])
@pytest.mark.parametrize("name", BOUNDED)
def test_no_observation_exceeds_its_bound(case_study: TasksetFile, name: str, execution: str) -> None:
    taskset, test = case_study.taskset, rta.find(name)
    verdicts = test.run(taskset)
    seed = BOUNDED.index(name)
    options = Options(test.policy, test.waiting, execution, seed=seed)
    seen = worst_over_offsets(taskset, options, OFFSETS).tasks
    bounds = {task.name: verdicts.wcrt(task.name) for task in taskset.real_time}
    above = {
        task: (seen[task].worst, bound) for task, bound in bounds.items() if bound and seen[task].worst > bound
    }
    assert not above
    # The comparison was not empty: jobs of every task ran, and there was a bound to exceed.
    assert all(seen[task.name].jobs >= OFFSETS for task in taskset)
    assert any(bounds.values())


@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy"])
def test_case_study_is_schedulable_with_gcaps(case_study: TasksetFile, name: str) -> None:
    """Section 7.2: under GCAPS every real-time task of the case study meets its deadline."""
    result = rta.find(name).run(case_study.taskset)
    assert result.schedulable, [str(failure) for failure in result.failures]
    test = rta.find(name)
    seen = worst_over_offsets(case_study.taskset, Options(test.policy, test.waiting), 100).tasks
    assert [task.name for task in case_study.taskset.real_time if seen[task.name].misses] == []


def test_a_wrong_bound_would_be_noticed(case_study: TasksetFile) -> None:
    """The same comparison must find a bound exceeded that charges no interference."""
    taskset = case_study.taskset
    seen = worst_over_offsets(taskset, Options("segment", rta.find("gcaps-suspend").waiting), OFFSETS).tasks
    alone = {task.name: task.cpu_time + task.gpu_time for task in taskset.real_time}
    assert all(seen[name].worst > time for name, time in alone.items() if name != "mmul_cpu")


def divided(taskset: Taskset, misc: dict[str, float]) -> Taskset:
    """G as the paper's G^e, and a G^m in addition, ms: 0 for the tasks that are not named."""

    def segment(name: str, one: Segment) -> Segment:
        if not isinstance(one, GpuSegment):
            return one
        both = one.misc.worst + one.pure.worst
        own = ms(misc.get(name, 0))
        return replace(one, misc=Span(own, own), pure=Span(both, both))

    tasks = [replace(task, segments=tuple(segment(task.name, one) for one in task.segments)) for task in taskset]
    return replace(taskset, tasks=tuple(tasks))


@pytest.mark.parametrize(("misc", "bounds"), [
    ({}, (15, 30, 72, 58, 78)),
    ({"histogram": 1, "mmul_gpu_1": 2}, (16, 32, 74, 59, 79)),
    ({"histogram": 1, "mmul_gpu_1": 3}, (16, 33, 75, 59, 79)),
])  # fmt: skip
def test_table_5_needs_a_misc_part_beside_g(
    case_study: TasksetFile, misc: dict[str, float], bounds: tuple[int, ...]
) -> None:
    """Table 5, suspension, 16, 32, 75, 59, 79: G^m of 1 and 2 ms beside G restores four, 3 ms the fifth."""
    result = rta.find("gcaps-suspend-printed").run(divided(case_study.taskset, misc))
    assert [result.wcrt(task.name) for task in case_study.taskset.real_time] == [ms(bound) for bound in bounds]


def measured(taskset: Taskset, times: dict[str, tuple[float, float, float]]) -> Taskset:
    """Other times of the tasks that are named: C, G^m and G^e, ms, as measured before a table rounds them."""

    def segment(task: Task, one: Segment) -> Segment:
        cpu, misc, pure = (ms(time) for time in times[task.name])
        if isinstance(one, GpuSegment):
            return replace(one, misc=Span(misc, misc), pure=Span(pure, pure))
        pieces = sum(isinstance(other, CpuSegment) for other in task.segments)
        return replace(one, time=Span(cpu // pieces, cpu // pieces))

    tasks = [
        replace(task, segments=tuple(segment(task, one) for one in task.segments)) if task.name in times else task
        for task in taskset
    ]
    return replace(taskset, tasks=tuple(tasks))


def nearest(time: int) -> int:
    """Whole ms, to the nearest."""
    return (time + ms(0.5)) // ms(1)


def up(time: int) -> int:
    """Whole ms, rounded up."""
    return -(-time // ms(1))


TABLE_5 = (16, 32, 75, 59, 79)


@pytest.mark.parametrize(("beside", "rounded", "times"), [
    (True, nearest, {"histogram": (1, 1, 10), "mmul_gpu_1": (2, 2.4, 12), "mmul_cpu": (67.4, 0, 0),
                     "projection": (12, 0, 15), "dxtc": (2, 0, 16)}),
    (False, up, {"histogram": (1.2, 0.1, 10.3), "mmul_gpu_1": (2.4, 1.4, 11), "mmul_cpu": (67.4, 0, 0),
                 "projection": (12.2, 0.5, 14.8), "dxtc": (2.2, 0.5, 15.6)}),
])  # fmt: skip
def test_table_5_is_restored_where_table_4_is_rounded(
    case_study: TasksetFile,
    beside: bool,
    rounded: Callable[[int], int],
    times: dict[str, tuple[float, float, float]],
) -> None:
    """All five bounds: G^m beside G, bounds to the nearest ms; or G^m within G, as in the model, bounds rounded up."""
    printed = {task.name: (task.cpu_time, task.gpu_time) for task in case_study.taskset.real_time}
    exact = measured(case_study.taskset, times)
    for task in exact.real_time:
        cpu, gpu = printed[task.name]
        shown = task.pure_time if beside else task.gpu_time
        assert (nearest(task.cpu_time), nearest(shown)) == (cpu // ms(1), gpu // ms(1))
    result = rta.find("gcaps-suspend-printed").run(exact)
    bounds = [result.wcrt(task.name) for task in exact.real_time]
    assert tuple(rounded(bound) for bound in bounds if bound is not None) == TABLE_5


@pytest.mark.parametrize(("name", "bounds"), [
    ("gcaps-suspend", (15, 30, 73.2, 58, 78)), ("gcaps-suspend-printed", (15, 29, 73.2, 56.8, 76.8)),
    ("gcaps-busy", (15, 30, 97, 59, 80)), ("gcaps-busy-printed", (15, 29, 82.2, 56.8, 76.8)),
])  # fmt: skip
def test_bounds_of_the_example_file(case_study: TasksetFile, name: str, bounds: tuple[float, ...]) -> None:
    """The bounds that docs/readings/gcaps.md compares with table 5: G^m is a tenth of G in the file."""
    result = rta.find(name).run(case_study.taskset)
    assert [result.wcrt(task.name) for task in case_study.taskset.real_time] == [ms(bound) for bound in bounds]
