# SPDX-License-Identifier: GPL-2.0
"""The SMs on which programs of a partition keep their kernels, if they do so themselves (gpurt_sm.h)."""

from __future__ import annotations

from analysis.model import Taskset
from analysis.taskset.mechanisms import way_of

FIRST, COUNT = "GPURT_SM_FIRST", "GPURT_SM_COUNT"
NOTE = (
    f"programs with kernels of gpurt_sm.h keep them on the SMs of {FIRST} and {COUNT}, others use all; on NVIDIA their "
    "kernels execute beside each other in one context only: threads of one process, or MPS"
)


def ranges(taskset: Taskset) -> tuple[dict[int, dict[str, str]], str]:
    """The environment that programs find, by id() of their partition, and a remark; "" if there is none.

    Partitions that only say how many units they have get SMs in the file's order: the named ones first, then those of
    single tasks.  No SM is in two.  If a mechanism of the driver's divides the GPU, if there are fewer units, or if
    nothing says how many there are, none.
    """
    there = taskset.platform.compute_units
    own = [task.partition for task in taskset if task.partition and task.partition.name is None]
    parts = [*taskset.partitions, *own]
    if not there or any(way_of(part) or part.domain for part in parts) or not any(part.size for part in parts):
        return {}, ""
    made, first = {}, 0
    for part in parts:
        if part.size:
            made[id(part)] = {FIRST: str(first), COUNT: str(part.size)}
            first += part.size
    if first > there:
        return {}, f"partitions have {first} units and the GPU {there}: no program is told which SMs are its own"
    return made, NOTE
