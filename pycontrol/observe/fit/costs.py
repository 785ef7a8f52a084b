# SPDX-License-Identifier: GPL-2.0
"""Objections to the costs of a host's updates and switches, and to failed updates that it has counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analysis.answers.verdict import NO_THETA, covering, lacks_theta
from analysis.model import POLICIES, Partition, Platform, Taskset
from analysis.model.driver import settled
from analysis.taskset import TasksetFile
from gpurt.enums import Tier
from gpurt.units import LONGEST_TIME_NS, exact_ms
from pycontrol.link.control import GpuStatus, raised, update_times
from pycontrol.observe.fit.host import Host
from pycontrol.observe.fit.objection import Code, Objection
from pycontrol.observe.fit.policy import used, users, wanted


def demanded(taskset: Taskset, part: Partition | None = None) -> Platform:
    """The platform with the policy and the update costs of a partition.

    ``part`` None: with the least costs of the partitions of real-time tasks, since nothing tells which partition it is.
    """
    platform = taskset.platform
    if part is not None:
        costs = [platform.costs(part)]
    else:
        costs = [platform.costs(task.partition) for task in users(taskset)] or [(platform.alpha, platform.theta)]
    alpha, theta = (min(one) for one in zip(*costs, strict=True))
    return replace(platform, alpha=alpha, theta=theta, policy=wanted(taskset, part))


def costs(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Objects to costs that the file does not give, and to costs that exceed the file's."""
    taskset = file.taskset
    if file.lacks and set(taskset.policies) != {"federated"}:  # tasks that own units need no runlist update
        cure = "gpurt status latency shows it, gpurt analyze --measured takes it from the host"
        text = "the file has no epsilon, what a runlist update costs: no bound is known"
        yield Objection(Code.NO_EPSILON, text, cure)
    elif lacking := next((test for test in covering(taskset)[:1] if lacks_theta(test, taskset)), None):
        yield Objection(Code.NO_THETA, NO_THETA.format(lacking.name))
    for gpu, part in used(taskset, host):
        if not file.lacks:
            yield from _dearer(taskset, part, gpu)
            yield from _measured(taskset, part, gpu, host)
    slowest = max((gpu.cross_thousandths for gpu in host.gpus), default=0)
    if len(taskset.parts) > 1 and slowest > 1000 * taskset.platform.cross_contention:
        theirs = float(taskset.platform.cross_contention)
        text = f"on the host partitions slow each other down by {slowest / 1000:g}, the file's cross_contention is "
        yield Objection(Code.CROSS, f"{text}{theirs:g}", "gpurt emulate --taskset has the file's")
    if taskset.time_partitioned and any(one.turns for one in taskset.rules) and any(gpu.emulated for gpu in host.gpus):
        text = (
            "the file gives TSGs slices and levels, which only programs themselves can set on a virtual GPU "
            "(GPURT_IOC_TSG_SHAPE), and nothing says that they do"
        )
        yield Objection(Code.SHAPES, text)
    elif taskset.time_partitioned and host.ran and not host.ran.shaped:
        yield Objection(Code.SHAPES, "in the run TSGs had slices and levels of the host, not the file's")


def _dearer(taskset: Taskset, part: Partition | None, gpu: GpuStatus) -> Iterator[Objection]:
    """A virtual GPU's costs that exceed the file's.  A host does not know the switching cost of a real GPU."""
    if not gpu.emulated:
        return
    platform = demanded(taskset, part)
    several = taskset.partitioned
    known = [("a runlist update and a context switch", gpu.alpha_ns + gpu.theta_ns, "epsilon", platform.epsilon)]
    rules = POLICIES[platform.policy]
    together = bool(taskset.forks)  # workers' TSGs take turns while their group owns the GPU (rta/forkjoin.py)
    if rules.switch or together:
        known.append(("a context switch", gpu.theta_ns, "theta", platform.longest_switch))
    if several or rules.update:
        known.append(("a runlist update", gpu.alpha_ns, "alpha", platform.alpha))
    if rules.turns:
        known.append(("a time slice", gpu.slice_ns or LONGEST_TIME_NS, "time_slice", platform.time_slice))
    cure = "start the host with the file's costs, or write the host's {} into it"
    for what, here, key, there in known:
        if here > there:
            lasts = f"{what} takes {exact_ms(here)}" if here < LONGEST_TIME_NS else "there are no time slices"
            text = f"on the host's virtual GPU {lasts}, the file's {key} is {exact_ms(there)}"
            yield Objection(Code.COSTS, text, cure.format(key))
    kept = settled(platform.time_slice) if rules.turns else platform.time_slice  # workers' bounds count with it
    if gpu.slice_ns < kept and (rules.turns or (together and gpu.slice_ns)):  # work takes more turns then
        text = f"on the host's virtual GPU a time slice takes {exact_ms(gpu.slice_ns)} only, the file's time_slice is "
        yield Objection(Code.COSTS, text + exact_ms(platform.time_slice), cure.format("time_slice"))


def _measured(taskset: Taskset, part: Partition | None, gpu: GpuStatus, host: Host) -> Iterator[Objection]:
    """An update that took longer than the file's alpha."""
    most = demanded(taskset, part).alpha
    timed = [one for one in host.latency if one.gpu == gpu.gpu]
    longest, raising = update_times(timed)[1], raised(timed, taskset.policies)
    if longest + raising > most and users(taskset):
        also = f", and to raise a thread after one {exact_ms(raising)}" if raising else ""
        text = f"a runlist update of GPU {gpu.gpu} took {exact_ms(longest)}{also}, the file's alpha is {exact_ms(most)}"
        yield Objection(Code.MEASURED, text, "write what it takes into the file: gpurt analyze --measured")


def failures(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """Reasons why the GPU may execute work that the scheduler has not let on it."""
    for gpu in host.gpus:
        if gpu.tier is Tier.HINTS:
            text = f"GPU {gpu.gpu} is of tier {gpu.tier.word}: its driver takes no work off it before that is done"
            yield Objection(Code.TIER, text)
        for text in isolation(gpu):
            yield Objection(Code.ISOLATION, text)
    for trouble in host.troubles:
        yield Objection(Code.DRIVER, trouble, "see gpurt status")


def isolation(gpu: GpuStatus, before: GpuStatus | None = None) -> Iterator[str]:
    """Reasons why the GPU may have executed work that the scheduler had not allowed; no event reports them.

    ``before``: an earlier status.  Then only later faults and refusals count, but late processes always do.
    """
    faults, refused = (before.faults, before.refused) if before else (0, 0)
    for count, what in (
        (gpu.late, "processes have not left it in time"), (gpu.faults - faults, "runlist updates failed"),
        (gpu.refused - refused, "agents were refused: their processes are unmanaged"),
    ):  # fmt: skip
        if count > 0:
            yield f"GPU {gpu.gpu}: {count} {what}; isolation is lost"
