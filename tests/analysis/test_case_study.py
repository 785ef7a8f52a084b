# SPDX-License-Identifier: GPL-2.0
"""The published case study (ECRTS'24, table 4) in virtual time: no observation exceeds its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis import rta
from analysis.simulate import Options, worst_over_offsets
from analysis.taskset import TasksetFile, load

FILE = Path(__file__).resolve().parents[2] / "examples" / "case-study.toml"
OFFSETS = 1000
BOUNDED = ["gcaps-suspend", "gcaps-busy", "tsg-rr-suspend", "tsg-rr-busy"]


@pytest.fixture(scope="module")
def case_study() -> TasksetFile:
    return load(FILE)


@pytest.mark.parametrize("execution", ["worst", "random"])
@pytest.mark.parametrize("name", BOUNDED)
def test_no_observation_exceeds_its_bound(case_study: TasksetFile, name: str, execution: str) -> None:
    taskset, test = case_study.taskset, rta.find(name)
    verdicts = test.run(taskset)
    seed = BOUNDED.index(name)
    options = Options(test.policy, test.waiting, execution, seed=seed)
    seen = worst_over_offsets(taskset, options, OFFSETS).tasks
    bounds = {task.name: verdicts.wcrt(task.name) for task in taskset.real_time}
    above = {
        task: (seen[task].worst, bound) for task, bound in bounds.items() if bound and seen[task].worst > bound
    }
    assert not above
    # The comparison was not empty: jobs of every task ran, and there was a bound to exceed.
    assert all(seen[task.name].jobs >= OFFSETS for task in taskset)
    assert any(bounds.values())


@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy"])
def test_case_study_is_schedulable_with_gcaps(case_study: TasksetFile, name: str) -> None:
    """Section 7.2: under GCAPS every real-time task of the case study meets its deadline."""
    result = rta.find(name).run(case_study.taskset)
    assert result.schedulable, [str(failure) for failure in result.failures]
    test = rta.find(name)
    seen = worst_over_offsets(case_study.taskset, Options(test.policy, test.waiting), 100).tasks
    assert [task.name for task in case_study.taskset.real_time if seen[task.name].misses] == []


def test_a_wrong_bound_would_be_noticed(case_study: TasksetFile) -> None:
    """The same comparison must find a bound exceeded that charges no interference."""
    taskset = case_study.taskset
    seen = worst_over_offsets(taskset, Options("segment", rta.find("gcaps-suspend").waiting), OFFSETS).tasks
    alone = {task.name: task.cpu_time + task.gpu_time for task in taskset.real_time}
    assert all(seen[name].worst > time for name, time in alone.items() if name != "mmul_cpu")
