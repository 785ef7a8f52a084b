# SPDX-License-Identifier: GPL-2.0
"""Random tasksets of RTGPU's table 1, and the experiments on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.model import MS, Copy, CpuSegment, GpuSegment, Kernel
from analysis.papers import rtgpu_sweep as sweep
from analysis.papers.experiments import EXPERIMENTS
from analysis.papers.experiments.engine import run_experiment
from analysis.papers.experiments.plan import Settings
from analysis.papers.rtgpu_tasksets import TABLE, draw


def test_lengths_are_those_of_table_1() -> None:
    drawn = draw(TABLE, 1, 200)
    for values, high, segments in ((drawn.cpu, 20, 5), (drawn.copy, 5, 8), (drawn.kernel, 20, 4)):
        assert values.shape == (200, 5, segments)
        assert MS <= values.min() < 1.2 * MS
        assert 0.95 * high * MS < values.max() <= high * MS
    total = drawn.cpu.sum(axis=2) + drawn.copy.sum(axis=2) + drawn.kernel.sum(axis=2)
    utilization = (total / drawn.period).sum(axis=1)
    assert np.allclose(utilization, TABLE.utilization, atol=1e-6)
    assert (np.diff(drawn.period, axis=1) >= 0).all(), "deadline monotonic"


@pytest.mark.parametrize(("copies", "parts"), [(2, (Copy, Kernel, Copy)), (1, (Copy, Kernel))])
def test_a_job_alternates(copies: int, parts: tuple[type, ...]) -> None:
    task = draw(replace(TABLE, copies=copies), 1, 1).taskset(0).tasks[0]
    assert [type(segment) for segment in task.segments] == [CpuSegment, GpuSegment] * 4 + [CpuSegment]
    assert all(tuple(map(type, segment.parts)) == parts for segment in task.gpu_segments)
    kernel = task.gpu_segments[0].parts[1]
    assert isinstance(kernel, Kernel)
    assert (kernel.interleave, kernel.overhead) == (1800, kernel.work.worst * 120 // 1000)


def test_a_taskset_depends_on_the_seed_and_its_index_alone() -> None:
    assert draw(TABLE, 3, 5).taskset(4) == draw(TABLE, 3, 1, 4).taskset(0)
    assert draw(TABLE, 3, 1).taskset(0) != draw(TABLE, 4, 1).taskset(0)


def test_simulation_misses_nothing_where_a_sound_test_passes() -> None:
    drawn = draw(replace(TABLE, utilization=1.0, best=200), 6, 8)
    passing = sweep.schedulable_on_units(drawn, "rtgpu-tight")
    assert passing.any()
    for execution in ("worst", "random"):
        assert sweep.schedulable_on_units(drawn, "rtgpu-tight", execution)[passing].all()
    hard = draw(replace(TABLE, utilization=4.0), 6, 4)
    assert not sweep.schedulable_on_units(hard, "rtgpu-tight", "worst").any()


def test_an_experiment_runs_and_is_ordered_as_the_proofs_are() -> None:
    experiment = EXPERIMENTS["rtgpu-fig9"]
    panel = replace(experiment.panels[1], points=experiment.panels[1].points[3:6])
    ((*points,),) = run_experiment(replace(experiment, panels=(panel,)), Settings(5), jobs=1)
    found = [counts for (counts,) in points]
    for counts in found:
        assert counts["RTGPU, printed"] <= counts["RTGPU, whole jobs on the bus"] <= counts["RTGPU, tight"]
        assert counts["STGM, as probably evaluated"] <= counts["STGM, our bound"]
    assert sum(counts["RTGPU, tight"] for counts in found) > 0
