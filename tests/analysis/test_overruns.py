# SPDX-License-Identifier: GPL-2.0
"""The example of a budget as a task (docs/manual/overruns.md): its bound is that of the lemma, and less would break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builders import ms

from analysis.papers import registry
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load

EXAMPLE = load(Path(__file__).resolve().parents[2] / "examples/overrun.toml").taskset
TEST = registry.find("boosted-suspend")
#: Of the budget: its period, and the most that its programs and their updates take of one, ms.
PERIOD, MOST = 33.0, 6 + 0.2 + 2 * 0.5


def test_the_bound_is_that_of_the_budgets_lemma() -> None:
    """docs/readings/own.md: ceil((x + P - Q') / P) Q' in a time x, beside the task's own 5.1 ms."""
    found = TEST.run(EXAMPLE).wcrt("control")
    assert found == ms(5.1 + 2 * MOST)
    times = -(-(found + ms(PERIOD - MOST)) // ms(PERIOD))
    assert times == 2


def test_a_budget_used_late_and_early_again_takes_more_than_a_task_without_jitter() -> None:
    seen = simulate(EXAMPLE, Options("boosted")).tasks["control"].worst
    punctual = replace(EXAMPLE, tasks=tuple(replace(t, jitter=0) for t in EXAMPLE))
    less = TEST.run(punctual).wcrt("control")
    assert less is not None
    assert less < seen <= ms(5.1 + 2 * MOST)
