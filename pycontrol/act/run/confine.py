# SPDX-License-Identifier: GPL-2.0
"""The environment variables that confine a program to its partition.

All partitions of a file are checked against the machine before any program starts.  On AMD's GPUs the preload library
masks each queue before it is active, and ROCm masks its own queues by HSA_CU_MASK.  NVIDIA's libraries read the
percentage of MPS and the MIG instance.  Programs make green contexts themselves, from the numbers in these variables,
and themselves confine kernels to given SMs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.masks.lint import Masked, hangs, lint
from analysis.masks.mapping import parse_release
from analysis.masks.topology import CHIPS, Topology
from analysis.model import Partition, Platform, Taskset
from analysis.taskset import Launch, TasksetFile
from analysis.taskset.mechanisms import way_of
from gpurt.errors import RefusedError, UsageError
from gpurt.text import visible
from pycontrol.act.run import preload
from pycontrol.link.placed import PARTITION_VARIABLE as PARTITION
from pycontrol.link.placed import place_of
from pycontrol.machine import topology as machine
from pycontrol.machine.mps import mps_pipe, mps_runs

#: Names of variables in a program's environment.
MASK, HSA_MASK = "GPURT_CU_MASK", "HSA_CU_MASK"
#: The variable with the host's number of the GPU that a program uses.
GPU = "GPURT_GPU"
#: A mask that HIP and OpenCL give each of their queues; a queue gets only the units in both this mask and HSA_MASK.
HIP_MASK = "ROC_GLOBAL_CU_MASK"
CONTEXT, SPLIT = "GPURT_GREEN_CONTEXT", "GPURT_GREEN_SPLIT"
STATIC = "CUDA_MPS_SM_PARTITION"
PERCENTAGE, DEVICES = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES"
ROCR_DEVICES = "ROCR_VISIBLE_DEVICES"
#: The SMs to which programs of a partition confine their kernels, if they do so themselves (gpurt_sm.h).
SM_FIRST, SM_COUNT = "GPURT_SM_FIRST", "GPURT_SM_COUNT"
SM_NOTE = (
    f"programs with kernels of gpurt_sm.h keep them on the SMs of {SM_FIRST} and {SM_COUNT}, others use all; on NVIDIA "
    "their kernels execute beside each other in one context only: threads of one process, or MPS"
)


@dataclass(frozen=True)
class Confined:
    """The additional variables for each task's program, and remarks."""

    environments: dict[str, dict[str, str]]
    notes: tuple[str, ...] = ()


def confine(file: TasksetFile, emulated: bool, given: Mapping[str, str] = os.environ, gpus: int = 1) -> Confined:
    """The additional variables for the file's tasks in partitions.

    ``emulated``: the host has only virtual GPUs, which mechanisms of real GPUs do not divide.  ``given``: the
    environment that programs would have.  ``gpus``: the host's number of GPUs.

    Raises:
        RefusedError: a mask would hang a queue, or is for another chip; or MPS does not run.
        DeviceError: the kind of GPU that the file divides is missing.
        UsageError: the environment contradicts the file.
        RuntimeFailure: the preload library is missing.
    """
    given_sms, remark = _sm_ranges(file.taskset)
    if given_sms and (there := [name for name in (SM_FIRST, SM_COUNT) if name in given]):
        raise UsageError(f"{there[0]} is set: unset it, the file says which SMs programs use")
    launched = [task for task in file.taskset if task.partition and file.launch.get(task.name, Launch()).command]
    made = {task.name: {PARTITION: place_of(task.partition)}
            for task in file.taskset if task.partition and task.partition.name}  # fmt: skip
    parts = list({id(task.partition): task.partition for task in launched if task.partition}.values())
    ways = sorted({way for part in parts if (way := way_of(part))})
    for task in launched:
        made[task.name] = {**made.get(task.name, {}), **given_sms.get(id(task.partition), {})}
    notes = [remark] if remark and launched else []
    if emulated:
        notes += _virtual(file.taskset, gpus, made)
        notes += [f"the host's GPU is virtual: {', '.join(ways)} of the file are not set"] if ways else []
        return Confined(made, tuple(notes))
    of_part = {}
    for part in parts:
        of_part[id(part)], remarks = _environment(part, file, given)
        notes += remarks
    for task in launched:
        made[task.name] = {**made.get(task.name, {}), **of_part[id(task.partition)]}
    return Confined(made, tuple(dict.fromkeys(notes)))


def _virtual(taskset: Taskset, gpus: int, made: dict[str, dict[str, str]]) -> list[str]:
    """Directs programs to their partition's virtual GPU (`gpurt emulate --taskset`); a remark if there is none."""
    parts = len(taskset.parts)
    if parts > 1 and gpus != parts:
        return [f"the host has {gpus} GPU(s) and the file {parts} partitions: all programs use GPU 0; "
                "gpurt emulate --taskset FILE has one for each"]  # fmt: skip
    for task in taskset if parts > 1 else ():
        if task.name in made:
            made[task.name] = {**made[task.name], GPU: str(taskset.part_of(task))}
    return []


def _environment(part: Partition, file: TasksetFile, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables for one partition's programs, and remarks."""
    made: dict[str, str] = {}
    notes: list[str] = []
    if part.cu_mask is not None:
        made, notes = _masked(part, file.taskset.platform, given)
    elif part.mps_percentage is not None:
        made, notes = _percentage(part.mps_percentage, given)
    elif part.mps_partition is not None:
        made = _static(part.mps_partition, given)
    elif part.green_context is not None:
        made, notes = _green(part.green_context, file.taskset.partitions, given)
    elif part.mig is not None:
        made = {DEVICES: part.mig}
    if part.cu_mask is not None:
        made["LD_PRELOAD"] = preload.environment(preload.find_preload(), None)["LD_PRELOAD"]
    return made, notes


def _masked(part: Partition, platform: Platform, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Masks for the preload library and for ROCm."""
    if there := [name for name in (MASK, HSA_MASK, HIP_MASK) if given.get(name)]:
        raise UsageError(f"{there[0]} is set: unset it, the file says which CUs programs use")
    gpu, number = _selected(machine.gpus(), given)
    _check_chip(platform, gpu)
    mask, release = part.cu_mask or 0, parse_release(os.uname().release)
    found = Masked(part.name or "its mask", mask)
    name = f"partition {part.name}" if part.name else "a task's own partition"
    for finding in hangs(found, gpu, release):
        raise RefusedError(f"{name}: cu_mask {mask:#x}: {finding.rule}: {finding.text}")
    notes = [f"{name}: {one.rule}: {one.text}" for one in lint([found], gpu, release) if one.error]
    return {MASK: f"{mask:#x}", HSA_MASK: f"{number}:{mask:#x}"}, notes


def _selected(gpus: Sequence[machine.KfdGpu], given: Mapping[str, str]) -> tuple[Topology, int]:
    """The GPU that programs use, and ROCm's number of it, which counts the GPUs that ROCR_VISIBLE_DEVICES names."""
    chosen = given.get(ROCR_DEVICES)
    if chosen is None and len(gpus) == 1:
        return gpus[0].topology, 0
    found = [one for one in gpus if str(one.visible) == chosen]
    if not found:
        there = ", ".join(str(one.visible) for one in gpus)
        said = f"{ROCR_DEVICES} is {visible(chosen)}" if chosen is not None else f"{ROCR_DEVICES} is not set"
        raise UsageError(f"a file divides one GPU; {said}: set it to one number of {there}")
    return found[0].topology, 0


def _check_chip(platform: Platform, gpu: Topology) -> None:
    """Raises RefusedError if the file's masks are for another chip."""
    named = CHIPS.get(platform.chip or "")
    here = f"this machine's GPU has {gpu.units} CUs on {len(gpu.engines)} shader engines (gfx_target_version {gpu.gfx})"
    if named and _shape(named) != _shape(gpu):
        raise RefusedError(f"the file's masks are for {named.name}, {_line(named)}; {here}")
    if platform.compute_units and platform.compute_units != gpu.units:
        raise RefusedError(f"the file's masks are for a GPU with {platform.compute_units} CUs; {here}")


def _shape(chip: Topology) -> tuple[int, ...]:
    return chip.gfx, chip.units, chip.xccs, len(chip.arrays), len(chip.arrays[0])


def _line(chip: Topology) -> str:
    return f"which has {chip.units} CUs on {len(chip.engines)} shader engines (gfx_target_version {chip.gfx})"


def _mps_runs(key: str, given: Mapping[str, str], start: str) -> None:
    """Raises RefusedError if MPS does not run: the key would then have no effect."""
    pipe = mps_pipe(given)
    if not mps_runs(pipe):
        missing = visible(str(pipe))
        raise RefusedError(f"{key}: MPS is not running, no daemon at {missing}, so nothing confines; start it: {start}")


def _static(partition: str, given: Mapping[str, str]) -> dict[str, str]:
    """The variables for a static partition of MPS, which makes MPS ignore percentages."""
    if PERCENTAGE in given:
        raise UsageError(f"{PERCENTAGE} is set: unset it, MPS ignores it with static partitions")
    _mps_runs("mps_partition", given, "nvidia-cuda-mps-control -d -S")
    return {STATIC: partition}


def _percentage(wanted: int, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    _mps_runs("mps_percentage", given, "nvidia-cuda-mps-control -d")
    return {PERCENTAGE: str(wanted)}, ["MPS limits how many SMs a program uses, not which: partitions may share some"]


def _green(index: int, parts: Sequence[Partition], given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables for a green context: its number, and the sizes of all contexts of the split, in order."""
    if given.get(PERCENTAGE, "100") != "100":
        raise UsageError(f"{PERCENTAGE} is {visible(given[PERCENTAGE])}: unset it, green contexts have their own sizes")
    sizes = {one.green_context: one.size for one in parts if one.green_context is not None}
    lacking = [number for number in range(max(sizes)) if number not in sizes]
    if lacking:
        raise UsageError(f"green_context: no partition has {lacking[0]}; number them from 0 without a gap")
    split = ",".join(str(sizes[number]) for number in sorted(sizes))
    note = f"green contexts are made by the programs, from {CONTEXT} and {SPLIT}; contexts of different processes "
    return {CONTEXT: str(index), SPLIT: split}, [note + "execute beside each other under MPS only"]


def _sm_ranges(taskset: Taskset) -> tuple[dict[int, dict[str, str]], str]:
    """The variables with SM ranges, by id() of the partition, and a remark; "" if there is none.

    Partitions that only state a number of units get SMs in the file's order, first named partitions, then those of
    single tasks.  No SM is in two partitions.  There are no variables if a mechanism of the driver divides the GPU, or
    if the file states no number of units or too few.
    """
    there = taskset.platform.compute_units
    own = [task.partition for task in taskset if task.partition and task.partition.name is None]
    parts = [*taskset.partitions, *own]
    if not there or any(map(way_of, parts)) or not any(part.size for part in parts):
        return {}, ""
    made, first = {}, 0
    for part in parts:
        if part.size:
            made[id(part)] = {SM_FIRST: str(first), SM_COUNT: str(part.size)}
            first += part.size
    if first > there:
        return {}, f"partitions have {first} units and the GPU {there}: no program is told which SMs are its own"
    return made, SM_NOTE
