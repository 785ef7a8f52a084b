# SPDX-License-Identifier: GPL-2.0
"""Slices and interleave levels from the tasks' demands: the least slices with which every task has a bound.

For given levels the search finds the least slices that pass, if any pass.  A longer slice of one TSG only lengthens
others' waits, so each slice can grow to the least that its own tasks need, until nothing changes.  With busy waiting
the search may miss solutions: a longer slice of a task also shortens the time that it takes from tasks of its CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.model import GpuSegment, Partition, Sharing, Span, Task, Taskset, Waiting
from analysis.model.conflicts import UNKNOWN_TIMES, under
from analysis.model.driver import DEFAULT, settable
from analysis.model.fold import parts_apart
from analysis.rta.analyse import analyse
from analysis.rta.recurrence import solve
from analysis.rta.regions import whole_segments
from analysis.rta.result import Bound, Result
from analysis.rta.system import System
from analysis.slices.bounds import demands
from analysis.slices.runlist import Entry, Level, Runlist, runlist
from gpurt.enums import Policy

#: How many choices of levels are tried.
MOST_LEVELS = 500
#: The name for TSGs of programs outside the file.
OTHERS = "(outside the file)"
#: Why there is no plan although the taskset may have one.
_NONE_FOUND = "no slices and levels were found with which every task that uses the GPU has a bound"


def plan_slices(taskset: Taskset) -> Runlist | None:
    """A runlist with which every real-time task that uses the GPU has a bound; None: none was found.

    First all TSGs have level low.  Then as few as possible are raised, those that need the GPU most urgently first.
    TSGs without real-time tasks keep their slices and levels.
    """
    whole = _seen(taskset)
    start = runlist(whole)
    planned = [at for at, entry in enumerate(start.entries) if any(not t.best_effort for t in entry.tasks)]
    planned.sort(key=lambda at: min(t.deadline - t.pure_time for t in start.entries[at].tasks if not t.best_effort))
    for levels in _levels(planned, [entry.level for entry in start.entries]):
        found = least_slices(whole, start, levels, planned)
        if found:
            return found
    return None


def _levels(planned: Sequence[int], given: Sequence[Level]) -> Iterator[list[Level]]:
    """The levels of all entries, fewest raised entries first; the most urgent rise most; the rest keep given levels."""
    choices = ((raised, high) for raised in range(len(planned) + 1) for high in range(raised + 1))
    for _, (raised, high) in zip(range(MOST_LEVELS), choices, strict=False):
        levels = list(given)
        for place, at in enumerate(planned):
            levels[at] = Level.HIGH if place < high else Level.MEDIUM if place < raised else Level.LOW
        yield levels


def least_slices(taskset: Taskset, start: Runlist, levels: Sequence[Level], planned: Sequence[int]) -> Runlist | None:
    """The least slices of the ``planned`` entries at these levels; None if no slices pass."""
    shortest = settable()[0]
    entries = [replace(entry, level=level) for entry, level in zip(start.entries, levels, strict=True)]
    for at in planned:
        entries[at] = replace(entries[at], slice=shortest, kept=shortest)
    changed = True
    while changed:
        changed = False
        for at in planned:
            slice_ = _least(taskset, replace(start, entries=tuple(entries)), at)
            if slice_ is None:
                return None
            if slice_ > entries[at].slice:
                entries[at] = replace(entries[at], slice=slice_, kept=slice_)
                changed = True
    return replace(start, entries=tuple(entries))


def _least(taskset: Taskset, table: Runlist, at: int) -> int | None:
    """The least slice of an entry, at least its present one, with which its tasks have bounds; None if none is."""
    choices = [slice_ for slice_ in settable() if slice_ >= table.entries[at].slice]
    if not choices or not _bounded(taskset, _with(table, at, choices[-1]), at):
        return None
    low, high = 0, len(choices) - 1
    while low < high:
        middle = (low + high) // 2
        if _bounded(taskset, _with(table, at, choices[middle]), at):
            high = middle
        else:
            low = middle + 1
    return choices[low]


def _with(table: Runlist, at: int, slice_: int) -> Runlist:
    entries = list(table.entries)
    entries[at] = replace(entries[at], slice=slice_, kept=slice_)
    return replace(table, entries=tuple(entries))


def _bounded(taskset: Taskset, table: Runlist, at: int) -> bool:
    """Whether the real-time tasks of an entry have bounds, where deadlines replace responses in every jitter."""
    entry = table.entries[at]
    formula = demands(sharing_of(entry), table, waiting_of(taskset))
    users = [task for task in entry.tasks if not task.best_effort]
    system = System(taskset)
    return all(isinstance(solve(task, formula(task, system)), Bound) for task in users)


def waiting_of(taskset: Taskset) -> Waiting | None:
    """The mode in which all its tasks wait for the GPU; None: each in its own mode."""
    modes = {task.waiting for task in taskset.real_time if task.uses_gpu}
    return next(iter(modes)) if len(modes) == 1 else None


def sharing_of(entry: Entry) -> Sharing:
    """The order in which its tasks use the TSG."""
    home = entry.tasks[0].partition
    return (home.shared if home else None) or Sharing.PRIORITY


def homes(taskset: Taskset, planned: Runlist) -> tuple[list[Partition], dict[str, str]]:
    """The [[partition]] tables of a file with that plan, and the table for each real-time task that uses the GPU.

    Tasks that share a TSG keep their partition, with the slice and level of the plan.  Each other task has a partition
    with the task's name, followed by a number if the name is taken.  Best-effort tasks keep theirs.
    """
    entries = {task.name: entry for entry in planned.entries for task in entry.tasks}
    users = [task for task in taskset.real_time if task.uses_gpu]
    mates = {task.partition.name for task in users if task.partition and task.partition.shared}
    needed = {task.partition.name for task in taskset if task.partition and task not in users} | mates
    made = {one.name: one for one in taskset.partitions if one.name in needed}
    names: dict[str, str] = {}
    for task in users:
        entry, home = entries[task.name], task.partition
        if home and home.shared:
            name, base = home.name or "", home
        else:
            name = next(n for n in (f"{task.name}{at or ''}" for at in (0, *range(2, len(made) + 3))) if n not in made)
            base = home or Partition()
        made[name] = replace(base, name=name, slice=entry.slice, interleave=entry.level.word)
        names[task.name] = name
    return list(made.values()), names


def with_others(taskset: Taskset, number: int) -> Taskset:
    """The taskset with ``number`` TSGs of other programs, which have the driver's default slice at level low."""
    home = Partition(slice=DEFAULT)
    work = (GpuSegment(Span.exactly(0), Span.exactly(DEFAULT)),)
    period = max((task.period for task in taskset), default=DEFAULT)
    added = (Task(f"{OTHERS} {n}", 0, 0, period, period, work, partition=home) for n in range(1, number + 1))
    return replace(taskset, tasks=(*taskset.tasks, *added))


def _seen(taskset: Taskset) -> Taskset:
    """The taskset as the bounds see it, under policy `timesliced`, unless `answer_with_slices` refuses it."""
    return whole_segments(parts_apart(under(taskset, Policy.TIMESLICED.word) or taskset))


def slices_verdict(taskset: Taskset, planned: Runlist) -> Result:
    """The bounds of all tasks with that runlist, by a test of `supply`."""
    shared = [entry for entry in planned.entries if len(entry.tasks) > 1]
    orders = {sharing_of(entry) for entry in shared if not all(task.best_effort for task in entry.tasks)}
    name, order = ("supply-edf", Sharing.DEADLINE) if orders == {Sharing.DEADLINE} else ("supply-fp", Sharing.PRIORITY)
    waiting = waiting_of(taskset)
    name += "-mixed" if waiting is None else "-busy" if waiting.spins else ""
    return analyse(name, demands(order, planned, waiting), _seen(taskset))


def answer_with_slices(taskset: Taskset) -> tuple[Runlist | None, Result | None, str]:
    """The plan, its bounds, and why nothing is proved (empty if all is); without a plan, the first two are None."""
    if why := _refusal(taskset):
        return None, None, why
    if (table := plan_slices(taskset)) is None:
        return None, None, _NONE_FOUND
    result = slices_verdict(taskset, table)
    return table, result, result.why


def _refusal(taskset: Taskset) -> str:
    """Why no slices prove anything about the taskset; empty if they can."""
    users = [task for task in taskset.real_time if task.uses_gpu]
    orders = {t.partition.shared for t in users if t.partition and t.partition.shared}
    if not users:
        return "no real-time task uses the GPU, so nothing was proved"
    if taskset.partitioned:
        return "the file has several partitions in space; slices are for TSGs that share the whole GPU"
    for task in users:  # in partitions of their own, TSGs of a partition with units would each have all these units
        if task.partition and task.partition.own_gpu:
            return (
                f"{task.name} is in partition {task.partition.name}, which is a part of the GPU; slices are for TSGs "
                "that share the whole GPU"
            )
    busy = [task.name for task in users if task.spins()]
    if busy and Sharing.DEADLINE in orders:
        return f"{busy[0]} waits busily; the bounds of TSGs that are shared by deadline are for tasks that suspend"
    if under(taskset, Policy.TIMESLICED.word) is None:
        return UNKNOWN_TIMES
    if not taskset.platform.theta_known:
        return "theta is missing in [platform], what a context switch of the GPU costs"
    return "some tasks share a TSG by priority and others by deadline; no test covers both" if len(orders) > 1 else ""
