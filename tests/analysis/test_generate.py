"""Generated tasksets follow the papers' tables, have times in whole nanoseconds, and are the same for the same seed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.model import CpuSegment, GpuSegment, Taskset
from analysis.papers.experiments.generate import PAPER, THESIS, Draws, Parameters, generate


def tasksets(parameters: Parameters, count: int = 60, **options: object) -> list[Taskset]:
    return generate(parameters, 11, count, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("parameters", [PAPER, THESIS], ids=["table 3", "table 4.2"])
def test_every_parameter_lies_in_its_range(parameters: Parameters) -> None:
    for taskset in tasksets(parameters):
        assert 12 <= len(taskset) <= 24
        users = [t for t in taskset if t.uses_gpu]
        assert 0.4 - 0.5 / len(taskset) <= len(users) / len(taskset) <= 0.6 + 0.5 / len(taskset)
        total = sum((t.cpu_time + t.gpu_time) / t.period for t in taskset)
        assert 4 * 0.4 - 1e-6 <= total <= 4 * 0.6 + 1e-6
        for task in taskset:
            assert parameters.period[0] <= task.period <= parameters.period[1]
            assert task.deadline == task.period
        for task in users:
            assert 1 <= task.eta <= 3
            low, high = parameters.ratio
            assert low * task.cpu_time - 3 <= task.gpu_time <= high * task.cpu_time + 3
            assert 0.1 * task.gpu_time - 3 <= task.misc_time <= 0.3 * task.gpu_time + 3


def test_loads_of_the_thesis_stay_on_their_cpus() -> None:
    for taskset in tasksets(THESIS):
        for cpu in range(4):
            own = [t for t in taskset if t.cpu == cpu]
            assert 3 <= len(own) <= 6
            load = sum((t.cpu_time + t.gpu_time) / t.period for t in own)
            assert 0.4 - 1e-6 <= load <= 0.6 + 1e-6


def test_priorities_are_rate_monotonic_and_distinct() -> None:
    for taskset in tasksets(PAPER):
        order = sorted(taskset, key=lambda t: -t.priority)
        assert [t.period for t in order] == sorted(t.period for t in taskset)
        assert sorted(t.priority for t in taskset) == list(range(1, len(taskset) + 1))
        assert all(t.segment_priority == t.priority for t in taskset)


def test_reallocation_is_worst_fit_decreasing() -> None:
    for taskset in tasksets(PAPER):
        loads = [0.0] * 4
        for task in sorted(taskset, key=lambda t: -(t.cpu_time + t.gpu_time) / t.period):
            assert loads[task.cpu] <= min(loads) + 1e-6
            loads[task.cpu] += (task.cpu_time + task.gpu_time) / task.period


def test_segments_alternate_and_begin_and_end_on_the_cpu() -> None:
    for taskset in tasksets(PAPER, 20):
        for task in taskset:
            kinds = [type(segment) for segment in task.segments]
            assert kinds == [CpuSegment] + [GpuSegment, CpuSegment] * task.eta


def test_uunifast_is_uniform_over_the_simplex() -> None:
    """Each of n shares has the distribution P(share > x) = (1 - x)^(n-1): the same for all of them."""
    parameters = replace(PAPER, cpus=1, tasks=4, load=(1, 1), reallocate=False)
    shares = np.array([(t.cpu_time + t.gpu_time) / t.period for one in generate(parameters, 1, 4000) for t in one])
    for x in (0.1, 0.25, 0.5):
        expected = (1 - x) ** 3
        tolerance = 5 * math.sqrt(expected * (1 - expected) / len(shares))
        assert abs(np.mean(shares > x) - expected) < tolerance


def test_a_number_of_tasks_is_dealt_to_the_cpus_in_turn() -> None:
    for taskset in tasksets(replace(PAPER, tasks=6, reallocate=False)):
        assert [sum(t.cpu == cpu for t in taskset) for cpu in range(4)] == [2, 2, 1, 1]


@pytest.mark.parametrize(("tasks", "share", "count"), [(20, 0.3, 6), (9, 0.05, 0), (9, 0.06, 1)])
def test_best_effort_tasks_are_so_many_and_have_no_priority(tasks: int, share: float, count: int) -> None:
    """The share of the tasks, rounded."""
    for taskset in tasksets(replace(PAPER, tasks=tasks, best_effort=share)):
        assert sum(t.best_effort for t in taskset) == count
        assert all(t.segment_priority == 0 for t in taskset if t.best_effort)


def test_figure_4_13_adds_three_tasks() -> None:
    plain = replace(THESIS, cpus=2, tasks_per_cpu=(2, 2), users=(0, 0))
    for taskset in tasksets(replace(plain, overlap=True)):
        assert len(taskset) == 7
        assert sum(t.period <= 10_000_000 for t in taskset) == 2
        assert sum(t.uses_gpu for t in taskset) == 1


def test_a_ratio_of_zero_leaves_empty_segments() -> None:
    for taskset in tasksets(replace(PAPER, ratio=(0, 0)), 10):
        assert any(t.uses_gpu for t in taskset)
        assert all(t.gpu_time == 0 for t in taskset)


def test_draws_are_those_of_splitmix64() -> None:
    """The first numbers of seed 0, as its author's code prints them."""
    draws = Draws(0, 0)
    draws.state = 0
    assert [draws.bits() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("method", ["uunifast", "published"])
def test_a_taskset_depends_on_seed_and_index_alone(method: str) -> None:
    whole, part = tasksets(PAPER, 9, method=method), tasksets(PAPER, 2, start=7, method=method)
    assert whole[7:] == part
    assert generate(PAPER, 12, 1, method=method) != whole[:1]


def test_the_published_division_gives_most_of_a_load_to_one_task() -> None:
    """The code published with ECRTS'24 gives a task what UUniFast leaves to the others."""
    most = {}
    for method in ("uunifast", "published"):
        systems = tasksets(replace(PAPER, cpus=1, tasks_per_cpu=(5, 5), load=(0.5, 0.5)), 200, method=method)
        shares = [[(t.cpu_time + t.gpu_time) / t.period for t in taskset] for taskset in systems]
        assert all(abs(sum(one) - 0.5) < 0.06 for one in shares)  # each is rounded to a hundredth, and at least one
        most[method] = sum(map(max, shares)) / sum(map(sum, shares))
    assert most["uunifast"] < 0.55 < 0.75 < most["published"]


def test_the_published_code_draws_each_task_alone_where_a_number_is_given() -> None:
    """Figure 8a: the load of a CPU is no parameter there and grows with the number of tasks."""
    systems = {number: tasksets(replace(PAPER, tasks=number), 50, method="published") for number in (4, 16)}
    for number, drawn in systems.items():
        loads = [sum((t.cpu_time + t.gpu_time) / t.period for t in taskset) for taskset in drawn]
        assert abs(sum(loads) / len(loads) - 0.175 * number) < 0.02 * number


@pytest.mark.parametrize(
    "wrong",
    [
        {"load": (0.5, 0.4)}, {"cpus": 0}, {"users": (0, 1.1)}, {"period": (0, 5)}, {"segments": (0, 1)},
        {"best_effort": -0.1}, {"ratio": (0, math.inf)}, {"tasks": 10**9}, {"tasks": -1},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"range|share|period|load"):
        replace(PAPER, **wrong)  # type: ignore[arg-type]


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="'magic'"):
        generate(PAPER, 1, 1, method="magic")
