# SPDX-License-Identifier: GPL-2.0
"""Executes a taskset file's tasks as real processes on a host, and collects the facts of that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.model import FEDERATED, POLICIES, Waiting
from analysis.taskset import TasksetFile
from analysis.traces.partial import Partial
from analysis.traces.trace import HOST
from gpurt.errors import FileError, RefusedError, UsageError
from gpurt.text import filename, visible
from pycontrol.act.run import launch, task_program
from pycontrol.act.run.confine import confine
from pycontrol.act.run.crew import CrewOptions, stand_ins
from pycontrol.ending import raised_signals
from pycontrol.link.control import Control, connect
from pycontrol.link.rules import all_raisable
from pycontrol.machine.placement import place_cpus
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.policy import owned_objections
from pycontrol.observe.judge.verdict import Verdict, verdict
from pycontrol.output import render

#: Stand-ins take less than the worst case, since the machine's own work would otherwise make them late.
SHARE_PERCENT = 80


@dataclass(frozen=True)
class Wished:
    """How the user wants the tasks to run.  ``policy``: set before the run; None: the host's policy stays."""

    device: str | None
    seconds: float
    waiting: Waiting | None
    policy: str | None
    share: int
    tell: bool
    trace_path: Path | None


@dataclass(frozen=True)
class Done:
    """The known facts of a run, and the answer of `gpurt trace check` about its trace.

    ``unsaved``: why the trace on disk is not complete.
    """

    seen: launch.Run
    policy: str
    verdict: Verdict
    remarks: Sequence[str]
    unsaved: FileError | None

    @property
    def why(self) -> str:
        """Why the answer is no, for example because the trace does not cover the whole run; empty: it is yes."""
        early = "the run was interrupted" if self.seen.interrupted else ""
        return self.verdict.why or self.seen.failed or early or str(self.unsaved or "")


def _check_triggers(loaded: TasksetFile) -> None:
    """Refuses triggers: a task's stand-in has periodic releases, and does not learn of another task's end."""
    for name, producers in loaded.taskset.triggers.items():
        if loaded.launch[name].command is None:
            what = f"{name} is released by the end of {' and '.join(producers)}, of which no stand-in hears"
            cure = "give it a command that begins its jobs then (docs/manual/chains.md), or gpurt simulate the file"
            raise UsageError(f"{filename(loaded.path)}: {what}: {cure}")


def _check_processes(loaded: TasksetFile) -> None:
    """Refuses processes with several threads without a program: each stand-in is a process."""
    for name, tasks in loaded.taskset.processes.items():
        commands = [task.name for task in tasks if loaded.launch[task.name].command]
        if len(commands) != 1:
            have = f"{' and '.join(commands)} have one each" if commands else "none has one"
            what = f"the threads of process {name} are started by one command, and of its tasks {have}"
            raise UsageError(f"{filename(loaded.path)}: {what}: give it to one of them")


def _check_stand_ins(loaded: TasksetFile, host: fit.Host) -> None:
    """Refuses stand-ins on real GPUs: they put work on virtual GPUs, and begin segments only there."""
    users = [task.name for task in stand_ins(loaded) if task.uses_gpu]
    if users and not any(gpu.emulated for gpu in host.gpus):
        what = f"{visible(users[0])} has no command, and its stand-in needs a virtual GPU, which this host has none of"
        raise UsageError(f"{filename(loaded.path)}: {what}: give it one, or run on gpurt emulate")


def of_file(loaded: TasksetFile, wished: Wished) -> Done:
    """Runs the tasks.

    Raises UsageError, DeviceError and RefusedError before any change if they cannot run as wished.
    """
    policy = wished.policy
    _check_triggers(loaded)
    _check_processes(loaded)
    federated = _federated(loaded)
    if policy and (known := POLICIES.get(policy)) and known.units:
        if not federated:
            raise UsageError("--policy federated: the file is about another policy; "
                             f"gpurt plan units {filename(loaded.path)} -o OWN writes one about it")  # fmt: skip
        policy = known.number.word
    with connect(wished.device) as control:
        host = _permitted(control, loaded, wished.waiting, policy)  # raises DeviceError before any change
        _check_stand_ins(loaded, host)
        confined = confine(loaded, all(gpu.emulated for gpu in host.gpus), gpus=len(host.gpus))
        task_program.find_task_program()  # raises RuntimeFailure before any change
        if policy and any(gpu.policy.word != policy for gpu in host.gpus):
            all_raisable(control, None, policy)
            control.set_policy(policy)
    runs = host.gpus[0].policy.word
    used = FEDERATED if federated and owned_objections(loaded.taskset, host) else runs
    options = CrewOptions(wished.seconds, wished.device, used, wished.waiting,
                               managed=POLICIES[runs].owned,
                               environments=confined.environments, tell=wished.tell, host=host,
                               share=wished.share)  # fmt: skip
    about = {"source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": used, HOST: fit.saved(host)}
    partial = Partial(wished.trace_path, about) if wished.trace_path else None
    seen, unsaved = _recorded(loaded, options, partial, wished.trace_path)
    answer = verdict(wished.trace_path or loaded.path, seen.trace, loaded)
    remarks = [*_stood_in(loaded, wished.share), *confined.notes, *seen.notes, *answer.remarks,
               *([partial.failed] if partial and partial.failed else [])]  # fmt: skip
    return Done(seen, used, answer, list(dict.fromkeys(remarks)), unsaved)


def _federated(loaded: TasksetFile) -> bool:
    """Whether tasks own units.  Raises UsageError if a task that uses the GPU has none."""
    if not all(one.units for one in loaded.taskset.rules):
        return False
    if without := [task.name for task in loaded.taskset if task.uses_gpu and not task.partition]:
        raise UsageError(f"{filename(loaded.path)}: {visible(without[0])} has no units of its own: "
                         "gpurt plan units FILE -o OWN gives each task some")  # fmt: skip
    return True


def _stood_in(loaded: TasksetFile, share: int) -> list[str]:
    """A remark on stand-ins, which take less time than the file permits: what an answer of no means then."""
    if not stand_ins(loaded):
        return []
    return [
        f"stand-ins take {share} % of each worst case (--share): if one is late all the same, this machine lent its "
        "CPUs to others, or the host is not the file's"
    ]


def _recorded(
    loaded: TasksetFile, options: CrewOptions, partial: Partial | None, path: Path | None
) -> tuple[launch.Run, FileError | None]:  # fmt: skip
    """The run, and why its trace on disk is not complete; None if it is."""
    try:
        with raised_signals(), render.progress(int(options.seconds * 10), "running") as bar:
            seen = launch.launch(loaded, options, lambda passed: bar.reach(int(passed * 10)), partial)
    except BaseException:
        if partial and not partial.count:
            partial.over()
        raise
    if path and partial:
        try:
            seen.trace.save(path)
            partial.over()
        except FileError as error:
            return seen, partial.kept(error)
    return seen, None


def _permitted(control: Control, loaded: TasksetFile, mode: Waiting | None, policy: str | None) -> fit.Host:
    """The known facts of the host, under its future policy.

    Raises RefusedError if the host would refuse the tasks' segments.
    """
    host = fit.ask(control, loaded, policy)
    try:
        host = host.under(policy) if policy else host
    except ValueError as error:
        raise UsageError(f"policy {error}") from None
    host = replace(host, ran=fit.Ran(mode, place_cpus(loaded.taskset).folded))
    if why := fit.against(fit.objections(loaded, host), fit.Defeats.RUN):
        raise RefusedError(why)
    return host
