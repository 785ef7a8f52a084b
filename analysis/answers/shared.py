# SPDX-License-Identifier: GPL-2.0
"""`gpurt simulate` under a policy of the hosts, where tasks share the GPU in time.

Its counterpart is `analysis.simulation.federated`, where each task owns units of the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from analysis.answers.verdict import covering, lacks_theta
from analysis.model import Taskset, Waiting
from analysis.rta.regions import left_out
from analysis.simulation.simulate import Options, Simulation, simulate, worst_over_offsets
from analysis.traces.trace import Trace

#: How the simulator treats a file that does not say which part of epsilon is theta.
NO_SWITCHES = "theta is missing in [platform]: context switches cost nothing here, and updates all of epsilon"


def in_mode(taskset: Taskset, mode: Waiting | None) -> Taskset:
    """The taskset with all tasks in that mode; None: unchanged.  Tasks keep their forms if the mode allows them."""
    return replace(taskset, tasks=tuple(replace(task, waiting=mode) for task in taskset)) if mode else taskset


@dataclass(frozen=True)
class Shared:
    """A taskset under the options' policy."""

    taskset: Taskset
    options: Options

    @property
    def given(self) -> Mapping[str, int] | None:
        """No task owns units."""
        return None

    @property
    def notes(self) -> list[str]:
        """How bounds use the values of the file, and how the file is simulated."""
        free = not self.taskset.platform.theta_known and any(task.uses_gpu for task in self.taskset)
        return [*left_out(self.taskset), *([NO_SWITCHES] if free else [])]

    def bounds(self) -> dict[str, int]:
        """The bounds of a sound test of the simulated policy and waiting modes, ns by task; empty without a test."""
        taskset = in_mode(self.taskset, self.options.waiting)
        tests = covering(taskset, self.options.policy)
        if not tests or lacks_theta(tests[0], taskset):
            return {}
        result = tests[0].run(taskset)
        return {name: wcrt for name in result.verdicts if (wcrt := result.wcrt(name)) is not None}

    def worst_over_offsets(self, runs: int, progress: Callable[[int], None] | None = None) -> Simulation:
        """The worst response of each task over a number of runs.  Raises SimulationError."""
        return worst_over_offsets(self.taskset, self.options, runs, progress)

    def trace(self, room: int) -> Trace:
        """The run in which all first releases are at 0, of at most ``room`` events.  Raises SimulationError."""
        made = simulate(self.taskset, self.options, events=room).trace
        assert made is not None
        return made
