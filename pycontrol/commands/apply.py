# SPDX-License-Identifier: GPL-2.0
"""The command that gives running processes the priorities of a taskset file: apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpurt.errors import RefusedError, UsageError
from gpurt.text import filename
from pycontrol.commands import render
from pycontrol.commands.options import (
    FILE,
    JSON,
    Output,
    connect,
    demanded,
    outside,
    refuse,
    unlike,
    unraised,
    unshaped,
)

if TYPE_CHECKING:  # at run time the imports take longer than the command needs to say what is wrong with a file
    from analysis.model import Task, Taskset
    from analysis.taskset import TasksetFile
    from pycontrol.live.control import ClientInfo, GpuStatus
    from pycontrol.live.hints import SchedNode
    from pycontrol.live.tegra import Setting


@click.command(
    epilog="""\b
Examples:
  gpurt apply set.toml
  gpurt apply set.toml --ignore-missing        when the machine starts, before the programs do
  gpurt apply set.toml --admit task.toml -o set.toml

\b
With --admit, TASK is a file with one [[task]], as for gpurt admit.  It gets a place beside the tasks of FILE if all of
them keep their guarantees on this host as it is: no partition changes its size.  Then OUT gets FILE with the task, and
processes get their priorities.  Start the task's program before or after that.

\b
Exit codes: 0 every real-time GPU task was found and set, with --admit: the task is admitted; 1 it is not, or some
were not running, or nothing was set: the taskset is not schedulable, or the host is another one than the file's (its
policy, its polling period, the CPU of its thread, the costs of its virtual GPU, the priorities that it orders, the
threads that it can raise, its GPUs); 2 wrong usage; 3 a file is wrong, or has slices that nvgpu does not take;
4 no host; 5 not permitted."""
)
@FILE
@click.option("--force", is_flag=True,
              help="Also if it is not proved that every deadline holds on this host.")  # fmt: skip
@click.option("--ignore-missing", is_flag=True, help="Tasks that are not running are no failure.")
@click.option("--admit", "task", type=click.Path(path_type=Path), metavar="TASK",
              help="Admit one more task to what runs; goes with -o.")  # fmt: skip
@click.option("-o", "--output", type=Output(), metavar="OUT",
              help="With --admit: write the taskset file with the task there, which may be FILE.")  # fmt: skip
@JSON
@click.pass_obj
def apply(
    device: str | None, file: Path, force: bool, ignore_missing: bool, task: Path | None, output: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Give running processes the GPU priorities of a taskset file, matched by the task's command or name.

    On a Tegra also the slices and interleave levels of their partitions.  All of it is set, or nothing.
    """
    from analysis import taskset
    from analysis.verdict import answer
    from pycontrol.commands.admission import standing
    from pycontrol.commands.divided import undivided
    from pycontrol.live import applied

    if task or output:
        return _admit(device, file, task, output, force or ignore_missing, as_json)
    loaded = taskset.load(file)
    _check_domains(loaded.taskset)
    if not force:
        refuse(loaded)
    verdict = answer(loaded.taskset)
    proof = verdict.why and standing(loaded.taskset, verdict.why)
    why = f"under policy {verdict.policy}, {proof}" if proof else ""
    if why and not force:
        return _refuse(file, verdict.policy, proof, f"not applied: {why}", as_json)
    with connect(device) as control, ExitStack() as stack:
        gpus = control.gpus()
        clients = control.clients()
        matched = match(loaded, gpus, clients)
        other = unfit(loaded.taskset, gpus, device) or undivided(loaded.taskset, gpus, clients, matched.tasks)
        if other and not force:
            return _refuse(file, verdict.policy, other, f"not applied: {other}", as_json)
        settings = [] if all(gpu.emulated for gpu in gpus) else list(settings_of(file, matched.tasks))
        node = node_of(stack) if settings else None
        priorities = {pid: task.segment_priority for pid, task in matched.tasks.items()}
        applied.apply(control, clients, priorities, settings, node)
    users = [task for task in loaded.taskset if task.uses_gpu]
    pids = {task.name: sorted(pid for pid, one in matched.tasks.items() if one is task) for task in users}
    rows = [(task.name, str(task.segment_priority), ", ".join(map(str, pids[task.name])) or "not running")
            for task in users]  # fmt: skip
    lines = [render.table(("task", "GPU priority", "pid"), rows) if rows else "no task uses the GPU: nothing to set"]
    lines += [f"applied by force, without a proof: {reason}" for reason in (why, other) if reason]
    lines += [f"applied, and nothing is proved of this host: {matched.doubts[0]}"] if matched.doubts else []
    doubt = proof or other or next(iter(matched.doubts), None)
    data = {task.name: {"gpu_priority": task.segment_priority, "pids": pids[task.name]} for task in users}
    render.note(*matched.notes, as_json=as_json)
    whole = {
        "file": file, "policy": verdict.policy, "schedulable": not doubt, "why": doubt,
        "applied": True, "tasks": data, "notes": matched.notes,
    }  # fmt: skip
    render.emit(whole, as_json, "\n".join(lines))
    return 0 if ignore_missing or all(pids[task.name] for task in users if not task.best_effort) else 1


def _admit(
    device: str | None, file: Path, task: Path | None, output: Path | None, others: bool, as_json: bool
) -> int:  # fmt: skip
    from pycontrol.commands.apply_admit import admit

    if not task or not output:
        raise UsageError("--admit and -o go together: the next admission has to know of this one")
    if others:
        raise UsageError("--admit goes without --force and --ignore-missing")
    return admit(device, file, task, output, as_json)


def _check_domains(taskset: Taskset) -> None:
    """Raises RefusedError for a file with scheduling domains: only a process itself can put its TSGs into one."""
    for part in taskset.partitions:
        if part.domain is not None:
            why = "TSGs of a running program cannot be put into a domain from outside; start it with `gpurt run`"
            raise RefusedError(f"partition {part.name}: domain {part.domain}: {why}")


def settings_of(file: Path, tasks: Mapping[int, Task]) -> Iterator[Setting]:
    """Slices and levels of processes whose partitions have them.  Raises FileError if no Tegra has such a slice."""
    from gpurt.errors import FileError
    from pycontrol.live.hints import Level
    from pycontrol.live.tegra import Setting, whole_us

    for pid, task in tasks.items():
        part = task.partition
        if part is None or (part.slice, part.interleave) == (None, None):
            continue
        try:
            slice_us = None if part.slice is None else whole_us(part.slice)
        except ValueError as error:
            raise FileError(f"{filename(file)}: partition {part.name}: slice is {error}, as nvgpu takes it") from None
        yield Setting(pid, slice_us, None if part.interleave is None else Level[part.interleave.upper()])


def node_of(stack: ExitStack) -> SchedNode:
    """The scheduling node, open until the command ends.  Raises DeviceError, RefusedError."""
    from pycontrol.live.hints import SchedNode

    return stack.enter_context(SchedNode())


def unfit(taskset: Taskset, gpus: Sequence[GpuStatus], device: str | None) -> str:
    """Why bounds for the taskset do not hold on this host; empty if nothing is known that they lack."""
    platform = demanded(taskset)
    policy = platform.policy
    why = unlike(platform, gpus, taskset.partitioned) or unshaped(taskset, gpus)
    why = why or outside(policy, taskset, gpus) or _asleep(taskset, gpus)
    return why or unraised(policy, taskset, None, device) or _updated_elsewhere(taskset, gpus)


def _updated_elsewhere(taskset: Taskset, gpus: Sequence[GpuStatus]) -> str:
    """Why no bound holds where partitions share CPUs and updates are not a part of the task that causes them."""
    from analysis.partition.plan import shared_cpus

    if not taskset.partitioned or not shared_cpus(taskset) or all(gpu.emulated for gpu in gpus):
        return ""
    return "tasks of several partitions share CPUs, and other threads than theirs execute updates on this host"


def _asleep(taskset: Taskset, gpus: Sequence[GpuStatus]) -> str:
    """Why the bounds of policy `boosted` for tasks that spin do not hold with these GPUs; empty if they do."""
    from analysis.model import Waiting

    spinning = [task.name for task in taskset.real_time if task.uses_gpu and task.waiting is Waiting.BUSY]
    if "boosted" not in taskset.policies or not spinning or all(gpu.emulated for gpu in gpus):
        return ""
    return f"{spinning[0]} waits busily, and updates by agents sleep: no bound of policy boosted holds then"


def _refuse(file: Path, policy: str, why: str, text: str, as_json: bool) -> int:
    """Says why nothing was applied; the exit code."""
    whole: dict[str, Any] = {"schedulable": False, "why": why, "applied": False, "tasks": {}, "notes": []}
    render.emit({"file": file, "policy": policy, **whole}, as_json, f"{text}\nuse --force to apply it anyway")
    return 1


@dataclass(frozen=True)
class Matched:
    """The GPU-using task of each process, and remarks; ``doubts``: those on what voids bounds on this host."""

    tasks: dict[int, Task]
    notes: list[str]
    doubts: list[str]


def match(file: TasksetFile, gpus: Sequence[GpuStatus], clients: Sequence[ClientInfo]) -> Matched:
    """Finds the tasks of the host's clients."""
    from pycontrol import procs
    from pycontrol.run.programs import tasks_of

    by_name = {task.name: task for task in file.taskset}
    tasks: dict[int, Task] = {}
    notes, doubts = list[str](), list(_gpus(file, gpus))
    for one in {one.pid: one for one in clients}.values():
        names = tasks_of(file, one.comm, procs.command(one.pid))
        task = by_name[names[0]] if len(names) == 1 else None
        notes += _remarks(one, names, task)
        doubts += [*_doubts(one, names, task), *_form(file, one, task)]
        if task and task.uses_gpu and one.pid:  # 0: in another pid namespace
            tasks[one.pid] = task
    return Matched(tasks, [*doubts, *notes], doubts)


def _gpus(file: TasksetFile, gpus: Sequence[GpuStatus]) -> Iterator[str]:
    """The bounds for `boosted` know one GPU: owners of another one are raised above its tasks, too."""
    if "boosted" in file.taskset.policies and len(gpus) > 1:
        yield (
            f"the host has {len(gpus)} GPUs, and the bounds for policy boosted are for one: owners of the others "
            "execute above all tasks of their CPUs, which no bound takes into account"
        )


def _form(file: TasksetFile, one: ClientInfo, task: Task | None) -> Iterator[str]:
    """A client that does not state the form that the bounds for its task are about."""
    from analysis.model import FORMS, Waiting

    if "boosted" not in file.taskset.policies or not task or not one.segments:
        return
    stated = task.form_in(task.waiting)
    if one.form not in (FORMS[Waiting.SUSPEND] if task.waiting is Waiting.SUSPEND else (stated,)):
        yield (
            f"process {one.pid} ({one.comm}) begins its segments in form {one.form.word}, the file says {stated.word} "
            f"for {task.name}"
        )


def _remarks(one: ClientInfo, names: Sequence[str], task: Task | None) -> Iterator[str]:
    """What is to be said of a client that may be the tasks of these names, and is the one task if not None."""
    process = f"process {one.pid} ({one.comm})"
    if len(names) > 1:
        yield f"{process} may be {' or '.join(names)}, so it was not set: their commands do not tell them apart"
    elif task and task.priority != one.own_priority:
        yield f"{process} executes at priority {one.own_priority}, the file says {task.priority} for {task.name}"
    if one.barred:
        yield f"{process} is barred from being raised: policy boosted refuses its real-time segments"


def _doubts(one: ClientInfo, names: Sequence[str], task: Task | None) -> Iterator[str]:
    """Why no bound holds beside a client that may be the tasks of these names, and is the one task if not None."""
    process = f"process {one.pid} ({one.comm})"
    if task is None and len(names) < 2 and one.priority:
        yield f"{process} is real time and no task of the file: no bound takes it into account"
    if one.exempt:
        yield f"{process} is exempt: its work executes beside that of every task, which no bound takes into account"
