# SPDX-License-Identifier: GPL-2.0
"""Tasksets that bounds of own units must refuse, and what sharing the GPU in time must add for copies and blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import cpu, ms
from rtgpu_sets import copy, fixed, kernel, part, task
from units_searched import bounds as bounds_of

from analysis.answers import compiled as shared
from analysis.model import GpuSegment, Kernel, Partition, Platform, Span, Task, Taskset
from analysis.model.fold import parts_apart
from analysis.papers import registry
from analysis.papers.registry import METHODS
from analysis.rta.regions import longest_known, whole_segments, with_region
from analysis.rta.result import Failure, Reason
from analysis.rtgpu.allocate import find_allocation, run_allocation
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.method import RTGPU


def of_two(first: Partition | None, second: Partition | None) -> Taskset:
    one = task("a", 2, 20, 20, cpu(1), part(kernel(20, 1000, 0)))
    other = task("b", 1, 20, 20, cpu(2), part(kernel(20, 1000, 0)), core=1)
    return Taskset(Platform(2, compute_units=8), (replace(one, partition=first), replace(other, partition=second)))


@pytest.mark.parametrize("name", METHODS)
def test_tasks_that_share_units_have_no_bound(name: str) -> None:
    """Both kernels take 5 ms on two units alone; together they do not."""
    partition = Partition(2, name="p")
    result = registry.find(name).run(of_two(partition, partition))
    assert {failure.reason for failure in result.failures} == {Reason.GPU_ORDER}
    assert "a and b share units" in str(result.failures[0])
    masked = registry.find(name).run(of_two(Partition(2, 0b0110), Partition(2, 0b0011)))
    assert len(masked.failures) == 2


def test_tasks_with_partitions_of_their_own_have_bounds() -> None:
    for one, other in ((Partition(2, name="p"), Partition(2, name="q")), (Partition(2, 0b11), Partition(2, 0b1100))):
        assert registry.find("rtgpu").run(of_two(one, other)).schedulable


@pytest.mark.parametrize("name", METHODS)
def test_a_gpu_time_that_scales_has_no_bound_on_units_that_it_is_not_for(name: str) -> None:
    """16 ms on one unit are 4 ms on all four, which is what ``pure`` says."""
    segment = GpuSegment(Span.exactly(ms(1)), Span.exactly(ms(4)), scaling=Kernel.falling(((1, ms(16)), (4, ms(4)))))
    taskset = Taskset(Platform(1, compute_units=4), (task("a", 1, 20, 20, cpu(1), segment),))
    result = registry.find(name).run(taskset)
    assert isinstance(result.verdicts["a"], Failure)
    assert "by parallel, serial or units" in str(result.verdicts["a"])


@pytest.mark.parametrize("block", [0, ms(20)])
def test_of_numbers_of_units_with_equal_times_the_shortest_best_case_counts(block: int) -> None:
    """More units shorten nothing of this kernel's worst case, and it may yet be over sooner on all of them."""
    one = Kernel(Span(ms(20), ms(20)), 0 if block else ms(20), 1000, block)
    assert one.on(1).worst == one.on(4).worst == ms(20)
    assert one.best_of(4).best == ms(20) // 8
    assert [time.best for time in one.up_to(4)] == [ms(20) // (2 * units) for units in (1, 2, 3, 4)]
    assert one.monotone(4)


def test_a_gpu_segment_without_gpu_work_needs_no_units() -> None:
    empty = GpuSegment(Span.exactly(ms(1)), Span.exactly(0))
    taskset = Taskset(Platform(1, compute_units=4), (
        task("a", 3, 90, 90, cpu(1), part(fixed(30))), task("b", 2, 90, 90, cpu(1), empty, cpu(1)),
        task("c", 1, 90, 90, cpu(2)),
    ))  # fmt: skip
    for method in METHODS.values():
        system = System(method, taskset)
        result = on_units(system, {"a": 1})
        expected = tuple(result.wcrt(one.name) for one in taskset)
        assert bounds_of(system, (1, 0, 0)) == expected
        assert find_allocation(system, Units(4)) == (1, 0, 0)
    assert on_units(System(RTGPU, taskset), {"a": 1}).wcrt("b") == ms(4)


def copying(work: int, length: float) -> tuple[Task, Task]:
    return (
        task("a", 2, 60, 60, cpu(1), part(fixed(work))),
        task("b", 1, 100, 100, cpu(2), part(copy(length), Kernel(Span.exactly(ms(4)), 0, 1500, ms(2))), core=1),
    )


SHARED = [test for test in registry.TESTS.values() if test.analysis is None]


@pytest.mark.parametrize("name", [test.name for test in SHARED])
def test_tests_of_a_shared_gpu_wait_for_the_longest_copy(name: str) -> None:
    """A copy cannot be preempted: each test says what it says of a GPU whose switches take as much longer."""
    test, platform = registry.find(name), Platform(2, compute_units=4)
    for length, longest in ((7, ms(7)), (1, ms(3))):  # a block of 2 ms takes 3 where two interleave
        taskset = Taskset(platform, copying(4, length))
        plain = Taskset(platform, tuple(
            replace(t, segments=tuple(replace(s, parts=()) if isinstance(s, GpuSegment) else s for s in t.segments))
            for t in (parts_apart(taskset) if test.policy == "timesliced" and test.sound else taskset)
        ))  # fmt: skip
        assert longest_known(taskset) == longest
        expected = test.run(with_region(plain, longest))
        for found in (test.run(taskset), shared.run_compiled(test, taskset)):
            assert [found.wcrt(t.name) for t in taskset] == [expected.wcrt(t.name) for t in taskset]
        assert whole_segments(whole_segments(taskset)) == whole_segments(taskset)
        if test.compiled:
            assert shared.passes(test, taskset) == expected.schedulable


def test_a_copy_delays_the_kernel_of_a_more_urgent_task() -> None:
    """Found on a file whose answer was the same for every length of b's copy."""
    test = registry.find("gcaps-suspend")
    found = [test.run(Taskset(Platform(2, compute_units=4), copying(4, length))).wcrt("a") for length in (3, 7)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] >= ms(1 + 4 + 3)
    assert found[1] >= found[0] + ms(4)


@pytest.mark.parametrize("name", METHODS)
def test_on_no_units_tasks_of_equal_priority_have_no_allocation(name: str) -> None:
    """The first task needs no units and the second has a kernel: 1 is enough."""
    first, second = task("a", 1, 20, 20, cpu(1)), task("b", 1, 20, 20, cpu(2), part(kernel(4, 1000, 0)), core=1)
    taskset = Taskset(Platform(2, compute_units=8), (first, second))
    method = METHODS[name]
    assert run_allocation(System(method, taskset, 0), Units(1)).schedulable
    assert not run_allocation(System(method, taskset, 0), Units(0)).schedulable
