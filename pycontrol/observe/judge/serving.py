# SPDX-License-Identifier: GPL-2.0
"""The judge's part that finds which jobs one thread or one process serves, and compares that with the file."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.model import Task, Taskset
from analysis.traces.trace import Event
from gpurt.text import visible
from pycontrol.observe.judge.finding import Log, What
from pycontrol.observe.judge.seen import MOST_OPEN


@dataclass(frozen=True, slots=True)
class Past:
    """A job that its process has reported as over."""

    task: str
    start: int
    end: int


class Serving:
    """Takes the begins and ends of jobs that processes report, in order of arrival.

    A process has one thread for two tasks if their jobs are never under way at once, and a job of one wrongly waits for
    the other task.  A wait is wrong if the file does not let the other task delay the waiting task.  ``joined``: the
    tasks that use the GPU as several threads of a process, by the file or by their jobs.  Events of segments do not
    show to which of these tasks a segment belongs.
    """

    def __init__(self, taskset: Taskset, log: Log) -> None:
        self._tasks = {task.name: task for task in taskset}
        self._forked, self._sleeps = taskset.forked, taskset.sleeps
        self._log = log
        self.joined = {task.name for tasks in taskset.processes.values() for task in tasks}
        self._homes: dict[str, dict[str, Task]] = {}
        self._open: dict[str, dict[str, int]] = {}
        self._past: dict[str, Past] = {}
        self._apart: set[tuple[str, frozenset[str]]] = set()
        self._told: set[frozenset[str]] = set()

    def start(self, task: Task, pid: str, event: Event) -> None:
        """A job begins, ``event.duration`` after its release."""
        under_way = self._open.setdefault(pid, {})
        for name in under_way:
            self._beside(task, self._tasks[name], pid, event)
        under_way[task.name] = event.time
        past = self._past.get(pid)
        if past is not None and past.task != task.name and event.duration is not None:
            waited = past.start <= event.time - event.duration < past.end
            if waited and not under_way.keys() - {task.name}:
                self._behind(task, self._tasks[past.task], pid, event)
        if len(self._homes) > MOST_OPEN:
            self._homes.clear()
        for other in self._homes.setdefault(pid, {}).values():
            self._together(task, other, event)
        self._homes[pid][task.name] = task

    def end(self, task: Task, pid: str, event: Event) -> None:
        """A job has ended."""
        start = self._open.get(pid, {}).pop(task.name, None)
        if start is not None:
            self._past[pid] = Past(task.name, start, event.time)

    def gone(self, pid: str) -> None:
        """The process has ended."""
        self._open.pop(pid, None)
        self._past.pop(pid, None)
        self._homes.pop(pid, None)

    def clear(self) -> None:
        """Starts anew: the jobs under way are not known."""
        self._open.clear()
        self._past.clear()

    def _beside(self, task: Task, other: Task, pid: str, event: Event) -> None:
        """A job begins while another job of its process is under way, so the process has two threads."""
        pair = frozenset({task.name, other.name})
        if len(pair) < 2:
            return
        self._apart.add((pid, pair))
        if task.thread is not None and task.thread == other.thread:
            text = f"began while a job of {other.name} was under way, and thread {task.thread.name} serves both"
            self._tell(pair, event, task, f"{text}: the bound is for one at a time")

    def _behind(self, task: Task, other: Task, pid: str, event: Event) -> None:
        """A job waited for the end of another job of its process, although the file gives the tasks two threads."""
        pair = frozenset({task.name, other.name})
        if (pid, pair) in self._apart or self._may_wait(task, other):
            return
        text = (
            f"waited for a job of {other.name}, of the same process: one thread serves both, and the file has no "
            "[[thread]] that does (docs/manual/callbacks.md)"
        )
        self._tell(pair, event, task, text)

    def _may_wait(self, task: Task, other: Task) -> bool:
        """Whether a job of the task may wait for a whole job of the other task.

        It may if one thread serves both, or if the other task is on its CPU, no less urgent, and never sleeps.
        """
        if task.thread is not None and task.thread == other.thread:
            return True
        return task.cpu == other.cpu and other.priority >= task.priority and not self._sleeps(other)

    def _together(self, task: Task, other: Task, event: Event) -> None:
        """One process has jobs of two tasks that use the GPU, but the file has two processes for them."""
        pair = frozenset({task.name, other.name})
        said = (task.thread is not None and task.thread == other.thread) or (
            task.process is not None and task.process == other.process
        )
        fork = self._forked.get(task.name)
        if said or len(pair) < 2 or not (task.uses_gpu and other.uses_gpu) or (fork and other.name in fork.members):
            return
        self.joined |= pair
        text = (
            f"{visible(event.detail or '')} has jobs of it and of {other.name}, and the file has neither a process nor "
            "a [[thread]] for both: one waits for the other's GPU work (docs/manual/callbacks.md)"
        )
        self._tell(pair, event, task, text)

    def _tell(self, pair: frozenset[str], event: Event, task: Task, text: str) -> None:
        if pair not in self._told and not task.best_effort:
            self._told.add(pair)
            self._log.add(event.time, What.THREAD, task.name, text, event.job)
