# SPDX-License-Identifier: GPL-2.0
"""Why a job got its units and its GPU: the offline tables, and what was compared at an instant of a run."""

from __future__ import annotations

from analysis.energy import simulate
from analysis.energy.allocate import candidate, candidates
from analysis.energy.baselines import decide
from analysis.energy.outcome import EnergyRun
from analysis.energy.policies import UnitsRule
from analysis.energy.preferred import active_energy, best_utilization, mean_utilization, whole_utilization
from analysis.energy.setup import Setup
from analysis.energy.state import Dispatching, ReleasedJob, UnitsState, is_full
from gpurt.types import Document

#: Femtojoules in a microjoule.
_UJ = 10**9


def tasks(setup: Setup) -> list[Document]:
    """A row for each task and each GPU that can run it; utilizations are fractions."""
    rows = []
    for index, task in enumerate(setup.system.tasks):
        for gpu in task.places:
            device, best = setup.system.gpus[gpu], setup.best[index][gpu]
            rows.append({
                "task": task.name, "gpu_name": device.name, "best_units": best,
                "active_uj": round(active_energy(task.on(gpu), device, best) / _UJ),
                "mean_utilization": mean_utilization(task, device, gpu),
                "best_utilization": best_utilization(task, device, gpu),
                "whole_utilization": whole_utilization(task, device, gpu),
                "preference": setup.preferred[index].index(gpu) + 1, "assigned": setup.assigned[index] == gpu,
            })  # fmt: skip
    return rows


def decisions(setup: Setup, at: int) -> list[Document]:
    """The decisions of a run at time ``at``, in order, with what algorithm 2 compared on an idle assigned GPU."""
    found: list[Document] = []

    def watch(setup: Setup, state: UnitsState, job: ReleasedJob) -> Dispatching | None:
        decision = decide(setup, state, job)
        if state.now == at:
            found.append(_decision(setup, state, job, decision))
        return decision

    simulate.dispatches_of(setup, EnergyRun(at + 1), watch)
    return found


def _why(setup: Setup, state: UnitsState, job: ReleasedJob, decision: Dispatching | None) -> str:
    """The rule of algorithms 2 and 5 that decided, in words."""
    home = setup.assigned[job.task]
    name = setup.system.gpus[home].name
    if decision is None and is_full(setup, state, home):
        return f"{name} is full; to wait keeps the deadline, or no other GPU is better"
    if decision is None:
        return "beside the running job a deadline would be missed, or the whole GPU is faster after it"
    if decision.gpu != home:
        if is_full(setup, state, home) and not setup.options.weigh:
            return f"to wait for {name}, where the task belongs, would be too late"
        stay = "to wait for" if is_full(setup, state, home) else "on"
        return f"less energy than {stay} {name}, where the task belongs"
    if state.running[home]:
        return f"the free units of {name}, up to m^opt, keep all deadlines"
    best = setup.best[job.task][home]
    if setup.rule is UnitsRule.MIGRATE and (decision.units != best or not candidate(setup, state, home, job, best).ok):
        return "no GPU keeps all deadlines: all units of its own (algorithm 5, line 17)"
    if setup.rule is UnitsRule.MIGRATE:
        return f"m^opt units of {name} keep all deadlines, with the least energy"
    kept = any(one.ok for one in candidates(setup, state, home, job))
    return f"the least energy of those that {'keep all deadlines' if kept else 'there are: none keeps all deadlines'}"


def _decision(setup: Setup, state: UnitsState, job: ReleasedJob, decision: Dispatching | None) -> Document:
    task, home = setup.system.tasks[job.task], setup.assigned[job.task]
    compared = [] if state.running[home] else candidates(setup, state, home, job)
    return {
        "time_ns": state.now, "task": task.name, "job": job.number, "units": decision.units if decision else 0,
        "gpu_name": setup.system.gpus[decision.gpu].name if decision else None,
        "why": _why(setup, state, job, decision),
        "candidates": [
            {"units": one.units, "in_time": one.ok, "energy_uj": round(one.energy / _UJ), "finish_ns": one.finish}
            for one in compared
        ],
    }  # fmt: skip
