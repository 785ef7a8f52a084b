# SPDX-License-Identifier: GPL-2.0
"""The planner on the paper's random tasksets: the rates of section 7.2, and what lemma 1 and the optimum say."""

from __future__ import annotations

import os
from typing import Any

import pytest
from effort import tries
from fewest_units import exact

from analysis.papers.zahaf_tasksets import Parameters, generate_zahaf, results, zahaf_workload
from analysis.partition.merge import Infeasible, Merger
from analysis.partition.variants import HEURISTICS, LIST_ORDERS

MANY = 10 if os.environ.get("GPURT_LONG") else 1
WAYS = [(variant, order) for variant in HEURISTICS for order in LIST_ORDERS]


def rates(parameters: Parameters, count: int, ways: list[tuple[str, str]]) -> Any:
    """Per cent of tasksets that each way schedules."""
    return 100 * results(parameters, generate_zahaf(parameters, 1, count), ways)["fits"].mean(axis=0)


def test_one_partition_collapses_where_each_scaling_says() -> None:
    """With the shared scaling at U = 36, with the printed one at U = 7."""
    one, count = [("1g", "dec")], tries(100)
    assert rates(Parameters(utilization=30), count, one) >= 95
    assert rates(Parameters(utilization=40), count, one) <= 10
    assert rates(Parameters(utilization=5, shared=False), count, one) >= 90
    assert rates(Parameters(utilization=8, shared=False), count, one) <= 10


@pytest.fixture(scope="module")
def at_46() -> Any:
    """The results of all ways on tasksets of utilization 46."""
    parameters = Parameters(utilization=46)
    return results(parameters, generate_zahaf(parameters, 1, tries(40, 10) * MANY), WAYS)


def test_sms_is_above_bf_and_two_rules_of_ours_above_both(at_46: Any) -> None:
    """Section 7.2: SMS is above BF as U grows, with ties as the list has them."""
    share = dict(zip(WAYS, at_46["fits"].mean(axis=0), strict=True))
    sms, bf = ([share[f"{rule}-{mode}", "dec"] for mode in ("ina", "act")] for rule in ("sms", "bf"))
    assert min(*sms, *bf) >= 0.5
    assert min(sms) > max(bf)
    assert min(share["fit-act", "dec"], share["sav-act", "dec"]) >= max(*sms, *bf)


def test_the_best_of_all_heuristics_schedules_92_per_cent_at_46(at_46: Any) -> None:
    claimed = 0.92
    deviation = (claimed * (1 - claimed) / len(at_46)) ** 0.5
    assert at_46["fits"].any(axis=1).mean() >= claimed - 3 * deviation


@pytest.mark.slow(0.2)
def test_at_200_tasks_fewest_units_fit_more_than_fullest_first() -> None:
    sms, fit, bf = rates(Parameters(200, 44), 2 * MANY, [("sms-ina", "dec"), ("fit-ina", "dec"), ("bf-ina", "dec")])
    assert sms >= fit >= 50
    assert bf <= 10


def test_exact_fits_whatever_a_heuristic_fits_on_as_few_units() -> None:
    parameters, of_exact, of_heuristics = Parameters(10, 9, 14), 0, 0
    tasks = generate_zahaf(parameters, 1, tries(8, 3) * MANY)
    fits = results(parameters, tasks, WAYS)["fits"].any(axis=1)
    for row, fit in zip(tasks, fits, strict=True):
        found = exact(zahaf_workload(row, parameters.units))
        best = not isinstance(found, Infeasible) and found.fits
        assert best or not fit
        of_exact, of_heuristics = of_exact + best, of_heuristics + fit
    assert 0 < of_heuristics >= 0.7 * of_exact


def test_what_lemma_1_refuses_fits_nowhere() -> None:
    """Against exact without the lemma: on more units than the lemma has seen."""
    refused = 0
    for row in generate_zahaf(Parameters(6, 9.7, 10), 3, 50 * MANY):
        start = Merger(zahaf_workload(row, 10)).singles
        if isinstance(start, Infeasible) and start.lemma == 1:
            refused += 1
            larger = exact(zahaf_workload(row, 14))
            assert isinstance(larger, Infeasible) or larger.units > 10
    assert refused


def test_exact_takes_sixteen_tasks() -> None:
    with pytest.raises(ValueError, match="exact takes at most 16 tasks, not 17"):
        exact(zahaf_workload(generate_zahaf(Parameters(17, 6, 40), 1, 1)[0], 40))
