# SPDX-License-Identifier: GPL-2.0
"""Threads that serve several tasks on the core that ships: golden values, every schedule of tiny tasksets, attacks.

GPURT_LONG=1 looks at more tasksets.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from attack_outcome import Effort
from attack_report import toml
from attack_search import attack
from builders import cpu, ms, task, taskset
from effort import tries
from kinds import Drawing, with_random_pending, with_random_threads
from test_threads import GOLDEN, TESTS, bounds, in_ms, jittery, on, served
from tiny import tiny

from analysis.attack.exact import TooManyStatesError, explore
from analysis.model import Task, Taskset
from analysis.model.callbacks import Order
from analysis.papers import registry
from analysis.rta.system import System
from analysis.rta.threads import Chains, Company
from analysis.simulation.simulate import Options, SimulationError, simulate
from analysis.taskset import load
from gpurt.enums import Form

MANY = 20 if os.environ.get("GPURT_LONG") else 1
FORMS = {"boosted": (Form.SELF, Form.OWNER), "segment": (None,)}


def exact(system: Taskset, policy: str = "boosted", form: Form | None = None) -> dict[str, int]:
    """The longest responses over all schedules, also of those in which tasks are late."""
    limits = {t.name: 3 * t.period for t in system}
    return dict(explore(system, Options(policy, form=form), limits).worst)


def test_golden_exact_values() -> None:
    assert exact(GOLDEN[1]) == in_ms(a=13, b=13, i=10)
    assert exact(GOLDEN[3]) == in_ms(a=6, b=9, d=9)
    assert exact(GOLDEN[5]) == in_ms(t=5, s=6, u=6)
    assert exact(GOLDEN[6]) == in_ms(h=7, a=10, b=10)
    assert exact(jittery(8))["l"] == ms(10)


@pytest.mark.parametrize(("policy", "detect"), [("segment", 53), ("boosted", 51)])
def test_two_callbacks_are_as_late_as_their_bound(policy: str, detect: float) -> None:
    """The watchdog is released right after detect: all of that goes first, to the nanosecond."""
    seen = simulate(GOLDEN[8], Options(policy, horizon=ms(100)), [0, 1]).tasks["watchdog"].worst
    assert ms(51) - 1 <= seen <= ms(detect)


def tiny_threads(rng: random.Random) -> Taskset:
    return with_random_threads(tiny(rng), rng)


def claims(system: Taskset, policy: str) -> Iterator[tuple[str, int]]:
    """Every claim on a response time, also above deadlines."""
    result = TESTS[policy].run(system)
    for one in system.real_time:
        if (wcrt := result.wcrt(one.name)) is not None:
            yield one.name, wcrt


def late_in_threads(system: Taskset, found: Mapping[str, int]) -> bool:
    """Whether a task has a bound whose thread serves one with release jitter."""
    return any(t.jitter and len(mates := system.served_with(t)) > 1 and any(m.name in found for m in mates)
               for t in system.real_time)  # fmt: skip


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("policy", ["boosted", "segment"])
def test_no_schedule_exceeds_a_bound(policy: str, pending: bool) -> None:
    """Also with release jitter and deadlines beyond periods."""
    rng, explored = random.Random(f"threads {policy}"), 0
    while explored < (tries(8, 4) if pending else tries(15, 6)) * MANY:
        system = tiny_threads(rng)
        if pending:
            system = with_random_pending(system, rng)
        found = dict(claims(system, policy))
        if not system.threads or not found or (pending and not late_in_threads(system, found)):
            continue
        complete = explored
        for form in FORMS[policy]:
            limits = {t.name: found.get(t.name, 3 * t.period) for t in system}
            try:
                every = explore(system, Options(policy, form=form), limits, states=200_000 * MANY)
            except TooManyStatesError:
                continue
            broken = [name for name, wcrt in found.items() if every.worst[name] > wcrt]
            assert not broken, (toml(system), every.worst, found)
            explored = complete + 1


def one_round(self: Chains, task: Task) -> Company:
    """As if ros2 had no set: i is served in the round that is under way."""
    at = self.served.index(task)
    return Company(once=tuple(t for t in self.served[at + 1 :]), recurring=tuple((j, 1) for j in self.served[:at]))


def no_blocking(self: Chains, task: Task) -> Company:
    """As if the thread preempted itself: nothing that it has begun goes first."""
    return Company(recurring=tuple((j, None) for j in self.served[: self.served.index(task)]))


def test_a_count_without_jitter_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: a second job of h comes soon after the first."""
    system = jittery(8)
    chains = Chains(system.threads["executor"], TESTS["boosted"].demands, System(system))
    counted = Chains._count
    monkeypatch.setattr(Chains, "_count", lambda self, j, *more: counted(self, replace(j, jitter=0), *more))
    (found,) = chains._picked(next(t for t in chains.served if t.name == "l"))
    assert exact(system)["l"] > found.wcrt  # type: ignore[union-attr]


CONTROLS = {
    "one round only": (Order.ROS2, "_company", one_round),
    "no job that the thread has begun": (Order.PRIORITY, "_company", no_blocking),
    "no job that the thread has begun, timers": (Order.LIVE_TIMERS, "_company", no_blocking),
}
SETS = {
    Order.ROS2: taskset(
        *served(Order.ROS2, on("a", 5, cpu(2)), on("i", 14, cpu(1)), on("d", 14, cpu(3)), on("x", 14, cpu(1)), timers=1)
    ),
    Order.PRIORITY: taskset(*served(Order.PRIORITY, on("i", 8, cpu(2)), on("d", 8, cpu(3)), on("e", 30, cpu(6)))),
    Order.LIVE_TIMERS: taskset(*served(Order.LIVE_TIMERS, on("i", 8, cpu(2)), on("d", 20, cpu(5)), timers=1)),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_bound_that_leaves_out_a_part_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: without these the silence of the others would mean nothing."""
    order, method, wrong = CONTROLS[name]
    system = SETS[order]
    chains = Chains(system.threads["executor"], TESTS["boosted"].demands, System(system))
    monkeypatch.setattr(Chains, method, wrong)
    (found,) = chains._picked(next(t for t in chains.served if t.name == "i"))
    assert exact(system)["i"] > found.wcrt  # type: ignore[union-attr]


def test_a_bound_without_the_jitter_of_a_sibling_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Taskset, "sleeps", lambda self, one: one.uses_gpu)
    assert bounds(GOLDEN[1])["i"] == ms(7)
    assert exact(GOLDEN[1])["i"] == ms(10)


def test_a_bound_without_lower_threads_breaks() -> None:
    alone = replace(GOLDEN[6], tasks=GOLDEN[6].tasks[:1])
    assert bounds(alone)["h"] == ms(4)
    assert exact(GOLDEN[6])["h"] == ms(7)


def test_a_timer_that_is_late_skips_and_a_subscription_does_not() -> None:
    """Released at 0, 4 and 8 with jobs of 9: the timer's second and third releases are one job."""
    late = served(Order.ROS2, on("t", 4, cpu(9)), on("i", 40, cpu(1)), timers=1)
    seen = simulate(taskset(*late), Options("boosted", horizon=ms(12))).tasks["t"]
    assert (seen.jobs, seen.finished, seen.misses) == (3, 2, 3)
    queued = served(Order.ROS2, on("t", 4, cpu(9)), on("i", 40, cpu(1)))
    seen = simulate(taskset(*queued), Options("boosted", horizon=ms(12))).tasks["t"]
    assert (seen.jobs, seen.finished, seen.misses) == (3, 3, 3)


#: a comes at 5, while the thread is at the job that it picked at 4.
EXPECTED = {Order.FIFO: "xcba", Order.PRIORITY: "xbac", Order.ROS2: "xbca", Order.LIVE_TIMERS: "xbac"}


@pytest.mark.parametrize("order", Order)
def test_which_job_is_next(order: Order) -> None:
    """x is under way when c, and later b, come; a comes while the next job is served."""
    a, b, c, x = on("a", 90, cpu(1)), on("b", 90, cpu(2)), on("c", 90, cpu(2)), on("x", 90, cpu(4))
    system = taskset(*served(order, a, b, c, x, timers=1))
    trace = simulate(system, Options("boosted", horizon=ms(90)), [ms(5), ms(2), ms(1), 0], events=100).trace
    assert trace is not None
    assert [event.task for event in trace.events if event.kind.value == "complete"] == list(EXPECTED[order])


def test_a_thread_keeps_its_cpu_from_job_to_job() -> None:
    """An equal of another thread that came meanwhile waits for both jobs, as under SCHED_FIFO."""
    pair = served(Order.FIFO, on("a", 90, cpu(3)), on("b", 90, cpu(3)))
    seen = simulate(taskset(*pair, task("q", 0, 5, 90, cpu(1))), Options("boosted", horizon=ms(90)), [0, 0, ms(1)])
    assert seen.tasks["q"].worst == ms(6)


def test_policy_job_refuses_threads_by_name() -> None:
    with pytest.raises(SimulationError, match="thread executor serves several tasks"):
        simulate(GOLDEN[8], Options("job"))


@pytest.mark.parametrize("name", ["boosted-suspend", "gcaps-suspend", "boosted-suspend+gpu-priority"])
def test_random_schedules_break_no_bound(name: str) -> None:
    found = attack(registry.find(name), 30 * MANY, seed=3, effort=Effort(4, 8), draw=Drawing(("threads",)))
    assert found.schedulable > 10 * MANY
    assert found.violations == 0, found.smallest and toml(found.smallest.taskset)


def test_a_counterexample_with_threads_is_a_file(tmp_path: object) -> None:
    rng = random.Random(8)
    systems = [with_random_threads(tiny(rng), rng) for _ in range(20)]
    for number, system in enumerate(one for one in systems if one.threads):
        path = tmp_path / f"{number}.toml"  # type: ignore[operator]
        path.write_text(toml(system))
        again = load(path).taskset
        assert [(t.name, t.thread, t.rank, t.callback, t.cpu) for t in again] == [
            (t.name, t.thread, t.rank if t.thread and t.thread.order.ranked else 0, t.callback, t.cpu) for t in system
        ]
