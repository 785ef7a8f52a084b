# SPDX-License-Identifier: GPL-2.0
"""`gpurt simulate --energy`: what a run costs under a policy that shares the GPU in time."""

from __future__ import annotations

from pathlib import Path

from analysis.energy.power import Energy, union
from analysis.energy.timesliced import TimeSliced, energy, load_timesliced, sliced_executions, with_power
from analysis.model import Taskset
from analysis.traces.trace import Trace
from gpurt.errors import UsageError
from gpurt.types import Document
from pycontrol.output import render
from pycontrol.output.energy import energy_data, joules


class Costs:
    """The energy of one run over [0, horizon), ns, from the file's offsets, and the jobs that missed in it."""

    def __init__(self, system: TimeSliced) -> None:
        self.system = system
        self.energy: Energy | None = None
        self.horizon = self.busy = self.judged = self.missed = 0

    @classmethod
    def asked(cls, file: Path, energy: bool, units: str) -> Costs | None:
        """The costs that options ask for; None without --energy.  Raises as analysis.energy.timesliced.load does."""
        if not energy:
            if units != "whole":
                raise UsageError("--kernel-units goes with --energy")
            return None
        return cls(load_timesliced(file, units == "opt"))

    @property
    def taskset(self) -> Taskset:
        """The file's tasks."""
        return self.system.taskset

    @property
    def offsets(self) -> tuple[int, ...]:
        """Their first releases, ns."""
        return self.system.offsets

    @property
    def notes(self) -> list[str]:
        """Remarks for the user."""
        return list(self.system.notes)

    def add(self, trace: Trace, horizon: int) -> Trace:
        """Counts a run's trace; returns it with a counter of the GPU's power.  Raises UsageError if it is not whole."""
        self.horizon, self.energy = horizon, energy(self.system, trace, horizon)
        runs = sliced_executions(self.system, trace)
        self.busy = union((one.start, min(one.end, horizon)) for one in runs if one.start < horizon)
        due = {task.name: task.deadline for task in self.taskset}
        times = {name: {job.release: job.response for job in jobs} for name, jobs in trace.responses().items()}
        for event in trace.events:
            if event.kind.value == "release" and event.time + due[event.task] < horizon:
                self.judged += 1
                response = times.get(event.task, {}).get(event.time)
                self.missed += response is None or response > due[event.task]
        return with_power(self.system, trace, horizon)

    def document(self) -> Document:
        """The further keys of the JSON document: energies in uJ, and the jobs of the run that was priced."""
        assert self.energy
        return {
            **energy_data(self.energy), "busy_ns": self.busy, "horizon_ns": self.horizon,
            "judged_jobs": self.judged, "missed_jobs": self.missed, "units_by_task": dict(self.system.units),
        }  # fmt: skip

    def text(self) -> str:
        """The energy, by its parts."""
        assert self.energy
        parts = (self.energy.total, self.energy.static, self.energy.idle, self.energy.dynamic)
        good = self.judged - self.missed
        cells = [*map(joules, parts), f"{100 * self.busy / self.horizon:.2f}", str(self.judged), str(self.missed),
                 joules(self.energy.total // good) if good else "-"]  # fmt: skip
        headers = ("J", "static", "idle", "dynamic", "busy %", "jobs", "missed", "J/job in time")
        table = render.table(headers, [tuple(cells)])
        return f"energy of {render.ms(self.horizon)} ms from the file's offsets:\n{table}"
