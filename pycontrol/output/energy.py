# SPDX-License-Identifier: GPL-2.0
"""The output of the energy commands: sums over runs, tables for people, and objects of the JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.energy.bounds import energy_bounds
from analysis.energy.outcome import EnergyOutcome, EnergyRun
from analysis.energy.power import Energy
from analysis.energy.setup import Setup
from analysis.model.energy import J
from gpurt.types import Document, DocumentView
from pycontrol.output import render
from pycontrol.output.render import ms

#: The number of femtojoules in a microjoule.
_UJ = 10**9


def joules(energy: int) -> str:
    """An energy in J with six digits."""
    return f"{energy / J:.6f}"


def energy_data(energy: Energy) -> dict[str, int]:
    """An energy and its parts, uJ, rounded."""
    parts = {"static": energy.static, "idle": energy.idle, "dynamic": energy.dynamic, "energy": energy.total}
    return {f"{name}_uj": round(part / _UJ) for name, part in parts.items()}


class Sum:
    """The outcomes of several runs of a policy, added up."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.name = setup, setup.policy.name
        self.limits = energy_bounds(setup)
        self.outcomes = 0
        self.energy, self.away, self.overflows = Energy(0, 0, 0), 0, 0
        self.gpus = [Energy(0, 0, 0) for _ in setup.system.gpus]
        self.busy = [0] * len(self.gpus)
        self.tasks = [{"released": 0, "judged": 0, "late": 0, "skipped": 0} for _ in setup.system.tasks]
        self.lateness: list[int | None] = [None] * len(self.tasks)
        self.time = 0

    def add(self, outcome: EnergyOutcome, run: EnergyRun) -> None:
        """Adds a run."""
        self.energy += outcome.energy
        self.away += outcome.away
        self.overflows += outcome.overflows
        self.time += outcome.end
        for index, gpu in enumerate(outcome.gpus):
            self.gpus[index] += gpu.energy
            self.busy[index] += gpu.busy
        for index, task in enumerate(outcome.tasks):
            for key in self.tasks[index]:
                self.tasks[index][key] += getattr(task, key)
            if task.lateness is not None:
                known = self.lateness[index]
                self.lateness[index] = task.lateness if known is None else max(known, task.lateness)

    def total(self, key: str) -> int:
        """The sum of a count over all tasks."""
        return sum(task[key] for task in self.tasks)

    @property
    def judged(self) -> int:
        """Jobs whose deadline is before the horizon."""
        return self.total("judged")

    @property
    def missed(self) -> int:
        """The judged jobs that missed their deadline."""
        return self.total("late") + self.total("skipped")

    @property
    def in_time(self) -> bool:
        """Whether jobs of each task were judged, and none missed its deadline."""
        return all(task["judged"] for task in self.tasks) and not self.missed

    def responses(self) -> list[int | None]:
        """The longest response time of each task's jobs that ran, ns."""
        tasks = self.setup.system.tasks
        pairs = zip(self.lateness, tasks, strict=True)
        return [None if lateness is None else lateness + task.deadline for lateness, task in pairs]

    @property
    def above(self) -> bool:
        """Whether a job exceeded its bound."""
        pairs = zip(self.responses(), self.limits or [], strict=False)
        return any(seen is not None and bound is not None and seen > bound for seen, bound in pairs)

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        return 6 if self.above else 0 if self.in_time else 1

    def notes(self) -> list[str]:
        """Remarks for the user."""
        found = []
        if self.setup.fell_back:
            found.append(f"{self.name}: no static units keep the utilization at 1: it is rm on the whole GPU")
        if self.overflows:
            found.append(f"{self.name}: {self.overflows} decisions saw more future jobs than they have room for")
        if self.limits is None:
            found.append(f"{self.name}: no bound is known; what was seen is no guarantee (docs/energy.md)")
        return found

    def document(self) -> Document:
        """The JSON object of this policy."""
        system = self.setup.system
        seen, limits = self.responses(), self.limits or [None] * len(system.tasks)
        tasks = {
            task.name: {**_jobs(counts), "mort_ns": response, "wcrt_ns": limit, "deadline_ns": task.deadline}
            for task, counts, response, limit in zip(system.tasks, self.tasks, seen, limits, strict=True)
        }  # fmt: skip
        gpus = [{"name": gpu.name, "busy_ns": busy, **energy_data(energy)}
                for gpu, busy, energy in zip(system.gpus, self.busy, self.gpus, strict=True)]  # fmt: skip
        return {
            "policy": self.name, **_jobs({key: self.total(key) for key in self.tasks[0]}), "migrated_jobs": self.away,
            "overflows": self.overflows, **energy_data(self.energy), "in_time": self.in_time, "tasks": tasks,
            "gpus": gpus,
        }  # fmt: skip


def _jobs(counts: Mapping[str, int]) -> dict[str, int]:
    """Numbers of jobs under the JSON documents' names."""
    named = {f"{key}_jobs": count for key, count in counts.items()}
    return {**named, "missed_jobs": counts["late"] + counts["skipped"]}


def energy_text(found: Sequence[Sum]) -> str:
    """The table of all policies; for a single policy also its tasks and GPUs."""
    headers = ("policy", "jobs", "late", "skipped", "missed %", "J", "static", "idle", "dynamic", "J/job in time",
               "moved")  # fmt: skip
    rows = []
    for one in found:
        share, good = (100 * one.missed / one.judged if one.judged else 0), one.judged - one.missed
        parts = (one.energy.total, one.energy.static, one.energy.idle, one.energy.dynamic)
        each = joules(one.energy.total // good) if good else "-"
        rows.append((one.name, str(one.judged), str(one.total("late")), str(one.total("skipped")), f"{share:.2f}",
                     *map(joules, parts), each, str(one.away)))  # fmt: skip
    lines = [render.table(headers, rows)]
    if len(found) == 1:
        lines += ["", _tasks(found[0]), "", _gpus(found[0])]
    if unseen := [task.name for at, task in enumerate(found[0].setup.system.tasks) if not found[0].tasks[at]["judged"]]:
        lines.append(f"no job of {', '.join(unseen)} was due before the horizon")
    return "\n".join(lines)


def _tasks(one: Sum) -> str:
    rows = []
    limits = one.limits or [None] * len(one.tasks)
    for task, counts, seen, limit in zip(one.setup.system.tasks, one.tasks, one.responses(), limits, strict=True):
        rows.append((task.name, *(str(counts[key]) for key in ("judged", "late", "skipped")), ms(seen),
                     render.bound(limit), ms(task.deadline)))  # fmt: skip
    return render.table(("task", "jobs", "late", "skipped", "MORT ms", "WCRT ms", "deadline ms"), rows)


def _gpus(one: Sum) -> str:
    rows = []
    for gpu, busy, energy in zip(one.setup.system.gpus, one.busy, one.gpus, strict=True):
        parts = (energy.total, energy.static, energy.idle, energy.dynamic)
        rows.append((gpu.name, f"{100 * busy / one.time:.2f}", *map(joules, parts)))
    return render.table(("GPU", "busy %", "J", "static", "idle", "dynamic"), rows)


def explain_text(rows: Sequence[DocumentView]) -> str:
    """The table of `energy explain`."""
    headers = ("task", "GPU", "m^opt", "active mJ", "U mean", "U at m^opt", "U whole", "preferred", "assigned")
    cells = [(row["task"], row["gpu_name"], str(row["best_units"]), f"{row['active_uj'] / 1000:.3f}",
              f"{float(row['mean_utilization']):.5f}", f"{float(row['best_utilization']):.5f}",
              f"{float(row['whole_utilization']):.5f}", str(row["preference"]), "yes" if row["assigned"] else "")
             for row in rows]  # fmt: skip
    return render.table(headers, cells)
