# SPDX-License-Identifier: GPL-2.0
"""A system together with a policy and its tables: everything that decisions need besides the state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from analysis.energy.distribute import algorithm4, packed, static_sets
from analysis.energy.policies import Readings, UnitsPolicy, UnitsRule
from analysis.energy.preferred import (
    active_energy,
    best_units,
    best_utilization,
    mean_utilization,
    preference,
    whole_utilization,
)
from analysis.model.energy import PoweredKernel, SpatialGpu, SpatialSystem
from gpurt.types import Document

#: Femtojoules in a microjoule.
_UJ = 10**9
#: STGM's number of workers.
STGM_WORKERS = 8


@dataclass(frozen=True)
class Setup:
    """The tables of a policy.

    ``best``: m^opt by task and GPU, 0 if the task cannot run there; ``preferred``: Pi by task; ``assigned``: x by task;
    ``sets``: STGM's units by task.  ``fell_back``: STGM could not place its sets, and the rule is WHOLE.
    """

    system: SpatialSystem
    policy: UnitsPolicy
    options: Readings
    best: tuple[tuple[int, ...], ...]
    preferred: tuple[tuple[int, ...], ...]
    assigned: tuple[int, ...]
    sets: tuple[frozenset[int], ...] = field(default=())
    fell_back: bool = False

    @property
    def rule(self) -> UnitsRule:
        """How jobs get units."""
        return UnitsRule.WHOLE if self.fell_back else self.policy.rule

    @property
    def hold_job(self) -> bool:
        """Whether units and slots are held until the copy out is done; always so with one job at a time."""
        return self.options.hold_job or self.options.copies or self.rule is UnitsRule.WHOLE

    def slots(self, gpu: SpatialGpu) -> int:
        """The most jobs that the policy runs on a GPU at a time."""
        return {UnitsRule.WHOLE: 1, UnitsRule.STATIC: STGM_WORKERS}.get(self.rule, gpu.slots)

    def kernel(self, task: int, gpu: int) -> PoweredKernel:
        """The kernel of a task on a GPU that can run it."""
        return self.system.tasks[task].on(gpu)


#: The chosen readings.
CHOSEN = Readings()


def prepare_tables(system: SpatialSystem, policy: UnitsPolicy, options: Readings = CHOSEN) -> Setup:
    """The tables for a system and a policy.

    Raises ValueError if the policy is for one GPU and the system has more, or if a measured energy is missing.
    """
    if policy.single and len(system.gpus) != 1:
        several = f"and there are {len(system.gpus)}; sbeet-mg takes several"
        raise ValueError(f"policy {policy.name} is for one GPU, {several}")
    measured = options.measured
    if measured and (lacking := _unmeasured(system)):
        raise ValueError(f"m^opt by measured energies needs measured_power, and {lacking}")
    system = counted(system, options)
    best = tuple(
        tuple(
            0 if kernel is None else best_units(kernel, gpu, measured)
            for kernel, gpu in zip(task.kernels, system.gpus, strict=True)
        )
        for task in system.tasks
    )
    preferred = tuple(preference(system, task, measured) for task in system.tasks)
    assigned = packed(system, policy.packing) if policy.packing else algorithm4(system, options.at_best, measured)
    sets = static_sets(system) if policy.rule is UnitsRule.STATIC else ()
    return Setup(system, policy, options, best, preferred, assigned, sets or (), sets is None)


def counted(system: SpatialSystem, options: Readings) -> SpatialSystem:
    """The system as decisions and energies see it: if copies draw active power, kernels include their copies."""
    if not options.copies:
        return system
    tasks = (replace(task, kernels=tuple(one and _with_copies(one) for one in task.kernels)) for task in system.tasks)
    return SpatialSystem(system.gpus, tuple(tasks))


@lru_cache(maxsize=4096)
def _with_copies(kernel: PoweredKernel) -> PoweredKernel:
    """A kernel whose times include its copies; measured energies stay those of the kernel alone."""
    more = kernel.copy_in + kernel.copy_out
    return replace(kernel, times=kernel.times.changed(lambda time: time + more), copy_in=0, copy_out=0)


def _unmeasured(system: SpatialSystem) -> str | None:
    """The first task and GPU that lack measured energies."""
    pairs = ((task, gpu) for task in system.tasks for gpu in task.places if not task.on(gpu).measured)
    return next((f"{task.profile or task.name} has none on {system.gpus[gpu].name}" for task, gpu in pairs), None)


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
