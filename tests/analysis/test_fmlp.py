"""FMLP+ and policy lock-fifo: worked by hand, and against schedules."""

from __future__ import annotations

import pytest
from builders import cpu, gpu, ms, task, taskset, three, wcrt

from analysis.model import Waiting
from analysis.papers import registry
from analysis.rta import Bound, TermKind
from analysis.simulation.simulate import Options, simulate

MODES = list(Waiting)


@pytest.mark.parametrize("mode", MODES)
def test_a_request_waits_for_one_of_each_other_task(mode: Waiting) -> None:
    # own 10, h's request 5, j's 10
    assert wcrt(f"fmlp-{mode.value}", three(), "i") == ms(25)
    assert wcrt(f"fmlp-{mode.value}", three(0.5), "i") == ms(26.5)


def test_urgent_tasks_wait_for_all_others_and_for_boosted_ones() -> None:
    # own 7, i's request 6; of j a request of 10 before h's own, and G^m 2 (asleep) or another 10 (spinning) after it
    assert wcrt("fmlp-suspend", three(), "h") == ms(7 + 6 + 10 + 2)
    assert wcrt("fmlp-busy", three(), "h") == ms(7 + 6 + 10 + 10)


def test_requests_are_not_more_than_a_task_has_jobs() -> None:
    """a makes three requests.  k makes only two in a's window, because of its period."""
    system = taskset(
        task("a", 0, 9, 100, gpu(0, 1), gpu(0, 1), gpu(0, 1)),
        task("k", 1, 1, 1000, gpu(0, 20)),
    )
    bound = registry.find("fmlp-suspend").run(system).verdicts["a"]
    assert isinstance(bound, Bound)
    assert {t.source: t.amount for t in bound.terms if t.kind is TermKind.BLOCKING} == {"k": ms(40)}
    # one request of each job in the window; three would have been 60


def test_a_local_task_ahead_in_the_queue_counts_with_its_pure_segment() -> None:
    """docs/readings.md: h, above i on its CPU, sleeps in its GPU segment, and i's request waits for that segment."""
    system = taskset(task("h", 0, 9, 100, gpu(0, 20)), task("i", 0, 1, 100, cpu(1), gpu(0, 1)))
    assert wcrt("fmlp-suspend-published", system, "i") == ms(2)
    assert wcrt("fmlp-suspend", system, "i") == ms(22)
    seen = simulate(system, Options("fmlp", Waiting.SUSPEND, horizon=ms(50)), [0, 0]).tasks["i"].worst
    assert ms(2) < seen == ms(21) <= ms(22)


@pytest.mark.parametrize("mode", MODES)
def test_without_boosting_a_holder_waits_for_the_tasks_above_it(mode: Waiting) -> None:
    system = taskset(
        task("c", 0, 9, 200, cpu(30)),
        task("j", 0, 1, 400, gpu(1, 2)),
        task("i", 1, 5, 200, gpu(1, 2)),
    )
    releases = [ms(0.5), 0, ms(0.25)]
    assert wcrt(f"fmlp-{mode.value}", system, "i") == ms(6)
    assert wcrt(f"lock-fifo-{mode.value}", system, "i") == ms(36)
    boosted = simulate(system, Options("fmlp", mode, horizon=ms(1)), releases).tasks["i"].worst
    unboosted = simulate(system, Options("lock-fifo", mode, horizon=ms(1)), releases).tasks["i"].worst
    assert boosted <= ms(6) < unboosted <= ms(36)


@pytest.mark.parametrize("mode", MODES)
def test_first_come_means_also_after_less_urgent_ones(mode: Waiting) -> None:
    """Two lower requests are ahead: under MPCP a request waits for at most one, here for both."""
    system = taskset(
        task("a", 0, 9, 100, gpu(0, 1)),
        task("b", 1, 5, 100, gpu(0, 10)),
        task("c", 2, 1, 100, gpu(0, 10)),
    )
    assert wcrt(f"mpcp-{mode.value}", system, "a") == ms(11)
    assert wcrt(f"fmlp-{mode.value}", system, "a") == ms(21)
    releases = [ms(2), ms(1), 0]
    seen = {p: simulate(system, Options(p, mode, horizon=ms(5)), releases).tasks["a"].worst for p in ("mpcp", "fmlp")}
    assert seen == {"mpcp": ms(9), "fmlp": ms(19)}
