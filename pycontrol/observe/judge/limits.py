# SPDX-License-Identifier: GPL-2.0
"""The longest times that a taskset file allows for segments, jobs and updates."""

from __future__ import annotations

from analysis.model import PolicyFacts, Task
from analysis.model.platform import ISOLATED
from analysis.taskset import TasksetFile
from pycontrol.observe.judge.seen import Held, on_cpu


class Limits:
    """Limits under ``policy`` on a host with this many ``gpus``.  Some are unknown if the file has no update costs.

    A host with a GPU for each partition has them in the partitions' order.  Any other host does not say to which
    partition an update belongs: the costliest partition's costs count then.
    """

    def __init__(self, file: TasksetFile, policy: PolicyFacts, gpus: int) -> None:
        self._file, self._policy = file, policy
        taskset = file.taskset
        begins, values = taskset.platform.begin != ISOLATED, taskset.platform.yields
        self._unknown = bool(file.lacks) or (begins and values is None)
        #: How long others may execute beside an owner that does not wait until they are off, ns.
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
        """The tasks that delay the owner's end, and how much of the owner's time a job of each takes at most, ns.

        All execution of the other tasks counts if no smaller value is known.  This holds in four cases.  A task and its
        workers own the GPU together.  Tasks share a TSG, which has work of all of them on the GPU while one owns
        it.  Tasks of other partitions can have the CPU for as long as they wait there (``_beside``).  Tasks hold
        resources, for whose sections the owner's thread can wait.

        Tasks of the owner's CPU that are no less urgent can take that CPU.  At the gate, the owner lets pass tasks that
        are no less urgent on the GPU.  Such a task gets its turn even if its own CPU executes a more urgent task; the
        owner waits for both.  Under `boosted` the deciding task has its CPU, or waits for the G^m of a raised task.
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
        """How long a job of a task takes CPUs and the GPU, with its updates and wake-ups, ns."""
        return one.cpu_time + one.gpu_time + self.updates(one) + (1 + 3 * one.eta) * self._latency

    def _beside(self, cpus: set[int], task: Task) -> list[Task]:
        """The tasks of these CPUs that use another part of the GPU.  Nothing preempts their updates there.

        Best-effort tasks count only under policies lock-*.
        """
        tasks = self._file.taskset
        users = [one for one in tasks if one.uses_gpu and (not one.best_effort or self._policy.locks)]
        return [one for one in users if one.cpu in cpus and tasks.part_of(one) != tasks.part_of(task)]

    def _endless(self, one: Task, late: list[Task]) -> bool:
        """Whether a task of another part may keep a CPU from a task of ``late`` for longer than its own job executes.

        It is raised while it owns its part, or it spins until other tasks there are done.
        """
        if self._policy.raises:
            return True
        return one.spins() and any(one.cpu == who.cpu and one.priority >= who.priority for who in late)

    def _alpha(self, task: Task) -> int:
        return self._costs[self._file.taskset.part_of(task)][0]

    def _sharing(self, task: Task) -> list[Task]:
        """The other real-time tasks that use the task's part of the GPU."""
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
        """How much of its ``time`` a job may be off its CPU outside of its segments, ns; None: not known.

        It sums over the tasks of its CPU that are no less urgent, and under `boosted` those raised there.  Each has the
        CPU for its own work and wake-ups, and for as long as it spins.  Updates preempt every task.
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
            if one.cpu == task.cpu or self._policy.jobs:  # a job's thread updates on any CPU
                takes += self.updates(one)
            most += _jobs(one, time) * takes
        return most

    def cpu(self, task: Task) -> int | None:
        """How long a job may execute on its CPU, ns; None: not known."""
        return self._cpu[task.name]

    def segment(self, task: Task, held: Held, owned: int) -> tuple[int, int] | None:
        """The declared worst case of a segment, and how long it may own the GPU, ns; ``owned``: how long it has owned
        the GPU.

        A segment owns the GPU until its end has been decided, which other tasks delay (``_delaying``).  Its thread
        wakes up each time that it gets the GPU, and when its work is done.
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
    """How many jobs of a task can overlap an interval of length ``time``, ns, if each meets its deadline."""
    return (time + task.jitter + max(task.deadline - task.period, 0)) // task.period + 2


def _cpu(task: Task) -> int | None:
    """A job's CPU time, ns; None: not known, since a task that spins executes for as long as it waits."""
    return None if task.spins() or task.best_effort else task.cpu_time + task.misc_time
