# SPDX-License-Identifier: GPL-2.0
"""The runlist of a taskset: an entry for each TSG, and the longest wait of each between two of its turns.

docs/readings/own.md, "Time partitions", has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from analysis.model import Task, Taskset
from analysis.model.driver import longest_slice, settled
from analysis.slices.supply import Supply
from gpurt._gpurt import lib


class Level(IntEnum):
    """How often a TSG has turns: the driver's interleave levels."""

    LOW = lib.GPURT_INTERLEAVE_LOW
    MEDIUM = lib.GPURT_INTERLEAVE_MEDIUM
    HIGH = lib.GPURT_INTERLEAVE_HIGH

    @property
    def word(self) -> str:
        """The word in taskset files."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Entry:
    """A TSG: its ``slice`` as set, the slice that the hardware ``kept`` (both ns), its level and its tasks."""

    slice: int
    kept: int
    level: Level
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Runlist:
    """All TSGs that may have work at the same time.  ``theta``: the switch to another TSG, ns.

    ``stretch``: as in `Platform`.
    """

    entries: tuple[Entry, ...]
    theta: int
    stretch: bool = False

    def turn(self, entry: Entry) -> int:
        """The longest turn of another entry, its context switch included, ns."""
        return longest_slice(entry.slice, self.stretch) + self.theta

    def gap(self, entry: Entry) -> int:
        """The longest time between two turns of an entry with work, or before its first one, ns.

        The gap holds for any subset of the other entries that have work or exist.  The longest wait has all entries of
        the own level and above, and the longest entry below it.
        """
        return sum(times * self.turn(other) for times, other in self.waits(entry)) + self.theta

    def waits(self, entry: Entry) -> list[tuple[int, Entry]]:
        """The turns of others in the longest time between two turns: the number of each, in the order of levels."""
        others = [other for other in self.entries if other is not entry]
        high, medium, low = ([one for one in others if one.level is level] for level in reversed(Level))
        if entry.level is Level.HIGH:
            return [(1, one) for one in high] + self._longest(medium + low)
        if entry.level is Level.MEDIUM:
            lower = min(len(low), 1)
            return [(len(medium) + lower + 1, one) for one in high] + [(1, one) for one in medium] + self._longest(low)
        rounds = len(low) + 1
        above = [(rounds * (len(medium) + 1), one) for one in high] + [(rounds, one) for one in medium]
        return above + [(1, one) for one in low]

    def _longest(self, entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
        """The entry with the longest turn among these, of which at most one has a turn."""
        return [(1, max(entries, key=self.turn))] if entries else []

    def supply(self, entry: Entry) -> Supply:
        """The least supply that the entry gets."""
        return Supply(entry.kept, self.gap(entry))

    def of(self, task: Task) -> Entry:
        """The entry of a task that uses the GPU."""
        return next(entry for entry in self.entries if task in entry.tasks)


def runlist(taskset: Taskset) -> Runlist:
    """The runlist of the taskset's tasks that use the GPU, best effort included."""
    entries: list[Entry] = []
    for tasks in tsgs(taskset):
        home = tasks[0].partition
        level = Level[home.interleave.upper()] if home and home.interleave else Level.LOW
        length = (home.slice if home else None) or taskset.platform.time_slice
        entries.append(Entry(length, settled(length), level, tasks))
    return Runlist(tuple(entries), taskset.platform.theta, taskset.platform.stretch)


def tsgs(taskset: Taskset) -> Iterable[tuple[Task, ...]]:
    """The tasks of each TSG: one task, or all tasks of a partition whose tasks share a TSG."""
    groups: dict[str, list[Task]] = {}
    for task in taskset:
        if not task.uses_gpu:
            continue
        home = task.partition
        if home and home.name and home.shared:
            groups.setdefault(f"partition {home.name}", []).append(task)
        else:
            groups[f"task {task.name}"] = [task]
    return [tuple(group) for group in groups.values()]
