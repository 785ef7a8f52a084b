# SPDX-License-Identifier: GPL-2.0
"""A virtual GPU for the fake drivers: groups of work that are switched on and off, time-sliced, in real time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

SLICE = 2_000_000


@dataclass(eq=False)
class Group:
    """A time-slice group or a user queue.  ``log``: what it executed, as (from, to) in ns."""

    name: str
    pid: int
    enabled: bool = True
    works: deque[list[int]] = field(default_factory=deque)  # number, ns that are left
    submitted: int = 0
    completed: int = 0
    turns: int = 0  # number of times that it was switched off
    number: int = 0  # in the whole machine
    slice_us: int = 1024
    level: int = 0
    mode: int = 4  # of compute preemption; 4: within kernels
    waiters: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    log: list[tuple[int, int]] = field(default_factory=list)

    def ready(self) -> bool:
        return self.enabled and bool(self.works)

    def facts(self) -> dict[str, object]:
        """Further facts that a driver's model tells a test."""
        return {}

    def note(self, start: int, end: int) -> None:
        if self.log and self.log[-1][1] == start:
            self.log[-1] = (self.log[-1][0], end)
        else:
            self.log.append((start, end))


class Engine:
    """Executes the groups' work, one group at a time, a slice each."""

    def __init__(self, now: int) -> None:
        self.groups: list[Group] = []
        self.current: Group | None = None
        self.slice_end = 0
        self.now = now
        self.order: list[tuple[str, int]] = []  # completed work, in order
        self.only: set[int] | None = None  # processes on the runlist of a patched driver; None: all

    def submit(self, group: Group, duration: int) -> int:
        group.submitted += 1
        group.works.append([group.submitted, max(duration, 1)])
        return group.submitted

    def runs(self, group: Group) -> bool:
        """Whether the group has work, and is on the runlist."""
        return group.ready() and (self.only is None or group.pid in self.only)

    def restrict(self, pids: set[int] | None) -> None:
        """A patched driver's update: whoever is not in the new runlist is off the GPU now."""
        self.only = pids
        if self.current and not self.runs(self.current):
            self.current = None

    def finish(self, pid: int) -> None:
        """Leaves 1 ns of each work of a process: it completes as soon as its group has the GPU."""
        for group in self.groups:
            if group.pid == pid:
                for work in group.works:
                    work[1] = 1

    def preempt(self, group: Group) -> None:
        """Takes a group off the GPU now."""
        if self.current is group:
            self.current = None

    def remove(self, group: Group) -> None:
        self.preempt(group)
        if group in self.groups:
            self.groups.remove(group)

    def _choose(self) -> None:
        """Chooses the group that runs.  A disabled group keeps the GPU until its slice ends or it is preempted."""
        held = self.current
        if held and held.works and self.now < self.slice_end:
            return
        self.current = next((group for group in self.groups if self.runs(group)), None)
        if self.current:
            self.groups.remove(self.current)
            self.groups.append(self.current)
            self.slice_end = self.now + SLICE

    def advance(self, now: int) -> None:
        """Lets time pass."""
        while True:
            self._choose()
            group = self.current
            if group is None:
                break
            work = group.works[0]
            end = min(self.now + work[1], self.slice_end)
            if end > now:
                group.note(self.now, now)
                work[1] -= now - self.now
                break
            group.note(self.now, end)
            work[1] -= end - self.now
            self.now = end
            if not work[1]:
                self._complete(group)
        self.now = now

    def _complete(self, group: Group) -> None:
        number, _ = group.works.popleft()
        group.completed = number
        self.order.append((group.name, number))
        for wake in group.waiters.pop(number, []):
            wake()

    def next(self) -> int | None:
        """The next time at which the state changes without a call."""
        self._choose()
        if self.current is None:
            return None
        return min(self.now + self.current.works[0][1], self.slice_end)
