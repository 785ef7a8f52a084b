"""Audsley's method, compared with trying every order."""

from __future__ import annotations

from itertools import permutations

import pytest
from builders import cpu, gpu, task, taskset, tasksets
from effort import tries
from hypothesis import given, settings

from analysis.answers import compiled
from analysis.model import Task, Taskset
from analysis.papers import registry
from analysis.rta.analyse import analyse


def respects_cpu_order(order: tuple[Task, ...]) -> bool:
    """Whether GPU priorities, most urgent first, keep the CPU's order on each CPU."""
    return all(
        a.cpu != b.cpu or a.priority > b.priority for i, a in enumerate(order) for b in order[i + 1 :]
    )


def exists_by_brute_force(name: str, system: Taskset) -> bool:
    users = [t for t in system.real_time if t.uses_gpu]
    for order in permutations(users):
        if not respects_cpu_order(order):
            continue
        priorities = {t.name: len(order) - i for i, t in enumerate(order)}
        demands = registry.find(name).demands
        result = analyse(name, demands, system.with_gpu_priorities(priorities), assume_deadlines=True)
        if result.schedulable:
            return True
    return False


@pytest.mark.parametrize("name", ["gcaps-suspend", "gcaps-busy"])
@settings(max_examples=tries(400), deadline=None)
@given(system=tasksets(max_tasks=5, best_effort=False))
def test_finds_an_assignment_exactly_when_there_is_one(name: str, system: Taskset) -> None:
    assignment = registry.find(name).assign(system)
    assert (assignment.priorities is not None) == exists_by_brute_force(name, system)
    if assignment.priorities is not None:
        changed = system.with_gpu_priorities(assignment.priorities)
        assert analyse(name, registry.find(name).demands, changed, assume_deadlines=True).schedulable
        users = sorted((t for t in changed if t.uses_gpu), key=lambda t: -t.segment_priority)
        assert respects_cpu_order(tuple(users))
        assert sorted(assignment.priorities.values()) == sorted(t.priority for t in users)


def test_saves_a_taskset_that_its_own_order_fails() -> None:
    """b is urgent on its CPU but can wait for the GPU; c cannot."""
    system = taskset(
        task("b", 0, 9, 100, gpu(0, 30)),
        task("c", 1, 1, 120, gpu(0, 8), deadline=20),
    )
    test = registry.find("gcaps-suspend+gpu-priority")
    assert not registry.find("gcaps-suspend").run(system).schedulable
    assert test.run(system).schedulable
    assert test.assign(system).priorities == {"b": 1, "c": 9}


def test_says_where_it_got_stuck() -> None:
    system = taskset(task("b", 0, 9, 100, gpu(0, 60)), task("c", 1, 1, 100, gpu(0, 60)))
    assignment = registry.find("gcaps-suspend").assign(system)
    assert assignment.priorities is None
    assert assignment.level == 1
    assert {failure.task for failure in assignment.blocked} == {"b", "c"}


def test_more_tasks_than_priorities_is_an_error() -> None:
    system = taskset(*(task(f"t{i}", i, 1 + i % 99, 1000, cpu(0), gpu(0, 0.001)) for i in range(100)))
    with pytest.raises(ValueError, match="99 priorities"):
        registry.find("gcaps-busy").assign(system)


def test_more_users_than_priorities_have_a_result() -> None:
    """There are 99 priorities.  If the file's own fail, none can be assigned to more tasks."""
    system = taskset(*(task(f"t{i}", i % 4, 50 + i % 2, 100, gpu(0, 5)) for i in range(100)))
    test = registry.find("gcaps-suspend+gpu-priority")
    assert not test.run(system).schedulable
    assert not compiled.run_compiled(test, system).schedulable
