# SPDX-License-Identifier: GPL-2.0
"""The tests of partitioned units in the form of the registry: they take a taskset and return verdicts and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.model import Taskset, Waiting
from analysis.rta.result import Reason, Result
from analysis.rtgpu.allocate import run_allocation
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.method import Method


@dataclass(frozen=True)
class UnitsTest:
    """A test of tasks that own units.  It uses the file's units if each task with a kernel has some, else finds units.

    The result carries the allocation.  It is a failure if units exceed the platform's, if two tasks share units, or if
    some tasks wait busily and others suspend.
    """

    method: Method

    def __call__(self, taskset: Taskset) -> Result:
        """The verdicts on a taskset."""
        return _run(self.method, taskset)


def _run(method: Method, taskset: Taskset) -> Result:
    platform = taskset.platform
    system, total = System(method, taskset, platform.bus_chunk), platform.compute_units
    if contradiction := mixed_modes(taskset):
        return failed(system, Reason.WAITING, contradiction)
    given = stated_units(system)
    if given is None:
        try:
            return run_allocation(system, Units.of(total, taskset.platform.sizes))
        except ValueError as error:
            return failed(system, Reason.NO_UNITS, str(error))
    if why := too_many(given, total):
        return failed(system, Reason.NO_UNITS, why)
    return on_units(system, given)


def mixed_modes(taskset: Taskset) -> str:
    """A sentence on two tasks that wait in different modes; empty if all that use the GPU wait in one mode."""
    first = {task.waiting.spins: task.name for task in reversed(taskset.real_time) if task.uses_gpu}
    if len(first) < 2:
        return ""
    return f"{first[True]} waits busily and {first[False]} suspends, and no test is about both"


def other_mode(waiting: Waiting | None, taskset: Taskset) -> str:
    """A sentence on a task whose waiting mode differs from the test's; empty if there is none."""
    for task in taskset.real_time:
        if task.uses_gpu and waiting is not None and task.waiting is not waiting:
            return f"{task.name} waits in mode {task.waiting.value}, and the test is about mode {waiting.value}"
    return ""


def too_many(given: Mapping[str, int], total: int) -> str:
    """By how much tasks' units exceed the available ones; empty if they do not."""
    wanted = sum(given.values())
    return f"the tasks' partitions have {wanted} units of the GPU, and it has {total}" if wanted > total else ""


def stated_units(system: System) -> dict[str, int] | None:
    """The units that the file gives the tasks with kernels; None if some task has none."""
    users = [task for task, user in zip(system.tasks, system.users, strict=True) if user]
    given = {task.name: task.partition.size for task in users if task.partition}
    found = {name: units for name, units in given.items() if units is not None}
    return found if users and len(found) == len(users) else None
