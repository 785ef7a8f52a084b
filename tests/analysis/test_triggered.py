# SPDX-License-Identifier: GPL-2.0
"""Triggered links: tasks that the end of another task's job releases, in bounds, simulator, explorer and chains.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders import cpu, ms, task, taskset

from analysis import compiled, rta
from analysis.attack.exact import Compared, TooManyStatesError, compare, explore
from analysis.attack.search import ways
from analysis.attack.tiny import tiny_for
from analysis.batch import from_tasksets
from analysis.callbacks import Order, Thread
from analysis.chains import triggered
from analysis.chains.bounds import bound_of, never_between
from analysis.chains.observed import observed
from analysis.model import Chain, CpuSegment, Protocol, Resource, Section, Span, Taskset
from analysis.rta.result import Failure, Reason
from analysis.simulate import Options, simulate

MANY = 20 if os.environ.get("GPURT_LONG") else 1
TEST = rta.find("boosted-suspend")


def golden() -> Taskset:
    """Specification, section 5, example 6: a releases b; h is above a, and i below b."""
    system = taskset(
        task("a", 1, 5, 8, cpu(1)), task("b", 0, 9, 8, cpu(3)), task("h", 1, 9, 16, cpu(5)), task("i", 0, 1, 16, cpu(3))
    )
    first = replace(system.tasks[0], max_period=ms(8))
    return replace(system, tasks=(first, *system.tasks[1:]), chains=(Chain("c", ("a", "b"), triggered=("b",)),))


@pytest.mark.parametrize("name", [name for name, test in rta.TESTS.items() if test.pending])
def test_golden_values(name: str) -> None:
    """The best time of a is its worst, so that b's jitter is 5, and i waits for two jobs of b."""
    found = rta.find(name).run(golden())
    assert [found.wcrt(t.name) for t in golden()] == [ms(6), ms(3), ms(5), ms(9)]
    latencies = bound_of(golden().chains[0], golden(), found).latencies
    assert {key: one.bound for key, one in latencies.items()} == {
        "max_reaction": ms(8 + 9), "max_age": ms(8 + 9), "max_age_at_output": ms(9),
    }  # fmt: skip


def test_peers_values() -> None:
    """pyCPA, test/test_spp.py, lines 31 to 69: two tasks of one CPU with jitter, each of which releases one of another.

    It has 19 for the last one, for it knows that two ends of t12 are 1 apart at least.
    """
    system = taskset(
        replace(task("t11", 0, 9, 30, cpu(10)), jitter=ms(5)), replace(task("t12", 0, 5, 15, cpu(3)), jitter=ms(6)),
        task("t21", 1, 9, 30, cpu(2)), task("t22", 1, 5, 15, cpu(9), deadline=45),
    )  # fmt: skip
    best = {"t11": 5, "t12": 1, "t21": 2, "t22": 4}
    tasks = tuple(
        replace(t, segments=(CpuSegment(Span(t.cpu_time, ms(best[t.name]))),), deadline=max(t.deadline, ms(45)))
        for t in system
    )
    chains = (Chain("one", ("t11", "t21"), triggered=("t21",)), Chain("two", ("t12", "t22"), triggered=("t22",)))
    found = TEST.run(replace(system, tasks=tasks, chains=chains))
    assert [found.wcrt(t.name) for t in tasks] == [ms(10), ms(13), ms(2), ms(20)]


def test_the_golden_values_are_reached() -> None:
    found = explore(golden(), Options("boosted"), states=2_000_000)
    assert found.worst == {"a": ms(6), "b": ms(3), "h": ms(5), "i": ms(9)}


def test_jitters_are_those_of_responses_without_the_shortest_time() -> None:
    system = golden()
    quick = replace(system.tasks[0], segments=(CpuSegment(Span(ms(1), ms(0.25))),), jitter=ms(2))
    changed = replace(system, tasks=(quick, *system.tasks[1:]))
    assert triggered.jitters_of(changed, {"a": ms(6)}) == {"b": ms(2 + 6 - 0.25)}
    assert triggered.jitters_of(changed, {}) == {"b": ms(2 + 8 - 0.25)}


def test_the_simulator_releases_at_the_end_of_the_producer() -> None:
    trace = simulate(golden(), Options("boosted", horizon=ms(9)), events=1000).trace
    assert trace is not None
    ends = [e.time for e in trace.events if (e.task, e.kind.value) == ("a", "complete")]
    assert [e.time for e in trace.events if (e.task, e.kind.value) == ("b", "release")] == ends == [ms(6), ms(9)]


@pytest.mark.parametrize("served", ["ab", "bd"])
def test_a_thread_that_is_free_serves_a_released_job_at_once(served: str) -> None:
    """Both of a chain in one thread, and a consumer whose thread serves another task as well."""
    system = taskset(*(task(n, 0, 5, 20, cpu(1)) if n in served else task(n, 1, 5, 20, cpu(1)) for n in "abd"))
    tasks = tuple(
        replace(t, thread=Thread("loop", Order.FIFO), rank=served.index(t.name)) if t.name in served else t
        for t in system
    )
    system = replace(system, tasks=tasks, chains=(Chain("c", ("a", "b"), triggered=("b",)),))
    bound = TEST.run(system).wcrt("b")
    assert bound is not None
    assert simulate(system, Options("boosted", horizon=ms(60))).tasks["b"].worst <= bound


def test_other_tests_refuse_it_by_name() -> None:
    for name, test in rta.TESTS.items():
        result = test.run(golden())
        assert compiled.run(test, golden()).verdicts == result.verdicts
        assert compiled.passes(test, golden()) == result.schedulable == test.pending
        if not test.pending:
            assert {v.reason for v in result.verdicts.values() if isinstance(v, Failure)} == {Reason.PENDING}, name
            assert f"{name} has no bound for a task that another one releases, as a does b" in result.why
    with pytest.raises(ValueError, match="that others release"):
        from_tasksets([golden()])


def test_a_consumer_without_a_bound_leaves_none() -> None:
    system = golden()
    late = replace(system, tasks=tuple(replace(t, deadline=ms(2)) if t.name == "b" else t for t in system))
    result = TEST.run(late)
    assert not result.schedulable
    assert bound_of(late.chains[0], late, result).why == "a has no bound"
    assert result.causes[0].task == "b"


def test_no_bound_stays_from_jitters_that_may_still_grow() -> None:
    """i's bound is 6 with the first jitter of b, and a schedule reaches 9."""
    system = golden()
    late = replace(system, tasks=(*system, task("x", 1, 1, 16, cpu(14))))
    result = TEST.run(late)
    assert {v.reason for v in result.verdicts.values()} == {Reason.ABOVE_DEADLINE, Reason.DEPENDS_ON}
    assert result.why.startswith("x: no bound below the deadline")


def test_a_producer_that_waits_for_a_mutex_keeps_its_consumer_out() -> None:
    """The task that holds it executes at the producer's priority at least."""
    system = taskset(task("p", 0, 9, 10, cpu(1)), task("c", 0, 1, 10, cpu(1)))
    for protocol in Protocol:
        held = replace(system, resources=(Resource("r", protocol, (Section("p", ms(1)), Section("c", ms(1)))),))
        assert never_between(*system.tasks, held)


def with_chain(system: Taskset, rng: random.Random) -> Taskset | None:
    """The taskset with a chain of its tasks, one link of which is triggered; None if it has too few tasks."""
    real = [t.name for t in system.real_time]
    if len(real) < 2:
        return None
    names = rng.sample(real, rng.randint(2, min(3, len(real))))
    links = [True, *(rng.random() < 0.6 for _ in names[2:])]
    heads, head = {names[0]: names[0]}, names[0]
    for name, link in zip(names[1:], links, strict=True):
        head = head if link else name
        heads[name] = head
    periods = {t.name: t.period for t in system}
    tasks = []
    for t in system:
        if t.name in heads:
            period = periods[heads[t.name]]
            own = period if heads[t.name] == t.name else None
            t = replace(t, period=period, deadline=rng.choice([1, 2, 3]) * period, max_period=own)
        tasks.append(t)
    released = tuple(name for name, link in zip(names[1:], links, strict=True) if link)
    return replace(system, tasks=tuple(tasks), chains=(Chain("c", tuple(names), triggered=released),))


def compared(name: str, count: int) -> Iterator[tuple[Compared, random.Random]]:
    """Tiny tasksets with triggered links, and every schedule of those that a test bounds."""
    test, rng = rta.find(name), random.Random(f"triggered {name}")
    for _ in range(count):
        system = with_chain(tiny_for(test, rng), rng)
        try:
            found = compare(test, system, 4_000) if system else None
        except TooManyStatesError:
            continue
        if found is not None:
            yield found, rng


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-suspend", "gcaps-busy"])
def test_no_schedule_of_tiny_tasksets_exceeds_a_bound(name: str) -> None:
    """Neither of a task nor of the chain."""
    test, looked = rta.find(name), 0
    for found, rng in compared(name, 80 * MANY):
        assert found.broken is None, (found.taskset, found.bounds, found.exact)
        system = found.taskset
        limits = bound_of(system.chains[0], system, test.run(system)).latencies
        for options in ways(test, system, rng):
            offsets = [rng.randrange(t.period // ms(1)) * ms(1) for t in system]
            trace = simulate(system, replace(options, sporadic=False), offsets, events=4_000).trace
            assert trace is not None
            seen = observed(system.chains[0], trace)
            for key, latency in limits.items():
                value = getattr(seen, key)
                assert value is None or value <= latency.bound, (key, value, latency, system, offsets)
                looked += value is not None
    assert looked >= 8 * MANY


def test_bounds_without_the_jitter_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggered, "jitters_of", lambda system, responses: dict.fromkeys(system.triggers, 0))
    assert TEST.run(golden()).wcrt("i") == ms(6)
    assert any(found.broken for found, _ in compared("boosted-suspend", 300))
