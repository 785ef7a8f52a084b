# SPDX-License-Identifier: GPL-2.0
"""Several partitions in one simulation: schedules by hand, and what partitions do and do not share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import cpu, gpu, ms, task, taskset

from analysis.answers import compiled
from analysis.model import MS, Copy, GpuSegment, Partition, Span, Task, Taskset, Waiting
from analysis.papers import registry
from analysis.rta.analyse import analyse
from analysis.simulation.federated import Federated
from analysis.simulation.simulate import Options, simulate
from analysis.traces.trace import Kind

ONCE = Options(horizon=1)
A, B = Partition(4, name="a"), Partition(4, name="b")


def on(partition: Partition, one: Task) -> Task:
    return replace(one, partition=partition)


def responses(system: Taskset, offsets: list[float], options: Options = ONCE) -> dict[str, float]:
    until = replace(options, horizon=max(ms(offset) for offset in offsets) + 1)
    seen = simulate(system, until, [ms(offset) for offset in offsets])
    return {name: observed.worst / MS for name, observed in seen.tasks.items()}


def test_partitions_execute_at_once_and_one_partition_does_not() -> None:
    pair = task("h", 0, 9, 100, gpu(0, 6)), task("l", 1, 1, 100, gpu(0, 6))
    assert responses(taskset(on(A, pair[0]), on(A, pair[1])), [0, 0]) == {"h": 6, "l": 12}
    assert responses(taskset(on(A, pair[0]), on(B, pair[1])), [0, 0]) == {"h": 6, "l": 6}


def test_a_lower_task_of_another_partition_updates_while_a_task_sleeps_on_its_gpu() -> None:
    """l begins at 3.9, as h executes on partition a, and its update of 2 ends at 5.9; h's work is over at 5.

    h: update 0-1, GPU 1-5, waits for its CPU until 5.9, update until 6.9.
    """
    slow = replace(B, alpha=ms(2))
    system = taskset(on(A, task("h", 0, 9, 100, gpu(0, 4))), on(slow, task("l", 0, 1, 100, gpu(0, 1))), epsilon=1)
    assert responses(system, [0, 3.9])["h"] == pytest.approx(6.9)
    within = taskset(on(A, system.tasks[0]), on(A, system.tasks[1]), epsilon=1)
    assert responses(within, [0, 3.9])["h"] == 6


def test_each_partition_has_its_own_lock_and_costs() -> None:
    """l updates b for 3 ms from 0 on; h asks for a lock at 1 on another CPU: its own is free."""
    slow = replace(B, alpha=ms(3), theta=ms(1))
    pair = task("h", 0, 9, 100, gpu(0, 2)), task("l", 1, 1, 100, gpu(0, 2))
    apart = taskset(on(A, pair[0]), on(slow, pair[1]), epsilon=1, theta=0.5)
    assert responses(apart, [1, 0]) == {"h": 0.5 + 0.5 + 2 + 0.5, "l": 3 + 1 + 2 + 3}
    together = taskset(on(slow, pair[0]), on(slow, pair[1]))
    assert responses(together, [1, 0])["h"] == 2 + 3 + 1 + 2 + 3


def test_busy_waiting_across_partitions_can_stop_for_ever() -> None:
    """Each owner is below a task that spins for the other owner: readings, "GCAPS inside partitions"."""
    system = taskset(
        on(A, task("p", 0, 4, 100, gpu(0, 1))), on(B, replace(task("o2", 0, 3, 100, gpu(0, 5)), gpu_priority=9)),
        on(B, task("q", 1, 4, 100, gpu(0, 1))), on(A, replace(task("o1", 1, 3, 100, gpu(0, 5)), gpu_priority=9)),
    )  # fmt: skip
    busy = Options(waiting=Waiting.BUSY)
    seen = simulate(system, replace(busy, horizon=ms(2)), [ms(1), 0, ms(1), 0])
    assert [one.finished for one in seen.tasks.values()] == [0, 0, 0, 0]
    asleep = simulate(system, replace(busy, waiting=Waiting.SUSPEND, horizon=ms(2)), [ms(1), 0, ms(1), 0])
    assert [one.finished for one in asleep.tasks.values()] == [1, 1, 1, 1]


def test_the_trace_names_the_partition_and_a_task_without_one_uses_the_first() -> None:
    loose = replace(task("loose", 1, 0, 100, gpu(0, 1)), partition=None)
    system = replace(taskset(on(B, task("h", 0, 9, 100, gpu(0, 2))), loose, epsilon=0.5), partitions=(A, B))
    trace = simulate(system, ONCE, events=100).trace
    assert trace is not None
    on_gpu = {(event.task, event.kind, event.gpu) for event in trace.events if event.gpu is not None}
    assert {("h", Kind.GPU, 1), ("h", Kind.COMMIT, 1), ("loose", Kind.GPU, 0)} <= on_gpu
    assert all(event.cpu is None for event in trace.events if event.gpu is not None)


def test_a_partition_that_is_alone_is_the_whole_gpu() -> None:
    plain = taskset(task("h", 0, 9, 50, cpu(1), gpu(1, 4)), task("l", 0, 1, 90, gpu(2, 9)), epsilon=1, theta=0.5)
    alone = replace(plain, tasks=tuple(on(A, one) for one in plain))
    options = Options(execution="random", sporadic=True, seed=3)
    assert simulate(plain, options).tasks == simulate(alone, options).tasks


def test_each_update_of_a_higher_task_lets_a_lower_one_of_another_partition_update_once_more() -> None:
    """i waits for its turn at a's lock, and j updates b for 2 ms at a time on i's CPU, in a job of 20 segments.

    Each k takes a's lock from i, which was handed it, as an update of j ends, so that i sleeps and j starts another.
    So three updates of j for each segment of i are no bound: "GCAPS inside partitions" in docs/readings.md.
    """
    slow = replace(B, alpha=ms(2), theta=0)
    rapid = replace(A, alpha=ms(0.01), theta=0)
    first = replace(task("l", 1, 1, 100, gpu(0, 50)), gpu_priority=1)
    waits, lower = task("i", 0, 9, 100, gpu(0, 0.1)), task("j", 0, 2, 200, *[gpu(0, 0.001)] * 20)
    higher = [task(f"k{at}", 2 + at, 10 + at, 100, gpu(0, 0)) for at in range(6)]
    system = taskset(on(rapid, first), on(rapid, waits), on(slow, lower), *(on(rapid, k) for k in higher))
    gaps = [0.002 + 2 + 2.001 * at for at in range(6)]
    seen = responses(system, [0, 0.001, 0.002, *(gap - 0.005 for gap in gaps)])
    charged = 0.1 + 2 * 0.01 + 2 * 0.01 + 6 * 2 * 0.01 + 2 * 0.01  # own, its updates, blocking, the k, l's updates
    assert seen["i"] > charged + 3 * 2 + 2 * 2


def test_a_task_spins_below_an_owner_that_sleeps_at_its_end() -> None:
    """CPU 1 executes y while the owner z2 above it sleeps: w was handed the lock, and g has its CPU until 10.05.

    z2's work is over while f has its CPU, until 8; v updates until 8.2, and w from 10.05 to 11.05.
    """
    slow = replace(B, alpha=ms(1), theta=0)
    system = taskset(
        on(slow, task("y", 1, 3, 200, gpu(0, 10))), on(slow, task("z2", 1, 4, 200, gpu(0, 3))),
        task("f", 1, 5, 200, cpu(2.1)), on(slow, task("w", 2, 9, 200, gpu(0, 1))), task("g", 2, 10, 200, cpu(3)),
        on(slow, task("v", 3, 20, 200, gpu(0, 0.1))),
        on(A, task("z", 1, 2, 200, gpu(1, 1))), on(A, task("i", 0, 1, 200, gpu(0, 1))),
    )  # fmt: skip
    test = registry.find("partitioned-busy")
    offsets = [ms(at) for at in (0.2, 2, 5.9, 7, 7.05, 6.1, 0, 0.5)]
    seen = simulate(system, Options("segment", test.waiting, horizon=ms(8)), offsets, 200)
    assert seen.trace is not None
    spun = {(e.time, e.duration) for e in seen.trace.events if e.task == "y" and e.kind is Kind.CPU}
    assert (ms(8), ms(3.05)) in spun
    result = test.run(system)
    assert all(one.worst <= (result.wcrt(name) or 0) for name, one in seen.tasks.items())


def copies(name: str, priority: int, partition: Partition, count: int) -> Task:
    """A task on a CPU of its own whose job is so many copies of 1 ms in a row."""
    parts = (Copy(Span(ms(1), 0)),) * count
    whole = GpuSegment(Span.exactly(0), Span(ms(count), 0), parts=parts)
    return on(partition, task(name, priority, priority, 100, whole))


def test_copies_of_partitions_share_a_bus_which_no_test_of_partitions_has() -> None:
    """x copies once, after ten copies of y in the other partition: 11 ms.  As GPU work of its own partition: 4 ms."""
    system = taskset(copies("x", 1, A, 1), copies("y", 2, B, 10))
    test = registry.find("partitioned-suspend")
    apart = analyse(test.name, test.demands, test.seen(system)).wcrt("x")
    seen = Federated.of(system, Options("federated", horizon=1)).worst_over_offsets(1).tasks["x"].worst
    assert (apart, seen) == (ms(4), ms(11))
    for run in (test.run, lambda taskset: compiled.run_compiled(test, taskset)):
        assert "x and y copy in different partitions" in str(run(system).failures[0])


@pytest.mark.parametrize("name", ["gcaps-suspend", "boosted-suspend", "lock-priority-suspend", "tsg-rr-suspend"])
def test_copies_of_best_effort_elsewhere_delay_a_task_alone_in_its_partition(name: str) -> None:
    """Five copies may each wait for one of best effort; the bounds have one such copy for each switch."""
    stray = replace(copies("be", 0, B, 5), cpu=3)
    for system, refused in (
        (taskset(copies("x", 1, A, 5), stray), True),
        (taskset(copies("x", 1, A, 5), on(A, stray)), False),
        (taskset(on(A, task("x", 1, 1, 100, gpu(0, 5))), stray), False),
    ):
        failures = registry.find(name).run(replace(system, partitions=(A, B))).failures
        assert any("share one bus" in str(failure) for failure in failures) is refused
