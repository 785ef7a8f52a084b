# SPDX-License-Identifier: GPL-2.0
"""Resources that tasks hold on CPUs (`[[resource]]`): bounds, simulator and explorer.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from builders import cpu, gpu, ms, task, taskset
from every_schedule import Compared, compare
from kinds import with_latency, with_random_pending
from tiny import tiny_for

from analysis.answers import compiled
from analysis.answers.sensitivity import Grows, changed, slowed
from analysis.attack.exact import TooManyStatesError, exact_ways, explore
from analysis.model import MS, Partition, Protocol, Resource, Section, Task, Taskset
from analysis.model.callbacks import Order, Thread
from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.papers import registry
from analysis.rta import boosted, resources, wakeups
from analysis.rta.columns import columns_of
from analysis.rta.result import Bound, Failure, Reason
from analysis.simulation.simulate import Options, SimulationError, simulate

MANY = 20 if os.environ.get("GPURT_LONG") else 1
TEST = registry.find("boosted-suspend")


def with_random_resources(taskset: Taskset, rng: random.Random, unit: int = MS) -> Taskset:
    """The taskset with up to two resources, whose sections are in CPU segments of some of its tasks; whole ``unit``."""
    room = {t.name: [s.time.worst // unit for s in t.cpu_segments if s.time.worst >= unit] for t in taskset}
    found: list[Resource] = []
    for name in ("r", "q")[: rng.choice([1, 1, 2])]:
        protocol = rng.choice(list(Protocol))
        cpu = rng.choice([t.cpu for t in taskset])
        sections = []
        for one in taskset:
            free = room[one.name]
            if free and rng.random() < 0.9 and (protocol is Protocol.SPIN or one.cpu == cpu):
                at = rng.randrange(len(free))
                length = rng.randint(1, free[at])
                free[at] -= length
                room[one.name] = [left for left in free if left]
                sections.append(Section(one.name, length * unit))
        if sections:
            found.append(Resource(name, protocol, tuple(sections)))
    return replace(taskset, resources=tuple(found))


def held(system: Taskset, protocol: Protocol, **sections: float) -> Taskset:
    """The taskset with a resource more, and its sections by task, ms."""
    name = f"r{len(system.resources)}"
    one = Resource(name, protocol, tuple(Section(task, ms(time)) for task, time in sections.items()))
    return replace(system, resources=(*system.resources, one))


def three_cpu() -> Taskset:
    """a above b above c on one CPU."""
    return taskset(task("a", 0, 9, 20, cpu(1)), task("b", 0, 5, 40, cpu(3)), task("c", 0, 1, 80, cpu(5)))


def bounds(system: Taskset) -> list[int | None]:
    return [TEST.run(system).wcrt(t.name) for t in system]


def exact(system: Taskset) -> list[int]:
    found = explore(system, Options("boosted"), states=500_000)
    return [found.worst[t.name] for t in system]


@pytest.mark.parametrize("protocol", [Protocol.INHERITANCE, Protocol.CEILING])
def test_a_less_urgent_holder_blocks_once_tasks_in_between_too(protocol: Protocol) -> None:
    """c holds for 2 ms what a wants: a waits for it, and b, which does not use it.

    In whole ms c begins its section 1 ms before a and b are released together.
    """
    system = held(three_cpu(), protocol, a=1, c=2)
    assert bounds(system) == [ms(3), ms(1 + 3 + 2), ms(1 + 3 + 5)]
    assert exact(system) == [ms(3), ms(1 + 3 + 1), ms(1 + 3 + 5)]


def test_the_explorer_has_sections_elsewhere_than_at_the_begin_of_segments_too() -> None:
    """h asks in its last segment if its section is at the end, and is blocked at both of its wake-ups then."""
    system = taskset(task("h", 0, 9, 12, cpu(1), gpu(0, 1), cpu(2)), task("l", 0, 1, 16, cpu(3)))
    system = held(system, Protocol.CEILING, h=1, l=2)
    worst = {one.sections: explore(system, one).worst for one in exact_ways(TEST, system)}
    assert {place: worst[place]["h"] for place in worst} == {"begin": ms(5), "middle": ms(5), "end": ms(6)}
    assert (worst["begin"]["l"], bounds(system)[0]) == (ms(6), ms(8))


def test_inheritance_lets_each_less_urgent_task_block_and_a_ceiling_one() -> None:
    def system(protocol: Protocol) -> Taskset:
        return held(held(three_cpu(), protocol, a=1, c=2), protocol, a=1, b=1)

    assert bounds(system(Protocol.INHERITANCE))[0] == ms(1 + 2 + 1)
    assert bounds(system(Protocol.CEILING))[0] == ms(1 + 2)


def test_a_resource_is_handed_to_a_less_urgent_task_in_a_gap() -> None:
    """j1 blocks i.  After i the resource is j3's, who waited for it, and h waits for j3."""
    system = taskset(
        task("h", 0, 9, 40, cpu(1)), task("i", 0, 5, 40, cpu(2)), task("j3", 0, 2, 40, cpu(4)),
        task("j1", 0, 1, 40, cpu(4)),
    )  # fmt: skip
    system = held(system, Protocol.INHERITANCE, h=1, i=1, j3=4, j1=4)
    seen = simulate(system, Options("boosted"), [ms(5), ms(2), ms(1), 0]).tasks
    assert seen["i"].worst == ms(9) <= ms(2 + 1 + 4 + 4) == bounds(system)[1]


def test_a_task_that_is_handed_a_resource_wakes_before_it_executes() -> None:
    """j1 waits for j2 until i comes, and wakes at i's priority."""
    system = taskset(task("i", 0, 9, 40, cpu(1)), task("j1", 0, 5, 40, cpu(4)), task("j2", 0, 1, 40, cpu(3)))
    system = with_latency(held(system, Protocol.INHERITANCE, i=1, j1=4, j2=2), MS)
    seen = simulate(system, Options("boosted"), [ms(4.5), ms(1.5), 0]).tasks["i"].worst
    assert ms(7) < seen <= ms(1 + 1 + 1 + 5) == bounds(system)[0]


def test_partitions_are_no_systems_of_their_own_where_tasks_hold_resources() -> None:
    homes = [Partition(name=name, compute_units=4) for name in "xy"]
    system = taskset(task("a", 0, 9, 40, cpu(1), gpu(0, 1)), task("b", 1, 5, 40, cpu(8), gpu(0, 1)))
    tasks = tuple(replace(t, partition=home) for t, home in zip(system, homes, strict=True))
    platform = replace(system.platform, compute_units=8, policy="boosted")
    system = replace(system, platform=platform, tasks=tasks, partitions=tuple(homes))
    assert bounds(system) == [ms(2), ms(9)]
    spun = held(system, Protocol.SPIN, a=1, b=8)
    for name in registry.TESTS:
        assert not any(isinstance(one, Bound) for one in registry.find(name).run(spun).verdicts.values()), name


@pytest.mark.parametrize("times", [1, 2])
def test_a_task_that_sleeps_can_be_blocked_once_more_if_it_asks_once_more(times: int) -> None:
    system = taskset(task("a", 0, 9, 40, cpu(1), gpu(0, 1), cpu(1)), task("c", 0, 1, 80, cpu(5)))
    twice = Resource("r", Protocol.INHERITANCE, (Section("a", ms(1), times), Section("c", ms(2), 2)))
    system = replace(system, resources=(twice,))
    assert ms(3 + 2) <= exact(system)[0] <= ms(3 + times * 2) == bounds(system)[0]


def test_a_task_spins_for_one_holder_of_each_other_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """a waits 2 ms for b; c, below a on its CPU, makes its release later by what it spins and holds: 2 + 2."""
    system = taskset(task("a", 0, 9, 20, cpu(1)), task("c", 0, 1, 20, cpu(2)), task("b", 1, 5, 3, cpu(2)))
    system = held(system, Protocol.SPIN, a=1, b=2, c=2)
    seen = exact(system)[0]
    assert ms(4) < seen <= ms(2 + 2 + 2 + 1) == bounds(system)[0]
    monkeypatch.setattr(wakeups, "spun", lambda *given: 0)
    monkeypatch.setattr(resources, "_spins", lambda *given: None)
    assert seen > (bounds(system)[0] or seen)


def test_a_bound_names_who_holds() -> None:
    bound = TEST.run(held(three_cpu(), Protocol.CEILING, a=1, c=2)).verdicts["b"]
    assert isinstance(bound, Bound)
    assert {term.source: term.amount for term in bound.terms if "resources" in term.lemma} == {"c": ms(2)}
    assert sum(term.amount for term in bound.terms) == bound.wcrt


def test_a_plain_priority_inversion_is_not_simulated() -> None:
    """b does not come between c, which holds, and a."""
    system = held(three_cpu(), Protocol.INHERITANCE, a=1, c=5)
    seen = simulate(system, Options("boosted"), [ms(1), ms(1), 0]).tasks
    assert (seen["a"].worst, seen["b"].worst) == (ms(5), ms(8))


def test_sections_that_do_not_fit_are_not_simulated() -> None:
    system = taskset(task("a", 0, 9, 40, cpu(2), gpu(1, 1), cpu(2)))
    twice = Resource("r", Protocol.CEILING, (Section("a", ms(1.5), 2), Section("a", ms(1), 1)))
    with pytest.raises(SimulationError, match="sections of a do not fit"):
        simulate(replace(system, resources=(twice,)), Options("boosted"))


def test_other_tests_refuse_resources_by_name() -> None:
    system = held(three_cpu(), Protocol.CEILING, a=1, c=2)
    for name, test in registry.TESTS.items():
        result = test.run(system)
        assert compiled.run_compiled(test, system).verdicts == result.verdicts
        assert compiled.passes(test, system) == result.schedulable
        if not test.resources:
            assert {v.reason for v in result.verdicts.values() if isinstance(v, Failure)} == {Reason.LATENCY}, name
            assert result.why == f"a: no bound, because {name} has no bound for [[resource]]"
    with pytest.raises(ValueError, match="no resources"):
        columns_of(system)


def test_a_thread_of_several_tasks_is_refused() -> None:
    served = tuple(
        replace(task(n, 0, 9, 50, cpu(1)), thread=Thread("loop", Order.FIFO), rank=r) for r, n in enumerate("ab")
    )
    system = held(taskset(*served, task("c", 0, 1, 50, cpu(1))), Protocol.CEILING, a=1, c=1)
    assert "where a thread serves several tasks, as loop does" in TEST.run(system).why


def test_longer_cpu_times_are_longer_sections() -> None:
    system = held(three_cpu(), Protocol.CEILING, a=1, c=2)
    assert [s.time for s in changed(system, "c", Grows.CPU, Fraction(2)).resources[0].sections] == [ms(1), ms(4)]
    assert [s.time for s in slowed(system, Fraction(3)).resources[0].sections] == [ms(3), ms(6)]
    assert slowed(with_latency(system, 10), Fraction(3)).platform.cpu_latency == 30


def spinning(rng: random.Random) -> Taskset:
    """Tasks of up to four CPUs, without GPU work, that spin for two resources; sections of 10 to 500 us."""
    rows = []
    for core in range(rng.randint(2, 4)):
        for _ in range(rng.randint(2, 4)):
            period = rng.choice([5, 10, 20, 40, 50, 100])
            rows.append((core, period, period * rng.uniform(0.04, 0.2)))
    rows.sort(key=lambda row: row[1])
    system = taskset(*(task(f"t{n}", core, 90 - n, period, cpu(c)) for n, (core, period, c) in enumerate(rows)))
    for _ in range(2):
        users = {t.name: rng.uniform(0.01, min(0.5, t.cpu_time / MS / 3)) for t in system if rng.random() < 0.6}
        system = held(system, Protocol.SPIN, **users)
    return system


def published(system: Taskset) -> dict[str, int] | None:
    """MSRP's bounds without inflation: what requests spin for is counted in the window, not in each task's C."""
    known = {t.name: t.deadline for t in system}
    users = [{s.task: s.time for s in one.sections} for one in system.resources]
    where = {t.name: t for t in system}

    def at(i: Task, x: int) -> int:
        above = [h for h in system if h.cpu == i.cpu and h.priority > i.priority]
        total = i.cpu_time + sum(-(-x // h.period) * h.cpu_time for h in above)
        arrival = [0]
        for times in users:
            asked = (i.name in times) + sum(-(-x // h.period) for h in above if h.name in times)
            longest: dict[int, int] = {}
            for core in {where[name].cpu for name in times} - {i.cpu}:
                there = [name for name in times if where[name].cpu == core]
                longest[core] = max(times[name] for name in there)
                jobs = [times[n] for n in there for _ in range(-(-(x + known[n]) // where[n].period))]
                total += sum(sorted(jobs, reverse=True)[:asked])
            lower = (times[n] for n in times if where[n].cpu == i.cpu and where[n].priority < i.priority)
            arrival += [time + sum(longest.values()) for time in lower]
        return total + max(arrival)

    for _ in range(20):
        before = dict(known)
        for i in system:
            try:
                known[i.name] = least_fixed_point(partial(at, i), 0, i.deadline)
            except Diverged:
                return None
        if known == before:
            break
    return known


def test_bounds_of_spinning_tasks_are_those_of_msrp_without_inflation() -> None:
    """In the median of 40 random systems at most 1.1 times as large; on their own CPU-only ground they are the same."""
    rng, ratios = random.Random(8), []
    while len(ratios) < 40:
        system = spinning(rng)
        known, found = published(system), TEST.run(system)
        if known:
            assert found.schedulable, system
            ratios.append(max((found.wcrt(t.name) or 0) / known[t.name] for t in system))
    assert sorted(ratios)[20] <= 1.1
    assert max(ratios) < 1.2


def test_a_task_that_never_ends_in_time_does_not_take_the_bounds_of_those_that_wait_for_it() -> None:
    """far has no bound, so it may ask any number of times; each request of a waits for one of its sections."""
    system = taskset(task("a", 0, 9, 20, cpu(2)), task("far", 1, 5, 20, cpu(25)))
    assert bounds(held(system, Protocol.SPIN, a=1, far=3)) == [ms(2 + 3), None]


def compared(kind: str, count: int) -> Iterator[Compared]:
    """Tiny tasksets with resources, and every schedule of those that are bounded."""
    rng = random.Random(f"resources {kind}")
    for _ in range(count):
        system = tiny_for(TEST, rng, rng.choice([9, 12]))
        system = with_random_pending(system, rng) if kind == "pending" else system
        system = with_random_resources(system, rng)
        system = with_latency(system, MS) if kind == "latency" else system
        try:
            found = compare(TEST, system, 6_000) if system.resources else None
        except (TooManyStatesError, SimulationError):
            continue
        if found is not None:
            yield found


@pytest.mark.parametrize("kind", ["alone", "pending", "latency"])
def test_no_schedule_of_tiny_tasksets_exceeds_a_bound(kind: str) -> None:
    bounded = 0
    for found in compared(kind, 80 * MANY):
        assert found.broken is None, (found.taskset, found.bounds, found.exact)
        bounded += 1
    assert bounded >= 2 * MANY


@pytest.mark.parametrize(
    ("module", "name", "nothing"),
    [
        (boosted, "blocking", []), (wakeups, "unpreempted", (0, "")), (resources, "_spins", None),
        (resources, "_requested", [(resources.Requests(0, ()), 0, "")]),
    ],
)
def test_bounds_without_a_charge_break(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, nothing: object
) -> None:  # fmt: skip
    monkeypatch.setattr(module, name, lambda *given: nothing)
    assert any(found.broken for found in compared("control", 300))
