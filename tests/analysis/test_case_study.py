"""The published case study in virtual time: nobody is seen to exceed a bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis import rta
from analysis.simulate import Options, worst_over_offsets
from pycontrol.taskset import load

CASE_STUDY = load(Path(__file__).resolve().parents[2] / "examples/case-study.toml").taskset
BOUNDED = ["gcaps-suspend", "gcaps-busy", "tsg-rr-suspend", "tsg-rr-busy"]


@pytest.mark.parametrize("execution", ["worst", "random"])
@pytest.mark.parametrize("name", BOUNDED)
def test_no_observation_exceeds_its_bound_over_1000_offsets(name: str, execution: str) -> None:
    test = rta.find(name)
    bounds = test.run(CASE_STUDY)
    options = Options(test.policy, test.waiting, execution, sporadic=execution == "random", seed=1)
    seen = worst_over_offsets(CASE_STUDY, options, 1000)
    checked = 0
    for entry in CASE_STUDY.real_time:
        bound = bounds.wcrt(entry.name)
        if bound is None:
            continue
        checked += 1
        assert seen.tasks[entry.name].finished > 1000
        assert 0 < seen.tasks[entry.name].worst <= bound, entry.name
    assert checked >= 2


@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy"])
def test_it_is_schedulable_under_gcaps(name: str) -> None:
    assert rta.find(name).run(CASE_STUDY).schedulable
