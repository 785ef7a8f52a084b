# SPDX-License-Identifier: GPL-2.0
"""A platform and its tasks: what a file describes, and what every analysis and simulation takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from analysis.model.partition import Partition
from analysis.model.platform import Platform
from analysis.model.policy import POLICIES, PolicyFacts
from analysis.model.relations import Assumed, Chain, Fork, Resource, releases
from analysis.model.task import Task


@dataclass(frozen=True)
class Taskset:
    """A platform and its tasks, in the order of the file.

    ``partitions``: the partitions that tasks share.  ``chains``: chains of tasks.  ``resources``: resources of CPUs.
    ``forks``: one for each task with workers.  ``assumed``: facts that the file leaves out and that can make a yes
    wrong.
    """

    platform: Platform
    tasks: tuple[Task, ...] = field(default_factory=tuple)
    partitions: tuple[Partition, ...] = ()
    chains: tuple[Chain, ...] = ()
    resources: tuple[Resource, ...] = ()
    forks: tuple[Fork, ...] = ()
    assumed: tuple[Assumed, ...] = field(default=(), compare=False)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def real_time(self) -> tuple[Task, ...]:
        """Real-time tasks, most urgent first, ties in file order."""
        return tuple(sorted((t for t in self.tasks if not t.best_effort), key=lambda t: -t.priority))

    @cached_property
    def threads(self) -> dict[str, tuple[Task, ...]]:
        """The tasks of each thread that serves several tasks, by the thread's name, in the order of their ranks."""
        served: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.thread is not None:
                served.setdefault(task.thread.name, []).append(task)
        return {
            name: tuple(sorted(tasks, key=lambda t: t.rank)) for name, tasks in served.items() if len(tasks) > 1
        }

    @cached_property
    def processes(self) -> dict[str, tuple[Task, ...]]:
        """The tasks of each process in which several threads use the GPU, by the name of the process."""
        members: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.process is not None and task.uses_gpu:
                members.setdefault(task.process, []).append(task)
        return {
            name: tuple(tasks) for name, tasks in members.items() if len({t.thread or t.name for t in tasks}) > 1
        }

    @property
    def unseen(self) -> str:
        """A remark on the time that no bound covers where real-time threads serve several tasks; empty elsewhere."""
        names = [name for name, tasks in self.threads.items() if not tasks[0].best_effort]
        if not names:
            return ""
        return (
            f"a job of {', '.join(names)} counts as released when its thread can see it: no bound has the time that "
            "middleware or a timers' thread takes before that (docs/manual/callbacks.md)"
        )

    @cached_property
    def pending(self) -> tuple[Task, ...]:
        """The real-time tasks that can have several pending jobs."""
        return tuple(task for task in self.real_time if task.pends)

    @cached_property
    def triggers(self) -> dict[str, tuple[str, ...]]:
        """For each triggered task: the tasks whose jobs of the same number must all end before its job is released."""
        return releases(self.chains)

    def awaited(self, chain: Chain) -> frozenset[str]:
        """The tasks of a chain that sample their predecessor although other tasks release them.

        Their first jobs come only after the first jobs of those other tasks.
        """
        return frozenset(name for name in chain.tasks[1:] if name in self.triggers and name not in chain.triggered)

    @cached_property
    def forked(self) -> dict[str, Fork]:
        """The fork of each task that has workers or is a worker, by task."""
        return {name: fork for fork in self.forks for name in fork.members}

    @cached_property
    def started(self) -> frozenset[str]:
        """The names of the tasks that are workers."""
        return frozenset(name for fork in self.forks for name in fork.workers)

    @cached_property
    def held(self) -> frozenset[str]:
        """The names of the tasks that hold a segment while their workers execute, and of these workers."""
        return frozenset(name for name, fork in self.forked.items() if fork.hold)

    @cached_property
    def inside(self) -> frozenset[str]:
        """The names of the workers whose task holds a segment while they execute; their segments change no runlist."""
        return self.held & self.started

    def unserved(self, what: str) -> str:
        """Why ``what`` cannot model these tasks, because of threads, pending jobs, wake-ups or resources; else empty.

        Workers are a reason, too.
        """
        for fork in self.forks:
            return f"{fork.task} has workers, of which {what} knows nothing"
        for name in self.processes:
            return f"several threads of process {name} use the GPU, of which {what} knows nothing"
        for name in self.threads:
            return f"thread {name} serves several tasks, of which {what} knows nothing"
        if self.triggers:
            return f"{next(iter(self.triggers))} is released by the end of another task, of which {what} knows nothing"
        if self.resources:
            return f"the file has [[resource]], of which {what} knows nothing"
        if self.platform.cpu_latency:
            return f"the platform has cpu_latency, of which {what} knows nothing"
        return next((f"{task.name} has {task.why_pends}, of which {what} knows nothing" for task in self.pending), "")

    def unplanned(self, what: str) -> str:
        """Why ``what`` cannot plan these tasks: a reason of `unserved`, or chains with limits; else empty."""
        limited = (f"chain {one.name} has limits, of which {what} knows nothing" for one in self.chains if one.limits)
        return self.unserved(what) or next(limited, "")

    def served_with(self, task: Task) -> tuple[Task, ...]:
        """The tasks that its thread serves, itself among them, in the order of their ranks."""
        return self.threads.get(task.thread.name, (task,)) if task.thread is not None else (task,)

    def beside(self, task: Task) -> tuple[Task, ...]:
        """The tasks whose jobs its process executes, itself among them; with several threads, GPU users come first."""
        if task.process is None:
            return self.served_with(task)
        those = (one for one in self.tasks if one.process == task.process)
        return tuple(sorted(those, key=lambda one: not one.uses_gpu))

    def sleeps(self, task: Task) -> bool:
        """Whether the task's thread can sleep while one of its jobs is pending, if no task waits busily.

        A job without GPU work then waits for the job of another task that its thread serves.  A task waits for its
        workers, and a worker begins long after the release of its job.  A thread that waits for a mutex does not count:
        the CPU then executes the task that holds it, at least at the waiting task's priority.
        """
        return task.name in self.forked or any(t.uses_gpu for t in self.served_with(task))

    @cached_property
    def parts(self) -> tuple[Partition, ...]:
        """The parts that are scheduled as GPUs of their own: partitions with a name; without any, the whole GPU."""
        of_tasks = (t.partition for t in self if t.partition)
        own = [one for one in (*self.partitions, *of_tasks) if one.own_gpu]
        return tuple({one.name: one for one in own}.values()) or (Partition(),)

    def part_of(self, task: Task) -> int:
        """The number of the part that a task uses.  A task without a partition, hence not real-time, uses the first."""
        name = task.partition.name if task.partition else None
        return next((at for at, part in enumerate(self.parts) if part.name == name), 0)

    @property
    def partitioned(self) -> bool:
        """Whether real-time tasks use the GPU in several partitions, or in one with update costs of its own.

        Also true if another partition's updates can delay them (``locked_beside``).
        """
        used = [t.partition for t in self.real_time if t.uses_gpu and t.partition and t.partition.own_gpu]
        own = any(part.alpha is not None or part.theta is not None for part in used)
        return own or len({part.name for part in used}) > 1 or bool(self.locked_beside)

    @property
    def locked_beside(self) -> tuple[Partition, ...]:
        """The partitions without real-time tasks under policies lock-*; best effort updates runlists there, too."""
        used = {t.partition.name for t in self.real_time if t.uses_gpu and t.partition}
        others = (part for part in self.parts if part.name is not None and part.name not in used)
        return tuple(part for part in others if POLICIES[part.policy or self.platform.policy].locks)

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies under which real-time tasks use the GPU, in alphabetical order; the platform's if none does.

        The policies of ``locked_beside`` are included: updates by best effort delay real-time tasks of its CPUs.
        """
        parts = [*(t.partition for t in self.real_time if t.uses_gpu), *self.locked_beside]
        own = {part.policy if part and part.own_gpu and part.policy else self.platform.policy for part in parts}
        return tuple(sorted(own)) or (self.platform.policy,)

    @property
    def rules(self) -> tuple[PolicyFacts, ...]:
        """The facts of its policies."""
        return tuple(POLICIES[name] for name in self.policies)

    def with_partitions(self, change: Callable[[Partition], Partition]) -> Taskset:
        """A copy in which ``change`` is applied to each partition, also to those of one task."""
        made = {part: change(part) for part in (*self.partitions, *(t.partition for t in self if t.partition))}
        tasks = tuple(replace(t, partition=made[t.partition]) if t.partition else t for t in self.tasks)
        return replace(self, tasks=tasks, partitions=tuple(made[part] for part in self.partitions))

    @property
    def time_partitioned(self) -> bool:
        """Whether TSGs of its tasks have slices or interleave levels of their own, or are shared."""
        return any(t.uses_gpu and t.partition is not None and t.partition.in_time for t in self.tasks)

    def with_gpu_priorities(self, priorities: dict[str, int]) -> Taskset:
        """A copy with these priorities for the named tasks' GPU segments, and for all tasks of their threads."""
        given = {other.name: priorities[t.name] for t in self for other in self.served_with(t) if t.name in priorities}
        given |= priorities
        tasks = tuple(replace(t, gpu_priority=given[t.name]) if t.name in given else t for t in self.tasks)
        return replace(self, tasks=tasks)
