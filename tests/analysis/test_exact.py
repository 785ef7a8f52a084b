# SPDX-License-Identifier: GPL-2.0
"""Every schedule of tiny tasksets, on the core that ships, against every bound (analysis/attack/exact.py).

GPURT_LONG=1 looks at 10^5 tasksets, --all at 10^4.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from builders import cpu, gpu, task, taskset
from closeness import Kind, closeness, closeness_table
from effort import tries
from every_schedule import compare
from tiny import tiny, tiny_for

from analysis import rta
from analysis.attack.exact import TooManyStatesError, exact_ways, explore, in_units, least_states, prioritised, unit_of
from analysis.model import MS, CpuSegment, Span, Taskset, Waiting
from analysis.papers import registry
from analysis.simulation.simulate import Options, worst_over_offsets
from analysis.taskset import parse

SOUND = [test for test in registry.TESTS.values() if test.sound]
UNSOUND = [test.name for test in registry.TESTS.values() if not test.sound]
#: Tasksets for each test: 10^4 in all, 10^5, or fewer.
MANY = (100_000 if os.environ.get("GPURT_LONG") else tries(10_000, 1_500)) // len(SOUND) + 1
#: The same beside a task without a bound, which have more states.
LATE = max(MANY // 79, 1)


def broken(test: rta.Test, count: int, seed: int) -> Taskset | None:
    """The first of so many tiny tasksets in which a schedule exceeds a bound of the test."""
    rng = random.Random(f"{seed} {test.name}")
    for _ in range(count):
        candidate = tiny_for(test, rng)
        found = compare(test, candidate)
        if found and found.broken:
            return candidate
    return None


@pytest.mark.parametrize("test", SOUND, ids=[test.name for test in SOUND])
def test_no_schedule_exceeds_a_sound_bound(test: rta.Test) -> None:
    assert broken(test, MANY, seed=1) is None


def some_late(test: rta.Test, rng: random.Random) -> tuple[Taskset, dict[str, int]]:
    """A tiny taskset, and the test's bounds of some of its tasks: it has none of another one."""
    while True:
        drawn = prioritised(test, tiny_for(test, rng))
        early = [not t.best_effort and rng.random() < 0.5 for t in drawn]
        tasks = (replace(t, deadline=t.deadline // 2) if e else t for t, e in zip(drawn, early, strict=True))
        system = replace(drawn, tasks=tuple(tasks))
        result = test.run(system)
        found = {t.name: wcrt for t in system.real_time if (wcrt := result.wcrt(t.name)) is not None}
        if found and not result.schedulable:
            return system, found


@pytest.mark.parametrize("test", SOUND, ids=[test.name for test in SOUND])
def test_no_schedule_exceeds_a_bound_beside_a_task_without_one(test: rta.Test) -> None:
    """Schedules are followed to three periods of the tasks without a bound, whose jobs pile up."""
    rng, looked = random.Random(f"late {test.name}"), 0
    while looked < LATE:
        system, bounds = some_late(test, rng)
        limits = {t.name: bounds.get(t.name, 3 * t.period) for t in system.real_time}
        try:
            every = [explore(system, options, limits, 20_000, periodic=test.periodic) for options in exact_ways(test)]
        except TooManyStatesError:
            continue
        looked += 1
        worst = {name: max(one.worst[name] for one in every) for name in bounds}
        assert [name for name, bound in bounds.items() if worst[name] > bound] == [], system


@pytest.mark.parametrize("name", UNSOUND)
def test_some_schedule_exceeds_an_unsound_bound(name: str) -> None:
    """A control: without it the silence of the others would mean nothing."""
    assert broken(registry.find(name), 1000, seed=2) is not None


def test_bounds_are_close_to_exact_worst_cases() -> None:
    """A small sample shows, as far as it can, what docs/closeness.md says of a larger one."""
    found = closeness(registry.find("boosted-suspend"), 150, seed=1)
    assert (found.tasksets, found.broken) == (150, 0)
    assert list(found.ratios) == sorted(found.ratios)
    assert min(found.ratios) >= 1
    assert found.quantile(0.5) <= 1.1
    assert found.quantile(0.95) <= 1.7
    printed = closeness(registry.find("gcaps-busy-printed"), 150, seed=1)
    assert printed.broken
    assert printed.counterexample is not None
    again = compare(registry.find("gcaps-busy-printed"), printed.counterexample)
    assert again is not None
    assert again.broken
    assert "| `gcaps-busy-printed` (unsound) | 150 |" in closeness_table([found, printed])


@pytest.mark.parametrize("kind", [Kind(threads=True), Kind(pending=True), Kind(chains=True)], ids=str)
def test_other_kinds_of_tasksets_are_explored(kind: Kind) -> None:
    """Bounds of threads that serve several tasks, of pending jobs, of chains: some are explored, none is exceeded."""
    test, rng = registry.find("boosted-suspend"), random.Random(4)
    has = "threads" if kind.threads else "pending" if kind.pending else "chains"
    assert any(getattr(kind.drawn(test, rng), has) for _ in range(9))
    found = closeness(test, 40, seed=4, kind=kind)
    assert (found.broken, found.tasksets) == (0, 40)
    assert found.bounded > found.large
    assert found.ratios


def test_a_known_exact_value() -> None:
    """susp: 1 + 2 + 2 of b and two of a, by hand; a published bound has 8."""
    system = taskset(
        task("a", 0, 20, 4, cpu(1)),
        task("b", 0, 15, 8, cpu(2), gpu(0, 1), cpu(2)),
        task("c", 0, 10, 10, cpu(1)),
    )
    for policy in ("segment", "boosted", "mpcp"):
        found = explore(system, Options(policy))
        assert dict(found.worst) == {"a": 1 * MS, "b": 7 * MS, "c": 7 * MS}
        assert (found.unit, found.late) == (MS, None)


def test_what_a_simulation_sees_is_among_all_schedules() -> None:
    """In units of 1 ns: then all random first releases and draws are whole units, as the exploration has them."""
    rng, compared = random.Random(3), 0
    while compared < 30:
        system = in_units(tiny(rng), MS)
        every = explore(system, Options("boosted"))
        if every.late:
            continue
        compared += 1
        for execution in ("worst", "random"):
            seen = worst_over_offsets(system, Options("boosted", execution=execution, horizon=200), 20).tasks
            assert all(seen[t.name].worst <= every.worst[t.name] for t in system.real_time)


def test_a_shorter_demand_can_delay_another_task_more() -> None:
    """h's CPU segment takes 0 or 2: after 0 its segment comes earlier, in the way of i."""
    short = replace(cpu(2), time=Span(2 * MS, 0))
    rest = task("i", 1, 2, 9, gpu(0, 2), cpu(1)), task("k", 0, 1, 12, cpu(3))
    system = [
        taskset(task("h", 0, 3, 12, first, gpu(0, 4)), *rest)
        for first in (short, cpu(2))
    ]
    some, exact = (explore(one, Options("boosted")) for one in system)
    assert all(some.worst[name] >= exact.worst[name] for name in exact.worst)
    assert some.states > exact.states


def test_a_miss_ends_a_schedule_and_is_told() -> None:
    found = explore(taskset(task("a", 0, 2, 4, cpu(3)), task("b", 0, 1, 4, cpu(2))), Options("boosted"))
    assert found.late == "b"
    assert found.worst["b"] > 4 * MS


def test_best_effort_that_starves_is_no_miss() -> None:
    found = explore(taskset(task("a", 0, 2, 4, cpu(4)), task("b", 0, 0, 5, cpu(1))), Options("boosted"))
    assert found.late is None


def test_what_is_too_large_is_refused_before_it_begins() -> None:
    system = taskset(*(task(f"t{i}", i, 1, 101 + i, cpu(1)) for i in range(4)))
    assert unit_of(replace(system, platform=replace(system.platform, time_slice=0))) == MS
    assert least_states(system, MS) > 4_000_000
    with pytest.raises(TooManyStatesError, match="at least"):
        explore(system, Options("boosted"), states=4_000_000)
    two = taskset(task("a", 0, 2, 300, cpu(100)), task("b", 1, 1, 300, gpu(1, 99)))
    assert least_states(two, MS) == 601
    with pytest.raises(TooManyStatesError, match="gave up after"):
        explore(two, Options("boosted"), states=601)


def test_periodic_schedules_are_among_sporadic_ones() -> None:
    rng = random.Random(4)
    for _ in range(20):
        system = tiny(rng)
        every = explore(system, Options("boosted"))
        periodic = explore(system, Options("boosted"), periodic=True)
        if not every.late:
            assert all(periodic.worst[name] <= every.worst[name] for name in every.worst)


def test_a_state_with_many_ways_ends_at_the_limit() -> None:
    """A job may execute for any of ten million times, each of which leads to a state of its own."""
    one = task("t", 0, 1, 100, CpuSegment(Span(10 * MS, 1)))
    with pytest.raises(TooManyStatesError, match="gave up after 1001 states"):
        explore(taskset(one), Options("boosted"), states=1000)


SEEN_AGAIN = """
platform = { cpus = 1, policy = "segment", epsilon = "0ns", cpu_latency = "2ns" }
[[task]]
name = "a"
cpu = 0
priority = 10
period = "4ns"
deadline = "8ns"
segments = [{ cpu = "1ns" }]
[[task]]
name = "b"
cpu = 0
priority = 11
period = "6ns"
waiting = "busy"
segments = [{ cpu = { worst = "1ns", best = "0ns" } }]
[[task]]
name = "c"
cpu = 0
priority = 6
period = "5ns"
deadline = "20ns"
segments = [{ misc = "0ns", gpu = "0ns" }]
[[task]]
name = "d"
cpu = 0
priority = 10
period = "10ns"
deadline = "20ns"
waiting = "busy"
segments = [{ cpu = { worst = "1ns", best = "0ns" } }]
"""


def test_ways_to_states_that_were_seen_end_at_the_limit_too() -> None:
    """Sixteen jobs of no length are pending: few of the schedules of an instant differ in what follows."""
    system, limits = parse(Path("set.toml"), SEEN_AGAIN).taskset, {"a": 32, "b": 3, "c": 80, "d": 80}
    with pytest.raises(TooManyStatesError, match="gave up after 1584 states, and 1700 may"):
        explore(system, Options("segment", Waiting.SUSPEND), limits, states=1700)
