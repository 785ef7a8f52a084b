# SPDX-License-Identifier: GPL-2.0
"""The tests of partitioned units as the registry has them: a taskset in, verdicts and an allocation out."""

from __future__ import annotations

from analysis.model import Taskset
from analysis.rta.result import Reason, Result
from analysis.rtgpu import compiled
from analysis.rtgpu.analyse import System, Units, failed, on_units
from analysis.rtgpu.method import METHODS


def run(name: str, taskset: Taskset) -> Result:
    """The test: on the units that the file gives the tasks if it gives each one with a kernel some, else on found ones.

    The result carries the allocation.  Units that exceed the platform's, or that two tasks share, are a failure.
    """
    system, total = System(METHODS[name], taskset), taskset.platform.compute_units
    given = stated(system)
    if given is None:
        try:
            return compiled.run(system, Units.of(total, taskset.platform.sizes))
        except ValueError as error:
            return failed(system, Reason.NO_UNITS, str(error))
    if sum(given.values()) > total:
        text = f"the tasks' partitions have {sum(given.values())} units of the GPU, and it has {total}"
        return failed(system, Reason.NO_UNITS, text)
    return on_units(system, given)


def stated(system: System) -> dict[str, int] | None:
    """The units that the file gives the tasks with kernels; None if some task has none."""
    users = [task for task, user in zip(system.tasks, system.users, strict=True) if user]
    given = {task.name: task.partition.size for task in users if task.partition}
    found = {name: units for name, units in given.items() if units is not None}
    return found if users and len(found) == len(users) else None
