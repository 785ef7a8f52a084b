# SPDX-License-Identifier: GPL-2.0
"""Tasks with workers: golden values, every schedule of tiny systems on the core that ships, and what breaks without.

GPURT_LONG=1 looks at more systems.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from attack_outcome import Effort
from attack_report import toml
from attack_search import attack
from builders import cpu, gpu, ms, task, taskset, wcrt
from every_schedule import Compared, compare
from fork_attack import sharp_forks
from kinds import Drawing, with_random_workers
from random_tasksets import random_taskset
from tiny import tiny_forks

from analysis import rta
from analysis.answers import registry
from analysis.attack.exact import TooManyStatesError, explore
from analysis.model import Fork, Span, Task, Taskset, Waiting
from analysis.model.callbacks import Order, Thread
from analysis.rta import forkjoin, windows
from analysis.rta.forkjoin import with_switches
from analysis.rta.recurrence import Demand
from analysis.rta.result import Bound
from analysis.rta.system import System
from analysis.simulation.simulate import Options, SimulationError, simulate
from analysis.taskset import load
from gpurt.enums import Form

MANY = 20 if os.environ.get("GPURT_LONG") else 1
TESTS = ("boosted-suspend", "gcaps-suspend")


def forked(system: Taskset, name: str, after: int, *workers: str) -> Taskset:
    """The taskset in which one task has those workers, which take its period, deadline and GPU priority."""
    one = next(t for t in system if t.name == name)
    same = partial(replace, period=one.period, deadline=one.deadline, gpu_priority=one.segment_priority)
    tasks = tuple(same(t) if t.name in (name, *workers) else t for t in system)
    return replace(system, tasks=tasks, forks=(*system.forks, Fork(name, after, workers)))


def both(theta: float = 0, slice_: float = 1, epsilon: float = 0) -> Taskset:
    """Golden value 1."""
    system = taskset(
        task("p", 0, 5, 30, cpu(1), cpu(1)), task("w0", 0, 4, 30, gpu(1, 4)), task("w1", 1, 4, 30, gpu(2, 3)),
        theta=theta, slice_=slice_, epsilon=epsilon or theta,
    )  # fmt: skip
    return forked(system, "p", 1, "w0", "w1")


def beside() -> Taskset:
    """Golden value 2."""
    system = taskset(
        task("p", 0, 5, 30, cpu(1), gpu(1, 1)), task("w0", 0, 4, 30, cpu(1), gpu(1, 3)),
        task("w1", 1, 4, 30, gpu(1, 2)), task("r", 2, 9, 20, gpu(1, 2)), slice_=1,
    )  # fmt: skip
    return forked(system, "p", 1, "w0", "w1")


def exact(system: Taskset, test: str) -> dict[str, int]:
    """The longest responses over all schedules in all forms that the test is about."""
    limits = {t.name: 3 * t.period for t in system}
    row = registry.find_test(test)
    found = [explore(system, Options(row.policy, form=form), limits).worst for form in row.forms]
    return {t.name: max(one[t.name] for one in found) for t in system}



def test_a_task_whose_worker_no_order_bounds_has_no_bound() -> None:
    """Its CPU has no user of the GPU, and only therefore no order of GPU priorities delays it."""
    system = taskset(
        replace(task("p", 1, 6, 60, cpu(10)), gpu_priority=1), task("w", 0, 11, 60, gpu(10, 10)),
        task("q", 1, 3, 60, cpu(1)), task("o", 0, 5, 50, gpu(10, 0)), task("x", 2, 1, 50, cpu(3)),
    )  # fmt: skip
    system = forked(system, "p", 0, "w")
    assert [wcrt("gcaps-suspend", system, t.name) for t in system] == [None, None, None, None, ms(3)]

@pytest.mark.parametrize("test", TESTS)
def test_golden_values(test: str) -> None:
    assert wcrt(test, both(), "p") == ms(11)
    assert exact(both(), test)["p"] == ms(10)
    assert (wcrt(test, beside(), "p"), wcrt(test, beside(), "r")) == (ms(13), ms(3))
    seen = exact(beside(), test)
    assert (seen["p"], seen["r"]) == (ms(12), ms(3))


@pytest.mark.parametrize("test", TESTS)
def test_a_workers_bound_counts_from_the_release_of_its_tasks_job(test: str) -> None:
    """w0 waits for 1 ms of p, and for 3 ms of w1's GPU work."""
    assert wcrt(test, both(), "w0") == ms(1 + 5 + 3)
    assert exact(both(), test)["w0"] == ms(9)


def test_the_terms_of_a_bound_name_the_other_workers() -> None:
    verdict = registry.find_test("boosted-suspend").run(beside()).verdicts["p"]
    assert isinstance(verdict, Bound)
    assert [(t.kind.value, t.source, t.amount) for t in verdict.terms] == [
        ("own execution", None, ms(8)), ("GPU preemption", "w1", ms(2)), ("GPU preemption", "r", ms(3)),
    ]  # fmt: skip
    assert sum(t.amount for t in verdict.terms) == verdict.wcrt


def test_turns_of_the_groups_tsgs_begin_with_a_context_switch() -> None:
    """4 ms in slices of 1 ms are five turns at most, 3 ms are four; a worker alone has no turns."""
    longer = {t.name: t for t in with_switches(both(theta=0.1))}
    assert longer["w0"].pure_time == ms(4 + 5 * 0.1)
    assert longer["w1"].pure_time == ms(3 + 4 * 0.1)
    alone = forked(replace(both(theta=0.1), forks=()), "p", 1, "w0")
    assert with_switches(alone) == alone


def test_turns_break_a_bound_without_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    system, test = both(theta=1), "boosted-suspend"
    assert (wcrt(test, system, "p") or 0) >= exact(system, test)["p"]
    monkeypatch.setattr(forkjoin, "with_switches", lambda taskset: taskset)
    assert (wcrt(test, system, "p") or 0) < exact(system, test)["p"]


def handed() -> Taskset:
    """A worker w1 of q may have the update lock, while p executes on its CPU: q's other worker waits for it."""
    system = taskset(
        task("p", 1, 16, 13, cpu(1), cpu(1), cpu(1)), task("p0", 0, 10, 13, gpu(1, 1)), task("p1", 1, 8, 13, cpu(2)),
        task("q", 0, 1, 11, cpu(0)), task("w0", 0, 6, 11, gpu(1, 0), cpu(2)), task("w1", 1, 4, 11, gpu(0, 0)),
        slice_=1,
    )  # fmt: skip
    order = {"p": 11, "q": 10}
    system = replace(system, tasks=tuple(replace(t, gpu_priority=order.get(t.name)) for t in system))
    return forked(forked(system, "p", 1, "p0", "p1"), "q", 0, "w0", "w1")


def test_under_segment_a_worker_waits_for_what_preempts_another_one_at_the_lock() -> None:
    """The specification leaves it out: 5 ms, and the schedule takes longer."""
    assert exact(handed(), "gcaps-suspend")["w0"] > ms(5)
    assert (wcrt("gcaps-suspend", handed(), "w0") or 0) >= exact(handed(), "gcaps-suspend")["w0"]


def leveled(level: int, system: Taskset, *names: str) -> Taskset:
    """The taskset in which tasks have a GPU priority."""
    tasks = tuple(replace(t, gpu_priority=level) if t.name in names else t for t in system)
    return replace(system, tasks=tasks)


#: The specification's bounds are less than the exact worst case of w0, ms; and the test that has such bounds.
TOO_SMALL = {
    # o owns the GPU at the level of the group, and w1, raised, keeps it from its CPU
    "an equal owner below a raised worker": (15, "boosted-suspend", forked(leveled(7, taskset(
        task("p", 0, 5, 30), task("w0", 0, 6, 30, gpu(0, 1), cpu(8)), task("w1", 1, 4, 30, gpu(6, 0)),
        task("o", 1, 9, 30, gpu(0, 2)), slice_=1,
    ), "p", "o"), "p", 0, "w0", "w1")),
    # w1 was handed the update lock, and w2, raised, keeps it from its CPU
    "a worker with the lock below a raised worker": (40, "boosted-suspend", forked(taskset(
        task("p", 0, 5, 60), task("w0", 0, 3, 60, gpu(0, 0), cpu(30)), task("w1", 1, 2, 60, cpu(0.2), gpu(9, 0)),
        task("w2", 1, 3, 60, cpu(0.2), gpu(9, 0)), epsilon=1, slice_=1,
    ), "p", 0, "w0", "w1", "w2")),
    # o owns the GPU, and w1 executes above it
    "an owner below another worker": (19, "gcaps-suspend", forked(leveled(5, leveled(3, taskset(
        task("p", 0, 1, 40), task("w0", 1, 3, 40, gpu(0, 1), cpu(9)), task("w1", 0, 9, 40, cpu(9)),
        task("o", 0, 5, 40, gpu(0, 2)), slice_=1,
    ), "p"), "o"), "p", 0, "w0", "w1")),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_SMALL)
def test_what_another_worker_keeps_from_its_cpu_delays_the_path(what: str) -> None:
    least, test, system = TOO_SMALL[what]
    worst = exact(system, test)
    assert worst["w0"] == worst["p"] == ms(least)
    assert all((wcrt(test, system, t.name) or 0) >= worst[t.name] for t in system)


def looked_at(
    test: rta.Test, seed: int, count: int, draw: Callable[[random.Random], Taskset] = tiny_forks
) -> Iterator[Compared]:  # fmt: skip
    """That many random systems that the test bounds, each beside all its schedules."""
    rng, found = random.Random(seed), 0
    while found < count:
        try:
            one = compare(test, draw(rng), states=100_000)
        except TooManyStatesError:
            continue
        if one:
            found += 1
            yield one


@pytest.mark.parametrize("draw", [tiny_forks, sharp_forks])
@pytest.mark.parametrize("test", TESTS)
def test_no_schedule_of_a_tiny_system_exceeds_a_bound(test: str, draw: Callable[[random.Random], Taskset]) -> None:
    for one in looked_at(registry.find_test(test), 5, 20 * MANY, draw):
        assert one.broken is None, toml(one.taskset)


def without(*lemmas: str) -> forkjoin.Paths:
    return lambda path: [d for d in forkjoin.boosted(path) if d.lemma not in lemmas]


@pytest.mark.parametrize("lemma", [forkjoin.WORKERS, forkjoin.PATH_LOWER, forkjoin.PATH_CPU, forkjoin.OWNERS])
def test_a_bound_without_one_of_its_parts_is_broken(lemma: str) -> None:
    test = replace(registry.find_test("boosted-suspend"), paths=without(lemma))
    assert any(one.broken for one in looked_at(test, 7, 150))


def test_a_bound_of_boosted_is_broken_where_nobody_is_raised() -> None:
    """h has the CPU of r, which owns the GPU."""
    system = replace(beside(), tasks=(*beside().tasks, task("h", 2, 10, 30, cpu(5))))
    bound = wcrt("boosted-suspend", system, "p")
    assert exact(system, "boosted-suspend")["p"] <= (bound or 0) < exact(system, "gcaps-suspend")["p"]


@pytest.mark.parametrize("test", TESTS)
def test_no_random_schedule_exceeds_a_bound(test: str) -> None:
    outcome = attack(registry.find_test(test), 12 * MANY, seed=2, effort=Effort(2, 4), draw=Drawing(("workers",)))
    assert outcome.schedulable
    assert outcome.violations == 0


def test_boosted_is_attacked_with_workers_inside_a_segment_and_outside() -> None:
    inside: set[bool] = set()

    def paths(path: forkjoin.Path) -> list[Demand]:
        inside.add(path.fork.hold)
        return forkjoin.boosted(path)

    test = replace(registry.find_test("boosted-suspend"), paths=paths)
    attack(test, 20, seed=2, effort=Effort(1, 1), draw=Drawing(("workers",)))
    assert inside == {False, True}


def test_generated_systems_have_groups_and_survive_a_file(tmp_path: Path) -> None:
    rng = random.Random(3)
    for _ in range(20):
        system = with_random_workers(random_taskset(rng), rng)
        path = tmp_path / "set.toml"
        path.write_text(toml(system))
        read = load(path)
        assert {*read.taskset.forks} == {*system.forks}
        assert read.unmodelled == ()
        for name in system.forked:
            assert next(t for t in read.taskset if t.name == name) == next(t for t in system if t.name == name)


def test_a_worker_without_gpu_work_has_a_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins up to 4 ms after the release of its task's job, so that two of its jobs come within 6 ms."""
    late_start = replace(cpu(4), time=Span(ms(4), 0))
    system = taskset(
        task("p", 0, 5, 10, late_start), task("w", 1, 9, 10, cpu(4)), task("i", 1, 1, 30, cpu(3)), slice_=1,
    )  # fmt: skip
    system = forked(system, "p", 1, "w")
    assert wcrt("boosted-suspend", system, "i") == exact(system, "boosted-suspend")["i"] == ms(11)
    monkeypatch.setattr(Taskset, "sleeps", lambda system, one: one.uses_gpu)
    assert wcrt("boosted-suspend", system, "i") == ms(7)


def test_a_group_owns_with_all_of_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest(one: Task, system: System) -> int:
        fork = system.taskset.forked.get(one.name)
        members = [t for t in system.taskset if fork and t.name in fork.members]
        return 0 if members and one is not max(members, key=lambda t: t.gpu_time) else whole(one, system)

    whole = windows.owned
    monkeypatch.setattr(windows, "owned", largest)
    assert any(one.broken for one in looked_at(registry.find_test("boosted-suspend"), 7, 300))


def late(name: str, **changes: object) -> Callable[[Taskset], Taskset]:
    def change(system: Taskset) -> Taskset:
        return replace(system, tasks=tuple(replace(t, **changes) if t.name == name else t for t in system))  # type: ignore[arg-type]

    return change


REFUSED = {
    "several pending jobs": late("r", jitter=1),
    "a deadline beyond the period": late("p", deadline=ms(31)),
    "threads": lambda system: replace(
        system, tasks=(*system.tasks, *(replace(t, name=f"s{i}", thread=Thread("s", Order.FIFO), rank=i, period=ms(90))
                                        for i, t in enumerate([system.tasks[3]] * 2))),
    ),
    "cpu_latency": lambda system: replace(system, platform=replace(system.platform, cpu_latency=1)),
}  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(test: str, what: str) -> None:
    result = registry.find_test(test).run(REFUSED[what](beside()))
    assert not result.schedulable
    assert "beside tasks with workers, as p is" in result.why


def test_other_tests_refuse_workers_by_name() -> None:
    for test in registry.TESTS.values():
        result = test.run(beside())
        if test.name in TESTS:
            assert result.schedulable
        else:
            assert set(result.verdicts) == {"p", "w0", "w1", "r"}
            assert "workers, as p is" in result.why
            assert not any(isinstance(verdict, Bound) for verdict in result.verdicts.values())


@pytest.mark.parametrize("policy", ["timesliced", "job", "lock-priority", "lock-fifo", "mpcp"])
def test_other_policies_are_not_simulated(policy: str) -> None:
    with pytest.raises(SimulationError, match="p has workers, which are simulated under segment and boosted only"):
        simulate(beside(), Options(policy))


def test_a_group_that_spins_is_not_simulated() -> None:
    with pytest.raises(SimulationError, match="in a group and waits busily"):
        simulate(beside(), Options("boosted", Waiting.BUSY))

    def spinning(name: str) -> Taskset:
        system = beside()
        return replace(system, tasks=tuple(replace(t, waiting=Waiting.BUSY) if t.name == name else t for t in system))

    for name in ("p", "w0", "w1"):
        with pytest.raises(SimulationError, match=f"{name} is in a group and waits busily"):
            simulate(spinning(name), Options("boosted"))
    assert simulate(spinning("r"), Options("boosted", horizon=ms(30))).tasks["r"].jobs  # beside the group


def test_a_task_forks_and_goes_on_only_where_it_has_its_cpu() -> None:
    """h has the CPU at p's release, and again when p's worker is done."""
    system = taskset(
        task("p", 0, 1, 100), task("w", 1, 1, 100, cpu(2)), task("h", 0, 9, 100, cpu(1)),
        task("g", 0, 8, 100, cpu(3)),
    )  # fmt: skip
    seen = simulate(forked(system, "p", 0, "w"), Options("boosted"), [0, 0, 0, ms(2)]).tasks
    assert (seen["w"].worst, seen["p"].worst) == (ms(3), ms(5))


def test_the_first_of_two_orders_on_a_cpu_holds_for_threads_of_two_groups() -> None:
    """w0 is above w1 on their CPU and of the same group; x is of another task, and must have the lower GPU priority."""
    system = forked(taskset(
        task("p", 1, 5, 30, cpu(1)), task("w0", 0, 7, 30, gpu(1, 1)), task("w1", 0, 3, 30, gpu(1, 1)),
        task("x", 0, 6, 30, gpu(1, 1)),
    ), "p", 1, "w0", "w1")  # fmt: skip
    refused = registry.find_test("gcaps-suspend").run(system)
    assert "preempts x on their CPU but does not outrank it" in refused.why
    assert "w0 preempts w1" not in refused.why
    assert registry.find_test("boosted-suspend").run(system).schedulable


def test_a_random_demand_is_within_the_workers_spans() -> None:
    short = replace(both(), tasks=tuple(_shorter(t) for t in both()))
    seen = simulate(short, Options("segment", execution="best")).tasks
    assert seen["p"].worst == 0
    assert seen["p"].jobs == seen["w0"].jobs == seen["w0"].finished


def _shorter(one: Task) -> Task:
    segments = tuple(
        replace(s, time=Span(s.time.worst, 0)) if hasattr(s, "time")
        else replace(s, misc=Span(s.misc.worst, 0), pure=Span(s.pure.worst, 0)) for s in one.segments
    )  # fmt: skip
    return replace(one, segments=segments)


def test_forms_may_be_stated() -> None:
    system = late("w0", form=Form.OWNER)(beside())
    assert registry.find_test("boosted-suspend").fits(system)
