# SPDX-License-Identifier: GPL-2.0
"""Short suspensions of tasks above on the CPU, charged as sleep instead of jitter, where all tasks suspend themselves.

For a task above that sleeps seldom, the time that it can sleep costs less than jitter.  Its jobs then need no jitter,
and all tasks above it can be pending longer by that time.  The proof: docs/readings/boosted.md, "Short suspensions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from analysis.model import Task
from analysis.rta.system import System
from analysis.rta.windows import MAX_GPU_USERS, longest_inside

#: Rates are added as integers, scaled by this.
RATE_SCALE = 1 << 20


@dataclass(frozen=True)
class Short:
    """Tasks charged for their sleep; by name: how long a job is inside its segments, priority, segments of a job."""

    inside: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    segments: Mapping[str, int] = field(default_factory=dict)

    def from_level(self, priority: int) -> int:
        """By how much tasks of that priority can be pending longer than the task: the sleep of tasks up to there."""
        return sum(time for name, time in self.inside.items() if self.levels[name] <= priority)

    @property
    def longest(self) -> int:
        """``from_level`` for the most urgent task."""
        return sum(self.inside.values())

    @property
    def gaps(self) -> int:
        """The number of gaps, beyond the task's own, in which a lower task can execute raised."""
        return sum(self.segments.values())

    def above(self, priority: int) -> int:
        """``gaps``, counting only tasks above that priority."""
        return sum(count for name, count in self.segments.items() if self.levels[name] > priority)


NONE = Short()


def short(task: Task, system: System, outside: Callable[[Task], int]) -> Short:
    """The tasks whose sleep costs less than jitter, compared by the lower bounds that ceil(y) >= y gives.

    ``outside``: the CPU time of a job outside of segments.  Tasks of equal priority, and tasks of which several jobs
    can be pending, are never among them.
    """
    if system.assumed or system.taskset.threads or len(system.gpu_tasks) > MAX_GPU_USERS:
        return NONE
    higher = system.hpp(task)
    rate, found = 0, []
    for h in higher:
        own = outside(h) * RATE_SCALE // h.period
        rate += own
        alone = sum(other.priority == h.priority for other in system.on_cpu(task.cpu)) == 1
        if not (h.uses_gpu and own and alone) or h.pends:
            continue
        if _inside(h, system) * rate < own * system.jitter(h, outside(h)):
            found.append(h)
    return Short(
        {h.name: _inside(h, system) for h in found}, {h.name: h.priority for h in found}, {h.name: h.eta for h in found}
    )


def _inside(h: Task, system: System) -> int:
    """The longest time that a job is inside its segments."""
    return system.once(f"length {h.name}", lambda: longest_inside(h, system))
