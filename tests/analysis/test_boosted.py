"""Policy `boosted`: examples worked by hand, small tasksets in whole nanoseconds, and assignment in any order."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations, product

import pytest
from agreement import disagreement, random_taskset
from builders import cpu, gpu, ms, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings

from analysis.answers import compiled
from analysis.answers.choose import choices
from analysis.answers.sensitivity import epsilon_budget
from analysis.answers.verdict import answer, covering, slow_turns
from analysis.model import CpuSegment, GpuSegment, Platform, Span, Task, Taskset, Waiting
from analysis.papers import registry
from analysis.papers.experiments.generate import PAPER, generate
from analysis.rta.analyse import analyse
from analysis.rta.boosted import longest_turn
from analysis.rta.result import Bound, Failure, Reason
from analysis.simulation.simulate import Options, simulate, worst_over_offsets
from gpurt.enums import Form

NAMES = ["boosted-suspend", "boosted-busy", "boosted-busy-fence", "boosted-mixed"]


def observed(system: Taskset, name: str, *offsets: float, policy: str = "boosted", form: Form | None = None) -> int:
    """The longest response time of a task from these first releases, ns."""
    waiting = registry.find("boosted-suspend").waiting
    return simulate(system, Options(policy, waiting, form=form), [ms(o) for o in offsets]).tasks[name].worst


def preempted_owner() -> Taskset:
    """h preempts the owner o on its CPU, and i on another CPU waits for the GPU."""
    owner = task("o", 0, 2, 1000, gpu(1, 1))
    return taskset(task("h", 0, 3, 1000, cpu(100)), owner, task("i", 1, 1, 1000, gpu(0, 1)))


@pytest.mark.parametrize("form", [Form.SELF, Form.OWNER])
def test_nobody_waits_for_an_owner_that_is_preempted_on_its_cpu(form: Form) -> None:
    """i: its own 1, and o's 2.  h: its own 100, and o's G^m of 1 above it."""
    system, result = preempted_owner(), registry.find("boosted-suspend").run(preempted_owner())
    assert [result.wcrt(name) for name in ("i", "h")] == [ms(3), ms(101)]
    assert observed(system, "i", 0.5, 0, 0.5, form=form) == ms(2.5)
    assert observed(system, "h", 0.5, 0, 0.5, form=form) == ms(100.5)
    assert observed(system, "i", 0.5, 0, 0.5, policy="segment") == ms(102.5)


def test_a_lower_task_that_spins_is_raised_for_its_whole_segment() -> None:
    system = taskset(task("i", 0, 2, 100, cpu(2)), task("j", 0, 1, 100, gpu(1, 9)))
    assert registry.find("boosted-busy").run(system).wcrt("i") == ms(12)
    assert registry.find("boosted-suspend").run(system).wcrt("i") == ms(3)
    assert registry.find("boosted-busy-fence").run(system).wcrt("i") == ms(3)
    spun = simulate(system, Options("boosted", Waiting.BUSY), [1, 0]).tasks["i"].worst
    assert spun == ms(12) - 1
    slept = simulate(system, Options("boosted", Waiting.SUSPEND), [1, 0]).tasks["i"].worst
    assert slept == ms(3) - 1
    fenced = simulate(system, Options("boosted", Waiting.BUSY, form=Form.FENCE), [1, 0]).tasks["i"].worst
    assert fenced == ms(3) - 1


def test_a_lower_segment_counts_once_in_each_gap_and_once_a_job() -> None:
    i, j = task("i", 0, 2, 100, gpu(0, 1), gpu(0, 1)), task("j", 0, 1, 100, gpu(3, 1), deadline=20)
    many = task("j", 0, 1, 100, *(gpu(3, 1) for _ in range(4)), deadline=30)
    suspend = registry.find("boosted-suspend")
    assert suspend.run(taskset(i, j)).wcrt("i") == ms(2 + 3)
    assert suspend.run(taskset(i, many)).wcrt("i") == ms(2 + 6)
    after = replace(i, segments=(*i.segments, cpu(0)))  # which needs its CPU once more
    assert suspend.run(taskset(after, many)).wcrt("i") == ms(2 + 9)
    assert registry.find("boosted-busy").run(taskset(i, j)).wcrt("i") == ms(2 + 4)


def test_the_job_before_counts_if_it_can_end_with_a_gpu_segment() -> None:
    def bound(*segments: CpuSegment | GpuSegment) -> int | None:
        system = taskset(task("h", 0, 2, 100, cpu(1)), task("i", 0, 1, 100, *segments), epsilon=1)
        return registry.find("boosted-suspend").run(system).wcrt("i")

    assert bound(gpu(1, 2), cpu(1)) == ms(4 + 2 + 1)
    assert bound(cpu(1), gpu(1, 2)) == ms(4 + 2 + 1 + (1 + 2))
    assert bound(gpu(1, 2), cpu(0)) == ms(3 + 2 + 1 + (1 + 2))
    assert bound(cpu(4), gpu(0, 0)) == ms(4 + 2 + 1 + (0 + 2))


def test_equals_that_spin_do_not_wait_for_each_other_for_ever() -> None:
    """As in test_thesis.py, where `segment` lets them: the owner has its CPU, so the tests refuse no equals."""
    system = taskset(
        task("a", 0, 1, 20, gpu(0, 1)), task("b", 0, 1, 20, gpu(0, 1)), task("c", 1, 2, 20, gpu(0, 1)), epsilon=0.1
    )
    for name in NAMES:
        assert registry.find(name).run(system).schedulable
    seen = worst_over_offsets(system, Options("boosted", Waiting.BUSY), 300)
    bounds = registry.find("boosted-busy").run(system)
    assert all(one.worst <= (bounds.wcrt(name) or 0) for name, one in seen.tasks.items())


def test_an_order_against_the_cpu_order_has_bounds_under_suspension_only() -> None:
    high, low = task("high", 0, 2, 100, gpu(0, 1)), task("low", 0, 1, 100, gpu(0, 9), deadline=20)
    low = replace(low, gpu_priority=3)
    system = taskset(high, low)
    assert registry.find("boosted-suspend").run(system).wcrt("high") == ms(10)
    assert registry.find("boosted-suspend").run(system).wcrt("low") == ms(9)
    refused = registry.find("boosted-busy").run(system).verdicts["high"]
    assert isinstance(refused, Failure)
    assert refused.reason is Reason.GPU_ORDER
    one_sided = taskset(high, replace(low, gpu_priority=0))
    assert not registry.find("boosted-suspend").run(one_sided).schedulable


@pytest.mark.parametrize("waiting", list(Waiting))
def test_mixed_with_one_mode_is_that_mode_or_above(waiting: Waiting) -> None:
    rng, seen = random.Random(waiting.value), 0
    for _ in range(tries(150, 50)):
        system = random_taskset(rng)
        system = replace(system, tasks=tuple(replace(t, waiting=waiting) for t in system))
        one = registry.find(f"boosted-{waiting.value}")
        mixed = registry.find("boosted-mixed").run(system)
        if mixed.schedulable:
            seen += 1
            alone = one.run(system)
            for t in system.real_time:  # where all suspend themselves, owners have windows
                wcrt, other = alone.wcrt(t.name), mixed.wcrt(t.name)
                assert wcrt is not None
                assert other is not None
                assert wcrt == other if waiting is Waiting.BUSY else wcrt <= other
    assert seen > tries(150, 50) / 5


def test_a_bound_covers_the_forms_that_tasks_state() -> None:
    i, j = task("i", 0, 2, 100, cpu(2)), replace(task("j", 0, 1, 100, gpu(1, 9)), waiting=Waiting.BUSY)
    k = replace(task("k", 1, 3, 100, gpu(1, 9)), waiting=Waiting.SUSPEND)

    def covers(*tasks: Task) -> list[str]:
        return [test.name for test in covering(taskset(*tasks), "boosted")]

    assert covers(i, j) == ["boosted-busy"]
    assert covers(i, replace(j, form=Form.FENCE)) == ["boosted-busy-fence"]
    assert covers(i, k) == covers(i, replace(k, form=Form.OWNER)) == ["boosted-suspend"]
    assert covers(i, j, k) == covers(i, j, replace(k, form=Form.OWNER)) == ["boosted-mixed"]
    assert covers(i, k, replace(j, form=Form.FENCE)) == []
    both = taskset(i, j, replace(j, name="other", form=Form.FENCE))
    assert covers(*both) == []
    answered = answer(replace(both, platform=replace(both.platform, policy="boosted")))
    assert "forms owner and fence" in answered.why
    assert "boosted-busy-fence" not in {choice.test for choice in choices(taskset(i, j))}


def test_the_simulator_gives_each_task_the_form_that_it_states() -> None:
    """A task that spins for its own G^e keeps the CPU from one above it as owner, not with form fence."""
    spins = replace(task("spins", 0, 1, 100, gpu(0.5, 9)), waiting=Waiting.BUSY)
    above = task("above", 0, 2, 100, cpu(2))

    def response(form: Form | None) -> int:
        options = Options("boosted", horizon=ms(100))
        return simulate(taskset(above, replace(spins, form=form)), options, (ms(1), 0)).tasks["above"].worst

    assert response(Form.FENCE) == ms(2)
    assert response(None) == response(Form.OWNER) == ms(8.5 + 2)


def test_parts_add_up_to_the_bound() -> None:
    rng, bounds = random.Random(4), 0
    for _ in range(100):
        system = random_taskset(rng)
        for name in NAMES:
            for verdict in compiled.run_compiled(registry.find(name), system).verdicts.values():
                if isinstance(verdict, Bound):
                    bounds += 1
                    assert sum(term.amount for term in verdict.terms) == verdict.wcrt
    assert bounds > 200


def small_taskset(rng: random.Random, any_order: bool) -> Taskset:
    """Two to five tasks with times of a few nanoseconds: instants coincide often."""
    count = rng.randint(2, 5)
    order, gpu_order = (rng.sample(range(1, count + 1), count) for _ in range(2))
    free = any_order and rng.random() < 0.5
    tasks = []
    for index in range(count):
        period = rng.choice([8, 12, 16, 20, 24, 30, 40, 60, 90, 120])
        segments = tuple(small_segment(rng) for _ in range(rng.randint(1, 3)))
        tasks.append(
            Task(f"t{index}", rng.randrange(3), order[index], period, period, segments, rng.choice(list(Waiting)),
                 gpu_order[index] if free else None)
        )  # fmt: skip
    return Taskset(Platform(3, rng.choice([0, 0, 1, 2]), rng.choice([0, 1, 3])), tuple(tasks))


def small_segment(rng: random.Random) -> CpuSegment | GpuSegment:
    def span(most: int) -> Span:
        return Span.exactly(rng.choice([0, *range(1, most + 1)]))

    return CpuSegment(span(6)) if rng.random() < 0.35 else GpuSegment(span(4), span(7))


@pytest.mark.parametrize("name", NAMES)
def test_small_tasksets_break_no_bound(name: str) -> None:
    test, rng, bounded = registry.find(name), random.Random(11), 0
    for _ in range(tries(400, 100)):
        system = small_taskset(rng, test.any_order)
        result = test.run(system)
        if not result.schedulable:
            continue
        bounded += 1
        for form in test.forms:
            options = Options(
                "boosted", test.waiting, horizon=6 * max(t.period for t in system), seed=rng.getrandbits(60), form=form
            )
            seen = worst_over_offsets(system, options, 60).tasks
            assert all(seen[t.name].worst <= (result.wcrt(t.name) or 0) for t in system), (form, system)
    assert bounded > tries(400, 100) / 10


@pytest.mark.parametrize("name", NAMES)
def test_no_combination_of_first_releases_breaks_a_bound(name: str) -> None:
    """Three tasks, and each first release at every nanosecond of its period."""
    test, rng, tried = registry.find(name), random.Random(3), 0
    while tried < tries(5, 2):
        drawn = small_taskset(rng, test.any_order).tasks[:3]
        platform = Platform(3, rng.choice([0, 1]), rng.choice([0, 1]))
        system = Taskset(platform, tuple(replace(t, period=10, deadline=10) for t in drawn))
        result = test.run(system)
        if len(system) < 3 or not result.schedulable or not any(t.uses_gpu for t in system):
            continue
        tried += 1
        for offsets in product(range(10), repeat=3):
            options = Options("boosted", test.waiting, horizon=40, form=test.forms[tried % len(test.forms)])
            seen = simulate(system, options, offsets).tasks
            assert all(seen[t.name].worst <= (result.wcrt(t.name) or 0) for t in system), (offsets, system)


@settings(max_examples=tries(150), deadline=None)
@given(system=tasksets(max_tasks=4, cpus=2, best_effort=False))
def test_finds_an_assignment_in_any_order_exactly_when_there_is_one(system: Taskset) -> None:
    test = registry.find("boosted-suspend")
    users = [t for t in system.real_time if t.uses_gpu]
    orders = ({t.name: n for n, t in enumerate(order, 1)} for order in permutations(users))
    exists = any(
        analyse(test.name, test.demands, system.with_gpu_priorities(order), assume_deadlines=True).schedulable
        for order in orders
    )
    assert (test.assign(system).priorities is not None) == exists


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_theta_is_charged_as_the_most_that_it_can_be(name: str) -> None:
    """Whatever part of epsilon it is, no bound is larger, and no verdict is better for not knowing it."""
    rng, larger, test = random.Random(name), 0, registry.find(name)
    for _ in range(60):
        system = random_taskset(rng)
        epsilon, platform = ms(0.3), system.platform
        unknown = replace(system, platform=replace(platform, alpha=epsilon, theta=0, theta_known=False))
        assert disagreement(name, unknown) is None
        bounds = test.run(unknown)
        for theta in (0, epsilon // 3, epsilon):
            stated = test.run(replace(system, platform=replace(platform, alpha=epsilon - theta, theta=theta)))
            for one in system.real_time:
                most, known = bounds.wcrt(one.name), stated.wcrt(one.name)
                assert most is None or (known is not None and known <= most)
                larger += most is None or known != most
    assert larger


def test_how_long_a_thread_spins_for_its_turn_at_the_update_lock() -> None:
    """low: an update in progress, and two of high; of one job, or of two if high's own bound reaches a second one.

    Nobody less urgent goes first, so that high waits for the update in progress only.
    """
    high, low = task("high", 0, 2, 100, gpu(1, 1)), task("low", 1, 1, 100, gpu(1, 1))
    system = taskset(high, low, epsilon=1)
    assert longest_turn(high, system, {"low": ms(5)}) == ms(1)
    assert longest_turn(low, system, {"high": ms(5)}) == ms(3)
    assert longest_turn(low, system, {"high": ms(99)}) == ms(5)
    crowd = taskset(*(task(f"t{at}", at % 2, at, 100, gpu(1, 1)) for at in range(1, 12)), epsilon=1)
    responses = {one.name: ms(5) for one in crowd}
    turns = [longest_turn(one, crowd, responses) for one in crowd.real_time]
    assert turns == [*(ms(1 + 2 * above) for above in range(10)), None]


def test_a_test_that_lets_threads_spin_too_long_proves_nothing() -> None:
    """Tasks that sleep may wait for their turn as long as the bound says."""
    crowd = taskset(*(task(f"t{at}", at % 4, at, 1000, gpu(1, 1)) for at in range(1, 16)), epsilon=1)
    for name, noted in (("boosted-busy", True), ("boosted-suspend", False)):
        test = registry.find(name)
        result = test.run(crowd)
        assert result.schedulable
        assert ("t5 may wait longer than 20 ms for its turn" in slow_turns(test, crowd, result)) == noted
        few = taskset(*crowd.tasks[-5:], epsilon=1)
        assert slow_turns(test, few, test.run(few)) == ""
    spinning = replace(crowd, tasks=tuple(replace(one, waiting=Waiting.BUSY) for one in crowd))
    assert "t5 may wait longer than 20 ms for its turn" in answer(spinning).why
    assert answer(crowd).schedulable
    ways = {choice.test: choice.schedulable for choice in choices(crowd)}
    assert (ways["boosted-busy"], ways["boosted-suspend"]) == (False, True)
    # t1 waits for an update in progress and two of each of the other 14: 29 in 20 ms
    assert epsilon_budget(registry.find("boosted-busy"), crowd) == ms(20) // 29


def test_switches_back_to_a_lower_task_that_spins_count_outside_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """w takes the GPU from j every 10 ms, while i waits for j's end on its CPU: each time 1 ms for the switch back."""
    system = taskset(
        task("i", 0, 2, 300, cpu(40), gpu(0, 1)), task("j", 0, 1, 600, gpu(0, 50)), task("w", 1, 3, 10, gpu(0, 1)),
        epsilon=1, theta=1,
    )  # fmt: skip
    test = registry.find("boosted-busy")
    seen = simulate(system, Options("boosted", Waiting.BUSY), [1, 0, ms(1)]).tasks["i"].worst
    assert (test.run(system).wcrt("i") or 0) >= seen
    monkeypatch.setattr(Platform, "longest_switch", property(lambda platform: 0))
    assert (test.run(system).wcrt("i") or 0) < seen


@pytest.mark.parametrize("name", NAMES)
def test_owners_count_in_windows_only(name: str) -> None:
    """i executes long before its short segment: l owns the GPU in that once, not in each of its periods."""
    system = taskset(task("i", 0, 1, 200, cpu(50), gpu(0, 1)), task("l", 1, 2, 10, gpu(0, 2)))
    assert registry.find(name).run(system).wcrt("i") == ms(50 + 1 + 2)


@pytest.mark.parametrize("name", ["boosted-busy", "boosted-busy-fence", "boosted-mixed"])
def test_owners_count_in_windows_of_tasks_above_that_spin(name: str) -> None:
    """h spins in its window of 3; l can own the GPU once there, but five times within i's response."""
    tasks = task("h", 0, 2, 100, cpu(1), gpu(0, 1)), task("i", 0, 1, 200, cpu(40)), task("l", 1, 3, 10, gpu(0, 2))
    system = taskset(*(replace(t, waiting=Waiting.BUSY) for t in tasks))
    assert registry.find(name).run(system).wcrt("i") == ms(40 + 2 + 2)
    assert compiled.run_compiled(registry.find(name), system).wcrt("i") == ms(44)


def test_a_long_last_cpu_segment_does_not_delay_the_end_of_segments() -> None:
    """Shortcuts took C + G for the least end of a job's last segment: this taskset was refused, without reason."""
    (system,) = generate(PAPER, 1, 1, 3504)
    assert compiled.passes(registry.find("boosted-suspend"), system)
    assert registry.find("boosted-suspend").run(system).schedulable
