# SPDX-License-Identifier: GPL-2.0
"""The case study of the thesis (tables 4.3 and 4.4, figure 4.14): preemption against the default driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import ms

from analysis.model import Taskset
from analysis.papers import registry
from analysis.simulation.simulate import Options, worst_over_offsets
from analysis.taskset import load

TASKSET = load(Path(__file__).resolve().parents[2] / "examples/thesis-case-study.toml").taskset


@pytest.mark.parametrize(("name", "longest"), [("gcaps-suspend", 89.808), ("gcaps-busy", 156.288)])
def test_task_5_waits_for_task_3_and_busy_waiting_adds_its_kernels(name: str, longest: float) -> None:
    """Task 4 has no sound bound: by itself it waits for a job of 116 ms twice and more on its CPU."""
    found = {task.name: registry.find(name).run(TASKSET).wcrt(task.name) for task in TASKSET.real_time}
    assert found["mmul_cpu_2"] == ms(longest)
    assert [task for task, bound in found.items() if bound is None] == ["mmul_gpu_2"]


def test_figure_4_14_task_1_is_much_faster_where_the_gpu_is_preempted() -> None:
    seen = {policy: worst_over_offsets(TASKSET, Options(policy, registry.find("gcaps-suspend").waiting), 50).tasks
            for policy in ("segment", "timesliced")}  # fmt: skip
    bound = registry.find("gcaps-suspend").run(TASKSET).wcrt("histogram")
    assert bound is not None
    assert seen["segment"]["histogram"].worst <= bound == ms(23.144)
    assert seen["timesliced"]["histogram"].worst > 3 * seen["segment"]["histogram"].worst
    assert all(not seen["segment"][task.name].misses for task in TASKSET.real_time)


#: Table 4.3: what an update of the runlist took on the Xavier NX, us.
UPDATES = {"longest": 1036, "shortest": 333, "mean": 476}


def test_table_4_3_only_the_longest_update_makes_a_bound() -> None:
    """Runs whose updates take the longest exceed the bounds that the mean and the shortest give."""
    test = registry.find("gcaps-suspend")
    assert TASKSET.platform.epsilon == UPDATES["longest"] * 1000
    bounds = {which: test.run(_updating(us)) for which, us in UPDATES.items()}
    seen = worst_over_offsets(TASKSET, Options(test.policy, test.waiting), 50).tasks
    bounded = [task.name for task in TASKSET.real_time if bounds["longest"].wcrt(task.name)]
    above = {which: [name for name in bounded if seen[name].worst > (bound.wcrt(name) or 0)]
             for which, bound in bounds.items()}  # fmt: skip
    assert len(bounded) == 4
    assert not above["longest"]
    assert set() < set(above["mean"]) <= set(above["shortest"])


def _updating(epsilon_us: int) -> Taskset:
    theta = TASKSET.platform.theta
    return replace(TASKSET, platform=replace(TASKSET.platform, alpha=epsilon_us * 1000 - theta))
