# SPDX-License-Identifier: GPL-2.0
"""The input of partitioning: tasks whose GPU work scales with compute units, and the sizes that partitions may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from analysis.model import Kernel
from analysis.model.kernel import ALONE

#: Utilizations are integers in units of 2^-SHIFT, rounded down for each task, so that sums do not depend on an order.
SHIFT = 30


@dataclass(frozen=True)
class Item:
    """A task as the partitioning sees it.  Times are ns.

    ``memory``: memory intensive, else compute intensive (definition 1).  ``curves``: its GPU segments' times.
    ``factor``: multiplies these times under a conflict.  ``always``: multiplies them in every case. ``fixed``: the part
    of a job that no size changes.  ``priority``: larger is more urgent.  ``segments``: the number of a job's GPU
    segments.
    """

    name: str
    period: int
    deadline: int
    memory: bool
    curves: tuple[Kernel, ...]
    factor: Fraction = ALONE
    always: Fraction = ALONE
    fixed: int = 0
    priority: int = 0
    segments: int = 1

    def time(self, units: int, conflict: bool) -> int:
        """C_i on ``units`` units, ns.  Raises ValueError below ``smallest``."""
        factor = self.always * self.factor if conflict else self.always
        return self.fixed + sum(curve.worst(units, factor) for curve in self.curves)

    @property
    def smallest(self) -> int:
        """The least number of units on which its time is known."""
        return max((curve.smallest for curve in self.curves), default=1)


@dataclass(frozen=True)
class Workload:
    """Tasks, the GPU's ``units``, the ``sizes`` that a partition may have (ascending), the test used ``inside``.

    ``most``: the most partitions that there may be; None: any number.
    """

    items: tuple[Item, ...]
    units: int
    inside: str = "fp"
    sizes: tuple[int, ...] = ()
    most: int | None = None
    _times: dict[tuple[int, int, bool], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def allowed(self) -> tuple[int, ...]:
        """The sizes that a partition may have and that do not exceed the GPU's units, ascending."""
        return tuple(size for size in self.sizes or range(1, self.units + 1) if size <= self.units)

    def time(self, index: int, units: int, conflict: bool) -> int:
        """C_i of a task on ``units`` units, ns."""
        key = index, units, conflict
        if key not in self._times:
            self._times[key] = self.items[index].time(units, conflict)
        return self._times[key]

    def smallest(self, tasks: Iterable[int]) -> int:
        """The least number of units on which the times of all these tasks are known."""
        return max(self.items[index].smallest for index in tasks)

    def conflicts(self, tasks: Sequence[int]) -> tuple[bool, bool]:
        """Whether compute tasks of this set conflict, and whether memory tasks do: two of one type do (section 4.2)."""
        memory = sum(self.items[index].memory for index in tasks)
        return len(tasks) - memory >= 2, memory >= 2

    def times(self, tasks: Sequence[int], units: int) -> list[int]:
        """C_i(S, m) of each task of a set S on m units, ns."""
        flags = self.conflicts(tasks)
        return [self.time(index, units, flags[self.items[index].memory]) for index in tasks]

    def utilization(self, tasks: Sequence[int], units: int) -> int:
        """U of definition 4, divided by periods, in units of 2^-SHIFT."""
        times = self.times(tasks, units)
        return sum((time << SHIFT) // self.items[index].period for index, time in zip(tasks, times, strict=True))

    def load(self, tasks: Sequence[int]) -> int:
        """The scheduled load of a set: its work on the fewest units with known times, in units of 2^-SHIFT."""
        flags = self.conflicts(tasks)
        total = 0
        for index in tasks:
            item = self.items[index]
            work = item.smallest * self.time(index, item.smallest, flags[item.memory])
            total += (work << SHIFT) // item.period
        return total
