# SPDX-License-Identifier: GPL-2.0
"""Bounds of tasks that own units of the GPU: the specification's worked examples, and properties of workloads."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from builders import cpu, gpu, ms
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from rtgpu_sets import EXAMPLE_A, EXAMPLE_B, FEASIBLE_B, SHORTER, copy, fixed, kernel, part, slowed, task

from analysis.model import Kernel, Platform, Span, Taskset
from analysis.papers.registry import METHODS, RTGPU_EXPECTED, RTGPU_PRINTED
from analysis.rta import Failure
from analysis.rta.result import Bound, Reason, TermKind
from analysis.rtgpu.analyse import System, on_units
from analysis.rtgpu.bounds import HOLISTIC, above, responses
from analysis.rtgpu.chain import Need, chain
from analysis.rtgpu.method import RTGPU, RTGPU_TIGHT, Method
from analysis.rtgpu.workload import Workload, least_window, units_workload


def forms(taskset: Taskset, name: str, *units: int, tight: bool = False) -> list[float]:
    """R1 to R4 of a task, ms."""
    method = RTGPU_TIGHT if tight else RTGPU
    found = responses_of(taskset, name, units, method)
    return [form.value / 10**6 for form in found.forms]


def responses_of(taskset, name, units, method):  # type: ignore[no-untyped-def]
    chains = [chain(t, g) for t, g in zip(taskset, units, strict=True)]
    index = [t.name for t in taskset].index(name)
    result = on_units(System(method, taskset), {t.name: g for t, g in zip(taskset, units, strict=True)})
    ends = {c.name: result.wcrt(c.name) for c in chains[:index]} if method.tight else {}
    blocking = max((x for c in chains[index + 1:] for x in c.lengths(Need.BUS)), default=0)
    return responses(chains[index], above(chains[index], chains[:index], ends), blocking, HOLISTIC)


def wcrts(method: Method, taskset: Taskset, *units: int) -> list[float | None]:
    result = on_units(System(method, taskset), {t.name: g for t, g in zip(taskset, units, strict=True)})
    found = [result.wcrt(t.name) for t in taskset]
    return [None if value is None else value / 10**6 for value in found]


# 9.1


def suspending(*lengths: float) -> Workload:
    one = Taskset(Platform(1), (task("t", 1, 20, 20, cpu(lengths[0]), part(fixed(lengths[1])), cpu(lengths[2])),))
    return units_workload(chain(one.tasks[0], 1), Need.CPU, ms(20))


def test_lemma_2_1_by_hand() -> None:
    """(2, susp. 4, 1), T = D = 20."""
    work = suspending(2, 4, 1)
    windows = (1, 3, 6, 7, 9, 14, 21, 23, 27, 29)
    assert [work.at(ms(t))[0] // ms(1) for t in windows] == [1, 3, 3, 3, 5, 6, 6, 6, 6, 8]
    assert [work.phase(h, ms(29))[0] // ms(1) for h in (0, 1)] == [8, 7]
    assert work.phase(0, ms(1))[0] == ms(1)
    assert work.phase(1, ms(3))[0] == ms(3), "the sum of CW begins at j = h; from j = 0 it would exceed the window"


def test_responses_of_lemma_2_2_and_2_3_by_hand() -> None:
    two = Taskset(Platform(1), (
        task("t1", 2, 20, 20, cpu(2), part(fixed(4)), cpu(1)),
        task("t2", 1, 30, 30, cpu(3), part(fixed(5)), cpu(7)),
    ))  # fmt: skip
    found = responses_of(two, "t2", (1, 1), RTGPU)
    assert [window.reached for window in found.segments[Need.CPU]] == [ms(6), ms(12)]
    assert [form.value for form in found.forms[:2]] == [ms(23), ms(21)]
    assert wcrts(RTGPU_PRINTED, two, 1, 1) == [7, 21]


@pytest.mark.parametrize(("length", "bound"), [(3, 6), (4, 7), (5, 10), (8, 13), (9, 15), (15, 21), (17, 23), (21, 27)])
def test_a_task_below_one_that_suspends_has_the_least_x_with_x_equal_to_c_and_w(length: int, bound: int) -> None:
    first = task("t1", 2, 20, 20, cpu(2), part(fixed(4)), cpu(1))
    assert wcrts(RTGPU_PRINTED, Taskset(Platform(1), (first, task("t2", 1, 60, 60, cpu(length)))), 1, 0) == [7, bound]


# 9.2


def test_example_a() -> None:
    assert wcrts(RTGPU, EXAMPLE_A, 1, 1) == [16, 29.5]
    first = responses_of(EXAMPLE_A, "t1", (1, 1), RTGPU)
    assert first.chain.steps[2].worst == ms(6)
    assert [window.reached for window in first.segments[Need.BUS]] == [ms(3), ms(3)]
    second = responses_of(EXAMPLE_A, "t2", (1, 1), RTGPU)
    assert second.chain.steps[2].worst == ms(9.5)
    assert [window.reached for window in second.segments[Need.BUS]] == [ms(3), ms(3)]
    assert [window.reached for window in second.segments[Need.CPU]] == [ms(7), ms(7)]
    assert forms(EXAMPLE_A, "t2", 1, 1) == [29.5, 29.5, 32.5, 34.5]
    assert forms(EXAMPLE_A, "t2", 1, 1, tight=True) == [25.5, 29.5, 27.5, 31.5]
    tight = responses_of(EXAMPLE_A, "t2", (1, 1), RTGPU_TIGHT)
    assert [window.reached for window in tight.segments[Need.CPU]] == [ms(5), ms(5)]


def test_example_a_on_other_units() -> None:
    assert forms(EXAMPLE_A, "t2", 1, 2) == [25.25, 25.25, 27.25, 27.25]
    assert wcrts(RTGPU, EXAMPLE_A, 2, 1)[0] == 13
    assert forms(EXAMPLE_A, "t2", 2, 1) == [29.5, 31.5, 33.5, 37.5]


# 9.3


def exact_b(method: Method, *units: int) -> list[float | None]:
    return [None if x is None else x / 3 for x in wcrts(method, slowed(EXAMPLE_B, 3), *units)]


def test_example_b() -> None:
    assert exact_b(RTGPU_PRINTED, 2, 1, 1) == [21.95, 75, 83]
    assert exact_b(RTGPU_PRINTED, 2, 1, 2)[2] == 62
    assert exact_b(RTGPU_PRINTED, 2, 1, 4)[2] == 51.5
    assert exact_b(RTGPU_PRINTED, 2, 2, 1)[1:] == [63, 85]
    assert exact_b(RTGPU_PRINTED, 2, 3, 1)[1:] == [59, 89]
    assert exact_b(RTGPU_PRINTED, 2, 4, 1)[2] is None
    assert forms(EXAMPLE_B, "t2", 2, 1, 2) == [75, 78, 69, 71]
    assert forms(EXAMPLE_B, "t3", 2, 1, 2) == [62, 71, 74, 84]
    assert wcrts(replace(RTGPU_TIGHT, refined=False), EXAMPLE_B, 2, 1, 2)[1:] == [67, 62]
    assert wcrts(RTGPU_TIGHT, EXAMPLE_B, 2, 1, 2)[1:] == [67, 58]


def test_tasks_that_never_suspend_have_exact_responses() -> None:
    """The classic recurrence, by hand: 1, 1 + 1, 3 + 2 + 2, 3 + 5 + 4 + 6."""
    classic = Taskset(Platform(1), tuple(
        task(f"t{index}", 9 - index, period, period, cpu(demand))
        for index, (demand, period) in enumerate([(1, 4), (1, 5), (3, 9), (3, 18)])
    ))  # fmt: skip
    for name in ("rtgpu", "rtgpu-tight", "self-suspension"):
        assert wcrts(METHODS[name], classic, 0, 0, 0, 0) == [1, 2, 7, 18]
    assert wcrts(RTGPU_PRINTED, classic, 0, 0, 0, 0)[3] is None


def test_a_copy_that_has_begun_is_not_delayed_any_more() -> None:
    """b waits for 35 of c and 20 of a, and begins after 55; a's next copy can come after 65, and carries nothing in."""
    system = Taskset(Platform(1), (
        task("a", 3, 70, 70, part(copy(20))), task("b", 2, 80, 80, part(copy(20))),
        task("c", 1, 200, 200, part(copy(35))),
    ))  # fmt: skip
    for method in (RTGPU, RTGPU_TIGHT, METHODS["self-suspension"]):
        assert wcrts(method, system, 0, 0, 0)[:2] == [55, 75]
    assert wcrts(RTGPU_PRINTED, system, 0, 0, 0)[1] is None
    chunked = on_units(System(RTGPU, system, chunk=ms(35)), {})
    assert chunked.wcrt("b") is None


def allocations(total: int, tasks: int) -> list[tuple[int, ...]]:
    return [units for units in product(range(1, total), repeat=tasks) if sum(units) <= total]


def test_of_35_allocations_of_seven_units_these_pass() -> None:
    every = allocations(7, 3)
    assert len(every) == 35
    assert {units for units in every if None not in exact_b(RTGPU_PRINTED, *units)} == FEASIBLE_B


def test_a_third_of_a_nanosecond_can_cost_a_bound() -> None:
    """On (2, 3, 1), lengths in whole ns are rounded to the safe side, and t3 then meets one more copy."""
    passing = {units for units in allocations(7, 3) if None not in wcrts(RTGPU_PRINTED, EXAMPLE_B, *units)}
    assert passing == FEASIBLE_B - {(2, 3, 1)}


# 9.7 and 9.8


def test_lower_bounds_that_are_none_are_unsound() -> None:
    assert wcrts(RTGPU, SHORTER, 1, 0)[1] == 11
    assert wcrts(RTGPU_EXPECTED, SHORTER, 1, 0)[1] == 8


@pytest.mark.parametrize(("units", "best", "worst"), [(1, 10, 19.2), (2, 5, 10.8), (10, 1, 4.08)])
def test_lemma_5_1(units: int, best: float, worst: float) -> None:
    """A lower task meets the second CPU segment after the shortest kernel."""
    time = kernel(20, 1800, 2.4).on(units)
    assert (time.best, time.worst) == (ms(best), ms(worst))
    high = task("t1", 2, 90, 45, cpu(1), part(kernel(20, 1800, 2.4)), cpu(1))
    for length, met in ((best / 2, 1), (best, 1), (best + 1, 2)):
        two = Taskset(Platform(1), (high, task("t2", 1, 90, 90, cpu(length))))
        assert wcrts(RTGPU_PRINTED, two, units, 0) == [worst + 2, length + met]


def test_kernel_times_are_rounded_to_the_safe_side() -> None:
    time = Kernel(Span.exactly(10), 0, 1000).on(3)
    assert (time.best, time.worst) == (1, 2)


def test_a_kernel_of_thread_blocks_takes_longer_than_lemma_5_1_says() -> None:
    """10 blocks on 4 units, two a time at alpha 1.8: 2.8 blocks, lemma 5.1 has 2.25; list scheduling 3.825."""
    block = ms(1)
    plain = Kernel(Span.exactly(10 * block), 0, 1800).on(4)
    grained = Kernel(Span.exactly(10 * block), 0, 1800, block).on(4)
    assert plain.worst == ms(2.25)
    assert ms(2.8) <= grained.worst == ms(2.25) + ms(1.8 * 7 / 8)


def test_a_kernel_leaves_units_idle_that_would_slow_it() -> None:
    """Measured times may grow with units; the kernel then uses fewer, with their lower bound."""
    table = Kernel(Span.exactly(9), times=(Span(9, 8), Span(4, 2), Span(6, 1), Span(3, 3)))
    assert [(t.best, t.worst) for t in table.up_to(6)] == [(8, 9), (2, 4), (2, 4), (3, 3), (3, 3), (3, 3)]
    assert [table.best_of(g) for g in range(1, 7)] == table.up_to(6)
    assert not table.monotone(6)
    assert table.monotone(3)


# Workloads and the search

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    parts = draw(lengths)
    gaps = [draw(st.integers(0, 9)) for _ in parts[1:]]
    later = draw(st.integers(0, 30))
    return Workload(tuple(parts), tuple(gaps), draw(st.integers(0, later)), later)


def by_hand(work: Workload, start: int, window: int) -> int:
    """W^h(t), ns by ns: what executes if every segment starts as early as it can."""
    busy: list[int] = []
    index, last = start, work.first
    while len(busy) < window:
        busy += [1] * work.lengths[index]
        if index + 1 < len(work.lengths):
            busy += [0] * work.gaps[index]
            index += 1
        else:
            busy += [0] * last
            index, last = 0, work.later
    return sum(busy[:window])


@given(workloads(), st.integers(0, 150))
@settings(max_examples=tries(150), deadline=None)
def test_a_workload_is_that_of_the_earliest_schedule_and_1_lipschitz(work: Workload, window: int) -> None:
    most = max(by_hand(work, h, window) for h in range(len(work.lengths)))
    value, run = work.at(window)
    assert value == most
    assert 0 <= work.at(window + 1)[0] - value <= 1
    assert work.at(window + run)[0] == value + run
    assert value * work.cycle >= work.work * window, "the search starts from W(t) >= U t"


@given(st.lists(workloads(), max_size=3), st.integers(0, 20), st.integers(1, 300))
@settings(max_examples=tries(150), deadline=None)
def test_the_search_finds_the_least_window(others: list[Workload], constant: int, limit: int) -> None:
    least = next((x for x in range(limit + 1) if x == constant + sum(o.at(x)[0] for o in others)), None)
    found = least_window(constant, tuple(others), limit)
    assert (found.reached if found.solved else None) == least
    assert found.solved or found.reached > limit


def test_the_search_does_not_creep() -> None:
    """1 ns below 1 s: steps, not time, are counted, so that no clock decides."""
    second = 10**9
    calls = 0

    class Counted(Workload):
        def at(self, window: int) -> tuple[int, int]:
            nonlocal calls
            calls += 1
            return super().at(window)

    assert least_window(1, (Counted((second,), (), 9 * second, 9 * second),), 5 * second).reached == second + 1
    assert calls < 10
    full = Counted((10,), (), 0, 0)
    assert not least_window(1, (full,), second).solved
    assert calls < 10


@pytest.mark.parametrize("name", ["rtgpu", "stgm", "stgm-published"])
def test_below_a_task_that_fills_its_cpu_none_has_a_bound(name: str) -> None:
    full = Taskset(Platform(1), (task("a", 2, 1e-5, 1e-5, cpu(1e-5)), task("b", 1, 1000, 1000, cpu(1e-6))))
    assert wcrts(METHODS[name], full, 0, 0) == [1e-5, None]


# Whole tasksets


def test_the_parts_of_a_bound_add_up_to_it() -> None:
    for method, taskset in product(METHODS.values(), (EXAMPLE_A, EXAMPLE_B)):
        result = on_units(System(method, taskset), dict.fromkeys(("t1", "t2", "t3"), 2))
        for verdict in result.verdicts.values():
            if isinstance(verdict, Bound):
                assert sum(term.amount for term in verdict.terms) == verdict.wcrt
            else:
                assert isinstance(verdict, Failure)
                assert verdict.reason is Reason.DEPENDS_ON or (verdict.largest and verdict.largest.amount)


def test_the_parts_of_example_a() -> None:
    bound = on_units(System(RTGPU, EXAMPLE_A), {"t1": 1, "t2": 1}).verdicts["t1"]
    assert isinstance(bound, Bound)
    assert {(term.kind, term.amount) for term in bound.terms} == {
        (TermKind.OWN, ms(2 + 1 + 4 + 1 + 2)), (TermKind.INTERLEAVING, ms(2)), (TermKind.BLOCKING, ms(4))
    }  # fmt: skip


def test_a_kernel_without_units_is_a_failure_that_says_so() -> None:
    result = on_units(System(RTGPU, EXAMPLE_A), {"t1": 1})
    failure = result.verdicts["t2"]
    assert isinstance(failure, Failure)
    assert (failure.reason, str(failure)) == (
        Reason.NO_UNITS, "t2: no bound, because t2 has a kernel and no unit of the GPU"
    )  # fmt: skip


def test_a_task_below_one_without_a_bound_has_none() -> None:
    late = Taskset(Platform(1), (
        task("t1", 2, 20, 9, cpu(2), part(copy(1), fixed(9))), task("t2", 1, 90, 90, part(copy(1))),
    ))  # fmt: skip
    result = on_units(System(RTGPU, late), {"t1": 1})
    assert [v.reason for v in result.failures] == [Reason.ABOVE_DEADLINE, Reason.DEPENDS_ON]
    assert "own execution, 12 ms" in str(result.failures[0])


def test_tasks_of_equal_priority_delay_each_other() -> None:
    equals = Taskset(Platform(1), (task("a", 1, 20, 20, cpu(2)), task("b", 1, 20, 20, cpu(3))))
    assert wcrts(RTGPU, equals, 0, 0) == [2 + 2 * 3, 3 + 2 * 2]


def test_best_effort_copies_block_and_nothing_else_of_them_does() -> None:
    one = task("t", 1, 20, 20, part(copy(1)))
    best_effort = task("b", 0, 90, 90, cpu(50), part(copy(4), kernel(9, 1800, 0)))
    assert wcrts(RTGPU, Taskset(Platform(1), (one, best_effort)), 0, 0)[0] == 5
    chunks = on_units(System(RTGPU, Taskset(Platform(1), (one, best_effort)), chunk=ms(1)), {})
    assert chunks.wcrt("t") == ms(2)
    assert on_units(System(METHODS["self-suspension"], Taskset(Platform(1), (one, best_effort))), {}).failures


def test_a_gpu_priority_of_its_own_is_refused() -> None:
    changed = replace(EXAMPLE_A.tasks[0], gpu_priority=7)
    result = on_units(System(RTGPU, Taskset(Platform(1), (changed,))), {"t1": 1})
    assert "GPU priority" in str(result.failures[0])


@pytest.mark.parametrize("plain", [False, True])
def test_a_thread_between_two_kernels_has_to_have_its_cpu(plain: bool) -> None:
    """hi from 0 and from 60; lo computes from 30 and has its first kernel from 31 to 66, the second one from 90."""
    first, last = (gpu(0, 35), gpu(0, 10)) if plain else (part(fixed(35)), part(fixed(10)))
    between = () if plain else (cpu(0),)
    low = task("lo", 1, 1000, 1000, cpu(1), first, *between, last)
    system = Taskset(Platform(1), (task("hi", 2, 60, 60, cpu(30)), low))
    for method in (RTGPU, RTGPU_PRINTED, RTGPU_TIGHT, METHODS["self-suspension"]):
        found = wcrts(method, system, 1, 1)[1]
        assert found is not None
        assert found >= 100, method.name
