# SPDX-License-Identifier: GPL-2.0
"""The offline tables from which jobs get their units and their GPU."""

from __future__ import annotations

from analysis.energy.preferred import active_energy, best_utilization, mean_utilization, whole_utilization
from analysis.energy.setup import Setup
from gpurt.types import Document

#: Femtojoules in a microjoule.
_UJ = 10**9


def explained_tasks(setup: Setup) -> list[Document]:
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
