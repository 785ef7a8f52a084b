"""The compiled analyses agree with the readable ones; scripts/agree compares them on 10^5 tasksets."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import builders
import numpy as np
import pytest
from agreement import COMPILED, disagreement, random_taskset
from effort import tries
from hypothesis import given, settings

from analysis import rta
from analysis.answers import compiled
from analysis.model import MS, Copy, GpuSegment, Platform, Span, Task, Taskset
from analysis.papers import registry
from analysis.papers.experiments import sweep
from analysis.papers.experiments.generate import PAPER, THESIS, Parameters, generate
from analysis.rta.analyse import analyse
from analysis.rta.batch import from_tasksets
from analysis.rta.recurrence import Demand
from analysis.rta.result import Bound, Failure, Reason, TermKind
from analysis.rta.system import System

HUGE = 2**61


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


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("parameters", [PAPER, replace(THESIS, load=(0.2, 0.4))], ids=["table 3", "lighter"])
def test_verdicts_of_generated_batches_equal_the_readable_ones(name: str, parameters: Parameters) -> None:
    batch = generate(parameters, 5, tries(15, 5))
    readable = [registry.find(name).run(batch.taskset(index)).schedulable for index in range(len(batch))]
    assert sweep.verdicts(batch, name).tolist() == readable


def test_both_verdicts_occur() -> None:
    """Agreement on one verdict only would prove little."""
    batch = generate(replace(THESIS, load=(0.05, 0.6)), 1, 300)
    shares = {name: sweep.verdicts(batch, name).mean() for name in COMPILED}
    assert all(0 < share < 1 for share in shares.values()), shares


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
        assert sweep.verdicts(from_tasksets([system]), name).all()


@pytest.mark.parametrize("name", [n for n, test in registry.TESTS.items() if test.compiled and n.startswith("boosted")])
@pytest.mark.parametrize("segments", [(1, 2), (1, 6)], ids=["few segments", "many"])
def test_verdicts_agree_where_bounds_are_deadlines(name: str, segments: tuple[int, int]) -> None:
    """Deadlines at the bounds are met; 1 ns below one, the readable test decides."""
    batch = generate(replace(PAPER, load=(0.1, 0.5), ratio=(0, 0.8), segments=segments), 3, 60)
    rng = random.Random(name)
    met, missed = [], []
    for index in np.flatnonzero(sweep.verdicts(batch, name)):
        system = batch.taskset(int(index))
        result = compiled.run_compiled(registry.find(name), system)
        tight = tuple(replace(task, deadline=result.wcrt(task.name) or task.deadline) for task in system)
        late = rng.randrange(len(tight))
        met.append(replace(system, tasks=tight))
        tight = (*tight[:late], replace(tight[late], deadline=tight[late].deadline - 1), *tight[late + 1 :])
        missed.append(replace(system, tasks=tight))
    assert len(met) > 20
    assert sweep.verdicts(from_tasksets(met), name).all()
    found = [registry.find(name).run(system).schedulable for system in missed]
    assert sweep.verdicts(from_tasksets(missed), name).tolist() == found
    assert found.count(False) > 3


def test_threads_change_nothing() -> None:
    batch = generate(THESIS, 2, 333)
    alone = sweep.verdicts(batch, "gcaps-suspend+gpu-priority")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: sweep.verdicts(batch, "gcaps-suspend+gpu-priority"), range(4)))
    assert all((one == alone).all() for one in found)


def test_plain_fixed_priority_against_an_oracle() -> None:
    def demands(task: Task, system: System) -> list[Demand]:
        own = Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "")
        higher = system.hpp(task)
        return [own, *(Demand(TermKind.CPU_PREEMPTION, h.cpu_time + h.gpu_time, "", h.name, h.period) for h in higher)]

    drawn = [random_taskset(random.Random(seed)) for seed in range(600)]
    tasksets = [taskset for taskset in drawn if not taskset.pending]
    found = [bool(sweep.verdicts(from_tasksets([taskset]), "fixed-priority")[0]) for taskset in tasksets]
    assert found == [analyse("oracle", demands, taskset).schedulable for taskset in tasksets]
    assert 50 < sum(found) < 550


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


def test_a_batch_refuses_what_does_not_fit() -> None:
    with pytest.raises(OverflowError):
        from_tasksets([huge(2**80)])
    with pytest.raises(ValueError, match="platforms"):
        from_tasksets([Taskset(Platform(1)), Taskset(Platform(1, alpha=1))])


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


def test_a_verdict_that_could_overflow_is_asked_of_the_readable_test() -> None:
    batch = generate(PAPER, 1, 3)
    batch.times["period"][:] *= 2**30
    batch.times["deadline"][:] *= 2**30
    batch.times["cpu_time"][0] = 2**62
    readable = [registry.find("gcaps-suspend").run(batch.taskset(index)).schedulable for index in range(3)]
    assert sweep.verdicts(batch, "gcaps-suspend").tolist() == readable


def test_more_gpu_users_than_priorities_is_an_error() -> None:
    batch = generate(replace(PAPER, tasks=120, users=(1, 1), load=(0.9, 0.9)), 1, 1)
    with pytest.raises(ValueError, match="GPU priorities"):
        sweep.verdicts(batch, "gcaps-suspend+gpu-priority")


def test_unknown_tests_and_empty_batches() -> None:
    with pytest.raises(ValueError, match="no compiled formula"):
        sweep.verdicts(generate(PAPER, 1, 1), "lock-fifo-busy")
    assert len(sweep.verdicts(generate(PAPER, 1, 0), "gcaps-busy")) == 0
    assert compiled.run_compiled(registry.find("gcaps-busy"), Taskset(Platform(1))).verdicts == {}


def test_the_task_that_a_failure_depends_on_is_named() -> None:
    low = builders.task("low", 0, 1, 100, builders.cpu(1))
    late = builders.task("late", 0, 2, 100, builders.cpu(90), deadline=50)
    verdict = compiled.run_compiled(registry.find("gcaps-suspend"), builders.taskset(low, late)).verdicts["low"]
    assert isinstance(verdict, Failure)
    assert (verdict.reason, verdict.culprit) == (Reason.DEPENDS_ON, "late")


def test_cpu_numbers_are_bounded() -> None:
    batch = generate(PAPER, 1, 1)
    batch.numbers["cpu"][0] = np.uint32(2**32 - 1)
    with pytest.raises(ValueError, match="CPU"):
        sweep.verdicts(batch, "gcaps-suspend")


@pytest.mark.parametrize("name", [name for name in COMPILED if registry.TESTS[name].assignable])
def test_levels_are_those_of_the_readable_method(name: str) -> None:
    """And where no task takes a level, both say the same of each candidate."""
    test, seen = registry.find(name), set()
    for seed, load in enumerate([(0.1, 0.2), (0.2, 0.4), (0.4, 0.6)]):
        batch = generate(replace(PAPER, load=load, best_effort=0.2), seed, tries(12, 4))
        for taskset in map(batch.taskset, range(len(batch))):
            readable, fast = test.assign(taskset), compiled.assign_compiled(test, taskset)
            assert (fast.priorities, str(fast)) == (readable.priorities, str(readable))
            assert compiled.priorities(test, taskset) == (readable.priorities or {})
            seen.add(bool(readable.priorities))
    assert seen == {False, True}


@pytest.mark.parametrize("name", [name for name, test in registry.TESTS.items() if test.sound])
def test_what_passes_is_what_the_result_says(name: str) -> None:
    random_, test, seen = random.Random(name), registry.find(name), set()
    for _ in range(tries(40)):
        taskset = random_taskset(random_)
        if test.policy == "timesliced":
            taskset = replace(taskset, platform=replace(taskset.platform, policy=test.policy))
        passes = compiled.passes(test, taskset)
        assert passes == test.run(taskset).schedulable
        seen.add(passes)
    assert seen == {False, True}
