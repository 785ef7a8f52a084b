"""MPCP, and the locks that ship: worked by hand, and against schedules."""

from __future__ import annotations

import random

import pytest
from attack_outcome import Effort
from attack_search import attack_one
from builders import cpu, gpu, ms, task, taskset, three, wcrt
from effort import tries
from random_tasksets import random_taskset

from analysis.model import Waiting
from analysis.papers import registry
from analysis.rta import Bound, Reason, TermKind
from analysis.simulation.simulate import Options, simulate, worst_over_offsets

MODES = list(Waiting)


@pytest.mark.parametrize("mode", MODES)
def test_a_request_waits_for_one_lower_and_all_higher(mode: Waiting) -> None:
    # i: own 10, j's request 10, one job of h: 5 with ceil((x + R_h - 5) / 100) = 1
    assert wcrt(f"mpcp-{mode.value}", three(), "i") == ms(25)
    # with a switch: own 10.5, j's 10.5, h's 5.5
    assert wcrt(f"mpcp-{mode.value}", three(0.5), "i") == ms(26.5)


def test_boosted_tasks_below_take_the_cpu() -> None:
    # h: own 7, one lower request of 10 (j's); j boosted twice, with G^m 2, for it sleeps during G^e
    assert wcrt("mpcp-suspend", three(), "h") == ms(7 + 10 + 2 * 2)
    # spinning, with all of 10, twice
    assert wcrt("mpcp-busy", three(), "h") == ms(7 + 10 + 2 * 10)


@pytest.mark.parametrize("mode", MODES)
def test_tasks_of_the_same_cpu(mode: Waiting) -> None:
    """j is below h on their CPU.  A job of h delays it by C + G, whether h sleeps or spins, because j waits for h."""
    # own 16, h's jobs 2 + 5, i's requests 6 each; within 29 one job each
    assert wcrt(f"mpcp-{mode.value}", three(), "j") == ms(16 + 7 + 6)


def test_cpu_only_task_waits_for_no_request_but_is_preempted_by_boosted_tasks() -> None:
    system = taskset(
        task("c", 0, 9, 50, cpu(2)),
        task("j", 0, 1, 400, cpu(1), gpu(2, 8)),
        task("k", 1, 5, 400, gpu(1, 20)),
    )
    assert wcrt("mpcp-suspend", system, "c") == wcrt("fmlp-suspend", system, "c") == ms(4)
    assert wcrt("mpcp-busy", system, "c") == wcrt("fmlp-busy", system, "c") == ms(12)
    # without boosting no lower task counts
    assert wcrt("lock-priority-suspend", system, "c") == wcrt("lock-priority-busy", system, "c") == ms(2)


def test_the_job_before_may_end_boosted_among_cpu_only_tasks_above() -> None:
    """If i ends with a GPU segment, its last G^m can execute after the release of a job of c that precedes i's next."""
    ends = taskset(task("c", 0, 9, 50, cpu(2)), task("i", 0, 5, 100, cpu(1), gpu(3, 4)))
    bound = registry.find("mpcp-suspend").run(ends).verdicts["i"]
    assert isinstance(bound, Bound)
    assert [t.amount for t in bound.terms if t.lemma == "readings: MPCP, the previous job"] == [ms(3)]
    goes_on = taskset(task("c", 0, 9, 50, cpu(2)), task("i", 0, 5, 100, gpu(3, 4), cpu(1)))
    bound = registry.find("mpcp-suspend").run(goes_on).verdicts["i"]
    assert isinstance(bound, Bound)
    assert not [t for t in bound.terms if t.lemma == "readings: MPCP, the previous job"]


def test_without_boosting_a_holder_waits_for_the_tasks_above_it() -> None:
    """j holds the GPU, c takes its CPU for 30, and i waits: bounds of lock-priority include that, mpcp's do not."""
    system = taskset(
        task("c", 0, 9, 200, cpu(30)),
        task("j", 0, 1, 400, gpu(1, 2)),
        task("i", 1, 5, 200, gpu(1, 2)),
    )
    assert wcrt("mpcp-suspend", system, "i") == ms(6)
    assert wcrt("lock-priority-suspend", system, "i") == ms(36)
    releases = [ms(0.5), 0, ms(0.25)]
    unboosted = simulate(system, Options("lock-priority", Waiting.SUSPEND, horizon=ms(1)), releases)
    boosted = simulate(system, Options("mpcp", Waiting.SUSPEND, horizon=ms(1)), releases)
    assert boosted.tasks["i"].worst <= ms(6) < unboosted.tasks["i"].worst <= ms(36)


@pytest.mark.parametrize("mode", MODES)
def test_best_effort_holders_are_blocking_where_boosted_and_without_bound_where_not(mode: Waiting) -> None:
    system = taskset(task("a", 0, 5, 100, gpu(1, 2)), task("be", 1, 0, 100, cpu(50), gpu(2, 5)))
    assert wcrt(f"mpcp-{mode.value}", system, "a") == wcrt(f"fmlp-{mode.value}", system, "a") == ms(10)
    failure = registry.find(f"lock-priority-{mode.value}").run(system).failures[0]
    assert (failure.task, failure.reason, failure.culprit) == ("a", Reason.DEPENDS_ON, "be")
    assert str(failure) == "a: no bound, because be has none"


@pytest.mark.parametrize("mode", MODES)
def test_the_published_charge_is_the_longer_one_without_switches(mode: Waiting) -> None:
    """A request is also charged the longest request of every more urgent task, although it holds the GPU alone."""
    published = registry.find(f"mpcp-{mode.value}-published").run(three()).verdicts["i"]
    assert isinstance(published, Bound)
    blocking = {t.source: t.amount for t in published.terms if t.kind is TermKind.BLOCKING}
    assert blocking == {"j": ms(10 + 5 + 6)}
    assert published.wcrt > ms(25)


def test_published_charge_of_busy_mode_misses_what_spins_above() -> None:
    system = taskset(task("c", 0, 9, 50, cpu(2)), task("j", 0, 1, 400, gpu(2, 8)))
    bound = wcrt("mpcp-busy-published", system, "c")
    seen = simulate(system, Options("mpcp", Waiting.BUSY, horizon=ms(10)), [ms(1), 0]).tasks["c"].worst
    assert bound == ms(4) < seen <= ms(12)
    assert wcrt("mpcp-busy", system, "c") == ms(12)


def test_a_late_lower_task_takes_the_bounds_that_count_its_jobs_with_it() -> None:
    system = taskset(task("a", 0, 9, 100, cpu(1)), task("late", 0, 1, 100, cpu(90), gpu(5, 20)))
    result = registry.find("mpcp-suspend").run(system)
    assert {f.task: f.reason for f in result.failures} == {
        "late": Reason.ABOVE_DEADLINE, "a": Reason.DEPENDS_ON,
    }  # fmt: skip


LOCKS = [n for n, t in registry.TESTS.items() if t.policy in ("mpcp", "fmlp", "lock-priority", "lock-fifo") and t.sound]


@pytest.mark.parametrize("name", LOCKS)
def test_attack_finds_nothing(name: str) -> None:
    rng, test, tried = random.Random(77), registry.find(name), 0
    for _ in range(tries(150)):
        outcome = attack_one(test, random_taskset(rng), rng, Effort(10, 15))
        assert not outcome.violations, outcome.smallest
        tried += outcome.schedulable
    assert tried > tries(150) / 8


@pytest.mark.parametrize("mode", MODES)
def test_attack_breaks_the_boosted_bound_without_boosting(mode: Waiting) -> None:
    """A bound holds for its own policy only: mpcp's is exceeded under the policy that ships, lock-priority."""
    rng, broken = random.Random(5), 0
    for _ in range(300):
        system = random_taskset(rng)
        result = registry.find(f"mpcp-{mode.value}").run(system)
        if not result.schedulable:
            continue
        seen = worst_over_offsets(system, Options("lock-priority", mode, seed=1, horizon=ms(600)), 10).tasks
        broken += any(seen[t.name].worst > (result.wcrt(t.name) or 0) for t in system.real_time)
        if broken > 5:
            break
    assert broken > 5
