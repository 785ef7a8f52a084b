"""The simulator: compared with schedules worked out by hand and with an independent model; and its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from builders import cpu, gpu, ms, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.model import MS, CpuSegment, Platform, Span, Task, Taskset, Waiting
from analysis.simulation.simulate import Options, SimulationError, SimulatorCall, simulate, worst_over_offsets
from analysis.traces.trace import Kind
from gpurt._gpurt import ffi, lib
from gpurt.enums import Policy

ONCE = Options(horizon=1)  # only the jobs released at time 0


def responses(system: Taskset, options: Options = ONCE, offsets: list[float] | None = None) -> dict[str, float]:
    seen = simulate(system, options, [ms(x) for x in offsets] if offsets else None)
    return {name: observed.worst / MS for name, observed in seen.tasks.items()}


def test_tasks_that_wait_for_each_other_under_polling_end_the_run() -> None:
    """h spins on the CPU for the GPU, which l owns for its whole job, and l needs that CPU: both wait for ever."""
    low, high = task("l", 0, 3, 100, cpu(1), gpu(0, 1)), task("h", 0, 4, 15, gpu(0, 0.3))
    system = taskset(replace(low, gpu_priority=13), replace(high, gpu_priority=8), theta=0.01, epsilon=0.01)
    seen = simulate(system, Options(policy="job", waiting=Waiting.BUSY, horizon=ms(200))).tasks
    assert (seen["l"].jobs, seen["h"].jobs) == (2, 14)
    assert seen["l"].finished < 2
    assert seen["h"].finished < 14
    assert all(one.misses == one.jobs - one.finished for one in seen.values())


def test_alone_a_task_takes_what_it_demands_and_its_updates() -> None:
    system = taskset(task("a", 0, 5, 100, cpu(3), gpu(1, 6)), epsilon=0.5, theta=0.2)
    # C 3, begin alpha 0.3, G^m 1, switch 0.2, G^e 6, end alpha 0.3
    assert responses(system) == {"a": 10.8}


def figure_3(epsilon: float) -> Taskset:
    """Consistent with the text of ECRTS'24 example 1: t1 on one core, t2 and t3 on another; t1 asks for the GPU at 3.

    Task t1 is released at 1, executes 2, then its segment (0.25 + 1) and 0.25 more: 3.5 by itself.  Task t3 holds the
    GPU from 0.5 + epsilon on for 5.75, so that a lock makes t1 wait 3.25.
    """
    return taskset(
        task("t1", 0, 9, 50, cpu(2), gpu(0.25, 1), cpu(0.25)),
        task("t2", 1, 8, 60, cpu(0.25)),
        task("t3", 1, 7, 70, cpu(0.25), gpu(0.25, 5.5), cpu(1)),
        epsilon=epsilon,
    )


def test_figure_3_response_times() -> None:
    """6.75 under synchronization, 3.5 + 2 epsilon under GCAPS (ECRTS'24, example 1)."""
    offsets = [1, 0, 0]
    until = Options(horizon=ms(1) + 1)
    assert responses(figure_3(0), replace(until, policy="lock-priority"), offsets)["t1"] == 6.75
    for epsilon in (0, 0.125, 0.25):
        assert responses(figure_3(epsilon), until, offsets)["t1"] == 3.5 + 2 * epsilon


def test_figure_7_three_delays_by_runlist_updates() -> None:
    """A lower task's update delays (1) a CPU segment on its core and (2) another's update; (3) t1's end delays t2."""
    system = taskset(
        task("t1", 0, 3, 100, gpu(0, 2)),
        task("t2", 1, 2, 100, cpu(1), gpu(0, 1)),
        task("t3", 1, 1, 100, gpu(0, 8)),
        epsilon=1,
    )
    seen = responses(system, Options(horizon=ms(1)), [0.5, 0.5, 0])
    # t3 updates from 0 to 1.  t2 starts at 1 (0.5 late), t1's update starts at 1 too.
    # t1: update 1-2, GPU 2-4, update 4-5: 4.5.
    assert seen["t1"] == 4.5
    # t2: CPU 1-2, asks at 2 and is outranked: no update; t1's end at 4-5 hands it the GPU 5-6; its end 6-7: 6.5.
    assert seen["t2"] == 6.5


def test_example_2_swapping_gpu_priorities_saves_t4() -> None:
    """ECRTS'24, table 2: t4 misses its deadline of 200 when t3 takes the GPU from it, and meets it otherwise."""
    tasks = (
        task("t1", 0, 4, 80, cpu(2), gpu(2, 4), cpu(4), gpu(2, 2), cpu(3)),
        task("t2", 0, 3, 150, cpu(40)),
        task("t3", 1, 2, 190, cpu(4), gpu(5, 80), cpu(30)),
        task("t4", 0, 1, 200, cpu(16), gpu(2, 10), cpu(2)),
    )
    until = Options(horizon=ms(200))
    plain = taskset(*tasks, epsilon=1)
    assert simulate(plain, until, [0, 0, ms(70), 0]).missed == ["t4"]
    swapped = plain.with_gpu_priorities({"t3": 1, "t4": 2})
    assert simulate(swapped, until, [0, 0, ms(70), 0]).missed == []


def test_owner_preempted_on_its_cpu_keeps_the_gpu() -> None:
    """The schedule that docs/readings.md describes: the printed bound for c is 2 ms."""
    system = taskset(
        task("a", 0, 9, 1000, cpu(100)), task("b", 0, 5, 1000, gpu(1, 1)), task("c", 1, 1, 1000, gpu(0, 1))
    )
    assert responses(system, Options(horizon=ms(1)), [0.5, 0, 0.6])["c"] == pytest.approx(102.4)


def test_indirect_delay_of_a_cpu_only_task() -> None:
    """The counterexample of docs/readings.md to thesis equation 4.5, which gives 4."""
    system = taskset(
        task("k", 1, 9, 1000, gpu(0, 5)),
        task("h", 0, 5, 1000, cpu(1), gpu(0, 2)),
        task("i", 0, 1, 1000, cpu(1)),
    )
    seen = responses(system, Options(waiting=Waiting.BUSY, horizon=ms(2)), [1, 0, 0])
    assert seen["i"] == 9  # 1 of h, 5 of k, 2 of h, 1 of its own


def test_round_robin_of_two() -> None:
    tasks = (task("a", 0, 0, 100, gpu(0, 2)), task("b", 1, 0, 100, gpu(0, 3)))
    system = taskset(*tasks, slice_=1, epsilon=0.25, theta=0.25)
    seen = responses(system, replace(ONCE, policy="timesliced"))
    # switches and slices: a 0.25-1.25, b 1.5-2.5, a 2.75-3.75, b 4-6
    assert seen == {"a": 3.75, "b": 6}


def test_kernel_thread_notices_at_its_next_poll() -> None:
    system = taskset(task("low", 0, 1, 100, gpu(0, 5)), task("high", 1, 9, 100, cpu(1), gpu(0, 2)))
    for poll, noticed in ((0, 0.5), (1, 1.0), (0.8, 0.8)):
        options = Options("job", Waiting.BUSY, horizon=ms(1), poll=ms(poll))
        trace = simulate(system, options, [0, ms(0.5)], events=200).trace
        assert trace is not None
        commits = [e.time / MS for e in trace.events if e.kind is Kind.COMMIT and e.task == "high"]
        assert commits == [noticed]


def test_lock_policies_differ_in_order_only() -> None:
    system = taskset(
        task("a", 0, 1, 100, gpu(0, 10)), task("b", 1, 2, 100, gpu(0, 1)), task("c", 2, 3, 100, gpu(0, 1))
    )
    offsets = [0, 1, 2]
    fifo = responses(system, Options("lock-fifo", horizon=ms(3)), offsets)
    priority = responses(system, Options("lock-priority", horizon=ms(3)), offsets)
    assert fifo == {"a": 10, "b": 10, "c": 10}
    assert priority == {"a": 10, "b": 11, "c": 9}


@settings(max_examples=tries(60), deadline=None)
@given(system=tasksets(), seed=st.integers(0, 2**64 - 1), policy=st.sampled_from(sorted(Policy.words())))
def test_the_same_seed_gives_the_same_run(system: Taskset, seed: int, policy: str) -> None:
    options = Options(policy, Waiting.BUSY, "random", True, seed=seed, horizon=400 * MS)
    first = simulate(system, options, events=20_000)
    assert simulate(system, options, events=20_000) == first


@settings(max_examples=tries(100), deadline=None)
@given(system=tasksets(), policy=st.sampled_from(sorted(Policy.words())))
def test_work_is_conserved_and_no_two_tasks_overlap(system: Taskset, policy: str) -> None:
    seen = simulate(system, Options(policy, Waiting.BUSY, horizon=200 * MS), events=100_000)
    assert seen.trace is not None
    by_place: dict[tuple[str, int | None], list[tuple[int, int]]] = {}
    executed: dict[str, int] = {}
    for event in seen.trace.events:
        if event.kind in (Kind.CPU, Kind.UPDATE, Kind.GPU):
            assert event.duration is not None
            place = ("gpu", None) if event.kind is Kind.GPU else ("cpu", event.cpu)
            by_place.setdefault(place, []).append((event.time, event.time + event.duration))
            if event.kind is Kind.GPU:
                executed[event.task] = executed.get(event.task, 0) + event.duration
    for spans in by_place.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for entry in system:
        observed = seen.tasks[entry.name]
        if observed.jobs == observed.finished:
            assert executed.get(entry.name, 0) == observed.jobs * entry.pure_time


def naive_fixed_priority(tasks: tuple[Task, ...], horizon: int) -> dict[str, int]:
    """Worst responses of CPU-only tasks by stepping one millisecond at a time."""
    jobs: list[list[int]] = []  # task index, release, left, order
    worst = {t.name: 0 for t in tasks}
    running: dict[int, list[int]] = {}
    time = 0
    while time < horizon or jobs:
        for index, entry in enumerate(tasks):
            if time < horizon and time % (entry.period // MS) == 0:
                jobs.append([index, time, entry.cpu_time // MS, len(jobs) + time * 1000])
        for core in {t.cpu for t in tasks}:
            ready = [j for j in jobs if tasks[j[0]].cpu == core]
            ready = [j for j in ready if not any(o[0] == j[0] and o[1] < j[1] for o in ready)]
            if not ready:
                continue
            now = running.get(core)
            best = max(ready, key=lambda j: (tasks[j[0]].priority, j is now, -j[3]))
            running[core] = best
            best[2] -= 1
            if best[2] == 0:
                name = tasks[best[0]].name
                worst[name] = max(worst[name], time + 1 - best[1])
                jobs.remove(best)
        time += 1
    return worst


@settings(max_examples=tries(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(4, 20), st.integers(1, 4)), min_size=1, max_size=5))
def test_cpu_only_tasks_against_a_naive_model(shapes: list[tuple[int, int, int]]) -> None:
    tasks = tuple(
        Task(f"t{i}", core, 10 + i, period * MS, period * MS, (CpuSegment(Span.exactly(length * MS)),))
        for i, (core, period, length) in enumerate(shapes)
    )
    if any(sum(t.cpu_time / t.period for t in tasks if t.cpu == core) > 1 for core in (0, 1)):
        return
    seen = simulate(Taskset(Platform(2), tasks), Options(horizon=60 * MS))
    expected = naive_fixed_priority(tasks, 60)
    assert {name: o.worst // MS for name, o in seen.tasks.items()} == expected


def test_random_offsets_start_with_none_and_go_on_where_they_stopped() -> None:
    system = taskset(task("a", 0, 2, 10, cpu(2)), task("b", 0, 1, 15, cpu(5)))
    zero = simulate(system, Options(horizon=300 * MS, seed=7))
    assert worst_over_offsets(system, Options(horizon=300 * MS, seed=7), 1).tasks == zero.tasks
    steps: list[int] = []
    with_progress = worst_over_offsets(system, Options(horizon=300 * MS, seed=7), 250, steps.append)
    assert with_progress == worst_over_offsets(system, Options(horizon=300 * MS, seed=7), 250)
    assert steps[-1] == 250


def test_edges() -> None:
    assert simulate(Taskset(Platform(1))).tasks == {}
    nothing = simulate(taskset(task("z", 0, 1, 10, cpu(0), gpu(0, 0))), Options(horizon=20 * MS))
    assert (nothing.tasks["z"].finished, nothing.tasks["z"].worst) == (2, 0)
    late = simulate(taskset(task("a", 0, 1, 10, cpu(1))), Options(horizon=5 * MS), [6 * MS])
    assert late.tasks["a"].jobs == 0
    over = simulate(taskset(task("a", 0, 1, 10, cpu(15))), Options(horizon=100 * MS))
    assert over.missed == ["a"]
    assert over.tasks["a"].finished == over.tasks["a"].jobs == 10


@pytest.mark.parametrize(
    ("options", "offsets", "words"),
    [
        (Options("fair"), None, "no policy"),
        (Options(execution="middling"), None, "execution"),
        (Options(horizon=2**61), None, "2\\^60"),
        (Options(), [1, 2, 3], "3 offsets for 1 tasks"),
        (Options("job"), None, "busy waiting"),
        (Options(job_cpu=4), None, "kernel thread"),
    ],
)
def test_what_cannot_be_simulated_is_said(options: Options, offsets: list[int] | None, words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        simulate(taskset(task("a", 0, 1, 10, gpu(1, 1))), options, offsets)


def test_a_full_buffer_is_said_in_the_trace() -> None:
    trace = simulate(taskset(task("a", 0, 1, 10, cpu(1))), Options(horizon=100 * MS), events=5).trace
    assert trace is not None
    assert trace.events[-1].kind is Kind.LOST


#: What each part of a call may not say: beyond every array, every enumeration and every factor.
WRONG = {
    "config": {"part_count": 0, "cpus": 0, "job_cpu": 2, "cross": lib.GPURT_FACTOR_ONE - 1},
    "parts": {"policy": len(Policy)},
    "tasks": {"thread": 2, "group": 2, "parent": 2, "process": 2, "cpu": 2, "part": 1, "period": 0, "max_period": 1,
              "priority": 100, "gpu_priority": 100, "form": 9, "level": 9, "intensity": 9, "order": 9, "conflict": 1},
    "segments": {"resource": 1, "cpu_best": 2**50, "gpu_best": 2**50},
}  # fmt: skip


@pytest.mark.parametrize(("part", "key"), [(part, key) for part, keys in WRONG.items() for key in keys])
def test_the_compiled_simulator_itself_refuses_what_would_lead_it_astray(part: str, key: str) -> None:
    call = SimulatorCall(taskset(task("a", 0, 5, 100, cpu(3), gpu(1, 6))), ONCE, None)
    count = 0 if part == "config" else 1  # without tasks, which may be wrong beside it as well
    given = (call.config, call.tasks, count, call.segments, call.stats, ffi.NULL, 0, ffi.new("u64 *"))
    assert lib.gpurt_simulate(*given) == 0
    changed = call.config if part == "config" else getattr(call, part)[0]
    setattr(changed, key, WRONG[part][key])
    assert lib.gpurt_simulate(*given) < 0
