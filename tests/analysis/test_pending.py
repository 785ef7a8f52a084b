# SPDX-License-Identifier: GPL-2.0
"""Several jobs of a task pending: release jitter and deadlines beyond periods, in bounds, simulator and explorer.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from attack_outcome import Effort
from attack_search import attack
from builders import cpu, gpu, ms, task, taskset, wcrt
from effort import tries
from every_schedule import compare
from kinds import Drawing, with_random_pending
from tiny import tiny_for

from analysis.answers import compiled
from analysis.attack.exact import TooManyStatesError, exact_ways, explore
from analysis.model import Task, Taskset
from analysis.papers import registry
from analysis.rta.analyse import analyse
from analysis.rta.columns import columns_of
from analysis.rta.pending import end_within
from analysis.rta.result import Bound, Failure, Reason, TermKind
from analysis.rta.system import System
from analysis.simulation.simulate import Options, SimulationError, simulate

MANY = 20 if os.environ.get("GPURT_LONG") else 1
#: The tests that bound such tasks.
PENDING = [name for name, test in registry.TESTS.items() if test.pending]
FAR = 10_000.0


def on_one_cpu(*rows: tuple[float, ...]) -> Taskset:
    """(C, T) or (C, T, J) of CPU-only tasks, most urgent first, with deadlines far away."""
    tasks = [task(f"t{n}", 0, 50 - n, row[1], cpu(row[0]), deadline=FAR) for n, row in enumerate(rows)]
    return taskset(*(replace(t, jitter=ms(row[2])) if row[2:] else t for t, row in zip(tasks, rows, strict=True)))


def late(one: Task, jitter: float) -> Task:
    return replace(one, jitter=ms(jitter))


#: By name: (C, T) or (C, T, J) in ms, and the exact responses from the release.
GOLDEN = {
    "Lehoczky, RTSS'90, table 1": ([(26, 70), (62, 100)], [26, 118]),
    "Lehoczky, RTSS'90, equal periods of lower tasks": ([(52, 100), (52, 140)], [52, 156]),
    "three tasks, a deadline within the period": ([(40, 100), (40, 150), (100, 350)], [40, 80, 300]),
    "Burns and Wellings, process set B": ([(3, 7), (3, 12), (5, 20)], [3, 6, 20]),
    "pyCPA, test/test_spp.py, R1": ([(10, 30, 5), (3, 15, 6)], [10, 13]),
    "pyCPA, two jobs of the last task": ([(1, 3), (2, 6), (1, 7, 4)], [1, 3, 5]),
}


@pytest.mark.parametrize("name", PENDING)
@pytest.mark.parametrize("system", GOLDEN)
def test_golden_values(name: str, system: str) -> None:
    rows, expected = GOLDEN[system]
    found = registry.find(name).run(on_one_cpu(*rows))
    assert [found.wcrt(f"t{n}") for n in range(len(rows))] == [ms(value) for value in expected]


def test_lehoczky_is_reached_in_the_simulator() -> None:
    seen = simulate(on_one_cpu((26, 70), (62, 100)), Options("boosted", horizon=ms(700))).tasks
    assert seen["t1"].worst == ms(118)


def test_jitter_is_reached_in_the_simulator() -> None:
    """The first job of each task comes as late as it may; the arrivals after it are periods apart."""
    seen = simulate(on_one_cpu((10, 30, 5), (3, 15, 6)), Options("boosted", horizon=ms(90))).tasks
    assert seen["t1"].worst == ms(13)


def late_owner() -> Taskset:
    """Specification, section 5, example 8."""
    return taskset(
        late(task("a", 0, 9, 6, cpu(4), deadline=18), 3),
        task("b", 0, 5, 20, gpu(2, 1), deadline=40),
    )


@pytest.mark.parametrize(
    ("system", "test", "bounds"),
    [
        (late_owner(), "boosted-suspend", [7, 21]),
        (late_owner(), "gcaps-suspend", [5, 15]),
        (
            taskset(
                task("a", 0, 9, 7, cpu(2), deadline=FAR),
                task("b", 0, 5, 10, cpu(1), gpu(1, 3), cpu(1), deadline=30),
            ),
            "boosted-suspend", [3, 10],
        ),
    ],
)  # fmt: skip
def test_golden_values_with_the_gpu(system: Taskset, test: str, bounds: list[float]) -> None:
    found = registry.find(test).run(system)
    assert [found.wcrt(t.name) for t in system] == [ms(value) for value in bounds]


def test_the_terms_of_a_later_job_add_up_and_say_what_it_waits_for() -> None:
    system = late_owner()
    bound = registry.find("boosted-suspend").run(system).verdicts["a"]
    assert isinstance(bound, Bound)
    assert sum(term.amount for term in bound.terms) == bound.wcrt == ms(7)
    assert {(term.kind, term.source): term.amount for term in bound.terms} == {
        (TermKind.OWN, None): ms(4), (TermKind.PENDING, None): ms(4), (TermKind.RELEASED, None): -ms(3),
        (TermKind.BLOCKING, "b"): ms(2),
    }  # fmt: skip


def test_a_constrained_task_with_jitter_needs_more_than_one_job() -> None:
    """Two jobs 1 ms apart: the second waits for the first although each takes less than the period."""
    system = taskset(late(task("a", 0, 9, 4, cpu(3), deadline=8), 3))
    assert [wcrt(name, system, "a") for name in PENDING] == [ms(5)] * len(PENDING)
    assert exact(system, "boosted-suspend") == {"a": ms(5)}


def exact(system: Taskset, name: str) -> dict[str, int]:
    found = [explore(system, options) for options in exact_ways(registry.find(name))]
    return {t.name: max(one.worst[t.name] for one in found) for t in system}


def test_jitter_beyond_the_period_releases_several_jobs_at_once() -> None:
    system = taskset(late(task("a", 0, 9, 4, cpu(1), deadline=20), 9))
    assert exact(system, "boosted-suspend") == {"a": ms(3)}
    assert wcrt("boosted-suspend", system, "a") == ms(3)


def test_the_end_of_the_last_segment_is_that_of_the_latest_job() -> None:
    b = late(task("b", 0, 5, 6, gpu(1, 1), cpu(2), deadline=40), 4)
    test = registry.find("boosted-suspend")
    assert test.ends is not None
    system = taskset(b)
    assert end_within(b, test.ends, test.demands, System(system, pending=True)) == ms(2 * 4 - 2 - 2)
    assert end_within(b, test.ends, test.demands, System(system)) == ms(2)


PIPELINE = task("camera", 0, 20, 33, cpu(5), gpu(1, 20), cpu(10), deadline=66)


@pytest.mark.parametrize("test", PENDING)
def test_a_job_longer_than_the_period_has_no_bound_and_is_told_so(test: str) -> None:
    why = registry.find(test).run(taskset(PIPELINE, epsilon=0.2)).verdicts["camera"]
    assert isinstance(why, Failure)
    assert why.reason is Reason.TOO_LONG
    assert "one is released each 33 ms" in str(why)
    assert "write each of its stages as a task of a [[chain]]" in str(why)
    assert "or 2 tasks of 2 threads that take turns, each with period 66 ms" in str(why)


def test_the_pipeline_is_later_with_each_job() -> None:
    """36 ms and two updates of 0.2 ms a job, one each 33 ms: 3.4 ms a job."""
    why = registry.find("boosted-suspend").run(taskset(PIPELINE, epsilon=0.2)).verdicts["camera"]
    assert "later than the one before by 3.4 ms, without end" in str(why)
    seen = simulate(taskset(PIPELINE, epsilon=0.2), Options("boosted", horizon=ms(33 * 10))).tasks["camera"]
    assert seen.worst == ms(36.4 + 9 * 3.4)


def test_jobs_that_found_no_room_are_told() -> None:
    """Each job takes two periods: half of those that are released stay pending, and 32 have room."""
    late = taskset(task("a", 0, 9, 5, cpu(10), deadline=FAR))
    seen = simulate(late, Options("boosted", horizon=ms(5 * 80)))
    assert seen.tasks["a"].dropped == seen.tasks["a"].jobs - seen.tasks["a"].finished > 0
    (told,) = seen.full
    assert told.startswith(f"a: {seen.tasks['a'].dropped} of its jobs never ran, for 32 others were pending")
    assert not simulate(late, Options("boosted", horizon=ms(5 * 20))).full


def test_an_exploration_drops_no_job() -> None:
    late = taskset(task("a", 0, 9, 1, cpu(2), deadline=FAR))
    with pytest.raises(SimulationError, match="32 jobs of a task are pending, and no more can be explored"):
        explore(late, Options("boosted"))


def test_other_tests_refuse_jitter_by_name() -> None:
    system = taskset(late(task("a", 0, 9, 10, gpu(1, 1)), 1), task("b", 0, 5, 20, cpu(1)))
    for name, test in registry.TESTS.items():
        result = test.run(system)
        if test.pending:
            assert result.schedulable
            continue
        reasons = {v.reason for v in result.verdicts.values() if isinstance(v, Failure)}
        assert reasons == {Reason.PENDING}, name
        assert result.why == f"a: no bound, because {name} has no bound for release jitter, which a has"


def test_best_effort_may_have_jitter() -> None:
    """No bound counts its jobs."""
    system = taskset(task("a", 0, 9, 10, gpu(1, 1)), late(task("b", 0, 0, 20, gpu(1, 1)), 30))
    assert registry.find("boosted-busy").run(system).schedulable


def test_compiled_tests_leave_such_tasks_to_the_readable_ones() -> None:
    jittered = late_owner()
    with pytest.raises(ValueError, match="no release jitter"):
        columns_of(jittered)
    for system in (jittered, on_one_cpu((26, 70), (62, 100))):
        for name in PENDING:
            test = registry.find(name)
            assert compiled.run_compiled(test, system).verdicts == test.run(system).verdicts
            assert compiled.passes(test, system) == test.run(system).schedulable


def test_other_tests_refuse_deadlines_beyond_periods_by_name() -> None:
    system = taskset(task("a", 0, 9, 10, gpu(1, 1), deadline=11))
    for name, test in registry.TESTS.items():
        result = test.run(system)
        assert compiled.run_compiled(test, system).verdicts == result.verdicts
        assert result.schedulable == test.pending
        if not test.pending:
            assert f"{name} has no bound for a deadline beyond its period, which a has" in result.why


@pytest.mark.parametrize("name", PENDING)
def test_no_schedule_of_tiny_tasksets_exceeds_a_bound(name: str) -> None:
    test, rng, bounded = registry.find(name), random.Random(f"pending {name}"), 0
    for _ in range(tries(25, 12) * MANY):
        system = with_random_pending(tiny_for(test, rng, 5), rng)
        try:
            found = compare(test, system, 10_000)
        except TooManyStatesError:
            continue
        if found is None:
            continue
        assert found.broken is None, (system, found.bounds, found.exact)
        bounded += 1
    assert bounded >= tries(25, 12) * MANY // 5


def test_the_first_job_alone_is_no_bound() -> None:
    """The control: schedules break a bound that leaves out the jobs that are pending before."""
    rng, test = random.Random("control"), registry.find("boosted-suspend")
    for _ in range(tries(150)):
        system = with_random_pending(tiny_for(test, rng, 5), rng)
        if not test.run(system).schedulable:
            continue
        blind = replace(system, tasks=tuple(replace(t, deadline=min(t.deadline, t.period)) for t in system))
        alone = analyse("one job", test.demands, blind, end_of=test.ends)
        first = {t.name: alone.wcrt(t.name) for t in blind}
        try:
            found = explore(system, next(exact_ways(test)), states=30_000)
        except TooManyStatesError:
            continue
        if any(bound is not None and found.worst[name] > bound for name, bound in first.items()):
            return
    pytest.fail("no schedule exceeded the bound of one job")


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-busy"])
def test_the_random_attack_breaks_nothing(name: str) -> None:
    found = attack(registry.find(name), 12 * MANY, seed=3, effort=Effort(4, 8), draw=Drawing(("pending",)))
    assert found.violations == 0
    assert found.schedulable > 0
