# SPDX-License-Identifier: GPL-2.0
"""Wake-ups of threads that take time (`cpu_latency`): bounds, simulator and explorer.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from attack_outcome import Effort
from attack_search import attack
from builders import cpu, gpu, ms, task, taskset
from effort import tries
from every_schedule import Compared, compare
from kinds import Drawing, with_latency, with_random_pending
from tiny import tiny_for

from analysis.answers import compiled
from analysis.attack.exact import TooManyStatesError, exact_ways, explore
from analysis.model import (
    MS,
    CpuSegment,
    GpuSegment,
    Protocol,
    Resource,
    Section,
    Segment,
    Span,
    Task,
    Taskset,
    Waiting,
)
from analysis.model.callbacks import Order, Thread
from analysis.papers import registry
from analysis.rta import wakeups
from analysis.rta.columns import columns_of
from analysis.rta.result import Bound, Failure, Reason, TermKind
from analysis.rta.system import System
from analysis.simulation.simulate import Options, simulate
from gpurt.enums import Form
from gpurt.errors import TooLargeError

MANY = 20 if os.environ.get("GPURT_LONG") else 1
#: The tests that bound wake-ups.
LATENCY = [name for name, test in registry.TESTS.items() if test.latency]


def beside() -> Taskset:
    """Tasks of two CPUs use the GPU, and wake-ups take 0.1 ms."""
    system = taskset(
        task("a", 0, 9, 50, cpu(1), gpu(1, 2)), task("b", 1, 5, 60, gpu(1, 4), cpu(1)), task("c", 0, 2, 80, cpu(2)),
        epsilon=0.2,
    )  # fmt: skip
    return with_latency(system, ms(0.1))


def test_each_release_of_tasks_without_gpu_work_pays_one_wake_up() -> None:
    """c waits for two wake-ups of a, and for one of its own."""
    system = with_latency(taskset(task("a", 0, 9, 5, cpu(2)), task("c", 0, 1, 20, cpu(4))), ms(0.5))
    for name in LATENCY:
        found = registry.find(name).run(system)
        assert (found.wcrt("a"), found.wcrt("c")) == (ms(2.5), ms(4.5 + 2 * 2.5))
    seen = simulate(system, Options("boosted")).tasks
    assert (seen["a"].worst, seen["c"].worst) == (ms(2.5), ms(9.5))


def test_a_segment_pays_three_and_the_update_lock_four_more() -> None:
    """a alone: 1 + 1 + 2, and four wake-ups.  Beside b: eight more of its own, and four of each job of b."""
    alone = with_latency(taskset(task("a", 0, 9, 50, cpu(1), gpu(1, 2))), ms(0.1))
    test = registry.find("boosted-suspend")
    assert test.run(alone).wcrt("a") == ms(4 + 0.4)
    bound = test.run(beside()).verdicts["a"]
    assert isinstance(bound, Bound)
    assert sum(term.amount for term in bound.terms) == bound.wcrt
    woken = {(t.source, t.lemma): t.amount for t in bound.terms if t.kind is TermKind.WAKE_UPS}
    assert woken == {(None, wakeups.LEMMA): ms(0.4), (None, wakeups.HANDED): ms(0.8), ("b", wakeups.HANDED): ms(0.8)}


def test_a_task_of_a_cpu_without_gpu_work_is_not_delayed_by_others_wake_ups() -> None:
    system, alone = beside(), task("d", 2, 1, 20, cpu(1))
    system = replace(system, tasks=(*system.tasks, alone), platform=replace(system.platform, cpus=3))
    assert registry.find("boosted-suspend").run(system).wcrt("d") == ms(1.1)


def test_the_simulator_wakes_a_thread_at_its_release_and_after_its_gpu_work() -> None:
    system = with_latency(taskset(task("a", 0, 9, 50, cpu(1), gpu(1, 2), cpu(1))), ms(0.1))
    assert simulate(system, Options("boosted")).tasks["a"].worst == ms(5.2)
    assert simulate(system, Options("boosted", execution="best")).tasks["a"].worst == ms(5)


def test_a_thread_that_goes_on_with_its_next_job_does_not_wake() -> None:
    late = with_latency(taskset(replace(task("a", 0, 9, 10, cpu(2), deadline=30), jitter=ms(10))), ms(1))
    seen = simulate(late, Options("boosted", horizon=ms(11))).tasks["a"]
    assert (seen.jobs, seen.worst) == (3, ms(5))


def test_other_tests_refuse_it_by_name() -> None:
    for name, test in registry.TESTS.items():
        result = test.run(beside())
        assert compiled.run_compiled(test, beside()).verdicts == result.verdicts
        if name not in LATENCY:
            assert {v.reason for v in result.verdicts.values() if isinstance(v, Failure)} == {Reason.LATENCY}, name
            assert result.why == f"a: no bound, because {name} has no bound for cpu_latency"


def test_form_owner_is_refused() -> None:
    system = beside()
    owner = replace(system, tasks=(replace(system.tasks[0], form=Form.OWNER), *system.tasks[1:]))
    why = registry.find("boosted-suspend").run(owner).why
    assert why.endswith("boosted-suspend has no bound for cpu_latency where a task has form owner, as a has")
    assert registry.find("gcaps-suspend").run(owner).schedulable


def test_compiled_tests_have_it_where_nobody_waits_for_the_update_lock() -> None:
    one = replace(beside(), tasks=tuple(replace(t, cpu=0) for t in beside()))
    for name in LATENCY:
        test = registry.find(name)
        assert compiled.run_compiled(test, one).verdicts == test.run(one).verdicts
        assert compiled.passes(test, one) == test.run(one).schedulable
    with pytest.raises(ValueError, match="no cpu_latency"):
        columns_of(one)


def test_large_files_that_only_the_readable_analysis_takes_are_refused() -> None:
    system = beside()
    many = tuple(task(f"t{n}", 2, 1, 10_000, cpu(0.001)) for n in range(compiled.MAX_TASKS_READABLE))
    large = replace(system, tasks=(*system.tasks, *many), platform=replace(system.platform, cpus=3))
    with pytest.raises(TooLargeError, match="at most 1000 tasks"):
        compiled.run_compiled(registry.find("boosted-suspend"), large)


def compared(name: str, count: int, states: int, pending: bool = False) -> Iterator[Compared]:
    """Tiny tasksets with wake-ups of 1 ms, and every schedule of those that a test bounds."""
    test, rng = registry.find(name), random.Random(f"wake-ups {name} {pending}")
    for _ in range(count):
        system = with_latency(tiny_for(test, rng, rng.choice([6, 12])), MS)
        system = with_random_pending(system, rng) if pending else system
        try:
            found = compare(test, system, states)
        except TooManyStatesError:
            continue
        if found is not None:
            yield found


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("name", LATENCY)
def test_no_schedule_of_tiny_tasksets_exceeds_a_bound(name: str, pending: bool) -> None:
    bounded = 0
    for found in compared(name, tries(100, 50) * MANY, 3_000, pending):
        assert found.broken is None, (found.taskset, found.bounds, found.exact)
        bounded += 1
    assert bounded >= tries(100, 50) * MANY // 50


def test_bounds_without_wake_ups_in_segments_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "wakeups", 0)
    monkeypatch.setattr(wakeups, "_decisions", lambda segments, system: 0)
    assert any(found.broken for found in compared("boosted-suspend", 200, 3_000))


def test_wake_ups_at_the_update_lock_are_explored() -> None:
    """a waits for b's update at its begin, and for b's decision at its end: it wakes twice, and at its release."""
    system = taskset(task("a", 0, 9, 20, gpu(1, 0)), task("b", 1, 5, 20, gpu(0, 1)), epsilon=1)
    still, woken = (
        explore(one, next(exact_ways(registry.find("gcaps-suspend"))), states=200_000).worst["a"]
        for one in (system, with_latency(system, MS))
    )
    assert woken - still == 3 * MS


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-busy"])
def test_the_random_attack_breaks_nothing(name: str) -> None:
    found = attack(registry.find(name), 12 * MANY, seed=3, effort=Effort(4, 8), draw=Drawing(("latency",)))
    assert found.violations == 0
    assert found.schedulable > 0


def spinning() -> Taskset:
    """a and c on CPU 0, b on CPU 1; all spin for r, a twice; only b uses s, and c asks for q twice."""
    system = taskset(
        task("a", 0, 9, 50, cpu(1), gpu(1, 2)), task("c", 0, 2, 80, cpu(5)), task("b", 1, 5, 60, gpu(1, 4), cpu(2))
    )
    r = Resource("r", Protocol.SPIN, (Section("a", ms(1), 2), Section("b", ms(2)), Section("c", ms(3))))
    s, q = (Section("b", ms(6)),), (Section("c", ms(4), 2),)
    return replace(system, resources=(r, Resource("s", Protocol.SPIN, s), Resource("q", Protocol.INHERITANCE, q)))


@pytest.mark.parametrize(
    ("latency", "resources", "cpus", "first"),
    [(0.5, False, (0.5, 0.5), (0.5, 0.5, 0.5)), (0, True, (5, 6), (0, 0, 0)), (0.5, True, (5.5, 6.5), (0.5, 1.5, 0.5))],
)
def test_segments_have_the_wake_ups_in_their_worst_case_only(
    latency: float, resources: bool, cpus: tuple[float, ...], first: tuple[float, ...]
) -> None:
    """c spins 2 ms for b and holds 3; b spins for nobody at s, and holds it for 6.  c sleeps for q twice."""
    system = with_latency(spinning() if resources else replace(spinning(), resources=()), ms(latency))
    for waiting, times in ((Waiting.BUSY, 2), (Waiting.SUSPEND, 3)):
        found = wakeups.with_wakeups(system, waiting)
        assert (found.platform.cpu_latency, found.platform.woken) == (0, tuple(map(ms, cpus)))
        for old, new, asked in zip(system, found, first, strict=True):
            right: list[Segment] = [CpuSegment(Span(ms(asked), 0))] if asked else []
            for one in old.segments:
                more = ms(times * cpus[old.cpu])
                right += [replace(one, misc=Span(ms(1) + more, ms(1))) if isinstance(one, GpuSegment) else one]
            assert new == replace(old, segments=tuple(right))
            assert wakeups.own(new, System(found), waiting) == ms(latency + times * old.eta * cpus[old.cpu])
        assert wakeups.latency_contained(found) == ms(latency)
        assert wakeups.with_wakeups(found, waiting) is found
    busy = replace(system, tasks=tuple(replace(one, waiting=Waiting.BUSY) for one in system))
    assert wakeups.with_wakeups(busy, None) == wakeups.with_wakeups(busy, Waiting.BUSY)


def test_a_taskset_without_latency_and_resources_stays_as_it_is() -> None:
    system = replace(spinning(), resources=())
    assert wakeups.with_wakeups(system, None) is system
    assert (wakeups.latency_contained(system), wakeups.own(system.tasks[0], System(system), None)) == (0, 0)
    for one in system:
        assert wakeups.handed(one, System(system)) == wakeups.others(one, System(system)) == []
    assert wakeups.window(System(system)) == 0


@pytest.mark.parametrize(
    ("cpu", "below", "longest"),
    [(0, None, (5, "c")), (0, 3, (5, "c")), (0, 2, (0, "")), (1, None, (6, "b")), (1, 6, (6, "b")), (1, 5, (0, ""))],
)
def test_the_longest_that_a_thread_spins_and_holds(cpu: int, below: int | None, longest: tuple[int, str]) -> None:
    assert wakeups.unpreempted(cpu, spinning(), below) == (ms(longest[0]), longest[1])


def test_a_thread_spins_for_the_longest_holder_of_each_other_cpu() -> None:
    times = zip("abcde", (3, 1, 2, 16, 32), strict=True)
    held = Resource("r", Protocol.SPIN, tuple(Section(name, ms(time)) for name, time in times))
    where = dict(zip("abcde", (0, 0, 0, 1, 2), strict=True))
    assert [wakeups.spun(held, cpu, where) for cpu in range(4)] == [ms(48), ms(35), ms(19), ms(51)]


def test_the_update_lock_is_handed_by_each_other_task_of_another_thread() -> None:
    """On CPU 0 a uses the GPU, and c waits for a; on CPU 1 b does.  A decision has the longest wake-up four times."""
    loop = Thread("loop", Order.FIFO)
    system = replace(spinning(), resources=())
    platform = replace(system.platform, cpus=3, woken=(ms(0.25), ms(0.5), ms(0.125)))
    seen = System(replace(system, tasks=(*system.tasks, task("d", 2, 1, 80, cpu(1))), platform=platform))
    a, c, b, d = seen.taskset.tasks

    def handed(task: Task, system: System) -> list[tuple[str | None, int, int]]:
        return [(one.source, one.amount, one.period) for one in wakeups.handed(task, system)]

    by_a, by_b = ("a", ms(2), ms(50)), ("b", ms(2), ms(60))
    assert [handed(one, seen) for one in (a, c, b, d)] == [
        [(None, ms(4), 0), by_b], [(None, 0, 0), by_a, by_b], [(None, ms(4), 0), by_a], [],
    ]  # fmt: skip
    assert wakeups.window(seen) == ms(2)
    assert all(one.jitter == ms(50) - ms(2) for one in wakeups.others(b, seen))
    same, other = replace(a, thread=loop), replace(b, thread=loop)
    assert wakeups.others(same, replace(seen, taskset=replace(seen.taskset, tasks=(same, c, other, d)))) == []
    else_ = replace(b, thread=Thread("other", Order.FIFO))
    assert len(wakeups.others(same, replace(seen, taskset=replace(seen.taskset, tasks=(same, c, else_, d))))) == 1
    one_cpu = replace(seen.taskset, tasks=tuple(replace(one, cpu=0) for one in seen.taskset))
    assert (wakeups.window(System(one_cpu)), wakeups.handed(a, System(one_cpu))) == (0, [])


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("woken", [(), (0, 0), (0, 1)])
@pytest.mark.parametrize("latency", [0, 1])
@pytest.mark.parametrize("resources", [False, True])
def test_what_is_refused_is_said(resources: bool, latency: int, woken: tuple[int, ...], raises: bool) -> None:
    """A form matters of a real-time task that uses the GPU, under a policy that raises its thread."""
    system = spinning() if resources else replace(spinning(), resources=())
    system = replace(system, platform=replace(system.platform, cpu_latency=latency, woken=woken))
    rules = replace(registry.find("boosted-suspend").rules, raises=raises)

    def why(system: Taskset, latency: bool = True, resources: bool = True) -> str | None:
        return wakeups.refusal_of_wakeups("t", rules, system, latency=latency, resources=resources)

    def formed(form: Form | None, at: int = 0, priority: int = 9) -> Taskset:
        tasks = list(system.tasks)
        tasks[at] = replace(tasks[at], form=form, priority=priority)
        return replace(system, tasks=tuple(tasks))

    assert why(system) is why(formed(Form.SELF)) is why(formed(Form.OWNER, 1)) is why(formed(Form.OWNER, 0, 0)) is None
    assert why(system, resources=False) == ("t has no bound for [[resource]]" if resources else None)
    late = bool(latency or any(woken) or resources)
    assert why(system, latency=False) == ("t has no bound for cpu_latency" if late else None)
    what = "cpu_latency" if latency else "[[resource]]"
    said = f"t has no bound for {what} where a task has form owner, as a has" if late and raises else None
    assert why(formed(Form.OWNER)) == said


def test_a_thread_of_several_tasks_wakes_once_for_jobs_in_a_row() -> None:
    served = [replace(task(n, 0, 9, 50, cpu(1)), thread=Thread("loop", Order.FIFO), rank=r) for r, n in enumerate("ab")]
    system = with_latency(taskset(*served), MS)
    seen = simulate(system, Options("boosted")).tasks
    assert max(seen["a"].worst, seen["b"].worst) == ms(3)
    assert registry.find("boosted-suspend").run(system).wcrt("b") == ms(4)
