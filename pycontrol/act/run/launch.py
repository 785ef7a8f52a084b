# SPDX-License-Identifier: GPL-2.0
"""Runs a taskset's tasks as real processes on this machine's CPUs and a gpurt host, and collects their reports."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.taskset import TasksetFile
from analysis.taskset.schema import MAX_CPUS
from analysis.traces.partial import Partial
from analysis.traces.trace import HOST, PRIORITIES, SLICES, Event, Kind, Trace, placed_of, traced_times
from gpurt.errors import DeviceError, RefusedError
from pycontrol.act.run import task_program
from pycontrol.act.run.crew import NS, Child, Crew, CrewOptions, Progress, served, stand_ins
from pycontrol.link.control import Control, GpuStatus
from pycontrol.link.events import Listener, event_priorities, named_events, streamed
from pycontrol.link.sleep import Sleep
from pycontrol.machine import placement
from pycontrol.machine.placement import Placement
from pycontrol.machine.programs import fingerprint
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.host import exempted, look_without_file
from pycontrol.observe.fit.trace import joined_looks
from pycontrol.observe.trace import trace as run_trace
from pycontrol.observe.trace.record import STATUS_PERIOD_S, failures_of
from pycontrol.observe.trace.task_report import TaskReport


@dataclass(frozen=True)
class Run:
    """The outcome of a run.  ``reports`` lacks killed tasks, and tasks that are the user's own commands.

    ``interrupted``: the exit code if the user ended the run early; else 0.  ``failed``: another reason for an early
    end; empty: none.  ``gone``: the host has gone; the events until then are kept.
    """

    placement: Placement
    fifo: bool
    notes: tuple[str, ...]
    reports: dict[str, TaskReport]
    seconds: float
    interrupted: int
    trace: Trace
    failed: str = ""
    gone: bool = False


def _set_priorities(crew: Crew, listener: Listener) -> list[str]:
    """Sets GPU priorities through the host: of groups, and of all tasks if they may not use SCHED_FIFO.

    A group's priority counts for all its tasks, whatever their segments ask for.
    """
    ours = [one for one in crew.children if one.task.uses_gpu and one.report is not None and one.task.segment_priority]
    try:
        for one in ours:
            if crew.file.launch[one.task.name].group or not crew.fifo:
                listener.control.set_priority(one.process.pid, crew.file.gpu_priorities[one.task.name])
    except RefusedError as error:
        return [f"GPU priorities not set: {error}"]
    return [] if crew.fifo else ["GPU priorities set through the host, for the tasks themselves have none"]


def _remarks(reports: Iterable[TaskReport]) -> list[str]:
    """Notes and errors of the tasks; tasks with the same note share a line."""
    by_note: dict[str, list[str]] = {}
    for report in reports:
        for note in (*report.notes, *([report.error] if report.error else [])):
            by_note.setdefault(note, []).append(report.task)
        if not report.complete:
            by_note.setdefault("report cut off, the task was killed", []).append(report.task)
    return [f"{note} ({', '.join(tasks)})" for note, tasks in by_note.items()]


def _unseen(
    reports: Mapping[str, TaskReport], missing: Iterable[str], failed: str, slept: str
) -> list[tuple[str, str]]:  # fmt: skip
    """Why jobs of a task, or of all tasks if its name is empty, may be missing."""
    cut = [(name, "its report was cut off, so that jobs are missing") for name, one in reports.items()
           if not one.complete]  # fmt: skip
    none = [(name, "it was killed and left no report, so that all its jobs are missing") for name in missing]
    early = [("", f"the run ended before its time: {failed}")] if failed else []
    return [*cut, *none, *early, *([("", slept)] if slept else [])]


def _failures(before: Sequence[GpuStatus], listener: Listener, over: int) -> tuple[list[Event], bool]:
    """The run's failures that have no event, as events at the run's end; and whether the host has gone.

    A failure is a reason why GPUs may have executed work that the scheduler had not allowed.
    """
    try:
        texts = failures_of(before, listener.control.gpus())
        texts += [f"a rule exempts {one} from being taken off the GPU" for one in exempted(listener.control)]
        return [Event(over, Kind.LATE, detail=text) for text in texts], False
    except DeviceError as error:
        return [Event(over, Kind.LOST, detail=f"what the host did until the end is not known: {error}")], True


def _unset(file: TasksetFile, gpus: Sequence[GpuStatus], seen: Mapping[str, int]) -> tuple[dict[str, str], list[str]]:
    """Settings of TSGs and GPU priorities in the file that were not made: for the trace, and as remarks.

    ``seen``: GPU priorities by task.  The run sets the priorities of stand-ins, but not of the user's programs.
    """
    meta, notes = {}, []
    if file.taskset.time_partitioned and all(gpu.emulated for gpu in gpus):
        meta[SLICES] = "the host"
        notes.append("slices and levels of the file are not set on a virtual GPU: TSGs have its slice, at level low")
    users = [task for task in file.taskset.real_time if task.uses_gpu and file.launch[task.name].command]
    known = {task.name: seen[task.name] for task in users if task.name in seen}
    if known:
        meta[PRIORITIES] = json.dumps(known)
    for task in users:
        if task.name in served(file):
            continue  # its client's priority is from whichever thread began
        if known.get(task.name, task.segment_priority) != task.segment_priority:
            notes.append(f"{task.name}'s program had GPU priority {known[task.name]}, and the file says "
                         f"{task.segment_priority}: `gpurt apply` sets it")  # fmt: skip
    return meta, notes


class Looks:
    """The known facts of a host since before a run.  ``host``: None if it was not asked before.

    Looks at the user's programs: where and how they execute, and how they use the GPU.  Stand-ins need no look.
    """

    def __init__(self, control: Control, crew: Crew, where: Placement, options: CrewOptions) -> None:
        self.host = options.host
        self._control, self._crew, self._seconds = control, crew, options.seconds
        self._file_cpus = {there: here for here, there in where.cpus.items()} if where.moved else None
        self._next = 0.0

    def perhaps(self, seconds: float) -> None:
        """Looks again if the last look is old, or the run ends.  ``seconds``: how much of the run has passed."""
        own = [child for child in self._crew.children if child.report is None]
        if self.host and own and (seconds >= self._seconds or time.monotonic() >= self._next):
            self._next = time.monotonic() + STATUS_PERIOD_S
            with suppress(DeviceError):  # the end of the run reports that the host has gone
                self.host = joined_looks(self.host, self._look(own))

    def _look(self, own: Sequence[Child]) -> fit.Host:
        """The host, with the file's CPU numbers.  After execve(2) a program still counts as its task's."""
        host = look_without_file(self._control, None)
        ours = {child.process.pid for child in self._crew.children if child.report is not None}
        words = {child.process.pid: self._crew.file.launch[child.task.name].command or () for child in own}
        programs = {pid: (comm, fingerprint(words[pid]) if pid in words else command)
                    for pid, (comm, command) in host.programs.items()}  # fmt: skip
        clients = [one for one in host.clients if one.pid not in ours]
        threads = {pid: self._of_file(found) for pid, found in host.threads.items()}
        strangers = {pid: (comm, command, self._of_file(found))
                     for pid, (comm, command, found) in host.strangers.items() if pid not in {*ours, *words}}
        return replace(host, clients=clients, programs=programs, threads=threads, strangers=strangers)

    def _of_file(self, threads: Sequence[tuple[int, Sequence[int]]]) -> Sequence[tuple[int, Sequence[int]]]:
        """The threads with the file's CPU numbers; a CPU that stands for none gets a number above all of the file's."""
        known = self._file_cpus
        if known is None:
            return threads
        return [(priority, sorted(known.get(cpu, MAX_CPUS + cpu) for cpu in cpus)) for priority, cpus in threads]


def launch(
    file: TasksetFile, options: CrewOptions, progress: Progress = lambda seconds: None, partial: Partial | None = None
) -> Run:  # fmt: skip
    """Runs a taskset for ``options.seconds``, or until the user interrupts it or it fails, and returns the outcome.

    Writes the host's events to ``partial`` as they come.  Must be called from a thread that outlives the run: the
    kernel kills the tasks when that thread ends.

    Raises:
        RuntimeFailure: a task could not be started.  All tasks have ended then.
        DeviceError: there is no host.
        KeyboardInterrupt: the user interrupted before the tasks began, or a second time.  All tasks have ended then.
    """
    program = task_program.find_task_program()
    where, fifo = placement.place_cpus(file.taskset), placement.fifo_permitted()
    notes = [*where.notes(), *placement.rights_notes(fifo)]
    names: dict[int, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="gpurt-run-") as directory,
        Listener(options.device, streamed(partial, names) if partial else lambda _record: None) as listener,
        Crew(file, options, where, fifo, Path(directory), program) as crew,
    ):
        gpus = listener.control.gpus()
        crew.start()
        crew.await_ready()
        notes += _set_priorities(crew, listener)
        together = served(file)
        names |= {child.process.pid: child.task.name for child in crew.children if child.task.name not in together}
        sleep, start = Sleep(), crew.release()
        looks = Looks(listener.control, crew, where, options)

        def passed(seconds: float) -> None:
            looks.perhaps(seconds)
            progress(seconds)

        interrupted, failed = crew.wait(start, passed)
        over = time.monotonic_ns()
        records = listener.records()
        host = named_events(records, names)
        failures, gone = _failures(gpus, listener, over)
        reports, missing = crew.reports()
        lost = _unseen(reports, missing, failed, sleep.since())
        host += [*failures, *(Event(over, Kind.LOST, task, detail=text) for task, text in lost)]
    ended = {child.task.name: child.ended for child in crew.children if child.ended is not None}
    seconds = min(options.seconds, max(0, over - start) / NS)
    notes += _remarks(reports.values())
    if interrupted:
        notes.append(f"interrupted after {seconds:.1f} s of {options.seconds:g} s")
    if failed:
        notes.append(f"the run is partial: it ended after {seconds:.1f} s of {options.seconds:g} s")
    meta = {
        "source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": options.policy, "taskset": file.path.name,
        "waiting": options.waiting.value if options.waiting else "per task",
        "placement": placement.FOLDED if where.folded else placement.UNFOLDED,
        "scheduling": placement.FIFO if fifo else placement.DEFAULT_CLASS,
        "times": traced_times(stand_ins(file)),
        "placed": placed_of(file.taskset), "gpus": str(len(gpus)),
    }  # fmt: skip
    meta |= {HOST: fit.saved(looks.host)} if looks.host else {}
    said, unset = _unset(file, gpus, event_priorities(records, names) if fifo else {})
    notes += unset
    trace = run_trace.assemble(meta | said, file.taskset.tasks, reports, host, (start, over), ended,
                               event_priorities(records, names))  # fmt: skip
    return Run(where, fifo, tuple(notes), reports, seconds, interrupted, trace, failed, gone)
