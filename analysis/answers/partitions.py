# SPDX-License-Identifier: GPL-2.0
"""Taskset files as workloads: which part of a task executes in its partition, and the merits of an allocation."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.model import GpuSegment, Kernel, Platform, Task, Taskset, Waiting
from analysis.model.conflicts import Neighbours
from analysis.partition.merge import Infeasible
from analysis.partition.variants import Allocation
from analysis.partition.workload import Item, Workload
from gpurt.types import Document
from gpurt.units import exact_ms

#: Tests of tasks that share CPUs (analysis.answers.coupled), and the waiting mode that each needs.
COUPLED = {"gcaps-suspend": Waiting.SUSPEND, "gcaps-busy": Waiting.BUSY}
#: Policies that run one task at a time in a partition, by priority, as the test `fp` assumes.
PREEMPTIVE = ("segment", "boosted")
OTHER_TESTS = "under others, jobs of a partition execute at once or out of order, and no test here covers that"


class Unplannable(ValueError):
    """The taskset cannot be planned as asked; the text gives the reason."""


def members(taskset: Taskset) -> tuple[Task, ...]:
    """The tasks that get partitions: real-time tasks that use the GPU, in the order of the file."""
    return tuple(task for task in taskset if task.uses_gpu and not task.best_effort)


def homeless(taskset: Taskset) -> str:
    """A sentence on a best-effort task that uses the GPU, if the GPU is divided anew; empty if there is no such task.

    Partitions are planned for real-time tasks.  A task without a partition may execute in all (`not_isolated`).
    """
    stray = next((task.name for task in taskset if task.best_effort and task.uses_gpu), None)
    if stray is None:
        return ""
    cure = "plan without it, and give it a partition of what is left"
    return f"{stray} is best effort and uses the GPU, and no partition is planned for it; {cure}"


def workload(
    taskset: Taskset, inside: str, units: int | None = None, sizes: tuple[int, ...] = (), most: int | None = None
) -> Workload:  # fmt: skip
    """The workload of a taskset.  ``units`` and ``sizes`` replace the platform's.

    A job counts with its whole time.  Its CPU time and 3 epsilon for each GPU segment are a part that no size changes
    (docs/readings/partitioning.md, "Partitioning").  Raises Unplannable if the test does not model such jobs.
    """
    platform = taskset.platform
    if why := taskset.unplanned("the plan of partitions"):
        raise Unplannable(why)
    there = units or platform.compute_units
    if not there:
        raise Unplannable("[platform] has no compute_units: say how many SMs or CUs the GPU has, or give --units")
    # New partitions have the platform's policy, even if every present partition has its own.
    policies = {platform.policy, *(one.policy for one in taskset.partitions if one.policy)}
    if inside in COUPLED:
        _check_coupled(taskset, inside, policies)
    if inside == "fp" and (others := policies.difference(PREEMPTIVE)):
        raise Unplannable(
            f"fp is for partitions that run policy {' or '.join(PREEMPTIVE)}, and the file says {min(others)}: "
            f"{OTHER_TESTS}"
        )
    for task in members(taskset):
        if any(segment.parts for segment in task.gpu_segments):
            raise Unplannable(
                f"{task.name} has kernels or copies, and no test here covers those (copies of all partitions share one "
                "bus): give worst cases as gpu = { parallel, serial } or { units }"
            )
    around = Neighbours(taskset)
    epsilon = max(sum(platform.costs(part)) for part in (None, *taskset.partitions)) + platform.region
    items = tuple(_item(task, platform.compute_units or there, epsilon, around) for task in members(taskset))
    return Workload(items, there, inside, sizes or _sizes(platform, there), most)


def _check_coupled(taskset: Taskset, inside: str, policies: set[str]) -> None:
    """Raises Unplannable unless all partitions run policy `segment`, and all tasks wait in the test's mode."""
    if others := policies - {"segment"}:
        raise Unplannable(
            f"{inside} is for partitions that run policy segment, and the file says {min(others)}; "
            'say policy = "segment" in [platform]'
        )
    for task in members(taskset):
        if task.waiting is not COUPLED[inside]:
            raise Unplannable(f"{inside} is for tasks that wait in mode {COUPLED[inside].value}, unlike {task.name}")


def _sizes(platform: Platform, units: int) -> tuple[int, ...]:
    """The platform's sizes, continued up to ``units``."""
    known = platform.sizes
    step = known[1] - known[0] if len(known) > 1 else units
    return known and tuple(range(known[0], max(units, known[0]) + 1, step))


def _item(task: Task, measured_on: int, epsilon: int, around: Neighbours) -> Item:
    curves = tuple(_curve(segment, task, measured_on) for segment in task.gpu_segments)
    fixed = task.cpu_time + task.misc_time + 3 * epsilon * task.eta
    return Item(
        task.name, task.period, task.deadline, task.intensity == "memory", curves, task.conflict, around.always(task),
        fixed, task.segment_priority, task.eta,
    )  # fmt: skip


def _curve(segment: GpuSegment, task: Task, measured_on: int) -> Kernel:
    """How a segment scales.  A plain time was measured on the task's present units, and is unknown for fewer."""
    own = task.partition.size if task.partition else None
    return segment.scaling or Kernel.falling([(own or measured_on, segment.pure.worst)])


def _scales(segment: GpuSegment) -> bool:
    """Whether its time is known for more than one number of units."""
    return segment.scaling is not None and not segment.scaling.one_size


def conditions(taskset: Taskset, inside: str) -> Iterator[str]:
    """The conditions of an allocation's proof that the file does not state, or contradicts."""
    if len(members(taskset)) > 1:
        yield "each partition has to be scheduled as a GPU of its own, with one task at a time in it"
    others = [task.name for task in taskset.real_time if not task.uses_gpu]
    if others and inside not in COUPLED:
        yield f"{', '.join(others)} without GPU work: not part of the answer"
    plain = [task.name for task in members(taskset) if any(not _scales(s) for s in task.gpu_segments)]
    if plain:
        yield (
            f"the GPU time of {', '.join(plain)} is known for one number of units only, and no smaller partition is "
            "considered; give { parallel, serial } or { units }"
        )
    alone = [task.name for task in members(taskset) if task.conflict == 1]
    if alone and len(members(taskset)) > 1:
        yield f"{', '.join(alone)}: without conflict, no task that shares its partition slows it down"


def shared_cpus(taskset: Taskset) -> str:
    """A sentence on real-time tasks that share a CPU with one that uses the GPU; empty if none does.

    No test inside a partition includes the time that such tasks wait for each other, so it proves no whole job.
    """
    for cpu in sorted({task.cpu for task in members(taskset)}):
        there = [task.name for task in taskset.real_time if task.cpu == cpu]
        if len(there) > 1:
            return f"{', '.join(there)} share CPU {cpu}, and waiting for a CPU is not part of what can be proved here"
    return ""


def lacking(found: Allocation) -> str:
    """How many units an allocation lacks; empty if it fits."""
    there, most = found.workload.units, found.workload.most
    if found.units > there:
        return f"{found.units} units are needed, {found.units - there} more than the {there} that there are"
    if most is not None and len(found.parts) > most:
        return f"{len(found.parts)} partitions are needed, {len(found.parts) - most} more than {most}"
    return ""


def why_not(outcome: Infeasible, given: Workload) -> str:
    """Why nothing fits, with times in milliseconds."""
    if not given.allowed:
        return f"a partition has {min(given.sizes)} units or more, and there are {given.units}"
    if outcome.lemma != 2 or outcome.task is None:
        return str(outcome)
    item = next(item for item in given.items if item.name == outcome.task)
    most = given.allowed[-1] if given.allowed else 0
    if most < item.smallest:
        return str(outcome)
    time, limit = item.time(most, False), min(item.deadline, item.period)
    return f"{item.name}: needs {exact_ms(time)} alone on {most} units, and has {exact_ms(limit)} (lemma 2)"


def per_task(found: Allocation) -> dict[str, Document]:
    """The number of each task's partition, the task's time there in ns, and whether the task is in conflict."""
    told: dict[str, Document] = {}
    for at, part in enumerate(found.parts):
        flags = found.workload.conflicts(part.tasks)
        for index, time in zip(part.tasks, found.workload.times(part.tasks, part.size), strict=True):
            item = found.workload.items[index]
            told[item.name] = {"part": at, "time": time, "conflict": flags[item.memory]}
    return told
