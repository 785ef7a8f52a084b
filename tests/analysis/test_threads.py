# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks that one thread serves: the golden values of the specification, and the terms that make them up."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest
from agreement import disagreement, random_taskset
from builders import cpu, gpu, ms, task, taskset
from kinds import with_random_threads

from analysis import rta
from analysis.answers import compiled
from analysis.model import Segment, Task, Taskset, Waiting
from analysis.model.callbacks import Callback, Order, Thread
from analysis.papers import registry
from analysis.rta import Reason
from analysis.rta.analyse import analyse
from analysis.rta.recurrence import solve
from analysis.rta.result import Bound, Failure
from analysis.rta.system import System
from analysis.rta.threads import Chains, Claim
from analysis.simulation.simulate import Options, simulate

TIMER = Callback.TIMER
MANY = 50 if os.environ.get("GPURT_LONG") else 1
TESTS = {"boosted": registry.find("boosted-suspend"), "segment": registry.find("gcaps-suspend")}


def served(order: Order, *tasks: Task, timers: int = 0) -> tuple[Task, ...]:
    """The tasks on one thread, ranked as they are given; the first ones are timers."""
    thread = Thread("executor", order)
    return tuple(
        replace(one, thread=thread, rank=rank, callback=TIMER if rank < timers else Callback.SUBSCRIPTION)
        for rank, one in enumerate(tasks)
    )


def on(name: str, period: float, *segments: Segment, deadline: float = 0) -> Task:
    """A task of the thread, which is on CPU 0 with priority 5."""
    return task(name, 0, 5, period, *segments, deadline=deadline)


GOLDEN = {
    1: taskset(*served(Order.FIFO, on("a", 30, gpu(0, 10)), on("b", 14, cpu(3))), task("i", 0, 1, 20, cpu(4))),
    2: taskset(
        *served(Order.FIFO, on("a", 20, cpu(1), gpu(1, 3), cpu(1)), on("b", 20, cpu(2))),
        task("r", 1, 7, 25, cpu(1), gpu(1, 2)), epsilon=1,
    ),
    3: taskset(*served(Order.PRIORITY, on("a", 10, cpu(2)), on("b", 25, gpu(1, 3)), on("d", 30, cpu(3)))),
    4: taskset(*served(Order.ROS2, on("a", 4, cpu(1)), on("b", 30, cpu(3)), on("i", 30, cpu(1)), on("d", 30, cpu(1)))),
    5: taskset(*served(Order.LIVE_TIMERS, on("t", 8, cpu(2)), on("s", 30, gpu(0, 1)), on("u", 30, cpu(3)), timers=1)),
    6: taskset(
        task("h", 0, 9, 20, cpu(2), gpu(1, 1)), *served(Order.FIFO, on("a", 25, gpu(2, 1)), on("b", 25, gpu(3, 1)))
    ),
    7: taskset(
        *served(Order.LIVE_TIMERS, on("t", 12, cpu(1)), on("s", 25, cpu(1), gpu(1, 2)), timers=1),
        task("r", 1, 7, 20, gpu(1, 2)), epsilon=1,
    ),
    8: taskset(
        *served(Order.FIFO, on("detect", 100, cpu(3), gpu(3, 40)), on("watchdog", 100, cpu(3), deadline=20)), epsilon=1
    ),
}  # fmt: skip


def bounds(system: Taskset, policy: str = "boosted") -> dict[str, int | None]:
    result = TESTS[policy].run(system)
    for verdict in result.verdicts.values():
        if isinstance(verdict, Bound):
            assert sum(term.amount for term in verdict.terms) == verdict.wcrt
    return {name: result.wcrt(name) for name in result.verdicts}


def in_ms(**times: float | None) -> dict[str, int | None]:
    return {name: None if time is None else ms(time) for name, time in times.items()}


def picked(system: Taskset, name: str) -> int | None:
    """The bound of a task by the theorem of the thread's order, without theorem 1; None if there is none."""
    chains = Chains(system.threads["executor"], TESTS["boosted"].demands, System(system))
    (found,) = chains._picked(next(t for t in chains.served if t.name == name))
    return found.wcrt if isinstance(found, Claim) else None


def test_golden_values_of_the_specification() -> None:
    assert bounds(GOLDEN[1]) == in_ms(a=13, b=13, i=10)
    assert bounds(GOLDEN[3]) == in_ms(a=6, b=9, d=9)
    assert picked(GOLDEN[3], "b") == picked(GOLDEN[3], "d") == ms(11)
    assert bounds(GOLDEN[4]) == in_ms(a=None, b=7, i=7, d=7)
    assert bounds(GOLDEN[5]) == in_ms(t=5, s=6, u=6)
    assert picked(GOLDEN[5], "s") == picked(GOLDEN[5], "u") == ms(8)
    assert bounds(GOLDEN[6]) == in_ms(h=7, a=11, b=11)  # 10 there: h has no gap after its last segment
    assert bounds(GOLDEN[7]) == in_ms(t=12, s=12, r=6)  # 18 there, with deadlines; exact


@pytest.mark.parametrize(("policy", "detect"), [("segment", 53), ("boosted", 51)])
def test_two_callbacks_as_a_user_of_ros2_has_them(policy: str, detect: float) -> None:
    assert bounds(GOLDEN[8], policy) == in_ms(detect=detect, watchdog=None)
    late = TESTS[policy].run(GOLDEN[8]).verdicts["watchdog"]
    assert isinstance(late, Failure)
    assert (late.reason, late.reached) == (Reason.ABOVE_DEADLINE, ms(detect))


def test_a_task_of_another_cpu_counts_with_its_response_where_that_is_known() -> None:
    """The specification has its deadline, and so 21, 22 and 18: no bounds for periods of 20 and 12."""
    assert bounds(GOLDEN[2]) == in_ms(a=15, b=15, r=7)
    assert bounds(GOLDEN[2], "segment") == in_ms(a=17, b=17, r=8)
    seldom = replace(GOLDEN[2], tasks=tuple(replace(t, period=ms(25), deadline=ms(25)) for t in GOLDEN[2].tasks))
    for policy, chain, remote in (("boosted", 20, 7), ("segment", 22, 8)):
        found = analyse(policy, TESTS[policy].demands, seldom, assume_deadlines=True)
        assert {name: found.wcrt(name) for name in "abr"} == in_ms(a=chain, b=chain, r=remote)
    timer = analyse("boosted-suspend", TESTS["boosted"].demands, GOLDEN[7], assume_deadlines=True).verdicts["t"]
    assert isinstance(timer, Failure)
    assert timer.reached == ms(17)


def jittery(jitter: float, order: Order = Order.PRIORITY) -> Taskset:
    """Each task takes 2 ms; h is released up to ``jitter`` ms late."""
    h = replace(on("h", 12, cpu(2)), jitter=ms(jitter))
    return taskset(*served(order, h, *(on(name, 30, cpu(2)) for name in "fml")))


def test_release_jitter_in_a_thread() -> None:
    """With up to 4 ms one job of each fits between two releases of h; with 8, two jobs of h come before one of l."""
    for order in Order:
        assert bounds(jittery(4, order)) == in_ms(h=8, f=8, m=8, l=8) | (
            in_ms(h=4, f=6) if order is Order.PRIORITY else {}
        )
    assert bounds(jittery(8)) == in_ms(h=4, f=8, m=10, l=10)
    assert bounds(jittery(8, Order.ROS2)) == in_ms(h=None, f=10, m=10, l=10)  # counts 2, whatever h does
    late = TESTS["boosted"].run(jittery(11)).verdicts["h"]
    assert str(late).startswith("h: no bound below the 1 ms to its next release (period less jitter) is known (")
    why = TESTS["boosted"].run(jittery(8, Order.FIFO)).why
    assert "can take longer than the period less the jitter of h, and order fifo has no bound then" in why


def test_release_jitter_beyond_the_period_leaves_a_thread_without_bounds() -> None:
    assert bounds(jittery(13)) == in_ms(h=None, f=None, m=None, l=None)
    assert bounds(jittery(13, Order.ROS2)) == in_ms(h=None, f=10, m=10, l=10)


def test_one_segment_of_a_thread_below_in_each_gap() -> None:
    """Example 6, with CPU time after the segment too: 4 + 2 * 3, not 4 + 2 * (2 + 3); with responses 4 + 2 + 3."""
    h, *rest = GOLDEN[6].tasks
    system = replace(GOLDEN[6], tasks=(replace(h, segments=(cpu(1), gpu(1, 1), cpu(1))), *rest))
    result = TESTS["boosted"].run(system)
    bound = result.verdicts["h"]
    assert isinstance(bound, Bound)
    assert [(t.source, t.amount) for t in bound.terms if t.source] == [("executor", ms(6))]
    known, above = System(system, {"a": ms(11), "b": ms(11)}), system.tasks[0]
    found = solve(above, TESTS["boosted"].demands(above, known))
    assert isinstance(found, Bound)
    assert found.wcrt == ms(9)
    assert [(t.source, t.amount) for t in found.terms if t.source] == [("a", ms(2)), ("b", ms(3))]


def test_a_callback_without_gpu_work_has_a_jitter_if_its_thread_can_sleep() -> None:
    """Without it i has 7: b's job waits behind a's GPU segment, and two jobs of b come close together."""
    apart = replace(GOLDEN[1], tasks=tuple(replace(t, thread=None) for t in GOLDEN[1].tasks))
    assert bounds(GOLDEN[1])["i"] == ms(10)
    assert bounds(GOLDEN[1], "segment")["i"] == ms(10)
    without_gpu = replace(GOLDEN[1], tasks=(replace(GOLDEN[1].tasks[0], segments=(cpu(1),)), *GOLDEN[1].tasks[1:]))
    assert bounds(without_gpu)["i"] == ms(8)
    assert bounds(apart)["i"] == ms(7)


def test_a_thread_alone_at_the_lowest_level_of_its_cpu_is_one_owner() -> None:
    """Policy segment: nobody's CPU segments delay an owner that its own thread could preempt only."""
    pair = served(Order.FIFO, on("a", 50, cpu(2), gpu(1, 3)), on("b", 50, cpu(2)))
    system = taskset(*pair, task("r", 1, 3, 50, gpu(1, 1)))
    assert bounds(system, "segment")["r"] == ms(2 + 4)
    equals = replace(system, tasks=tuple(replace(t, thread=None) for t in system.tasks))
    assert bounds(equals, "segment")["r"] == ms(2 + 4 + 2 + 2)


def test_the_job_before_can_be_any_siblings() -> None:
    """Boosted: a's last segment executes raised before b is released, while the CPU-only h waits."""
    pair = served(Order.FIFO, on("a", 50, gpu(2, 1)), on("b", 50, cpu(1)))
    assert bounds(taskset(*pair, task("h", 0, 9, 50, cpu(3))))["b"] == ms(3 + 1 + 3 + 2)
    assert bounds(taskset(*pair))["b"] == ms(3 + 1)


def test_theorem_1_needs_the_shortest_period_of_the_thread() -> None:
    """Not the task's own: a second job of b comes while the first chain lasts."""
    pair = served(Order.FIFO, on("a", 50, gpu(0, 10)), on("b", 12, cpu(3)))
    result = TESTS["boosted"].run(taskset(*pair))
    for verdict in result.failures:
        assert verdict.reason is Reason.THREAD
        assert "one job of each task of thread executor can take longer than the period of b" in str(verdict)
    assert {failure.task for failure in result.failures} == {"a", "b"}


@pytest.mark.parametrize("order", Order)
def test_one_task_alone_in_its_thread_is_a_task(order: Order) -> None:
    (alone,) = served(order, on("a", 30, cpu(1), gpu(1, 3)), timers=1)
    other = task("h", 0, 9, 20, gpu(1, 1))
    assert bounds(taskset(alone, other, epsilon=1)) == bounds(taskset(replace(alone, thread=None), other, epsilon=1))


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("policy", ["boosted", "segment"])
def test_a_job_that_takes_no_time_waits_too(order: Order, policy: str) -> None:
    pair = served(order, on("a", 30, cpu(0)), on("b", 30, cpu(3)), timers=2)
    found = bounds(taskset(*pair), policy)["a"]
    assert found is not None
    assert found >= ms(3)


@pytest.mark.parametrize("test", [*registry.TESTS.values(), *registry.UNITS.values()], ids=lambda test: test.name)
def test_every_other_test_refuses_a_thread_by_its_name(test: rta.Test) -> None:
    system = replace(GOLDEN[8], platform=replace(GOLDEN[8].platform, policy=test.policy))
    reasons = {v.reason for v in test.run(system).failures}
    if test.threads:
        assert test.waiting is Waiting.SUSPEND
        assert Reason.THREAD not in reasons
    else:
        assert reasons == {Reason.THREAD}
        assert "as executor does" in str(test.run(system).failures[0])


@pytest.mark.parametrize("test", registry.TESTS.values(), ids=lambda test: test.name)
def test_the_compiled_form_says_the_same(test: rta.Test) -> None:
    for golden in GOLDEN.values():
        system = replace(golden, platform=replace(golden.platform, policy=test.policy))
        assert disagreement(test.name, system) is None


COMPILED = [name for name, test in registry.TESTS.items() if test.threads and test.compiled and not test.assigns]


@pytest.mark.parametrize("name", COMPILED)
def test_random_threads_have_the_same_bounds_and_failures_compiled(name: str) -> None:
    rng, seen = random.Random(f"threads {name}"), Counter[str]()
    while seen["sets"] < 60 * MANY:
        drawn = random_taskset(rng)
        system = with_random_threads(drawn, rng)
        if drawn.pending or not system.threads:
            continue
        assert disagreement(name, system) is None
        result = compiled.run_compiled(registry.find(name), system)
        assert compiled.passes(registry.find(name), system) is result.schedulable
        seen["sets"] += 1
        for one in (one for served in system.threads.values() for one in served):
            seen[type(result.verdicts[one.name]).__name__] += 1
    assert min(seen["Bound"], seen["Failure"]) > 20, seen


def test_the_chain_of_a_task_without_gpu_work_has_the_level_of_its_thread() -> None:
    """The attack found it: t0 waits for t4, which waits for t6, whose GPU priority is lower than t0's on the CPU."""
    pair = served(Order.ROS2, on("t4", 12, gpu(0, 1)), on("t0", 30))
    system = taskset(*pair, task("t6", 1, 6, 12, gpu(0, 1)), epsilon=0.02)
    for policy, longest in (("segment", 2.1), ("boosted", 2.06)):
        for assigned in (
            system.with_gpu_priorities({"t4": 1, "t6": 2}),
            replace(system, tasks=tuple(replace(t, gpu_priority={"t4": 1, "t6": 2}.get(t.name)) for t in system.tasks)),
        ):
            found = bounds(assigned, policy)["t0"]
            assert found is not None
            assert found >= ms(longest)
            assert found >= exact_at(assigned, policy)


def exact_at(system: Taskset, policy: str) -> int:
    """t0's response where all are released at once, and t4 first."""
    return simulate(system, Options(policy, horizon=ms(12)), [0, 0, 0]).tasks["t0"].worst
