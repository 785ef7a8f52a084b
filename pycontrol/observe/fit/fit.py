# SPDX-License-Identifier: GPL-2.0
"""Decides whether a host matches a taskset file, for all commands.

Commands decide what follows from an objection, but not which questions to ask.  An objection that defeats the bounds
means that nothing is proved about this host: no command answers yes then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from analysis.model import Partition, Task
from analysis.taskset import TasksetFile
from gpurt.enums import Cause, Policy
from gpurt.errors import DeviceError, FileError
from gpurt.text import filename
from gpurt.units import exact_ms
from pycontrol.link.control import raised, update_times
from pycontrol.observe.fit.clients import client_objections, groups, strangers
from pycontrol.observe.fit.clocks import clocks
from pycontrol.observe.fit.costs import costs, demanded, failures
from pycontrol.observe.fit.host import Host, Ran, ask
from pycontrol.observe.fit.objection import Code, Defeats, Objection, against, data, lines
from pycontrol.observe.fit.policy import (
    begins,
    boosted_objections,
    described_objection,
    machine,
    noticing,
    partitions,
    policies,
    raised_by_host,
    users,
)
from pycontrol.observe.fit.trace import of_trace, saved

__all__ = ["MARGIN", "UPDATES", "Code", "Defeats", "Host", "Objection", "Ran", "against", "ask", "data", "demanded",
           "lines", "matched", "measured", "objections", "of_trace", "saved"]  # fmt: skip

#: All questions.
QUESTIONS = (
    described_objection, policies, begins, noticing, costs, boosted_objections, partitions, failures, clocks, machine,
    client_objections, groups, strangers,
)  # fmt: skip
#: How many updates a host must have timed before their maximum, with the margin, counts as alpha.
UPDATES = 1000
#: The share of the longest observed update that is added to it, unless the user states another share.
MARGIN = Fraction(1, 5)
_ORDER = {code: at for at, code in enumerate(Code)}


def objections(file: TasksetFile, host: Host) -> list[Objection]:
    """Why the host is not the file's system, in the order of ``Code``; empty: nothing is known against it."""
    found = dict.fromkeys(one for question in QUESTIONS for one in question(file, host))
    return sorted(found, key=lambda one: _ORDER[one.code])


def matched(file: TasksetFile, host: Host) -> dict[int, Task]:
    """The task of each process that uses the GPU and is one task of the file, or a thread or process of several."""
    tasks = {task.name: task for task in file.taskset}
    found = {pid: tasks[names[0]] for pid, names in host.names.items() if len(names) == 1}
    return {pid: task for pid, task in found.items() if any(one.uses_gpu for one in file.taskset.beside(task))}


def measured(
    file: TasksetFile, host: Host, margin: Fraction | None
) -> tuple[TasksetFile, str, list[Objection]]:  # fmt: skip
    """The file with the alpha that the host has measured, how that was found, and why it must not be trusted.

    ``margin``: the share of the longest update that the user adds; None: MARGIN.  MARGIN needs UPDATES updates of each
    GPU by the file's programs, and as many raises if the host has to raise threads.  Theta is the file's, or the
    virtual GPUs' if that is larger.

    Raises FileError if neither the file nor a virtual GPU states theta; DeviceError if no GPU, or not every used GPU,
    had an update.
    """
    if not file.theta_stated and not all(one.emulated for one in host.gpus):
        text = "[platform] lacks theta, what a context switch of the GPU costs: the host measures updates without it"
        raise FileError(f"{filename(file.path)}: {text}")
    counts = {gpu.gpu: update_times([one for one in host.latency if one.gpu == gpu.gpu])[0] for gpu in host.gpus}
    used = [gpu.gpu for gpu in host.gpus if gpu.tsgs or counts[gpu.gpu]] or list(counts)
    least, gpu = min((counts[gpu], gpu) for gpu in used)
    if not least:
        raise DeviceError(f"GPU {gpu} of the host has carried out no runlist update yet: let the programs run first")
    what = "runlist updates"
    if margin is None:
        least, what = _own_updates(file, host, counts)
    if Policy.BOOSTED.word in file.taskset.policies and host.raises and raised_by_host(file.taskset):
        raises = sum(one.count for one in host.latency if one.cause is Cause.RAISE)
        least, what = min((least, what), (raises, "raises of threads"))
    raising = raised(host.latency, file.taskset.policies)
    longest = update_times(host.latency)[1] + raising
    share = MARGIN if margin is None else margin
    alpha = -(-longest * (share + 1) // 1)
    changed, theta = _with_costs(file, int(alpha), max(one.theta_ns for one in host.gpus))
    also = " with the longest raise of a thread after one" * bool(raising)
    text = (
        f"alpha is {exact_ms(int(alpha))}: {exact_ms(longest)}, the longest of {sum(counts.values())} runlist updates "
        f"that the host has seen{also}, and {float(share * 100):g} % more; theta is {exact_ms(theta)}"
    )
    if least == 0 or (margin is None and least < UPDATES):  # a margin of 0 is none
        why = f"the host has timed {least} {what}, too few to take the longest for the worst"
        cure = f"let the programs run until there are {UPDATES}"
        cure += ", or state a margin that you answer for: --margin" * bool(least)
        return changed, text, [Objection(Code.FEW_UPDATES, why, cure)]
    return changed, text, []


def _own_updates(file: TasksetFile, host: Host, counts: Mapping[int, int]) -> tuple[int, str]:
    """How many updates the file's running programs can have caused, on the GPU with fewest, and a description of them.

    Updates by other programs, or beside fewer programs, may be cheaper.  ``counts``: of all updates, by GPU.
    """
    clients = [one for one in host.clients if host.names.get(one.pid)]
    there = {name for one in clients for name in host.names[one.pid]}
    needed = [task.name for task in users(file.taskset) if file.taskset.beside(task)[0].name not in there]
    if needed:
        return 0, f"runlist updates beside {needed[0]}, which is no client now"
    least = min((min(counts[gpu], sum(2 * one.segments for one in clients if one.gpu == gpu))
                 for gpu in {one.gpu for one in clients}), default=0)  # fmt: skip
    return least, "runlist updates by programs that run"


def _with_costs(file: TasksetFile, alpha: int, theta: int) -> tuple[TasksetFile, int]:
    """The file with this alpha everywhere and with at least this theta; and the platform's theta.

    If a partition states epsilon without theta, its theta may be all of epsilon.
    """
    system = file.taskset
    theta = max(theta, system.platform.theta)

    def own(part: Partition) -> Partition:
        switch = part.alpha if part.theta is None else part.theta
        return replace(part, alpha=None, theta=None if switch is None else max(switch, theta))

    platform = replace(system.platform, alpha=alpha, theta=theta, theta_known=True)
    changed = replace(system.with_partitions(own), platform=platform)
    return replace(file, taskset=changed, lacks=(), theta_stated=True), theta
