# SPDX-License-Identifier: GPL-2.0
"""Energy of policies that share the GPU in time: what a run of the simulator of `gpurt simulate` costs.

A job's copy in, kernel and copy out are one GPU segment on all units that jobs may use, or on m^opt of them.  The
model of power is that of shared units (power.py): a kernel draws power while it executes, copies do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.energy.file import load_system as load_energy
from analysis.energy.power import Energy, Execution, closed_form, power_steps
from analysis.energy.preferred import best_units
from analysis.model import Taskset
from analysis.model.energy import PoweredKernel, SpatialGpu
from analysis.taskset.file import from_document
from analysis.taskset.text import document_of, read_text
from analysis.traces.trace import Kind, Trace
from gpurt.errors import TasksetError, UsageError
from gpurt.types import Document


@dataclass(frozen=True)
class TimeSliced:
    """An energy file as a taskset; ``kernels`` and ``units``: what each task's kernel is, and on how many units.

    ``offsets``: the file's first releases, ns, in the order of the tasks.  ``notes``: remarks for the user.
    """

    taskset: Taskset
    gpu: SpatialGpu
    kernels: Mapping[str, PoweredKernel]
    units: Mapping[str, int]
    offsets: tuple[int, ...]
    notes: tuple[str, ...]


def load_timesliced(path: Path, best: bool = False) -> TimeSliced:
    """Reads an energy file with one GPU.  ``best``: kernels get m^opt units, and not all.

    Tasks have CPUs and priorities as in a taskset file.  Without [platform] each has a CPU of its own, and runlist
    updates cost nothing.  Without any priority, shorter periods are more urgent.

    Raises TasksetError with every mistake, FileError if the file cannot be read, UsageError if it has several GPUs.
    """
    energy = load_energy(path, ignore_cpu=True)
    system = energy.system
    if len(system.gpus) > 1:
        raise UsageError(f"{path}: has {len(system.gpus)} GPUs; --energy simulates one that is shared in time")
    gpu = system.gpus[0]
    kernels = {task.name: task.on(0) for task in system.tasks}
    units = {name: best_units(kernel, gpu) if best else gpu.whole for name, kernel in kernels.items()}
    document, report = document_of(path, read_text(path))
    notes = []
    if "platform" not in document:
        notes.append("no [platform]: runlist updates cost nothing, and each task has a CPU of its own")
        document["platform"] = {"cpus": max(1, len(system.tasks)), "epsilon": "0ns", "theta": "0ns"}
        for cpu, task in enumerate(document["task"]):
            task.setdefault("cpu", cpu)
    if not any("priority" in task for task in document["task"]):
        notes.append("no priorities: tasks of shorter periods are more urgent")
        for rank, index in enumerate(reversed(system.rate_order)):
            document["task"][index]["priority"] = rank + 1
    for task in document["task"]:
        for key in ("offset", "gpu"):
            task.pop(key, None)
        task["segments"] = [_segment(one, kernels[task["name"]], units[task["name"]]) for one in task["segments"]]
    loaded = from_document(path, {key: document[key] for key in ("platform", "task")}, report)
    if loaded.lacks:
        raise TasksetError(path, loaded.lacks)
    offsets = tuple(task.offset for task in system.tasks)
    return TimeSliced(loaded.taskset, gpu, kernels, units, offsets, (*notes, *loaded.notes))


def _segment(segment: Document, kernel: PoweredKernel, units: int) -> Document:
    """A segment of a taskset file: a kernel with its copies is a GPU segment without CPU work."""
    if "profile" not in segment:
        return segment
    copies = kernel.copy_in + kernel.copy_out
    time = kernel.times.row(units)
    span = {"worst": f"{copies + time.worst}ns", "best": f"{copies + time.best}ns"}
    return {"misc": "0ns", "gpu": span}


def sliced_executions(system: TimeSliced, trace: Trace) -> list[Execution]:
    """When kernels executed in a run, preemption by preemption.

    The first part of a job's GPU time is its copy in, the last one its copy out.  All time after the copy in counts as
    kernel if the job is not done in the trace.  Raises UsageError if the trace is not whole.
    """
    pieces: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for event in trace.events:
        if event.kind is Kind.LOST:
            raise UsageError(f"--energy: the run is too long: {event.detail}")
        if event.kind is Kind.GPU and event.duration:
            pieces[event.task, event.job or 0].append((event.time, event.duration))
    done = {(event.task, event.job) for event in trace.events if event.kind is Kind.COMPLETE}
    found = []
    for (name, job), parts in pieces.items():
        kernel, whole = system.kernels[name], sum(length for _, length in parts)
        begin, end, passed = kernel.copy_in, whole - (kernel.copy_out if (name, job) in done else 0), 0
        for time, length in parts:
            low, high = max(begin, passed), min(end, passed + length)
            if low < high:
                found.append(Execution(0, system.units[name], time + low - passed, time + high - passed, kernel.power))
            passed += length
    return sorted(found, key=lambda one: one.start)


def energy(system: TimeSliced, trace: Trace, horizon: int) -> Energy:
    """The energy of the GPU over [0, horizon), fJ.  Raises UsageError if the trace is not whole."""
    return closed_form(system.gpu, sliced_executions(system, trace), 0, horizon)


def with_power(system: TimeSliced, trace: Trace, horizon: int) -> Trace:
    """The trace with a counter of what the GPU draws, mW."""
    static = system.gpu.static // 1000
    found = [(0, static)]
    powers = power_steps(system.gpu, sliced_executions(system, trace))
    found += [(now, power // 1000) for now, power in powers if now < horizon]
    return replace(trace, counters={**trace.counters, "GPU 0 power, mW": (*found, (horizon, found[-1][1]))})
