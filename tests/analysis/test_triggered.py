# SPDX-License-Identifier: GPL-2.0
"""Triggered links: tasks that the end of another task's job releases, in bounds, simulator, explorer and chains.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from attack_outcome import Effort
from attack_report import toml
from attack_search import attack
from builders import cpu, ms, task, taskset
from every_schedule import Compared, compare
from kinds import Drawing, with_random_chains, with_random_pending, with_random_threads
from minimise import minimised
from tiny import tiny_for, tiny_forks, tiny_holds

from analysis.answers import compiled
from analysis.attack.exact import TooManyStatesError, explore
from analysis.chains import bounds
from analysis.chains.bounds import bound_of, never_between
from analysis.model import Chain, CpuSegment, Protocol, Resource, Section, Span, Taskset
from analysis.model.callbacks import Order, Thread
from analysis.papers import registry
from analysis.rta import triggered
from analysis.rta.columns import columns_of
from analysis.rta.result import Failure, Reason
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load

MANY = 20 if os.environ.get("GPURT_LONG") else 1
TEST = registry.find("boosted-suspend")


def golden() -> Taskset:
    """Specification, section 5, example 6: a releases b; h is above a, and i below b."""
    system = taskset(
        task("a", 1, 5, 8, cpu(1)), task("b", 0, 9, 8, cpu(3)), task("h", 1, 9, 16, cpu(5)), task("i", 0, 1, 16, cpu(3))
    )
    first = replace(system.tasks[0], max_period=ms(8))
    return replace(system, tasks=(first, *system.tasks[1:]), chains=(Chain("c", ("a", "b"), triggered=("b",)),))


@pytest.mark.parametrize("name", [name for name, test in registry.TESTS.items() if test.pending])
def test_golden_values(name: str) -> None:
    """The best time of a is its worst, so that b's jitter is 5, and i waits for two jobs of b."""
    found = registry.find(name).run(golden())
    assert [found.wcrt(t.name) for t in golden()] == [ms(6), ms(3), ms(5), ms(9)]
    latencies = bound_of(golden().chains[0], golden(), found).latencies
    assert {key: one.bound for key, one in latencies.items()} == {
        "max_reaction": ms(8 + 9), "max_age": ms(8 + 9), "max_age_at_output": ms(9),
    }  # fmt: skip


def test_peers_values() -> None:
    """pyCPA, test/test_spp.py, lines 31 to 69: two tasks of one CPU with jitter, each of which releases one of another.

    The last one has 19, for two ends of t12 are 1 apart at least.
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
    assert [found.wcrt(t.name) for t in tasks] == [ms(10), ms(13), ms(2), ms(19)]


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
    for name, test in registry.TESTS.items():
        result = test.run(golden())
        assert compiled.run_compiled(test, golden()).verdicts == result.verdicts
        assert compiled.passes(test, golden()) == result.schedulable == test.pending
        if not test.pending:
            assert {v.reason for v in result.verdicts.values() if isinstance(v, Failure)} == {Reason.PENDING}, name
            assert f"{name} has no bound for a task that another one releases, as a does b" in result.why
    with pytest.raises(ValueError, match="that others release"):
        columns_of(golden())


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


KINDS = {
    "plain": tiny_for, "pending": lambda test, rng: with_random_pending(tiny_for(test, rng), rng),
    "threads": lambda test, rng: with_random_threads(tiny_for(test, rng), rng),
    "workers": lambda _, rng: tiny_forks(rng), "holds": lambda _, rng: tiny_holds(rng),
}  # fmt: skip


def compared(name: str, count: int, kind: str = "plain") -> Iterator[Compared]:
    """Tiny tasksets with chains, and every schedule of those that a test bounds."""
    test, rng = registry.find(name), random.Random(f"triggered {name} {kind}")
    for _ in range(count):
        system = with_random_chains(KINDS[kind](test, rng), rng)
        try:
            found = compare(test, system, 4_000) if system.chains else None
        except TooManyStatesError:
            continue
        if found is not None:
            yield found


@pytest.mark.parametrize(
    ("name", "kind"), [("gcaps-suspend", "plain"), ("gcaps-busy", "plain"), *(("boosted-suspend", k) for k in KINDS)]
)  # fmt: skip
def test_no_schedule_of_tiny_tasksets_exceeds_a_bound(name: str, kind: str) -> None:
    """Neither of a task nor of a chain."""
    looked, count = 0, 12 if kind in ("workers", "holds") else 40  # which have many states
    for found in compared(name, count * MANY, kind):
        assert found.broken is None, (found.taskset, found.bounds, found.exact)
        looked += sum(":" in one for one in found.bounds)
    assert looked >= 6 * MANY


def test_bounds_without_the_jitter_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggered, "jitters_of", lambda system, responses: dict.fromkeys(system.triggers, 0))
    assert TEST.run(golden()).wcrt("i") == ms(6)
    assert any(found.broken for found in compared("boosted-suspend", 300))


def test_a_producer_that_waits_for_workers_breaks_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact reaction is what the simulator shows of the same file; as printed the bound is 44."""
    system = load(Path(__file__).resolve().parents[1] / "cases/broken-chain-workers.toml").taskset
    found = compare(TEST, system)
    assert found is not None
    assert (found.broken, found.exact["x: max_reaction"], found.bounds["x: max_reaction"]) == (None, ms(53), ms(56))
    monkeypatch.setattr(bounds, "never_between", lambda p, c, _: p.cpu == c.cpu and p.priority > c.priority)
    assert broken(compare(TEST, system))


def test_bounds_without_the_wait_for_others_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two branches of one begin: the shorter one alone says nothing of the task that waits for both."""
    system = joined()
    assert not broken(compare(TEST, system))
    monkeypatch.setattr(bounds.Unit, "reach", lambda unit, task: 0)
    assert broken(compare(TEST, system))


def broken(found: Compared | None) -> str | None:
    assert found is not None
    return found.broken


def joined() -> Taskset:
    """a releases b and d, and c waits for both, and reads what f has written."""
    system = taskset(
        task("a", 0, 5, 20, cpu(1)), task("b", 1, 5, 20, cpu(1)), task("d", 2, 5, 20, cpu(4)),
        task("c", 1, 4, 20, cpu(2)), task("f", 0, 4, 12, cpu(1)),
    )  # fmt: skip
    tasks = tuple(replace(t, max_period=t.period) if t.name in "af" else t for t in system)
    chains = (
        Chain("short", ("a", "b", "c"), True, triggered=("b", "c")),
        Chain("long", ("a", "d", "c"), True, triggered=("d", "c")), Chain("beside", ("f", "c")),
    )  # fmt: skip
    return replace(system, tasks=tasks, chains=chains)


def test_a_task_that_waits_for_two_has_the_later_ends_window() -> None:
    """By hand: c comes 5 after each a, and ends 2 later, or 3 by its bound, which counts b; it reads f each 20."""
    result = TEST.run(joined())
    assert triggered.windows(joined(), {name: result.wcrt(name) or 0 for name in "abcdf"})["c"] == (ms(5), ms(5))
    found = {one.name: bound_of(one, joined(), result).latencies["max_reaction"].bound for one in joined().chains}
    assert found == {"short": ms(8), "long": ms(8), "beside": ms(12 + 2 + 20 + 3)}
    exact = explore(joined(), Options("boosted"))
    assert {name: times[0] for name, times in exact.chains.items()} == {"short": ms(7), "long": ms(7), "beside": ms(34)}


def test_random_schedules_break_no_bound_of_a_chain_but_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its simplest counterexample has the tasks of its chains."""
    light, draw = Effort(4, 8), Drawing(("chains",))
    found = attack(registry.find("boosted-suspend"), 12 * MANY, seed=3, effort=light, draw=draw)
    assert (found.violations, found.schedulable > 3 * MANY) == (0, True)
    monkeypatch.setattr(bounds, "never_between", lambda p, c, _: p.cpu == c.cpu and p.priority > c.priority)
    smallest = attack(registry.find("boosted-suspend"), 60, seed=3, effort=light, draw=draw).smallest
    assert smallest is not None
    printed = minimised(registry.find("boosted-suspend"), smallest)
    assert ": max_" in printed.task
    assert {name for one in printed.taskset.chains for name in one.tasks} <= {t.name for t in printed.taskset}


def test_a_counterexample_with_chains_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(toml(joined()))
    file = load(path)
    read = file.taskset
    assert any("c is released once by b and d: its job waits for their jobs of its number" in one for one in file.notes)
    assert (read.chains, read.triggers) == (joined().chains, joined().triggers)
    assert TEST.run(read).verdicts == TEST.run(joined()).verdicts
