# SPDX-License-Identifier: GPL-2.0
"""The processes of a run, one for each task, from their start to their end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from analysis.model import POLICIES, Task, Waiting
from analysis.taskset import Launch, TasksetFile
from gpurt.errors import RuntimeFailure, UsageError
from pycontrol.act.run import task_program
from pycontrol.ending import later
from pycontrol.machine.placement import Placement
from pycontrol.observe.fit.host import Host
from pycontrol.observe.trace import task_report
from pycontrol.observe.trace.task_report import TaskReport
from pycontrol.signals import INTERRUPTED, TERMINATED, Terminated

CGROUPS = Path("/sys/fs/cgroup")
#: How long the next task may take to get ready, and all tasks to end after SIGTERM, seconds.
READY_TIMEOUT = 120.0
CREW_STOP_S = 2.0
#: The time from when all tasks are ready to their common start, ns.
START_LEAD_NS = 100_000_000
NS = 1_000_000_000

#: Called now and then with how many seconds of the run have passed.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class CrewOptions:
    """How to run a taskset.

    ``device``: the host's device; None: the usual search.  ``policy``: the host's policy, for the trace; under
    `boosted` each task is told its form.  ``waiting``: overrides every task's mode.  ``managed``: whether tasks begin
    and end their GPU segments.  ``environments``: by task name, additional variables for its program.  ``tell``:
    whether tasks report their jobs to readers of the host's events (`gpurt watch`): two calls a job.
    ``host``: known facts about the host before the run, for the trace.
    ``share``: how much of each worst case stand-ins take, percent.
    """

    seconds: float
    device: str | None = None
    policy: str = "segment"
    waiting: Waiting | None = None
    managed: bool = True
    share: int = 100
    tell: bool = False
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    host: Host | None = None

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 86400:
            raise UsageError(f"a run takes more than 0 and at most 86400 seconds, not {self.seconds:g}")


def served(file: TasksetFile) -> set[str]:
    """The tasks that share a thread or a process: only their reported jobs show to which task a segment belongs."""
    together = (*file.taskset.threads.values(), *file.taskset.processes.values())
    return {task.name for tasks in together for task in tasks}


def stand_ins(file: TasksetFile) -> list[Task]:
    """The tasks that gpurt-task executes: neither they nor other tasks of their process have a command."""
    processes = file.taskset.processes.values()
    started = {
        task.name for tasks in processes for task in tasks if any(file.launch[one.name].command for one in tasks)
    }  # fmt: skip
    return [task for task in file.taskset if not file.launch[task.name].command and task.name not in started]


@dataclass
class Child:
    """A started task, or the first task that its thread serves.  ``also``: the reports of the other tasks, by name.

    ``ended``: when its program was seen to have ended by itself, ns.
    """

    task: Task
    process: subprocess.Popen[bytes]
    report: Path | None
    errors: BinaryIO
    ended: int | None = None
    also: Mapping[str, Path] = field(default_factory=dict)

    def complaint(self) -> str:
        """The last line that the task has written to stderr."""
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
class Crew:
    """All tasks of a run.  All of them have ended when the context is left."""

    file: TasksetFile
    options: CrewOptions
    where: Placement
    fifo: bool
    directory: Path
    program: Path
    children: list[Child] = field(default_factory=list)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for child in self.children:
            if child.report is None:
                child.signal(signal.SIGKILL)  # processes that the user's command left in its process group
            child.errors.close()
            for pipe in filter(None, (child.process.stdin, child.process.stdout)):
                pipe.close()

    def start(self) -> None:
        """Starts every task, each in a process group of its own."""
        alone = {task.name for task in stand_ins(self.file)}
        for task in self.file.taskset:
            if self.file.taskset.served_with(task)[0] is not task:
                continue  # the thread's program is started for its first task
            if task.name not in alone and not self.file.launch[task.name].command:
                continue  # another thread's program serves its process
            with later():  # else a program could start and not be noted
                self.children.append(self._spawn(task))
            self._enter_cgroup(self.children[-1])

    def _spawn(self, task: Task) -> Child:
        launch = self.file.launch.get(task.name, Launch())
        command = [str(self.program), f"--cpu={self.where.cpus[task.cpu]}", f"--parent={os.getpid()}"]
        command.append(f"--priority={task.priority if self.fifo else 0}")
        report, also = None, dict[str, Path]()
        environment = {**os.environ, **self.options.environments.get(task.name, {})}
        if self.options.device:
            environment["GPURT_DEVICE"] = self.options.device
        if launch.group:
            environment["GPURT_GROUP"] = launch.group
        if POLICIES[self.options.policy].raises:  # other policies raise no thread, and need no spinning for a decision
            environment["GPURT_FORM"] = task.form_in(self.options.waiting or task.waiting).word
        if launch.command:
            command += ["--exec", *launch.command]
            if task.name not in served(self.file):  # else it reports whose job it is doing
                environment["GPURT_TASK_NAME"] = task.name
        else:
            report = self.directory / f"{task.name}.report"
            command += ["--wait", f"--report={report}", *self._describe(task)]
            for other in self.file.taskset.served_with(task)[1:]:
                also[other.name] = self.directory / f"{other.name}.report"
                command += ["--also", f"--report={also[other.name]}", *self._describe(other)]
        errors = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115 (closed with the crew)
        try:
            pipe = subprocess.DEVNULL if launch.command else subprocess.PIPE
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, start_new_session=True
            )
        except OSError as error:
            raise RuntimeFailure(f"task {task.name}: cannot start {command[0]}: {error.strerror}") from None
        return Child(task, process, report, errors, also=also)

    def _describe(self, task: Task) -> list[str]:
        options, together = self.options, task.name in served(self.file)
        arguments = task_program.task_arguments(
            task, waiting=options.waiting, managed=options.managed, share=options.share,
            tell=options.tell or together,  # nothing else shows the task of a segment
        )  # fmt: skip
        arguments += task_program.thread_arguments(task)
        if self.fifo and task.gpu_priority is not None:
            arguments.append(f"--gpu-priority={task.gpu_priority}")
        return arguments

    def _enter_cgroup(self, child: Child) -> None:
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
        """Waits until every task has opened its client and locked its memory.

        Each task that gets ready gives the others more time.
        """
        deadline = time.monotonic() + READY_TIMEOUT
        with selectors.DefaultSelector() as selector:
            for child in self.children:
                if child.process.stdout:
                    selector.register(child.process.stdout, selectors.EVENT_READ, child.task.name)
            while selector.get_map():
                for key, _ in selector.select(0.05):
                    os.read(key.fd, 64)
                    selector.unregister(key.fileobj)
                    deadline = time.monotonic() + READY_TIMEOUT
                self.check()
                if time.monotonic() > deadline:
                    late = ", ".join(key.data for key in selector.get_map().values())
                    why = "is the host stuck, or this machine too busy?"
                    raise RuntimeFailure(f"{late}: not ready for {READY_TIMEOUT:g} s; {why}")
        time.sleep(0.01)
        self.check()  # end of file makes the pipe readable, too

    def release(self) -> int:
        """Sends every task the common start, and returns it, ns."""
        start = time.monotonic_ns() + START_LEAD_NS
        until = start + round(self.options.seconds * NS)
        for child in self.children:
            if child.process.stdin:
                try:
                    child.process.stdin.write(f"{start} {until}\n".encode())
                    child.process.stdin.close()
                except BrokenPipeError:
                    self.check()
        return start

    def wait(self, start: int, progress: Progress) -> tuple[int, str]:
        """Waits until every periodic task has ended by itself, then ends the user's commands.

        Returns 0 or the exit code for the user's signal, and which task failed (empty: none).  All tasks have ended
        then, and have written their reports.
        """
        interrupted, failed = 0, ""
        try:
            self._wait(start, progress)
        except KeyboardInterrupt as error:
            interrupted = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
        except RuntimeFailure as error:
            failed = str(error)
        self.stop()
        return interrupted, failed

    def _wait(self, start: int, progress: Progress) -> None:
        longest = max((task.deadline for task in self.file.taskset), default=0)
        end = start + round(self.options.seconds * NS)
        waiting = [child for child in self.children if child.report is not None]
        while time.monotonic_ns() < end + 2 * longest + round(CREW_STOP_S * NS):
            self.check()
            now = time.monotonic_ns()
            progress(min(max(0, now - start), end - start) / NS)
            if now >= end and all(child.process.poll() is not None for child in waiting):
                break
            for child in self.children:
                if child.report is None and child.ended is None and child.process.poll() is not None:
                    child.ended = max(now, start)
            time.sleep(0.1)

    def stop(self) -> None:
        """Sends SIGTERM to every task, and after CREW_STOP_S SIGKILL to tasks that still run."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            running = [child for child in self.children if child.process.poll() is None]
            for child in running:
                child.signal(number)
            deadline = time.monotonic() + CREW_STOP_S
            for child in running:
                try:
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue

    def reports(self) -> tuple[dict[str, TaskReport], list[str]]:
        """The reports of the tasks, by name, and the tasks whose reports are missing or damaged."""
        found, missing = dict[str, TaskReport](), list[str]()
        paths = {child.task.name: child.report for child in self.children if child.report is not None}
        for child in self.children:
            paths |= child.also
        for name, path in paths.items():
            try:
                report = task_report.load_report(path)
            except RuntimeFailure:
                report = None
            if report is None:
                missing.append(name)
            else:
                found[name] = report
        return found, missing
