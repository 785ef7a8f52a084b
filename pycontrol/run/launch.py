# SPDX-License-Identifier: GPL-2.0
"""Runs a taskset's tasks as real processes on this machine's CPUs and a gpurt host, and collects their reports."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from analysis.model import Task, Waiting
from analysis.taskset import Launch, TasksetFile
from analysis.trace import Trace
from gpurt.errors import RefusedError, RuntimeFailure, UsageError
from pycontrol.live.events import Listener
from pycontrol.run import placement, task_program, task_report
from pycontrol.run import trace as run_trace
from pycontrol.run.placement import Placement
from pycontrol.run.task_report import Report

CGROUPS = Path("/sys/fs/cgroup")
#: How long tasks may take to get ready, and to end after SIGTERM, seconds.
READY_TIMEOUT = 30.0
STOP_TIMEOUT = 2.0
#: Time between the moment when all tasks are ready and their common start, ns.
LEAD = 100_000_000
NS = 1_000_000_000

#: Called now and then with the number of seconds of the run that have passed.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """How to run a taskset.

    ``device``: the host's, None for the usual search.  ``policy``: goes into the trace; the caller sets it on the host.
    ``waiting``: overrides every task's own mode.  ``managed``: whether tasks begin and end their GPU segments.
    ``scale``: range from which execution times are drawn, in percent between best and worst time.
    """

    seconds: float
    device: str | None = None
    policy: str = ""
    waiting: Waiting | None = None
    managed: bool = True
    scale: tuple[int, int] = (100, 100)
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 86400:
            raise UsageError(f"a run takes more than 0 and at most 86400 seconds, not {self.seconds:g}")


@dataclass(frozen=True)
class Run:
    """The outcome of a run.  ``reports`` lacks tasks that are the user's own commands, and tasks that were killed."""

    placement: Placement
    fifo: bool
    notes: tuple[str, ...]
    reports: dict[str, Report]
    seconds: float
    trace: Trace

    def misses(self, task: Task) -> int:
        """Number of jobs of the task that finished after their deadline or not at all."""
        report = self.reports[task.name]
        return report.unfinished + sum(job.response > task.deadline for job in report.jobs)


@dataclass
class _Child:
    """One started task."""

    task: Task
    process: subprocess.Popen[bytes]
    report: Path | None
    errors: BinaryIO
    ready: int | None

    def complaint(self) -> str:
        """The last line that the task wrote on stderr."""
        self.errors.seek(0)
        lines = self.errors.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
        code = self.process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with status {code}"
        return f"task {self.task.name}: {lines[-1] if lines else how}"

    def signal(self, number: int) -> None:
        """Sends a signal to the task and the processes that it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


@dataclass
class _Crew:
    """All tasks of a run.  All of them have ended when the context is left."""

    file: TasksetFile
    options: Options
    where: Placement
    fifo: bool
    directory: Path
    program: Path
    children: list[_Child] = field(default_factory=list)

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for child in self.children:
            if child.report is None:
                child.signal(signal.SIGKILL)  # processes that the user's command left in its process group
            child.errors.close()
            if child.process.stdin:
                child.process.stdin.close()
            if child.ready is not None:
                os.close(child.ready)

    def start(self) -> None:
        """Starts every task, each in a process group of its own."""
        for task in self.file.taskset:
            self.children.append(self._spawn(task))
            self._enter_cgroup(self.children[-1])

    def _spawn(self, task: Task) -> _Child:
        launch = self.file.launch.get(task.name, Launch())
        command = [str(self.program), f"--cpu={self.where.cpus[task.cpu]}", f"--parent={os.getpid()}"]
        command.append(f"--priority={task.priority if self.fifo else 0}")
        report, ready, told = None, None, None
        environment = dict(os.environ)
        if self.options.device:
            environment["GPURT_DEVICE"] = self.options.device
        if launch.command:
            command += ["--exec", *launch.command]
        else:
            report = self.directory / f"{task.name}.report"
            ready, told = os.pipe()
            command += ["--start-fd=0", f"--ready-fd={told}", f"--report={report}"]
            command += self._describe(task)
        errors = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 (closed with the crew)
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL if launch.command else subprocess.PIPE, stderr=errors,
                stdout=subprocess.DEVNULL, pass_fds=[told] if told is not None else [], env=environment,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise RuntimeFailure(f"task {task.name}: cannot start {command[0]}: {error.strerror}") from None
        finally:
            if told is not None:
                os.close(told)
        return _Child(task, process, report, errors, ready)

    def _describe(self, task: Task) -> list[str]:
        options = self.options
        arguments = task_program.arguments(
            task, waiting=options.waiting, managed=options.managed, scale=options.scale, seed=options.seed
        )
        if self.fifo and task.gpu_priority is not None:
            arguments.append(f"--gpu-priority={task.gpu_priority}")
        return arguments

    def _enter_cgroup(self, child: _Child) -> None:
        path = self.file.launch.get(child.task.name, Launch()).cgroup
        if path is None:
            return
        members = CGROUPS / path.lstrip("/") / "cgroup.procs"
        try:
            members.write_text(str(child.process.pid))
        except OSError as error:
            raise RuntimeFailure(f"task {child.task.name}: cannot enter cgroup {path}: {error.strerror}") from None

    def check(self) -> None:
        """Raises RuntimeFailure if a task failed."""
        for child in self.children:
            if child.process.poll():
                raise RuntimeFailure(child.complaint())

    def await_ready(self) -> None:
        """Waits until every task has opened its client and locked its memory."""
        deadline = time.monotonic() + READY_TIMEOUT
        with selectors.DefaultSelector() as selector:
            for child in self.children:
                if child.ready is not None:
                    selector.register(child.ready, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(0.05):
                    os.read(key.fd, 64)
                    selector.unregister(key.fd)
                self.check()
                if time.monotonic() > deadline:
                    raise RuntimeFailure(f"not every task got ready within {READY_TIMEOUT:g} s; is the host stuck?")
        time.sleep(0.01)
        self.check()  # end of file makes the pipe readable, too

    def release(self) -> int:
        """Sends every task the common start, and returns it, ns."""
        start = time.monotonic_ns() + LEAD
        until = start + round(self.options.seconds * NS)
        for child in self.children:
            if child.process.stdin:
                try:
                    child.process.stdin.write(f"{start} {until}\n".encode())
                    child.process.stdin.close()
                except BrokenPipeError:
                    self.check()
        return start

    def wait(self, start: int, progress: Progress) -> None:
        """Waits until every periodic task has ended by itself, then ends the user's own commands."""
        longest = max((task.deadline for task in self.file.taskset), default=0)
        end = start + round(self.options.seconds * NS)
        waiting = [child for child in self.children if child.report is not None]
        while time.monotonic_ns() < end + 2 * longest + round(STOP_TIMEOUT * NS):
            self.check()
            now = time.monotonic_ns()
            progress(min(max(0, now - start), end - start) / NS)
            if now >= end and all(child.process.poll() is not None for child in waiting):
                break
            time.sleep(0.1)
        self.stop()

    def stop(self) -> None:
        """Sends SIGTERM to every task, and after STOP_TIMEOUT SIGKILL to those that still run."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            running = [child for child in self.children if child.process.poll() is None]
            for child in running:
                child.signal(number)
            deadline = time.monotonic() + STOP_TIMEOUT
            for child in running:
                try:
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue

    def reports(self) -> dict[str, Report]:
        """The reports of the tasks, by name."""
        found = ((c.task.name, task_report.load(c.report)) for c in self.children if c.report is not None)
        return {name: report for name, report in found if report is not None}


def _set_priorities(crew: _Crew, listener: Listener) -> list[str]:
    """If tasks may not use SCHED_FIFO, sets the GPU priorities of their segments through the host."""
    if crew.fifo:
        return []
    try:
        for child in crew.children:
            if child.task.uses_gpu and child.report is not None and child.task.segment_priority:
                listener.control.set_priority(child.process.pid, child.task.segment_priority)
    except RefusedError as error:
        return [f"GPU priorities not set: {error}"]
    return ["GPU priorities set through the host, for the tasks themselves have none"]


def _remarks(reports: Iterable[Report]) -> list[str]:
    """Notes and errors of the tasks; tasks with the same note share a line."""
    by_note: dict[str, list[str]] = {}
    for report in reports:
        for note in (*report.notes, *([report.error] if report.error else [])):
            by_note.setdefault(note, []).append(report.task)
        if not report.complete:
            by_note.setdefault("report cut off, the task was killed", []).append(report.task)
    return [f"{note} ({', '.join(tasks)})" for note, tasks in by_note.items()]


def launch(file: TasksetFile, options: Options, progress: Progress = lambda seconds: None) -> Run:
    """Runs a taskset for ``options.seconds`` and returns the outcome.

    Must be called from a thread that outlives the run: the kernel kills the tasks when that thread ends.

    Raises:
        RuntimeFailure: a task could not be started or failed.  No task is left running.
        DeviceError: there is no host.
        KeyboardInterrupt: the user interrupted the run.  No task is left running.
    """
    program = task_program.find()
    where, fifo = placement.place(file.taskset), placement.fifo_permitted()
    notes = [*where.notes(), *placement.rights_notes(fifo)]
    with (
        tempfile.TemporaryDirectory(prefix="gpurt-run-") as directory,
        Listener(options.device) as listener,
        _Crew(file, options, where, fifo, Path(directory), program) as crew,
    ):
        crew.start()
        crew.await_ready()
        notes += _set_priorities(crew, listener)
        names = {child.process.pid: child.task.name for child in crew.children}
        start = crew.release()
        crew.wait(start, progress)
        seconds = min(options.seconds, (time.monotonic_ns() - start) / NS)
        host = listener.events(names)
        reports = crew.reports()
    notes += _remarks(reports.values())
    waiting = {task.name: options.waiting or task.waiting for task in file.taskset}
    busy = {name: mode is Waiting.BUSY for name, mode in waiting.items()}
    meta = {
        "source": "runtime", "clock": "CLOCK_MONOTONIC", "policy": options.policy, "taskset": file.path.name,
        "waiting": options.waiting.value if options.waiting else "per task",
    }  # fmt: skip
    trace = run_trace.assemble(meta, file.taskset.tasks, reports, busy, host, start)
    return Run(where, fifo, tuple(notes), reports, seconds, trace)
