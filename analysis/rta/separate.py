# SPDX-License-Identifier: GPL-2.0
"""Partitions whose tasks share no CPU: each is a system of its own, with a GPU of its own.

Whatever delays a task is on its CPU or in its partition (docs/partitioning.md).  If tasks of different partitions share
no CPU, any test for one GPU bounds each system by itself.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.model import Partition, Task, Taskset
from analysis.rta.partition_order import home, not_isolated, on_one_bus


def separate(taskset: Taskset) -> list[Taskset]:
    """The systems of a taskset with several partitions, each with one GPU; empty if the taskset has no such partitions.

    Three kinds of tasksets are left out.  The kernel thread of policy `job` executes on one CPU for all partitions.
    Times under policy `timesliced` depend on tasks beside (``conflicts.under``).  Tasks of several systems can spin for
    one ``[[resource]]``.
    """
    policies = {part.policy or taskset.platform.policy for part in taskset.parts} | {*taskset.policies}
    mixed = len(policies) > 1 or bool(taskset.resources) or policies & {"job", "timesliced"}
    if mixed or not taskset.partitioned or taskset.locked_beside or not_isolated(taskset) or on_one_bus(taskset):
        return []
    groups = _groups(taskset)
    if any(len({home(task) for task in group if task.uses_gpu}) > 1 for group in groups):
        return []
    return [_system(taskset, group, next(iter(policies))) for group in groups]


def _groups(taskset: Taskset) -> list[list[Task]]:
    """The tasks in groups; tasks that share a CPU or a partition are in one group."""
    found: list[tuple[set[object], list[Task]]] = []
    for task in taskset:
        places: set[object] = {task.cpu} | ({home(task)} if task.uses_gpu else set())
        near = [one for one in found if one[0] & places]
        found = [one for one in found if one not in near]
        found.append((places.union(*(one[0] for one in near)), [*(t for one in near for t in one[1]), task]))
    return [tasks for _, tasks in found]


def _system(taskset: Taskset, group: list[Task], policy: str) -> Taskset:
    """The system of these tasks, in the order of the file."""
    names = {task.name for task in group}
    part: Partition | None = next((task.partition for task in group if task.uses_gpu), None)
    alpha, theta = taskset.platform.costs(part)
    known = part.theta is not None if part and part.own_costs else taskset.platform.theta_known
    tasks = tuple(_alone(task) for task in taskset if task.name in names)
    platform = replace(taskset.platform, alpha=alpha, theta=theta, theta_known=known, policy=policy)
    return Taskset(platform, tasks)


def _alone(task: Task) -> Task:
    """The task with its partition as the whole GPU.  A partition that only shares the GPU in time stays."""
    part = task.partition
    if part is None or not part.own_gpu:
        return task
    return replace(task, partition=None)
