# SPDX-License-Identifier: GPL-2.0
"""The judge's part that finds whether a task's thread sleeps while its GPU work executes, as its file says."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.model import Task
from analysis.traces.trace import Event
from gpurt.units import exact_ms
from pycontrol.observe.judge.finding import Log, What
from pycontrol.observe.judge.seen import OpenJob

#: If the thread slept in this many jobs in a row, it was not preempted.
JOBS_IN_A_ROW = 10
#: Marks and clocks take time themselves: less sleep than this proves nothing, ns.
LEAST_SLEPT_NS = 200_000
#: The machine's own work may take a CPU for NOISE_NS in one job, ns, and for less in NOISY_JOBS jobs in a row.
NOISE_NS, NOISY_JOBS = 10_000_000, 3


@dataclass
class Slept:
    """Looks at whole jobs whose execution time and GPU ownership are known.

    ``unsure``: the tasks that suspend by the file, and had a job that may have spun in its segments, and slept outside.
    """

    log: Log
    unsure: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _slept: dict[str, int] = field(default_factory=dict)
    _off: dict[str, int] = field(default_factory=dict)

    def job(self, task: Task, job: OpenJob, event: Event, costs: int) -> None:
        """A job is over; ``costs``: of the updates inside its segments, ns."""
        if event.executed is None or job.start is None or task.best_effort or task.name in self._told:
            return
        work = job.owned - task.misc_time - costs  # for this long its GPU work executed, or others had its CPU
        idle = max(event.time - job.start - event.executed, 0)
        if not task.waiting.spins and work > LEAST_SLEPT_NS and 2 * idle < work:
            self._tell(
                task, event, f"its thread slept for {exact_ms(idle)}, and its GPU work took {exact_ms(work)} at least: "
                "it waits busily, and the file says that it suspends"
            )  # fmt: skip
        elif not task.waiting.spins and work > LEAST_SLEPT_NS and 2 * event.executed > work:
            self.unsure.add(task.name)
        elif task.waiting.spins and job.owned > LEAST_SLEPT_NS:
            self._slept[task.name] = self._slept.get(task.name, 0) + 1 if 10 * idle >= 9 * job.owned else 0
            if self._slept[task.name] == JOBS_IN_A_ROW:
                self._tell(
                    task, event, "its thread slept for as long as its segments owned the GPU, "
                    f"in {JOBS_IN_A_ROW} jobs in a row: it suspends, and the file says that it waits busily"
                )  # fmt: skip

    def outside(self, task: Task, job: OpenJob, event: Event, most: int | None, costs: int) -> None:
        """Judges the same job outside its segments; ``most``: how long others may have its CPU, ns; None: not known.

        A spinning thread sleeps in its segments until it owns the GPU; a suspending thread sleeps through them.
        """
        if event.executed is None or job.start is None or most is None or task.best_effort or task.name in self._told:
            return
        segments = job.inside - job.owned if task.waiting.spins else job.inside
        off = event.time - job.start - event.executed - segments - costs
        self._off[task.name] = self._off.get(task.name, 0) + 1 if off > most + LEAST_SLEPT_NS else 0
        if off > most + NOISE_NS or self._off[task.name] == NOISY_JOBS:
            self._tell(
                task, event, f"its thread was off its CPU for {exact_ms(off)} outside its GPU segments, of which other "
                f"tasks of the file take {exact_ms(most)} at most: it sleeps there, or other work has its CPU"
            )  # fmt: skip

    def _tell(self, task: Task, event: Event, text: str) -> None:
        self._told.add(task.name)
        self.log.add(event.time, What.WAITING, task.name, text, event.job)
