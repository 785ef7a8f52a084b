# SPDX-License-Identifier: GPL-2.0
"""Whether a host's GPUs are what tests inside partitions take them for: each partition is a GPU of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pycontrol.live.placed import partition_of

if TYPE_CHECKING:
    from analysis.model import Task, Taskset
    from pycontrol.live.control import ClientInfo, GpuStatus


def undivided(
    taskset: Taskset, gpus: Sequence[GpuStatus], clients: Sequence[ClientInfo], tasks: Mapping[int, Task]
) -> str:
    """Why tests inside partitions do not speak of the host; empty if they do.  ``tasks``: of processes, by pid."""
    if not taskset.partitioned:
        return ""
    used = {task.partition.name for task in taskset.real_time if task.partition and task.partition.name}
    if len(used) > len(gpus):
        there = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}"
        return f"the file has tasks in {len(used)} partitions, each for a GPU of its own, and the host orders {there}"
    homes: dict[int, str] = {}
    places: dict[str, int] = {}
    policies = {gpu.gpu: gpu.policy.word for gpu in gpus}
    for one in clients:
        part = tasks[one.pid].partition if one.pid in tasks else None
        if part is None or part.name is None:
            continue
        other, place = homes.setdefault(one.gpu, part.name), places.setdefault(part.name, one.gpu)
        if other != part.name:
            return f"GPU {one.gpu} has clients of partitions {other} and {part.name}, each for a GPU of its own"
        if place != one.gpu:
            return f"partition {part.name} has clients on GPUs {place} and {one.gpu}, and is one GPU"
        if part.policy and part.policy != policies[one.gpu]:
            other, cure = policies[one.gpu], f"`gpurt policy {part.policy} --gpu {one.gpu}` changes that"
            return f"partition {part.name} is for policy {part.policy}, its GPU {one.gpu} runs {other}; {cure}"
        started = partition_of(one.pid)
        if started not in (None, part.name):
            return f"process {one.pid} ({one.comm}) was started in partition {started}, the file has it in {part.name}"
    return ""
