# SPDX-License-Identifier: GPL-2.0
"""GCAPS inside partitions: bounds by hand, schedules that need each charge, and systems that have no bound."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from attack_outcome import Effort
from attack_report import toml
from attack_search import attack_one
from builders import cpu, gpu, ms, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings
from random_tasksets import random_taskset, with_random_partitions

from analysis import rta
from analysis.answers.choose import choices
from analysis.answers.verdict import answer
from analysis.model import MS, GpuSegment, Partition, Span, Task, Taskset
from analysis.papers import registry
from analysis.rta import Bound, Reason, TermKind, partitioned
from analysis.rta import partition_order as order
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.regions import with_region
from analysis.rta.system import System
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load

SUSPEND, BUSY = registry.find("partitioned-suspend"), registry.find("partitioned-busy")


def home(name: str, alpha: float = 0, theta: float = 0) -> Partition:
    return Partition(4, name=name, alpha=ms(alpha), theta=ms(theta))


def on(partition: Partition, one: Task, gpu_priority: int | None = None) -> Task:
    return replace(one, partition=partition, gpu_priority=gpu_priority)


Change: TypeAlias = Callable[[Demand, Task, System], "Demand | None"]


def mutant(test: rta.Test, change: Change) -> rta.Test:
    """The test with some demands changed, or left out where that gives None."""

    def formula(one: Task, system: System) -> list[Demand | Shared]:
        changed = (change(d, one, system) for d in test.demands(one, system) if isinstance(d, Demand))
        return [demand for demand in changed if demand is not None]

    return replace(test, demands=formula)


def without(test: rta.Test, leave_out: Callable[[Demand, Task, System], bool]) -> rta.Test:
    return mutant(test, lambda d, one, system: None if leave_out(d, one, system) else d)


def source(demand: Demand, system: System) -> Task | None:
    return next((t for t in system.taskset if t.name == demand.source), None)


def is_foreign(demand: Demand, one: Task, system: System) -> bool:
    other = source(demand, system)
    return other is not None and other.uses_gpu and order.home(other) != order.home(one)


def is_remote(demand: Demand, one: Task, system: System) -> bool:
    other = source(demand, system)
    return other is not None and other.cpu != one.cpu


A, B = home("a", 0.1), home("b", 2)

# -- bounds by hand


def test_the_bound_of_a_suspending_task_by_hand() -> None:
    """i: own 1 + 1 + 5, updates 2 x 0.3, begin 0.3, in flight 0.2 (of k), h 2 + 1 + 2 x 2, o 3 + 2 x 0.3, l 1 + 2 x 2.

    Jitters add no second job to any of them but j, of which two jobs count: (x + 60 - 4) / 60.
    """
    a, b = home("a", 0.2, 0.1), home("b", 2, 0.5)
    system = taskset(
        on(b, task("h", 0, 9, 200, cpu(2), gpu(1, 3))), on(a, task("i", 0, 5, 100, cpu(1), gpu(1, 5))),
        on(b, task("j", 0, 1, 60, gpu(0, 1))), on(a, task("o", 1, 7, 200, gpu(0, 3))),
        on(b, task("l", 1, 8, 200, cpu(1), gpu(0, 2))), on(a, task("k", 0, 2, 400, gpu(0, 1))),
    )  # fmt: skip
    result = SUSPEND.run(system)
    assert result.schedulable
    verdict = result.verdicts["i"]
    assert isinstance(verdict, Bound)
    amounts = {(term.kind, term.source, term.lemma): term.amount / MS for term in verdict.terms}
    assert amounts == {
        (TermKind.OWN, None, partitioned.OWN): 7, (TermKind.UPDATES, None, partitioned.OWN): 0.6,
        (TermKind.BLOCKING, None, partitioned.BEGIN): 0.3, (TermKind.BLOCKING, None, partitioned.FIRST): 0.2,
        (TermKind.CPU_PREEMPTION, "h", partitioned.CPU): 7, (TermKind.BLOCKING, "j", partitioned.BELOW): 8,
        (TermKind.GPU_PREEMPTION, "o", partitioned.OWNER): 3.6, (TermKind.INDIRECT_DELAY, "l", partitioned.OWNER): 5,
    }  # fmt: skip
    assert verdict.wcrt == sum(term.amount for term in verdict.terms) == ms(31.7)


@given(tasksets())
@settings(max_examples=tries(60))
def test_one_partition_has_no_larger_bounds_than_the_tests_of_one_gpu(system: Taskset) -> None:
    inside = replace(system, tasks=tuple(on(Partition(4, name="all"), t) if t.uses_gpu else t for t in system))
    for name, test in (("gcaps-suspend", SUSPEND), ("gcaps-busy", BUSY)):
        before, after = registry.find(name).run(system), test.run(inside)
        for one in system.real_time:
            if (known := before.wcrt(one.name)) is not None:
                bound = after.wcrt(one.name)
                assert bound is not None
                assert bound <= known


# -- schedules that exceed the bound if a charge is left out; each is within the whole bound

Case: TypeAlias = tuple[rta.Test, rta.Test, Taskset, list[float], str, int]
CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def lower_updates(jobs: float) -> Taskset:
    """i sleeps at begin, for k's update, and at end, for that of m.  j below it starts an update of 2 each time."""
    return taskset(
        on(A, task("k", 1, 1, 100, gpu(0, 9))), on(A, task("i", 0, 9, 100, gpu(5, 0))),
        on(B, task("j", 0, 2, jobs, gpu(0, 0.001), deadline=20)), on(A, task("m", 2, 10, 100, gpu(0, 0.01))),
    )  # fmt: skip


LOWER = [0, 0.01, 0.05, 7.1]


@case
def updates_of_lower_foreign_tasks_under_busy_waiting() -> Case:
    return BUSY, without(BUSY, lambda d, *_: d.lemma == partitioned.BELOW), lower_updates(100), LOWER, "i", 0


@case
def both_updates_of_a_lower_foreign_segment() -> Case:
    half = mutant(BUSY, lambda d, *_: replace(d, amount=d.amount // 2) if d.lemma == partitioned.BELOW else d)
    return BUSY, half, lower_updates(100), LOWER, "i", 0


@case
def owners_that_tasks_above_an_owner_spin_for() -> Case:
    """The closure.  i waits for o, which is below l, which spins for p of l's partition on a third CPU."""
    system = taskset(
        on(A, task("i", 0, 1, 100, gpu(0, 1))), on(A, task("o", 1, 2, 100, gpu(1, 1))),
        on(home("b"), task("l", 1, 3, 100, gpu(0, 1))), on(home("b"), task("p", 2, 4, 100, gpu(0, 20))),
    )  # fmt: skip
    return BUSY, without(BUSY, lambda d, *_: d.source == "p"), system, [0.3, 0, 0.5, 0.4], "i", 0


@case
def waits_at_begin_of_tasks_above() -> Case:
    """h sleeps at the lock before i comes, and so its second job is in time to delay i, too."""
    slow = home("a", 1)
    system = taskset(
        on(slow, task("h", 0, 9, 10, gpu(0, 1))), task("i", 0, 5, 40, cpu(6.9)),
        on(slow, task("k", 1, 1, 100, gpu(0, 1))),
    )  # fmt: skip
    mutated = without(BUSY, lambda d, *_: d.lemma == partitioned.BEGIN and d.source is not None)
    return BUSY, mutated, system, [0.001, 0.99, 0], "i", 0


@case
def sleep_of_a_foreign_task_above() -> Case:
    """h's first job waits for q on its GPU and executes C late, its second executes it at once: jitter R - C."""
    sleeps = GpuSegment(Span.exactly(0), Span(ms(6), 0))
    b = home("b")
    system = taskset(
        on(b, task("h", 0, 9, 20, sleeps, cpu(3))), on(home("a"), task("i", 0, 5, 200, cpu(4), gpu(0, 0))),
        on(b, task("q", 1, 10, 200, gpu(0, 11))),
    )  # fmt: skip

    def asleep(d: Demand, one: Task, system: System) -> Demand:
        other = source(d, system)
        if other is None or d.lemma != partitioned.CPU or not is_foreign(d, one, system):
            return d
        return replace(d, jitter=max(d.jitter - other.pure_time, 0))

    return SUSPEND, mutant(SUSPEND, asleep), system, [0, 14, 0], "i", 60


def below_owner(pure: float, misc: float) -> Taskset:
    """i waits for o on CPU 1, where j of another partition starts an update of 2 while o sleeps."""
    return taskset(
        on(A, task("i", 0, 1, 100, gpu(0, 1))), on(A, task("o", 1, 9, 100, gpu(misc, pure))),
        on(B, task("j", 1, 2, 100, gpu(0, 0.001))), on(A, task("m", 2, 10, 100, gpu(0, 0.01))),
    )  # fmt: skip


@case
def updates_of_tasks_below_an_owner_that_sleeps_at_the_lock() -> Case:
    mutated = without(BUSY, lambda d, one, s: d.lemma == partitioned.BELOW and is_remote(d, one, s))
    return BUSY, mutated, below_owner(0, 5), [1, 0, 5.12, 5.05], "i", 0


@case
def updates_of_tasks_below_an_owner_that_sleeps_on_its_gpu() -> Case:
    mutated = without(SUSPEND, lambda d, one, s: d.lemma == partitioned.BELOW and is_remote(d, one, s))
    return SUSPEND, mutated, below_owner(5, 0), [1, 0, 5.05, 20], "i", 0


@case
def the_second_update_of_a_lower_job_released_long_before() -> Case:
    """q delays j, whose end comes in i's first sleep, and both updates of its next job in the second and third."""
    system = taskset(
        on(A, task("i", 0, 9, 200, gpu(0, 1), gpu(0, 6.85), gpu(0, 1.05))), on(B, task("j", 0, 1, 26, gpu(0, 1))),
        on(B, task("q", 1, 5, 200, gpu(0, 12))),
    )  # fmt: skip
    punctual = mutant(SUSPEND, lambda d, *_: replace(d, jitter=0) if d.lemma == partitioned.BELOW else d)
    return SUSPEND, punctual, system, [16.5, 0.01, 0], "i", 0


@case
def foreign_tasks_above_an_owner() -> Case:
    """l holds the CPU on which o has to execute G^m."""
    system = taskset(
        on(A, task("i", 0, 1, 100, gpu(0, 1))), on(A, task("o", 1, 2, 100, gpu(1, 1))),
        on(home("b"), task("l", 1, 3, 100, cpu(20), gpu(0, 1))),
    )  # fmt: skip
    mutated = without(SUSPEND, lambda d, one, s: d.lemma == partitioned.OWNER and is_foreign(d, one, s))
    return SUSPEND, mutated, system, [0.3, 0, 0.5], "i", 0


@pytest.mark.parametrize("name", CASES)
def test_each_charge_is_needed(name: str) -> None:
    test, mutated, system, offsets, of, seeds = CASES[name]()
    right, wrong = test.run(system).wcrt(of), mutated.run(system).wcrt(of)
    assert right is not None
    assert wrong is not None
    ways = [{"execution": "random", "seed": seed} for seed in range(seeds)] or [{}]
    options = [replace(Options("segment", test.waiting, horizon=ms(30)), **way) for way in ways]  # type: ignore[arg-type]
    seen = max(simulate(system, one, [ms(at) for at in offsets]).tasks[of].worst for one in options)
    assert wrong < seen <= right


# -- charges that the random attack finds missing

FOUND: dict[str, tuple[rta.Test, Change, int]] = {
    "own updates": (SUSPEND, lambda d, *_: None if (d.kind, d.lemma) == (TermKind.UPDATES, partitioned.OWN) else d, 40),
    "updates of lower foreign tasks": (SUSPEND, lambda d, *_: None if d.lemma == partitioned.BELOW else d, 40),
    "updates of higher foreign tasks": (
        SUSPEND,
        lambda d, one, s: replace(d, amount=(h := source(d, s)).cpu_time + h.misc_time)  # type: ignore[union-attr]
        if d.lemma == partitioned.CPU and is_foreign(d, one, s) else d,
        60,
    ),
    "the longest update in flight": (
        SUSPEND,
        lambda d, one, s: replace(d, amount=min(d.amount, s.taskset.platform.costs(one.partition)[0]))
        if d.lemma == partitioned.FIRST else d,
        300,
    ),
    "what foreign tasks above an owner spin": (
        BUSY,
        lambda d, one, s: replace(d, amount=d.amount - source(d, s).pure_time)  # type: ignore[union-attr]
        if d.lemma == partitioned.OWNER and is_foreign(d, one, s) else d,
        200,
    ),
    "CPU-only tasks above": (
        SUSPEND, lambda d, _, s: None if d.lemma == partitioned.CPU and not source(d, s).uses_gpu else d,  # type: ignore[union-attr]
        200,
    ),
    "work of foreign tasks above": (
        SUSPEND, lambda d, one, s: None if d.lemma == partitioned.CPU and is_foreign(d, one, s) else d, 60
    ),
    "work of tasks above in the partition": (
        SUSPEND,
        lambda d, one, s: None
        if d.lemma == partitioned.CPU and source(d, s).uses_gpu and not is_foreign(d, one, s) else d,  # type: ignore[union-attr]
        200,
    ),
    "G^e of tasks above in the partition": (
        SUSPEND, lambda d, one, s: None if d.lemma == partitioned.OWNER and not is_remote(d, one, s) else d, 200
    ),
    "owners": (
        SUSPEND,
        lambda d, one, s: None
        if d.lemma == partitioned.OWNER and is_remote(d, one, s) and not is_foreign(d, one, s) else d,
        200,
    ),
    "owners, busy": (BUSY, lambda d, *_: None if d.lemma == partitioned.OWNER else d, 200),
    "tasks above, busy": (BUSY, lambda d, *_: None if d.lemma == partitioned.CPU else d, 60),
    "own updates, busy": (
        BUSY, lambda d, *_: None if (d.kind, d.lemma) == (TermKind.UPDATES, partitioned.OWN) else d, 60
    ),
    "the update in flight, busy": (BUSY, lambda d, *_: None if d.lemma == partitioned.FIRST else d, 200),
}  # fmt: skip
#: Those that need longer searches.
LATER: dict[str, tuple[rta.Test, Change, int]] = {
    "blocking at begin": (
        SUSPEND, lambda d, *_: None if d.lemma == partitioned.BEGIN and d.source is None else d, 600
    ),
    "CPU-only tasks above an owner": (
        SUSPEND,
        lambda d, one, s: None
        if d.lemma == partitioned.OWNER and (h := source(d, s)) and h.cpu != one.cpu and not h.uses_gpu else d,
        2000,
    ),
    "CPU-only tasks above an owner, busy": (
        BUSY,
        lambda d, one, s: None
        if d.lemma == partitioned.OWNER and (h := source(d, s)) and h.cpu != one.cpu and not h.uses_gpu else d,
        2000,
    ),
}  # fmt: skip


def attacked(test: rta.Test, seed: str, tries: int) -> tuple[int, int]:
    """How many tasksets were bounded, and how many had broken bounds, up to the first of these."""
    rng, bounded = random.Random(seed), 0
    for _ in range(tries):
        outcome = attack_one(test, with_random_partitions(random_taskset(rng), rng), rng, Effort(6, 12))
        bounded += outcome.schedulable
        if outcome.violations:
            return bounded, outcome.violations
    return bounded, 0


@pytest.mark.parametrize("name", FOUND)
def test_the_attack_finds_what_is_left_out(name: str) -> None:
    test, change, tries = FOUND[name]
    assert attacked(mutant(test, change), name, tries)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", LATER)
def test_a_longer_attack_finds_what_is_left_out(name: str) -> None:
    test, change, tries = LATER[name]
    assert attacked(mutant(test, change), name, tries)[1]


# -- systems that have no bound


def why(test: rta.Test, system: Taskset) -> tuple[Reason, str]:
    result = test.run(system)
    assert result.failures
    assert len(result.failures) == len(system.real_time)
    return result.failures[0].reason, result.failures[0].culprit or ""


def circular() -> Taskset:
    """The schedule of test_partition_simulate.py that never ends."""
    return taskset(
        on(A, task("p", 0, 4, 100, gpu(0, 1))), on(B, task("o2", 0, 3, 100, gpu(0, 5)), 9),
        on(B, task("q", 1, 4, 100, gpu(0, 1))), on(A, task("o1", 1, 3, 100, gpu(0, 5)), 9),
    )  # fmt: skip


def test_tasks_that_spin_in_a_circle_have_no_bound() -> None:
    reason, text = why(BUSY, circular())
    assert reason is Reason.GPU_ORDER
    assert text.startswith("p can spin for the GPU until o2, below it on CPU 0, executes")
    assert SUSPEND.run(circular()).schedulable


def test_a_circle_is_found_by_a_search_of_all_paths() -> None:
    """Against an oracle that walks every path from a task above to one below."""
    rng, circles = random.Random(5), 0
    for _ in range(150):
        system = with_random_partitions(random_taskset(rng), rng)
        users = [replace(t, gpu_priority=rng.randint(1, 9)) for t in system.real_time if t.uses_gpu]
        system = replace(system, tasks=tuple(users))

        def leads(task: Task, to: Task, seen: frozenset[str], users: list[Task] = users) -> bool:
            follow = [
                o for o in users
                if o.name not in seen and (
                    (o.cpu == task.cpu and o.priority > task.priority)
                    or (o.cpu != task.cpu and o.partition == task.partition and o.gpu_priority >= task.gpu_priority)
                )
            ]  # fmt: skip
            return to in follow or any(leads(o, to, seen | {o.name}) for o in follow)

        wanted = any(
            low.cpu == high.cpu and low.priority < high.priority and leads(high, low, frozenset({high.name}))
            for low in users for high in users
        )  # fmt: skip
        assert (order.circle(system) is not None) is wanted
        circles += wanted
    assert 10 < circles < 140


def test_equals_that_spin_have_no_bound_also_in_different_partitions() -> None:
    system = taskset(on(A, task("a", 0, 1, 100, gpu(0, 1))), on(B, task("b", 0, 1, 100, gpu(0, 1))))
    assert why(BUSY, system)[0] is Reason.GPU_ORDER
    assert SUSPEND.run(system).schedulable


def test_the_order_of_priorities_matters_within_a_partition_only() -> None:
    high, low = task("high", 0, 2, 100, gpu(0, 1)), task("low", 0, 1, 100, gpu(0, 1))
    apart = taskset(on(A, high, 1), on(B, low, 9))
    assert SUSPEND.run(apart).schedulable
    together = taskset(on(A, high, 1), on(A, low, 9), on(B, task("other", 1, 3, 100, gpu(0, 1))))
    assert why(SUSPEND, together) == (
        Reason.GPU_ORDER, "high preempts low on their CPU but does not outrank it on the GPU"
    )  # fmt: skip


def test_a_task_without_a_partition_has_all_units_and_isolates_nobody() -> None:
    for priority in (0, 3):
        system = taskset(
            on(A, task("a", 0, 1, 100, gpu(0, 1))), on(B, task("b", 1, 1, 100, gpu(0, 1))),
            task("loose", 1, priority, 100, gpu(0, 1)),
        )  # fmt: skip
        for test in (SUSPEND, BUSY):
            reason, text = why(test, system)
            assert reason is Reason.PARTITIONS
            assert text.startswith("loose uses the GPU and names no partition")


def test_a_task_beside_the_only_partition_shares_its_units_and_its_lock() -> None:
    """The simulator has them on one GPU, and each was bounded as if the other were on another."""
    system = taskset(on(Partition(4, name="b"), task("in", 0, 1, 100, gpu(0, 1))), task("out", 1, 9, 200, gpu(0, 50)))
    assert not system.partitioned
    for test in (SUSPEND, BUSY):
        seen = simulate(system, Options("segment", test.waiting, horizon=ms(1) + 1), [ms(1), 0]).tasks
        assert seen["in"].worst == ms(50)
        reason, text = why(test, system)
        assert reason is Reason.PARTITIONS
        assert text.startswith("out uses the GPU and names no partition")


def test_best_effort_under_a_lock_in_a_partition_of_its_own_leaves_no_bound() -> None:
    """j's end begins its update of 5 on i's CPU just before i is released.

    i and k are alone in their partitions, so that these schedule as under `segment`, for which all are simulated.
    """
    i, k, j = task("i", 0, 9, 40, gpu(0, 1)), task("k", 1, 9, 40, gpu(0, 1)), task("j", 0, 0, 40, gpu(0, 1))
    for policy in ("lock-priority", "lock-fifo"):
        slow = replace(home("slow", 5), policy=policy)
        for name in ("a", "c"):
            system = taskset(on(A, i), on(home(name, 0.1), k), on(slow, j))
            system = replace(system, platform=replace(system.platform, policy="segment"))
            seen = simulate(system, Options(policy, horizon=ms(1) + 1), [ms(1), 0, 0]).tasks["i"].worst
            assert seen == ms(5.2)
            alone = replace(system, tasks=system.tasks[:2])
            bound = SUSPEND.run(alone).wcrt("i")
            assert bound is not None
            assert bound < seen
            assert answer(alone).schedulable
            assert answer(system).result is None
            assert why(SUSPEND, system)[0] is why(BUSY, system)[0] is Reason.PARTITIONS
            assert {"segment", policy} == set(system.policies)
            assert choices(alone)[0].schedulable
            assert not any(choice.schedulable for choice in choices(system))
            harmless = replace(system, tasks=(*alone.tasks, on(home("slow", 5), j)))
            assert answer(harmless).schedulable


def test_a_counterexample_is_written_as_a_file_that_is_the_same_system(tmp_path: Path) -> None:
    rng = random.Random(3)
    for at in range(20):
        system = with_random_partitions(random_taskset(rng), rng)
        (tmp_path / "set.toml").write_text(toml(system))
        again = load(tmp_path / "set.toml").taskset
        if system.partitioned:
            assert again.platform.policy == "segment"
            assert placed(again) == placed(system), at


def placed(system: Taskset) -> list[object]:
    """Where each task that uses the GPU is, what updates cost there, and its times."""
    users = [(one, one.partition) for one in system if one.partition]
    return [(one.name, part.name, system.platform.costs(part), one.segments) for one, part in users]


def test_tests_of_one_gpu_refuse_several_partitions() -> None:
    system = taskset(on(A, task("a", 0, 1, 100, gpu(0, 1))), on(B, task("b", 0, 2, 100, gpu(0, 1))))
    for name, test in registry.TESTS.items():
        if not test.partitions:
            assert why(test, system) == (Reason.PARTITIONS, f"{name} is for a GPU that is one partition")


def test_a_region_lengthens_the_switches_of_every_partition() -> None:
    a, b = home("a", 0, 1), Partition(4, name="b")
    system = taskset(on(a, task("a", 0, 1, 100, gpu(0, 1))), on(b, task("b", 1, 1, 100, gpu(0, 1))))
    longer = with_region(replace(system, partitions=(a,)), ms(2))
    assert [longer.platform.costs(one.partition)[1] / MS for one in longer] == [3, 2]
    assert longer.partitions[0] is not None
    assert longer.partitions[0].theta == ms(3)
