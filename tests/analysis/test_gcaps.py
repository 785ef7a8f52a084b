"""The GCAPS and round-robin bounds: worked by hand, against the paper's claims, and by their properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import cpu, gpu, ms, task, taskset, tasksets, wcrt
from effort import tries
from hypothesis import given, settings

from analysis.model import MS, Platform, Span, Taskset
from analysis.papers import registry
from analysis.rta import BestEffort, Bound, Failure, Reason, TermKind

SOUND = [name for name, test in registry.TESTS.items() if test.sound]

#: ECRTS'24, table 2, priorities by RM.
TABLE2 = (
    task("t1", 0, 4, 80, cpu(2), gpu(2, 4), cpu(4), gpu(2, 2), cpu(3)),
    task("t2", 0, 3, 150, cpu(40)),
    task("t3", 1, 2, 190, cpu(4), gpu(5, 80), cpu(30)),
    task("t4", 0, 1, 200, cpu(16), gpu(2, 10), cpu(2)),
)


def test_single_task_pays_for_itself_its_updates_and_lemma_8() -> None:
    system = taskset(task("a", 0, 5, 100, cpu(3), gpu(1, 6)), epsilon=0.5)
    # C 3 + G 7 + two updates 2 * 0.5 + blocking (1 + 1) * 0.5
    assert wcrt("gcaps-suspend", system, "a") == ms(12)
    assert wcrt("gcaps-busy", system, "a") == ms(12)


def test_same_core_preemption_by_hand() -> None:
    system = taskset(task("h", 0, 9, 20, cpu(2), gpu(1, 4)), task("i", 0, 1, 100, cpu(5)))
    # busy: each job of h takes the CPU for 7: 5 + 7 = 12 <= 20.
    assert wcrt("gcaps-busy", system, "i") == ms(12)
    # suspend: C_h + G^m_h = 3 a job, jitter R_h - 3 = 4: 5 + 3 = 8, ceil((8 + 4) / 20) = 1.
    assert wcrt("gcaps-suspend", system, "i") == ms(8)


def test_paper_example_2_holds_for_the_printed_test() -> None:
    system = taskset(*TABLE2, epsilon=1)
    plain = registry.find("gcaps-suspend-printed").run(system)
    assert [failure.task for failure in plain.failures] == ["t4"]
    swapped = system.with_gpu_priorities({"t3": 1, "t4": 2})
    assert registry.find("gcaps-suspend-printed").run(swapped).schedulable


def test_owner_that_is_preempted_on_its_cpu_still_owns_the_gpu() -> None:
    """b begins its segment, a preempts it on their CPU for 100 ms, and c waits: the printed bound leaves that out."""
    system = taskset(
        task("a", 0, 9, 1000, cpu(100)),
        task("b", 0, 5, 1000, gpu(1, 1)),
        task("c", 1, 1, 1000, gpu(0, 1)),
    )
    assert wcrt("gcaps-suspend-printed", system, "c") == ms(2)
    # own 1, b's segment 2, a's 100 ms on b's CPU
    assert wcrt("gcaps-suspend", system, "c") == ms(103)
    assert wcrt("gcaps-busy", system, "c") == ms(103)


def test_cpu_only_task_under_a_busy_waiting_one_that_waits_for_the_gpu() -> None:
    """The counterexample of docs/readings.md to thesis equation 4.5: the schedule takes 9."""
    system = taskset(
        task("k", 1, 9, 1000, gpu(0, 5)),
        task("h", 0, 5, 1000, cpu(1), gpu(0, 2)),
        task("i", 0, 1, 1000, cpu(1)),
    )
    assert wcrt("gcaps-busy", system, "i") == ms(9)
    assert wcrt("gcaps-busy-printed", system, "i") == ms(7)  # loses h's G^e, lemmas 10 and 12


def test_round_robin_by_hand() -> None:
    system = taskset(
        task("a", 0, 5, 100, gpu(0, 2.5)), task("b", 1, 0, 100, gpu(0, 9)), slice_=1, epsilon=0.25, theta=0.25
    )
    # 3 slices, each after one of b's (1 + 0.25) and the switch back 0.25: 2.5 + 3 * 1.5
    assert wcrt("tsg-rr-suspend", system, "a") == ms(7)
    assert wcrt("tsg-rr-suspend-printed", system, "a") == ms(6.25)


def test_equal_priorities_count_both_ways() -> None:
    system = taskset(task("a", 0, 5, 100, cpu(3)), task("b", 0, 5, 100, cpu(4)))
    assert wcrt("gcaps-busy", system, "a") == wcrt("gcaps-busy", system, "b") == ms(7)


def test_failure_says_what_and_by_how_much_and_who_depends_on_it() -> None:
    system = taskset(task("a", 0, 5, 100, cpu(60), deadline=50), task("b", 0, 4, 400, cpu(1)))
    result = registry.find("gcaps-suspend").run(system)
    first, second = result.verdicts["a"], result.verdicts["b"]
    assert isinstance(first, Failure)
    assert isinstance(second, Failure)
    assert (first.reason, first.reached) == (Reason.ABOVE_DEADLINE, ms(60))
    assert "no bound below the deadline of 50 ms is known (the recurrence passed it at 60 ms)" in str(first)
    assert result.why == f"{first}; no bound of b either"
    assert (second.reason, second.culprit) == (Reason.DEPENDS_ON, "a")


def test_a_bound_that_assumed_a_failed_equals_deadline_is_withdrawn() -> None:
    system = taskset(task("a", 0, 5, 100, cpu(1)), task("b", 0, 5, 100, cpu(60), deadline=50))
    result = registry.find("gcaps-suspend").run(system)
    assert {f.task: f.reason for f in result.failures} == {
        "a": Reason.ABOVE_DEADLINE if result.wcrt("a") else Reason.DEPENDS_ON,
        "b": Reason.ABOVE_DEADLINE,
    }


@pytest.mark.parametrize("name", sorted(registry.TESTS))
def test_edge_cases_have_results(name: str) -> None:
    test = registry.find(name)
    assert test.run(Taskset(Platform(1))).schedulable
    only = test.run(taskset(task("be", 0, 0, 10, gpu(1, 1))))
    assert only.schedulable
    assert isinstance(only.verdicts["be"], BestEffort)
    empty = test.run(taskset(task("z", 0, 5, 10, cpu(0), gpu(0, 0))))
    assert empty.wcrt("z") == (0 if name.endswith("printed") else test.poll)  # until the kernel thread has looked
    full = test.run(taskset(task("f", 0, 5, 10, cpu(10))))
    assert full.wcrt("f") == ms(10)
    huge = taskset(task("h", 0, 5, 2**40, cpu(2**39)), task("t", 0, 4, 2**41, cpu(1)))
    assert test.run(huge).wcrt("t") == ms(2**39 + 1)


def test_a_search_of_tiny_steps_in_a_huge_window_ends() -> None:
    tiny = replace(task("t", 0, 9, 1, cpu(1)), period=1, deadline=1)
    tiny = replace(tiny, segments=(replace(cpu(0), time=Span.exactly(1)),))
    system = taskset(tiny, task("x", 0, 1, 2**40, cpu(1)))
    failure = registry.find("gcaps-suspend").run(system).verdicts["x"]
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.OVERLOAD  # t alone fills the CPU, no search is needed


def test_unknown_test_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="gcaps-suspend"):
        registry.find("gcaps-suspended")


@settings(max_examples=tries(150), deadline=None)
@given(tasksets())
def test_terms_add_up_and_bounds_are_within_deadlines(system: Taskset) -> None:
    for name in registry.TESTS:
        for verdict in registry.find(name).run(system).verdicts.values():
            if isinstance(verdict, Bound):
                assert sum(term.amount for term in verdict.terms) == verdict.wcrt <= verdict.deadline
                assert all((term.amount > 0) != (term.kind is TermKind.OVERLAP) for term in verdict.terms)
                assert all(term.lemma for term in verdict.terms)


@settings(max_examples=tries(150), deadline=None)
@given(tasksets())
def test_round_robin_bound_is_never_below_the_printed_one(system: Taskset) -> None:
    for name in ("tsg-rr-suspend", "tsg-rr-busy"):
        ours, printed = registry.find(name).run(system), registry.find(f"{name}-printed").run(system)
        for entry in system:
            bound, literal = ours.wcrt(entry.name), printed.wcrt(entry.name)
            if bound is not None and not entry.best_effort:
                assert literal is not None
                assert bound >= literal


@settings(max_examples=tries(100), deadline=None)
@given(tasksets(best_effort=False))
def test_more_demand_never_shortens_a_bound(system: Taskset) -> None:
    longer = replace(
        system,
        tasks=(
            replace(system.tasks[0], segments=(cpu(1), *system.tasks[0].segments)),
            *system.tasks[1:],
        ),
    )
    slower = replace(system, platform=replace(system.platform, alpha=system.platform.alpha + MS))
    for name in SOUND:
        if name.endswith("+gpu-priority"):
            continue
        before = registry.find(name).run(system)
        for changed in (longer, slower):
            after = registry.find(name).run(changed)
            for entry in system:
                if after.wcrt(entry.name) is not None:
                    assert before.wcrt(entry.name) is not None
                    assert after.wcrt(entry.name) >= before.wcrt(entry.name)  # type: ignore[operator]


def test_breakdown_names_kinds_and_causes() -> None:
    system = taskset(*TABLE2, epsilon=1)
    bound = registry.find("gcaps-suspend").run(system).verdicts["t3"]
    assert isinstance(bound, Bound)
    kinds = {(term.kind, term.source): term.amount for term in bound.terms}
    assert kinds[TermKind.OWN, None] == ms(119)
    assert kinds[TermKind.UPDATES, None] == ms(2)
    assert kinds[TermKind.BLOCKING, None] == ms(2)
    # t1 owns the GPU for G + 4 updates = 10 + 4 a job; it is the only owner on its CPU, so its C does not count
    assert kinds[TermKind.GPU_PREEMPTION, "t1"] % ms(14) == 0


@pytest.mark.parametrize("name", sorted(registry.TESTS))
def test_a_failure_names_the_task_the_largest_part_and_what_was_reached(name: str) -> None:
    system = taskset(task("a", 0, 9, 100, cpu(60), gpu(0, 5), deadline=50), task("b", 1, 5, 100, gpu(0, 1)))
    failure = registry.find(name).run(system).verdicts["a"]
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.deadline) == (Reason.ABOVE_DEADLINE, ms(50))
    assert failure.reached >= ms(65)
    assert failure.largest is not None
    assert (failure.largest.kind, failure.largest.amount, failure.largest.source) == (TermKind.OWN, ms(65), None)
    passed = f"{failure.reached / MS:.6f}".rstrip("0").rstrip(".")
    assert f"a: no bound below the deadline of 50 ms is known (the recurrence passed it at {passed} ms" in str(failure)
    assert "the largest part is own execution, 65 ms" in str(failure)


@pytest.mark.parametrize("name", sorted(registry.TESTS))
def test_times_near_the_longest_and_of_a_nanosecond_have_exact_results(name: str) -> None:
    """Sums beyond 2^63, together with tasks of one ns."""
    long, tiny = 2**62, Span.exactly(1)
    half, ns = Span.exactly(long // 2), (replace(cpu(0), time=tiny),)
    big = replace(task("big", 0, 2, 1, cpu(0)), period=long, deadline=long, segments=(replace(cpu(0), time=half),))
    small = replace(task("small", 0, 9, 1, cpu(0)), period=long // 4, deadline=long // 4, segments=ns)
    segments = (replace(gpu(0, 0), pure=half),)
    other = replace(task("other", 1, 1, 1, cpu(0)), period=long, deadline=long, segments=segments)
    result = registry.find(name).run(taskset(big, small, other))
    assert result.wcrt("big") is not None
    assert result.wcrt("big") >= long // 2 + 2  # type: ignore[operator]
    assert result.wcrt("small") is not None
    over = replace(big, name="over", priority=3)
    failed = registry.find(name).run(taskset(big, over, small)).verdicts["big"]
    assert isinstance(failed, Failure)
    assert failed.reached > long
