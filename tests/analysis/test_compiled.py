"""The compiled analyses agree with the readable ones; scripts/agree compares them on 10^5 tasksets."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import islice

import builders
import pytest
from agreement import COMPILED, disagreement, random_taskset
from effort import tries
from hypothesis import given, settings

from analysis import rta
from analysis.answers import compiled
from analysis.model import MS, Copy, GpuSegment, Platform, Span, Task, Taskset
from analysis.papers import registry
from analysis.papers.experiments.generate import PAPER, THESIS, Parameters, generate
from analysis.rta.columns import columns_of
from analysis.rta.result import Bound, Failure, Reason

HUGE = 2**61
#: Random tasksets, which several tests look at.
drawn = cache(generate)


@pytest.mark.parametrize("name", COMPILED)
def test_bounds_and_failures_equal_the_readable_ones(name: str) -> None:
    rng = random.Random(name)
    for _ in range(tries(150)):
        assert disagreement(name, random_taskset(rng)) is None


@given(builders.tasksets())
@settings(max_examples=tries(60), deadline=None)
def test_small_tasksets_of_hypothesis_too(taskset: Taskset) -> None:
    for name in COMPILED:
        assert disagreement(name, taskset) is None


@pytest.mark.parametrize("name", [name for name in COMPILED if name.endswith(rta.SUFFIX)])
def test_equals_are_given_gpu_priorities_in_the_same_order(name: str) -> None:
    """Two tasks of a CPU have the same priority: then the first candidate that passes can be the wrong one."""
    system = builders.taskset(
        builders.task("top", 2, 3, 20, builders.cpu(3)),
        builders.task("a", 0, 2, 15, builders.cpu(0.3), builders.gpu(0.01, 0.09)),
        builders.task("b", 0, 2, 60, builders.cpu(0.99), builders.gpu(0, 0.99)),
        builders.task("c", 1, 2, 100, builders.cpu(7.67), builders.gpu(0, 0), builders.gpu(3.84, 0)),
        builders.task("d", 2, 1, 30, builders.gpu(0, 0), builders.cpu(0.37)),
        builders.task("rider", 0, 1, 30, deadline=15),
        epsilon=0.3, theta=0.06,
    )  # fmt: skip
    assert disagreement(name, system) is None


def at_the_bounds(test: rta.Test, system: Taskset, rng: random.Random) -> tuple[Taskset, Taskset]:
    """A taskset with its compiled bounds as deadlines, and with one of them 1 ns below."""
    result = compiled.run_compiled(test, system)
    tight = [replace(task, deadline=result.wcrt(task.name) or task.deadline) for task in system]
    late = rng.randrange(len(tight))
    lower = replace(tight[late], deadline=tight[late].deadline - 1)
    return replace(system, tasks=tuple(tight)), replace(system, tasks=(*tight[:late], lower, *tight[late + 1 :]))


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("parameters", [PAPER, replace(THESIS, load=(0.2, 0.4))], ids=["table 3", "lighter"])
def test_verdicts_of_generated_tasksets_equal_the_readable_ones(name: str, parameters: Parameters) -> None:
    """Few verdicts change if a time is 3 % wrong; those of tasksets with their bounds as deadlines do."""
    test, rng = registry.find(name), random.Random(name)
    light = drawn(replace(parameters, load=(0.05, 0.3)), 5, 60)
    passed = list(islice((one for one in light if compiled.passes(test, one)), tries(8, 2)))
    assert passed
    tight = [one for system in passed for one in at_the_bounds(test, system, rng)]
    for taskset in [*drawn(parameters, 5, tries(15, 5)), *tight]:
        assert compiled.passes(test, taskset) == test.run(taskset).schedulable


def test_both_verdicts_occur() -> None:
    """Agreement on one verdict only would prove little."""
    tasksets = generate(replace(THESIS, load=(0.05, 0.6)), 1, 30)
    for name in COMPILED:
        assert {compiled.passes(registry.find(name), taskset) for taskset in tasksets} == {False, True}, name


def test_owners_elsewhere_take_of_a_long_last_cpu_segment_what_windows_let_them() -> None:
    """Most of d's job follows its short segment: a takes of that only what it takes inside the segment."""
    system = builders.taskset(
        builders.task("a", 0, 12, 84, builders.cpu(27), builders.gpu(2, 8)),
        builders.task("b", 1, 10, 173, builders.cpu(13)),
        builders.task("c", 1, 6, 355, builders.cpu(24), builders.gpu(1, 3), builders.cpu(43)),
        builders.task("d", 1, 5, 400, builders.cpu(5), builders.gpu(0.2, 1), builders.cpu(161), deadline=290),
        epsilon=1, theta=0.2,
    )  # fmt: skip
    for name in ("boosted-suspend", "boosted-mixed"):
        assert registry.find(name).run(system).schedulable
        assert compiled.passes(registry.find(name), system)


@pytest.mark.parametrize("name", [n for n, test in registry.TESTS.items() if test.compiled and n.startswith("boosted")])
@pytest.mark.parametrize("segments", [(1, 2), (1, 6)], ids=["few segments", "many"])
def test_verdicts_agree_where_bounds_are_deadlines(name: str, segments: tuple[int, int]) -> None:
    """Deadlines at the bounds are met; 1 ns below one, the readable test decides."""
    test, rng = registry.find(name), random.Random(name)
    met: list[Taskset] = []
    missed: list[Taskset] = []
    count = tries(60, 24)
    for system in drawn(replace(PAPER, load=(0.1, 0.5), ratio=(0, 0.8), segments=segments), 3, count):
        passes = compiled.passes(test, system)
        assert passes == compiled.run_compiled(test, system).schedulable
        if passes:
            for tasksets, one in zip((met, missed), at_the_bounds(test, system, rng), strict=True):
                tasksets.append(one)
    assert len(met) > count // 3
    assert all(compiled.passes(test, system) for system in met)
    found = [test.run(system).schedulable for system in missed]
    assert [compiled.passes(test, system) for system in missed] == found
    assert found.count(False) > count // 20


def test_every_bound_explains_itself() -> None:
    rng = random.Random(3)
    bounds = 0
    for _ in range(60):
        for name in ("gcaps-busy", "mpcp-suspend", "tsg-rr-suspend"):
            for verdict in compiled.run_compiled(registry.find(name), random_taskset(rng)).verdicts.values():
                if isinstance(verdict, Bound):
                    bounds += 1
                    assert sum(term.amount for term in verdict.terms) == verdict.wcrt
    assert bounds > 100


def huge(scale: int) -> Taskset:
    """A taskset on one CPU with sums of times beyond 63 bits, which the readable analyses have no trouble with."""
    one, two = builders.cpu(1), builders.cpu(2)
    tasks = [builders.task("a", 0, 2, 5, one), builders.task("b", 0, 1, 20, two, builders.gpu(1, 1))]
    return Taskset(Platform(1), tuple(replace(t, period=t.period * scale, deadline=t.deadline * scale) for t in tasks))


@pytest.mark.parametrize("scale", [1, HUGE // (5 * MS), 2**80])
def test_times_beyond_63_bits_are_left_to_the_readable_tests(scale: int) -> None:
    for name in COMPILED:
        test = registry.find(name)
        assert {k: type(v) for k, v in compiled.run_compiled(test, huge(scale)).verdicts.items()} == {
            k: type(v) for k, v in test.run(huge(scale)).verdicts.items()
        }


def test_times_that_do_not_fit_have_no_columns() -> None:
    with pytest.raises(OverflowError):
        columns_of(huge(2**80))


def test_a_cost_beyond_64_bits_is_left_to_the_readable_tests() -> None:
    """An update of 2^62 ns and a copy of 2^62 ns that no preemption interrupts."""
    copy = GpuSegment(Span.exactly(0), Span.exactly(2**62), parts=(Copy(Span.exactly(2**62)),))
    task = Task("a", 0, 1, 2**62, 2**62, (copy,))
    taskset = Taskset(Platform(1, alpha=0, theta=2**62), (task,))
    for name in COMPILED:
        test = registry.find(name)
        assert compiled.run_compiled(test, taskset).wcrt("a") == test.run(taskset).wcrt("a")


def updates_of_2_64() -> Taskset:
    """Sixteen updates of 2^60 ns, whose sum is 0 in 64 bits."""
    segment = GpuSegment(Span.exactly(0), Span.exactly(8))
    return Taskset(Platform(1, alpha=0, theta=2**60), (Task("a", 0, 1, 2**50, 2**50, (segment,) * 5),))


def rounds_of_2_64() -> Taskset:
    """For each of two tasks 2^32 rounds of 2^32 ns, whose sum is 0 in 64 bits."""
    segment = GpuSegment(Span.exactly(0), Span.exactly(2**33))
    tasks = (Task("a", 0, 2, 2**50, 2**50, (segment,)), Task("b", 1, 1, 2**50, 2**50, (segment,)))
    return Taskset(Platform(2, alpha=0, theta=2**31 - 1, time_slice=2), tasks)


@pytest.mark.parametrize("taskset", [updates_of_2_64(), rounds_of_2_64()], ids=["updates", "rounds"])
def test_charges_that_64_bits_lose_are_left_to_the_readable_tests(taskset: Taskset) -> None:
    for name in COMPILED:
        test = registry.find(name)
        readable, found = test.run(taskset), compiled.run_compiled(test, taskset)
        assert [found.wcrt(task.name) for task in taskset] == [readable.wcrt(task.name) for task in taskset], name
        assert compiled.passes(test, taskset) == readable.schedulable, name


def test_more_gpu_users_than_priorities_have_none() -> None:
    (taskset,) = generate(replace(PAPER, tasks=120, users=(1, 1), load=(0.9, 0.9)), 1, 1)
    test = registry.find("gcaps-suspend+gpu-priority")
    assert compiled.passes(test, taskset) is test.run(taskset).schedulable is False
    with pytest.raises(ValueError, match="only 99 priorities"):
        test.assign(taskset)


def test_empty_tasksets_pass() -> None:
    assert compiled.run_compiled(registry.find("gcaps-busy"), Taskset(Platform(1))).verdicts == {}
    assert compiled.passes(registry.find("gcaps-busy"), Taskset(Platform(1)))


def test_the_task_that_a_failure_depends_on_is_named() -> None:
    low = builders.task("low", 0, 1, 100, builders.cpu(1))
    late = builders.task("late", 0, 2, 100, builders.cpu(90), deadline=50)
    verdict = compiled.run_compiled(registry.find("gcaps-suspend"), builders.taskset(low, late)).verdicts["low"]
    assert isinstance(verdict, Failure)
    assert (verdict.reason, verdict.culprit) == (Reason.DEPENDS_ON, "late")


def test_cpu_numbers_are_bounded() -> None:
    system = Taskset(Platform(2**32), (replace(builders.task("a", 0, 1, 5, builders.cpu(1)), cpu=2**32 - 1),))
    with pytest.raises(ValueError, match="CPU"):
        compiled.passes(registry.find("gcaps-suspend"), system)


@pytest.mark.parametrize("name", [name for name, test in registry.TESTS.items() if test.sound])
def test_what_passes_is_what_the_result_says(name: str) -> None:
    random_, test, seen = random.Random(name), registry.find(name), set()
    for _ in range(40):
        taskset = random_taskset(random_)
        if test.policy == "timesliced":
            taskset = replace(taskset, platform=replace(taskset.platform, policy=test.policy))
        passes = compiled.passes(test, taskset)
        assert passes == test.run(taskset).schedulable
        seen.add(passes)
    assert seen == {False, True}
