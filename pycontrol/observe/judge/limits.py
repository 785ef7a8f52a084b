# SPDX-License-Identifier: GPL-2.0
"""The times that a taskset file allows segments, jobs and updates to take."""

from __future__ import annotations

from analysis.model import PolicyFacts, Task
from analysis.model.platform import ISOLATED
from analysis.taskset import TasksetFile
from pycontrol.observe.judge.seen import Held, on_cpu


class Limits:
    """The limits under ``policy``, on a host with so many ``gpus``.  Without update costs in the file some are unknown.

    A host with a GPU for each partition has the partitions' order.  Any other host does not say which partition an
    update is of, so that the costliest partition's count there.
    """

    def __init__(self, file: TasksetFile, policy: PolicyFacts, gpus: int) -> None:
        self._file, self._policy = file, policy
        taskset = file.taskset
        begins, values = taskset.platform.begin != ISOLATED, taskset.platform.yields
        self._unknown = bool(file.lacks) or (begins and values is None)
        #: For so long others may execute beside an owner that does not wait until they are off.
        self._beside_it = 0
        if begins and values:
            self._beside_it = values.lazy + 2 * values.decision + taskset.platform.epsilon + taskset.platform.region
        self._costs = [taskset.platform.costs(part) for part in taskset.parts]
        self._apart = gpus == len(taskset.parts)
        self._cpu = {task.name: _cpu(task) for task in taskset}
        self._worst = {task.name: [one.misc.worst + one.pure.worst for one in task.gpu_segments] for task in taskset}
        self._latency = taskset.platform.cpu_latency
        self._epsilon = {
            task.name: sum(self._costs[taskset.part_of(task)]) + taskset.platform.region + self._latency
            for task in taskset
        }
        self._delays = {task.name: self._delaying(task) for task in taskset}

    def _delaying(self, task: Task) -> list[tuple[Task, int]]:
        """The tasks that make the owner's end late, and what a job of each takes of the owner's time at most, ns.

        All that other tasks do counts where less is not known.  That is so for a task and its workers, which own the
        GPU together, and where tasks share a TSG: it has work of all tasks on the GPU while one task owns it.  It is
        also so where tasks of other partitions can have the CPU for as long as they wait there (``_beside``), and where
        tasks hold resources, for whose sections the owner's thread can wait.

        Tasks of the owner's CPU that are no less urgent can take that CPU. At the gate the owner lets tasks pass that
        are no less urgent on the GPU. Such a task gets its turn even if its own CPU is executing a more urgent task,
        which the owner then waits for.  Under `boosted` the task that decides has its CPU, or waits for the G^m of a
        raised task.
        """
        tasks = self._file.taskset
        passing = [one for one in self._sharing(task) if one.segment_priority >= task.segment_priority]
        takes = {one.name: 2 * one.eta * self._epsilon[one.name] for one in passing}
        late = [task, *passing]
        beside = self._beside({one.cpu for one in late}, task)
        shared = task.partition is not None and bool(task.partition.shared)
        unknown = bool(tasks.resources) or task.name in tasks.forked or shared
        if unknown or any(self._endless(one, late) for one in beside):
            return [(one, self._all_of(one)) for one in tasks if one is not task]
        if self._policy.raises:
            return [(one, one.misc_time + takes[one.name]) for one in passing]
        takes |= {one.name: 2 * one.eta * self._alpha(one) for one in beside}
        for one in tasks:
            if any(one.cpu == who.cpu and one.priority >= who.priority and one is not who for who in late):
                takes[one.name] = takes.get(one.name, 0) + on_cpu(one)
        return [(one, takes[one.name]) for one in tasks if one.name in takes and one is not task]

    def _all_of(self, one: Task) -> int:
        """What a job of a task takes of CPUs and the GPU, with its updates and wake-ups, ns."""
        return one.cpu_time + one.gpu_time + self.updates(one) + (1 + 3 * one.eta) * self._latency

    def _beside(self, cpus: set[int], task: Task) -> list[Task]:
        """The tasks of these CPUs that use another part of the GPU.  Nothing preempts their updates there.

        Best effort does so under policies lock-* alone.
        """
        tasks = self._file.taskset
        users = [one for one in tasks if one.uses_gpu and (not one.best_effort or self._policy.locks)]
        return [one for one in users if one.cpu in cpus and tasks.part_of(one) != tasks.part_of(task)]

    def _endless(self, one: Task, late: list[Task]) -> bool:
        """Whether a task of another part may keep a CPU from one of ``late`` for longer than its own job executes.

        It is raised while it owns its part, or spins for it until others there are done.
        """
        if self._policy.raises:
            return True
        return one.spins() and any(one.cpu == who.cpu and one.priority >= who.priority for who in late)

    def _alpha(self, task: Task) -> int:
        return self._costs[self._file.taskset.part_of(task)][0]

    def _sharing(self, task: Task) -> list[Task]:
        """The other real-time tasks that use its part of the GPU."""
        tasks = self._file.taskset
        part = tasks.part_of(task)
        return [one for one in tasks.real_time if one.uses_gpu and one is not task and tasks.part_of(one) == part]

    def alpha(self, gpu: int) -> int | None:
        """How long a runlist update on a GPU may take, ns."""
        if self._unknown:
            return None
        if self._apart and gpu < len(self._costs):
            return self._costs[gpu][0]
        return max(alpha for alpha, _ in self._costs)

    def updates(self, task: Task) -> int:
        """How long the updates of a job's segments may take, ns."""
        return 2 * task.eta * self._epsilon[task.name]

    def off_cpu(self, task: Task, time: int) -> int | None:
        """How long a job may be off its CPU outside its segments, of the ``time`` that it takes, ns; None: not known.

        That are the tasks of its CPU that are no less urgent, and under `boosted` all that may be raised there.  Each
        has the CPU for its own work and wake-ups, and for as long as it spins; updates preempt every task.
        """
        tasks, raises = self._file.taskset, self._policy.raises
        if tasks.resources or tasks.forks or self._unknown:
            return None
        most = 0
        for one in tasks:
            if one is task or (one.thread is not None and one.thread == task.thread):
                continue
            takes = 0
            if one.cpu == task.cpu and (one.priority >= task.priority or (raises and one.uses_gpu)):
                takes = one.deadline if one.spins() else on_cpu(one) + (1 + 3 * one.eta) * self._latency
            if one.cpu == task.cpu or self._policy.jobs:  # whose thread updates on any CPU
                takes += self.updates(one)
            most += _jobs(one, time) * takes
        return most

    def cpu(self, task: Task) -> int | None:
        """How long a job may execute on its CPU, ns; None: not known."""
        return self._cpu[task.name]

    def segment(self, task: Task, held: Held, owned: int) -> tuple[int, int] | None:
        """The declared worst case of a segment, and how long it may own the GPU, ns; ``owned``: how long it has owned
        it.

        It owns the GPU until its end has been decided, which other tasks delay (``_delaying``).  Its thread wakes up
        each time that it gets the GPU, and when its work is done.
        """
        worst = self._worst[task.name]
        delays = self._delays[task.name]
        if not self._policy.owned or task.best_effort or not worst or self._unknown:
            return None
        declared = worst[held.place] if 0 <= held.place < len(worst) else max(worst)
        others = sum(_jobs(one, owned) * takes for one, takes in delays)
        costs = held.updates * self._epsilon[task.name] + self._latency + self._beside_it
        return declared, declared + costs + others


def _jobs(task: Task, time: int) -> int:
    """How many jobs of a task can have any part in a time, ns, if each meets its deadline."""
    return (time + task.jitter + max(task.deadline - task.period, 0)) // task.period + 2


def _cpu(task: Task) -> int | None:
    """A task that waits busily executes for as long as it waits."""
    return None if task.spins() or task.best_effort else task.cpu_time + task.misc_time
