# SPDX-License-Identifier: GPL-2.0
"""Ways to run a taskset that divide the GPU's units among its tasks, to compare with those that share it in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from analysis.answers import choose, coupled, registry
from analysis.answers import partitions as plan
from analysis.model import Taskset, Waiting
from analysis.partition.inside import response_inside
from analysis.partition.merge import Infeasible, partition_jobs
from analysis.rtgpu import allocate
from analysis.rtgpu.analyse import System, Units, on_units
from analysis.rtgpu.method import METHODS
from analysis.rtgpu.verdict import UnitsTest, stated_units

#: The ways: tasks own units and suspend, or wait busily; partitions, in which tasks are scheduled by priority.
FEDERATED, FEDERATED_BUSY, PARTITIONS = "federated", "federated-busy", "partitions"
#: The needs of a federated way that no host meets.
NO_HOST = "no host keeps kernels on their units or copies on the bus: the programs have to (docs/rtgpu.md)"
#: What partitions need.
OWN_GPUS = "the GPU has to offer these partitions, each one scheduled as a GPU of its own (docs/partitioning.md)"
#: Most tasks for which partitions are planned where CPUs are shared: `gpurt plan modes` is quick.
MOST_COUPLED = 24
NO_UNITS = "[platform] has no compute_units: say how many SMs or CUs the GPU has"


@dataclass(frozen=True)
class Division:
    """One way to divide the GPU.

    ``slacks``: (D - R) / D of each real-time task, least first; empty if the way cannot be had, and ``why`` says why.
    ``units``: of each task with units of its own, or of the partition that it is in.  ``needs``: what the file's
    machine has to have for it and gpurt does not see to.
    """

    way: str
    test: str
    needs: str
    slacks: Sequence[Fraction] = ()
    units: Mapping[str, int] | None = None
    why: str = ""

    @property
    def slack(self) -> Fraction | None:
        """The least slack; None if the way cannot be had."""
        return self.slacks[0] if self.slacks else None


def divisions(taskset: Taskset) -> list[Division]:
    """Every way to divide the GPU, also those that cannot be had.  The taskset has a real-time task."""
    owned = [_federated(taskset, FEDERATED, "rtgpu-tight"), _federated(taskset, FEDERATED_BUSY, "stgm")]
    return [*owned, _partitions(taskset)]


def best_division(found: Sequence[choose.Choice], divided: Sequence[Division]) -> choose.Choice | Division | None:
    """The way with the most slack, by least slack, then the second least, and so on; None if there is none.

    Among equals, sharing the GPU in time wins, since hosts implement it.  ``found``: the best one first.
    """
    shared = found[0] if found and found[0].schedulable else None
    merit = sorted(choose.slacks(shared.result)) if shared else []
    most = max((one for one in divided if one.slacks), key=lambda one: list(one.slacks), default=None)
    return most if most is not None and (shared is None or list(most.slacks) > merit) else shared


def _federated(taskset: Taskset, way: str, name: str) -> Division:
    """Units for each task, on those that the file gives or on those that leave the most slack."""
    refused = Division(way, name, NO_HOST)
    mode = registry.find_test(name).waiting or Waiting.SUSPEND
    moded = choose.with_modes(taskset, {task.name: mode for task in taskset.real_time if task.uses_gpu})
    system = System(METHODS[name], moded, taskset.platform.bus_chunk)
    if not any(task.uses_gpu for task in taskset.real_time):
        return replace(refused, why="no real-time task uses the GPU, so there is nothing to divide")
    if any(system.users) and not taskset.platform.compute_units:
        return replace(refused, why=NO_UNITS)
    if why := taskset.unplanned(name):
        return replace(refused, why=why)
    if unknown := _unknown(taskset, system):
        return replace(refused, why=unknown)
    result = UnitsTest(METHODS[name])(moded)
    if not result.schedulable:
        return replace(refused, why=result.why)
    if any(system.users) and stated_units(system) is None:
        units = Units.of(taskset.platform.compute_units, taskset.platform.sizes)
        given = allocate.most_slack(system, units, allocate.of(system, result))
        assert given is not None
        result = on_units(system, allocate.named_allocation(system, given))
    return replace(refused, slacks=sorted(choose.slacks(result)), units=result.units or {})


def _unknown(taskset: Taskset, system: System) -> str:
    """The first time that a federated way needs and that is not known, as text; empty if all are known.

    A plain GPU time was measured on the units that the task has now.  The tests by name take it for the same on any
    number (docs/rtgpu.md).  Here it would win over ways that give the task the whole GPU, by a bound that is too small.
    """
    if stated_units(system) is None:
        for task in taskset.real_time:
            if any(one.pure.worst and not (one.parts or one.scaling) for one in task.gpu_segments):
                return f"{task.name} has a GPU time that is known for the units it has now: give kernel or kernel_times"
    return ""


def _partitions(taskset: Taskset) -> Division:
    """The plan of `gpurt plan partitions`, whose partitions have as few units as possible."""
    refused = Division(PARTITIONS, "fp", OWN_GPUS)
    if not plan.members(taskset):
        return replace(refused, why="no real-time task uses the GPU, so there is nothing to divide")
    if not taskset.platform.compute_units:
        return replace(refused, why=NO_UNITS)
    undivided = replace(taskset, partitions=())
    try:
        given = plan.workload(undivided, "fp")
    except plan.Unplannable as error:
        return replace(refused, why=str(error))
    if homeless := plan.homeless(taskset):
        return replace(refused, why=homeless)
    if plan.shared_cpus(undivided):
        return _on_shared_cpus(undivided)
    found = plan.plan(given, plan.BEST, None)
    if isinstance(found, Infeasible):
        return replace(refused, why=plan.why_not(found, given))
    if lacking := plan.lacking(found):
        return replace(refused, why=lacking)
    rest = plan.without_gpu(taskset)
    if not rest.schedulable:
        return replace(refused, why=rest.why)
    bounds = dict(_responses(found))
    deadlines = {task.name: task.deadline for task in plan.members(taskset)}
    shares = [Fraction(deadlines[name] - bound, deadlines[name]) for name, bound in bounds.items() if bound is not None]
    if len(shares) < len(deadlines):  # a plan that fits has all of them
        return replace(refused, why="no bound is known for every task of the plan")
    units = {given.items[index].name: part.size or 0 for part in found.parts for index in part.tasks}
    return replace(refused, slacks=sorted([*shares, *choose.slacks(rest)]), units=units)


def _on_shared_cpus(taskset: Taskset) -> Division:
    """The plan where tasks of partitions share CPUs.  Its partitions run policy `segment`, whatever the file's does."""
    modes = {task.waiting for task in plan.members(taskset)}
    inside = next(name for name, mode in plan.COUPLED.items() if mode in modes)
    refused = Division(PARTITIONS, coupled.TESTS[inside], f"{OWN_GPUS}, under policy segment")
    if len(modes) > 1:
        return replace(refused, why="tasks share CPUs, and some wait busily and some suspend")
    if len(plan.members(taskset)) > MOST_COUPLED:
        plans = f"gpurt plan partitions --inside {inside} plans"
        why = f"more than {MOST_COUPLED} tasks use the GPU and share CPUs: {plans}"
        return replace(refused, why=why)
    segment = replace(taskset, platform=replace(taskset.platform, policy="segment"))
    given = plan.workload(segment, inside)
    found = coupled.plan_coupled(segment, given, plan.BEST, None)
    if isinstance(found, Infeasible):
        return replace(refused, why=plan.why_not(found, given))
    if lacking := plan.lacking(found):
        return replace(refused, why=lacking)
    result = coupled.coupled_verdict(segment, given, coupled.places_of(found))
    if result.failures:
        return replace(refused, why=result.why)
    units = {given.items[index].name: part.size for part in found.parts for index in part.tasks}
    return replace(refused, slacks=sorted(choose.slacks(result)), units=units)


def _responses(found: Any) -> Iterator[tuple[str, int | None]]:
    """The bound, ns, of each task of a plan."""
    for part in found.parts:
        there = partition_jobs(found.workload, part.tasks, part.size)
        for at, index in enumerate(part.tasks):
            yield found.workload.items[index].name, response_inside(there, at)
