"""How much may grow, and budgets for epsilon: worked by hand, and compared with the test itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from builders import cpu, gpu, ms, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings

from analysis.answers.periods import MAX_PERIOD_FACTOR, Period, periods, with_period
from analysis.answers.sensitivity import (
    FACTOR_STEPS,
    UNLIMITED,
    Grows,
    Margin,
    epsilon_budget,
    margin_steps,
    slowed,
    task_margin,
    time_margins,
    with_epsilon,
)
from analysis.answers.verdict import proved
from analysis.model import Chain, Copy, Fork, GpuSegment, Kernel, Partition, Platform, Span, Taskset, Waiting
from analysis.model.platform import YIELD, Yield
from analysis.papers import registry
from analysis.rta.regions import with_region

BUSY = registry.find("gcaps-busy")
TWO = taskset(task("h", 0, 9, 10, cpu(2)), task("l", 0, 1, 20, cpu(4), gpu(1, 3)), epsilon=0.5)


def by_what(found: list[Margin]) -> dict[tuple[Grows, str | None], Margin]:
    return {(m.what, m.task): m for m in found}


def test_margins_by_hand() -> None:
    """l: 4 + 4 + 2 updates 1 + blocking 1, and h's jobs: in 20 ms two, so that 20 - 10 = 10 is left for them."""
    found = by_what(list(time_margins(BUSY, TWO)))
    assert found[Grows.CPU, "h"].most == ms(5)
    assert found[Grows.CPU, "l"].most == ms(20 - 4 - 2 - 4)
    assert found[Grows.GPU, "l"].most == ms(20 - 4 - 2 - 4)
    # l pays it four times, h once (blocking by an update in flight): 4 eps <= 20 - 8 - 4
    assert found[Grows.EPSILON, None].most == ms(2)
    # all of 10 + 2 * 2 = 14 in 20
    assert found[Grows.CLOCK, None].factor == Fraction(20 * FACTOR_STEPS // 14, FACTOR_STEPS)
    assert found[Grows.CLOCK, None].most is None


def test_what_does_not_matter_is_unlimited_and_what_cannot_help_has_no_factor() -> None:
    system = taskset(task("a", 0, 5, 10, cpu(4)), task("be", 0, 0, 10, cpu(1), gpu(1, 1)))
    assert task_margin(BUSY, system, "be", Grows.GPU) == UNLIMITED
    late = taskset(task("a", 0, 5, 10, cpu(12)), task("b", 0, 4, 10, cpu(1)))
    assert task_margin(BUSY, late, "b", Grows.CPU) is None  # a misses its deadline whatever b does
    shrunk = task_margin(BUSY, late, "a", Grows.CPU)
    assert shrunk == Fraction(9, 12)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="no task 'x'"):
        task_margin(BUSY, TWO, "x", Grows.CPU)
    with pytest.raises(ValueError, match="epsilon is not a task's"):
        task_margin(BUSY, TWO, "h", Grows.EPSILON)


@settings(max_examples=tries(25), deadline=None)
@given(tasksets(max_tasks=4, best_effort=False))
def test_the_factor_found_passes_and_the_next_does_not(system: Taskset) -> None:
    for test in (registry.find("gcaps-suspend"), registry.find("fmlp-busy")):
        for margin in time_margins(test, system):
            if margin.factor is None or margin.factor == UNLIMITED or margin.what in (Grows.CPU, Grows.GPU):
                continue
            changed = with_epsilon if margin.what is Grows.EPSILON else slowed
            assert test.run(changed(system, margin.factor)).schedulable
            assert not test.run(changed(system, margin.factor + Fraction(1, FACTOR_STEPS))).schedulable


def test_epsilon_budget_is_the_largest_that_passes() -> None:
    assert epsilon_budget(BUSY, TWO) == ms(2)
    late = taskset(task("a", 0, 5, 10, cpu(12)))
    assert epsilon_budget(BUSY, late) is None
    free = replace(TWO, platform=Platform(1))
    assert epsilon_budget(BUSY, free) == ms(2)


def test_the_largest_epsilon_is_that_of_partitions_with_their_own_too() -> None:
    """Each task is alone in a partition: 3 ms, two updates and the two that it may wait for, within 20."""
    homes = [Partition(4, name=name, alpha=ms(1), theta=0) for name in "pq"]
    tasks = [replace(task(home.name or "", at, 1, 20, gpu(1, 2)), partition=home) for at, home in enumerate(homes)]
    platform = Platform(2, policy="segment", compute_units=8)
    system = Taskset(platform, tuple(tasks), tuple(homes))
    test = registry.find("gcaps-suspend")
    budget = epsilon_budget(test, system)
    assert budget == ms(17) // 4
    costly = system.with_partitions(lambda one: replace(one, alpha=budget + 1))
    assert not test.run(costly).schedulable


def test_on_a_slower_machine_blocks_wake_ups_chunks_and_decisions_take_longer() -> None:
    values = Yield(1, 0, 7, 0)
    platform = Platform(1, bus_chunk=2, region=3, cpu_latency=5, begin=YIELD, yields=values)
    found = slowed(replace(TWO, platform=platform), Fraction(2)).platform
    assert (found.bus_chunk, found.region, found.cpu_latency) == (4, 6, 10)
    assert found.yields == replace(values, decision=14)


def test_a_region_is_a_longer_switch() -> None:
    """l's thread block of 2 ms is finished before h's segment starts: each of h's switches may wait for one."""
    system = taskset(task("h", 0, 9, 100, gpu(0, 5)), task("l", 1, 1, 100, gpu(0, 20)), epsilon=0.5)
    plain, longer = BUSY.run(system).wcrt("h"), BUSY.run(with_region(system, ms(2))).wcrt("h")
    assert plain == ms(5 + 2 * 0.5 + 2 * 0.5)
    assert longer == ms(5 + 2 * 2.5 + 2 * 2.5)
    assert with_region(system, 0) == system
    with pytest.raises(ValueError, match="-1 ns"):
        with_region(system, -1)


@pytest.mark.parametrize("name", ["h", "l"])
def test_what_is_done_adds_up_to_the_effort(name: str) -> None:
    """Also where a search ends at once: a task that misses whatever it does, or that may grow without limit."""
    late = replace(TWO, tasks=tuple(replace(t, deadline=ms(1)) if t.name == name else t for t in TWO))
    for system in (TWO, late):
        done = list[int]()
        list(time_margins(BUSY, system, done.append))
        epsilon_budget(BUSY, system, done.append)
        assert sum(done) == margin_steps(system)
        assert done.count(1) > len(done) // 2  # told of each run, not of whole searches


def test_a_faster_machine_is_faster_in_best_cases_too() -> None:
    """Twice as fast, b is done in half of its bound: a's kernel then separates a's CPU segments by half as long."""
    parts = (Copy(Span.exactly(ms(6))), Kernel(Span(ms(8), ms(1)), times=(Span(ms(8), ms(1)),)))
    own = GpuSegment(Span.exactly(0), Span(ms(14), ms(7)), parts=parts)
    system = taskset(task("a", 0, 2, 80, cpu(8), own, cpu(6), deadline=66), task("b", 0, 1, 80, cpu(8)))
    system = replace(system, platform=replace(system.platform, compute_units=4))
    test = registry.find("rtgpu")
    assert test.run(system).wcrt("b") == ms(22)
    assert test.run(slowed(system, Fraction(1, 2))).wcrt("b") == ms(11)


def test_what_passes_as_it_is_has_a_factor_of_one_at_least() -> None:
    """Without l's last CPU segment, its previous job can take its segment and two updates of the CPU once more."""
    low = replace(task("l", 0, 5, 20, gpu(1, 5), cpu(1), deadline=13), waiting=Waiting.BUSY)
    system, test = taskset(task("h", 0, 9, 100, cpu(1)), low, epsilon=1), registry.find("boosted-busy")
    assert test.run(system).schedulable
    shorter = replace(low, segments=low.segments[:1])
    assert not test.run(replace(system, tasks=(system.tasks[0], shorter))).schedulable
    factor = task_margin(test, system, "l", Grows.CPU)
    assert factor is not None
    assert factor >= 1


def test_periods_by_hand() -> None:
    """l needs 4 + 4 + 1 + 1, and 2 for each of h's jobs: of 10 + 2 x in x ms, x at least 14, or 5 jobs in 20 ms."""
    suspend = registry.find("gcaps-suspend")
    assert list(periods(suspend, TWO)) == [Period("h", ms(10), least=ms(4)), Period("l", ms(20), least=ms(14))]
    late = replace(TWO, tasks=(TWO.tasks[0], replace(TWO.tasks[1], segments=(cpu(14), gpu(1, 3)))))
    # without h, l still takes 20: its deadline moves with its period, to 26 with three jobs of h
    assert list(periods(suspend, late)) == [Period("h", ms(10)), Period("l", ms(20), least=ms(26))]


def test_a_period_has_to_be_shorter_where_a_chain_reads_what_is_old() -> None:
    """b's age: up to its own period, a's, and both responses, 1 and 2."""
    a, b = (replace(task(name, 0, level, period, cpu(1)), max_period=ms(period))
            for name, level, period in (("a", 9, 10), ("b", 1, 40)))  # fmt: skip
    free, both = taskset(a, b), Chain("c", ("a", "b"), max_age=ms(45))
    found = {one.task: one for one in periods(BUSY, replace(free, chains=(both,)))}
    assert found["a"] == Period("a", ms(10), most=ms(3))
    assert found["b"] == Period("b", ms(40), most=ms(33))
    found = {one.task: one for one in periods(BUSY, replace(free, chains=(replace(both, max_age=ms(90)),)))}
    assert found == {one.task: one for one in periods(BUSY, free)}


def test_what_a_task_releases_and_starts_has_its_period() -> None:
    system = taskset(*(task(name, 0, 9, 20, cpu(1)) for name in "abwx"))
    system = replace(system, chains=(Chain("c", ("a", "b"), triggered=("b",)),), forks=(Fork("b", 0, ("w",)),))
    moved = {one.name: (one.period, one.deadline) for one in with_period(system, "a", ms(7))}
    assert moved == {**dict.fromkeys("abw", (ms(7), ms(7))), "x": (ms(20), ms(20))}


@settings(max_examples=tries(25), deadline=None)
@given(tasksets(max_tasks=4, best_effort=False))
def test_the_period_found_passes_and_the_one_before_does_not(system: Taskset) -> None:
    for test in (registry.find("gcaps-suspend"), registry.find("boosted-busy")):
        now = proved(test, system)
        for one in periods(test, system):
            task = next(t for t in system if t.name == one.task)
            if one.least is None:
                assert not now
                assert not proved(test, with_period(system, one.task, MAX_PERIOD_FACTOR * one.now))
                continue
            assert (one.least <= one.now) == now
            assert proved(test, with_period(system, one.task, one.least))
            if one.least > max(1, task.cpu_time + task.gpu_time):  # it never comes more often than it takes
                assert not proved(test, with_period(system, one.task, one.least - 1))
