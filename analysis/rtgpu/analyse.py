# SPDX-License-Identifier: GPL-2.0
"""The analysis of a taskset whose tasks own units of the GPU, on a given allocation or on one that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from analysis.model import Copy, Task, Taskset
from analysis.rta.result import BestEffort, Bound, Failure, Reason, Result, Verdict
from analysis.rtgpu.chain import Chain, chain, kernels, merged, needs_units, on_its_cpu
from analysis.rtgpu.method import Around, Method, Response, respond

#: Why nothing is proved beside kernels of best effort.
STRAY = "nothing keeps them off the units of the others; if something does, leave them out of the file"


@dataclass(frozen=True)
class Units:
    """The units that tasks may have: ``total`` in all, each task a multiple of ``step`` and at least ``least``."""

    total: int
    step: int = 1
    least: int = 1

    def choices(self, left: int) -> range:
        """The numbers of units that a task may have if ``left`` are left."""
        first = -(-max(self.least, 1) // self.step) * self.step
        return range(first, left + 1, self.step)

    @classmethod
    def of(cls, total: int, sizes: Sequence[int] = ()) -> Units:
        """``total`` units, of which a task may have one of ``sizes``, ascending; any number if there are none.

        Raises ValueError unless the sizes are consecutive multiples of one number.
        """
        if not sizes:
            return cls(total)
        made = cls(total, sizes[1] - sizes[0] if len(sizes) > 1 else sizes[0], sizes[0])
        if tuple(made.choices(total)) != tuple(size for size in sizes if size <= total):
            some = ", ".join(map(str, sizes[:3])) + ", ..." * (len(sizes) > 3)
            raise ValueError(f"the sizes {some} are not the multiples of one number, up to {total} units")
        return made


@dataclass(frozen=True)
class System:
    """A taskset under a method; tasks are indexed from the most urgent one.

    ``chunk``: the longest part of a copy that nothing interrupts, ns; 0: whole copies.  CPU segments of 0 ns count as
    1 ns: the thread needs its CPU before it can go on (``chain.on_its_cpu``).
    """

    method: Method
    taskset: Taskset
    chunk: int = 0
    _chains: dict[tuple[int, int], Chain] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The real-time tasks, most urgent first, as the tests see them."""
        return on_its_cpu(self.taskset).real_time

    @cached_property
    def users(self) -> tuple[bool, ...]:
        """For each task, whether it has kernels."""
        return tuple(needs_units(task) for task in self.tasks)

    @cached_property
    def ties(self) -> bool:
        """Whether several tasks have the same priority."""
        return len({task.priority for task in self.tasks}) < len(self.tasks)

    def monotone(self, units: int) -> bool:
        """Whether no kernel's bounds grow with units."""
        return all(one.monotone(units) for task in self.tasks for one in kernels(task))

    @cached_property
    def _best_effort(self) -> tuple[Chain, ...]:
        """The chains of best-effort tasks: only their copies matter, and copies do not depend on units."""
        found = [chain(task, 1) for task in self.taskset if task.best_effort]
        return tuple(merged(one) if self.method.merges else one for one in found)

    def chain(self, index: int, units: int) -> Chain:
        """The chain of one task on a number of units; computed once."""
        key = index, units if self.users[index] else 0
        if key not in self._chains:
            self._chains[key] = self.method.chain(self.tasks[index], units)
        return self._chains[key]

    def respond(self, index: int, units: Sequence[int], known: Mapping[str, int]) -> Response:
        """The method's response for a task if the tasks have these units.  ``known``: bounds of other tasks, ns."""
        task, found = self.tasks[index], [self.chain(i, given) for i, given in enumerate(units)]
        higher = [c for i, c in enumerate(found) if i != index and c.task.priority >= task.priority]
        lower = [c for c in found if c.task.priority < task.priority]
        sure = {c.name: known[c.name] for c in higher if c.task.priority > task.priority and c.name in known}
        return respond(self.method, found[index], Around(higher, (*lower, *self._best_effort), sure, self.chunk))

    def refusal(self) -> str | None:
        """Why the method has no verdict on this taskset; None if it has one."""
        for task in self.taskset:
            if task.gpu_priority not in (None, task.priority):
                return f"{task.name} has a GPU priority, and copies and CPU share one priority here"
            if task.best_effort and needs_units(task) and self.method.merges:
                return f"{task.name} is best effort, and nothing bounds how long its kernels keep the GPU"
            if task.best_effort and needs_units(task) and any(self.users):
                return f"{task.name} is best effort and has kernels, and {STRAY}"
            if not task.best_effort and any(segment.scaling for segment in task.gpu_segments):
                return f"{task.name} has a GPU time by parallel, serial or units; write it as kernel or kernel_times"
        return self._copies_beside() or self._shares()

    def no_search(self) -> str | None:
        """Why the method cannot find the units itself; None if it can."""
        plain = (task.name for task in self.taskset.real_time
                 if any(one.pure.worst and not one.parts for one in task.gpu_segments))  # fmt: skip
        why = "has a GPU time on one number of units: give all tasks partitions, or write it as kernel or kernel_times"
        name = next(plain, None)
        return self.refusal() or (name and f"{name} {why}")

    def _copies_beside(self) -> str | None:
        """A sentence on a task whose copies wait for kernels, as the GPU has no copy engine; None if none do."""
        if self.taskset.platform.copy_engine or not any(self.users):
            return None
        copying = (t.name for t in self.taskset if any(isinstance(p, Copy) for s in t.gpu_segments for p in s.parts))
        found = next(copying, None)
        why = "copies do not run beside kernels (copy_engine in [platform]), as they do in this test"
        return found and f"{found} copies, and {why}"

    def _shares(self) -> str | None:
        """A sentence on two tasks with kernels that have the same units in the file; None if each has its own."""
        users = [(task, task.partition) for task in self.taskset if task.partition and needs_units(task)]
        for (task, its), (other, others) in combinations(users, 2):
            if (its.name is not None and its.name == others.name) or (its.cu_mask or 0) & (others.cu_mask or 0):
                return f"{task.name} and {other.name} share units of the GPU, and each task with a kernel needs its own"
        return None


def on_units(system: System, units: Mapping[str, int]) -> Result:
    """The verdicts on all tasks under an allocation: units by task name; tasks without kernels need none."""
    reason = system.refusal()
    given = [units.get(task.name, 0) for task in system.tasks]
    lacking = [task.name for task, user, count in zip(system.tasks, system.users, given, strict=True)
               if user and count < 1]  # fmt: skip
    if lacking and reason is None:
        return failed(system, Reason.NO_UNITS, f"{lacking[0]} has a kernel and no unit of the GPU")
    if reason is not None:
        return failed(system, Reason.GPU_ORDER, reason)
    known: dict[str, int] = {}
    verdicts: dict[str, Verdict] = {task.name: BestEffort(task.name) for task in system.taskset if task.best_effort}
    needs: dict[str, frozenset[str]] = {}
    for index, task in enumerate(system.tasks):
        found = system.respond(index, given, known)
        verdicts[task.name], needs[task.name] = _verdict(task, found), found.rests_on
        if found.solved:
            known[task.name] = found.value
    _withdraw(verdicts, needs)
    listed = {task.name: verdicts[task.name] for task in system.taskset}
    return Result(system.method.name, listed, _named(system, given))


def _named(system: System, units: Sequence[int]) -> dict[str, int]:
    return {task.name: count for task, user, count in zip(system.tasks, system.users, units, strict=True) if user}


def failed(system: System, reason: Reason, why: str) -> Result:
    """A failure of every real-time task, for one reason."""
    return Result(
        system.method.name,
        {
            task.name: BestEffort(task.name) if task.best_effort
            else Failure(task.name, reason, task.deadline, culprit=why)
            for task in system.taskset
        },
    )  # fmt: skip


def _verdict(task: Task, found: Response) -> Verdict:
    if found.solved:
        return Bound(task.name, found.value, task.deadline, found.terms)
    reason = Reason.ABOVE_DEADLINE
    return Failure(task.name, reason, task.deadline, max(found.value, task.deadline + 1), found.terms)


def _withdraw(verdicts: dict[str, Verdict], needs: Mapping[str, frozenset[str]]) -> None:
    """Turns bounds that rest on a task without a bound into failures, until nothing changes."""
    while True:
        lost = {name for name, verdict in verdicts.items() if isinstance(verdict, Failure)}
        fallen = [name for name, verdict in verdicts.items() if isinstance(verdict, Bound) and needs[name] & lost]
        for name in fallen:
            verdict = verdicts[name]
            assert isinstance(verdict, Bound)
            culprit = min(needs[name] & lost)
            verdicts[name] = Failure(name, Reason.DEPENDS_ON, verdict.deadline, culprit=culprit)
        if not fallen:
            return
