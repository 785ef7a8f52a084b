# SPDX-License-Identifier: GPL-2.0
"""What windows of segments would give the bound of gcaps-suspend: python tests/analysis/gcaps_windows.py [TASKSETS].

A prototype, neither proved nor attacked (docs/readings/gcaps.md, "Windows"): owners, and the G^e of tasks above, delay
a task only inside its segments.  There its CPU also executes the tasks above, and owners wait for those above them, so
each window has all demands that recur.  Prints tasksets of table 3 with a bound for all tasks: given, and with windows.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from analysis.model import US, GpuSegment, Task
from analysis.model.fixed_point import Diverged, least_fixed_point
from analysis.papers import registry
from analysis.papers.experiments.generate import PAPER, generate, on_costs
from analysis.rta import gcaps
from analysis.rta.recurrence import Demand, Shared
from analysis.rta.result import TermKind
from analysis.rta.system import System

GIVEN = registry.find("gcaps-suspend")
#: Epsilon in us, and the load of each CPU.
CELLS = ((300, 0.3), (300, 0.2), (1000, 0.2), (0, 0.3), (0, 0.4))


def demands(task: Task, system: System) -> list[Demand | Shared]:
    """Those of gcaps-suspend, the ones for owners limited to what they take in windows."""
    given = gcaps.suspend(task, system)
    flat = [one for entry in given for one in (entry.demands if isinstance(entry, Shared) else (entry,))]
    recurring = [one for one in flat if one.period]
    windows = [_window(task, segment, recurring, system.epsilon) for segment in task.gpu_segments]
    found = [window for window in windows if window is not None]
    if len(found) < len(windows):
        return given
    return [_limited(one, found) if one.kind is TermKind.GPU_PREEMPTION else one for one in flat]


def _window(task: Task, segment: GpuSegment, recurring: list[Demand], epsilon: int) -> int | None:
    own = segment.misc.worst + segment.pure.worst + 3 * epsilon
    closed = 0 if own else 1
    try:
        window = least_fixed_point(lambda w: own + sum(d.at(w + closed) for d in recurring), own, task.deadline)
    except Diverged:
        return None
    return window + closed if window <= task.deadline else None


def _limited(one: Demand, windows: list[int]) -> Demand:
    inside = sum(one.at(window) for window in windows)
    return replace(one, instead=(Demand(one.kind, inside, "prototype: windows", one.source),))


WINDOWS = replace(GIVEN, demands=demands, compiled=None)


def accepted(epsilon: int, load: float, count: int) -> tuple[int, int]:
    """How many of so many tasksets both accept, at a load of each CPU and epsilon in us, of which 4/5 are alpha."""
    drawn = generate(replace(PAPER, load=(load, load)), 1, count)
    systems = on_costs(drawn, epsilon * US * 4 // 5, epsilon * US // 5)
    given, windows = ([test.run(one, brief=True).schedulable for one in systems] for test in (GIVEN, WINDOWS))
    assert not any(a and not b for a, b in zip(given, windows, strict=True)), "windows only ever help"
    return sum(given), sum(windows)


if __name__ == "__main__":
    tasksets = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for us, load in CELLS:
        given, windows = accepted(us, load, tasksets)
        print(f"epsilon {us} us, load {load}: of {tasksets}, {given} given, {windows} with windows")
