# SPDX-License-Identifier: GPL-2.0
"""Plans slices and levels for what runs on a Tegra, and sets them: those of all tasks of a file, or none.

The node lists the TSGs of all processes.  Those of the file's tasks get slices and levels; all others count with what
they have.  The driver's behaviour was read in nvgpu (os/linux/sched.c); docs/readings/own.md, "Time partitions".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from analysis.answers import slices as plan
from analysis.model import Partition, Task, Taskset
from analysis.rta.result import Result
from analysis.slices.runlist import Runlist, tsgs
from analysis.taskset import TasksetFile
from gpurt.enums import Form, Policy, State
from gpurt.errors import DeviceError, RefusedError
from gpurt.units import US
from pycontrol.link import tegra
from pycontrol.link.control import ClientInfo, connect
from pycontrol.link.hints import WAITS_FOR_BLOCKS, WAITS_FOR_KERNELS, HintLevel, Hints, SchedNode
from pycontrol.link.tegra import Setting
from pycontrol.machine import clocks, procs
from pycontrol.machine.programs import fingerprint, tasks_of
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.host import online
from pycontrol.observe.fit.objection import Objection

#: How often a plan is made anew because TSGs were opened meanwhile.
MAX_PLANS = 4


@dataclass(frozen=True)
class RunningGroups:
    """The TSGs on the GPU.  ``of``: those of each task; ``others``: those of no task; ``why``: what no plan covers.

    ``objections``: why the tasks' processes, or this machine, are not as the file says.
    """

    of: Mapping[str, tuple[Hints, ...]]
    others: tuple[Hints, ...]
    why: str
    notes: tuple[str, ...]
    objections: tuple[Objection, ...]


@dataclass(frozen=True)
class Planned:
    """A plan for what runs.  ``table`` and ``result`` are None if there is none; ``why``: why nothing is proved."""

    running: RunningGroups
    taskset: Taskset
    table: Runlist | None
    result: Result | None
    why: str

    @property
    def missing(self) -> list[str]:
        """The real-time tasks that are planned for and not running."""
        users = [task for task in self.taskset.real_time if task.uses_gpu] if self.table else []
        return [task.name for task in users if not self.running.of.get(task.name)]

    def settings(self) -> Iterator[Setting]:
        """The settings of the plan that processes of real-time tasks do not have yet."""
        for entry in self.table.entries if self.table else ():
            level = HintLevel[entry.level.word.upper()]
            for hints in self.running.of.get(entry.tasks[0].name, ()):
                new_slice = None if hints.slice_us * US == entry.slice else entry.slice // US
                new_level = None if hints.level is level else level
                if (new_slice, new_level) != (None, None):
                    yield Setting(hints.pid, new_slice, new_level)


class Changed(RefusedError):
    """TSGs were opened, or changed, since they were looked at."""


def switched(device: str | None) -> str:
    """Why slices say nothing on this machine: a host takes TSGs off the runlist.  Empty if none does."""
    try:
        with connect(device) as control:
            other = [gpu for gpu in control.status() if not gpu.emulated and gpu.policy is not Policy.TIMESLICED]
    except DeviceError:
        if device:
            raise
        return ""
    if not other:
        return ""
    return (
        f"the host runs policy {other[0].policy.word} on GPU {other[0].gpu}, which takes TSGs off the runlist; "
        "`gpurt set policy timesliced` changes that"
    )


def _running(file: TasksetFile, there: Sequence[Hints]) -> RunningGroups:
    """The owners of these TSGs."""
    of: dict[str, list[Hints]] = defaultdict(list)
    others, why, notes = [], list[str](), list[str]()
    groups = {task.name: group for group in tsgs(file.taskset) for task in group}
    for hints in there:
        stat = procs.stat(hints.pid)
        found = tasks_of(file, stat.comm, fingerprint(procs.command_line_of(hints.pid))) if stat else []
        names = [name for name in found if name in groups]
        process = f"process {hints.pid} ({stat.comm})" if stat else f"process {hints.pid}, which is hidden from here,"
        mates = groups[names[0]] if names else ()
        if any(groups[name] is not mates for name in names):
            why.append(f"{process} may be {' or '.join(names)}: their commands do not tell them apart")
        for task in mates:
            of[task.name].append(hints)
        others += [] if mates else [hints]
        why += _endless(process, hints)
        if hints.mode == WAITS_FOR_BLOCKS:
            notes.append(f"theta has to contain the longest thread block of {process}: TSG {hints.tsg} has mode CTA")
    for task in file.taskset.real_time:
        if len(of[task.name]) > 1:
            pids = ", ".join(str(pid) for pid in sorted({one.pid for one in of[task.name]}))
            why.append(f"{task.name} has {len(of[task.name])} TSGs (process {pids}), and its bound is for one")
    objections = tuple(defeats(file, of))
    why += filter(None, [fit.against(objections)])
    return RunningGroups({name: tuple(found) for name, found in of.items()}, tuple(others), why[0] if why else "",
                   tuple(notes), objections)  # fmt: skip


def defeats(file: TasksetFile, of: Mapping[str, Sequence[Hints]]) -> Iterator[Objection]:
    """Why the tasks' processes, or this machine, are not as the file says, under the policy of the plan.

    Other programs count as they are.  The node does not tell which thread has a TSG: any at the task's priority passes.
    """
    system = replace(file.taskset.with_partitions(lambda part: replace(part, policy=None)),
                     platform=replace(file.taskset.platform, policy=Policy.TIMESLICED.word))  # fmt: skip
    machine = fit.Host(cpus=online(), clocks=(clocks.look(),) if file.clocks else ())
    file = replace(file, taskset=system)
    found = dict.fromkeys(fit.objections(file, machine))
    for task in system:
        for pid in dict.fromkeys(hints.pid for hints in of.get(task.name, ())):
            host = replace(machine, clients=[_client(pid, task)], names={pid: (task.name,)})
            found |= dict.fromkeys(fit.objections(file, host))
    yield from found


def _client(pid: int, task: Task) -> ClientInfo:
    """A process that uses the GPU for a task, as a host would tell of it."""
    main = procs.stat(pid)
    stats = [procs.stat(tid) for tid in procs.threads(pid)]
    at = {one.priority for one in stats if one}
    own = task.priority if task.priority in at else main.priority if main else 0
    return ClientInfo(
        gpu=0, client=0, pid=pid, comm=main.comm if main else "", state=State.IDLE, priority=task.segment_priority,
        own_priority=own, set_priority=None, depth=0, tsgs=1, exempt=False, demoted=False, segments=1, preemptions=0,
        held_ns=0, overruns=0, form=Form.SELF, barred=False, copy=State.IDLE, copies=0, kept=False,
    )  # fmt: skip


def _endless(process: str, hints: Hints) -> Iterator[str]:
    """Why turns of a TSG do not end with its slice."""
    if not hints.slice_us:
        yield f"{process} has no time slice on TSG {hints.tsg}"
    if hints.mode == WAITS_FOR_KERNELS:
        yield f"kernels of {process} execute to their end: compute preemption of TSG {hints.tsg} is WFI"


def planned(file: TasksetFile, now: RunningGroups, headroom: int) -> Planned:
    """A plan for the file's tasks beside all other TSGs, and beside ``headroom`` more that may be opened.

    Tasks that are not running count as if they were, so that their programs may start.
    """
    taskset = plan.with_others(*_counted(file.taskset, now, headroom))
    return Planned(now, taskset, *((None, None, now.why) if now.why else plan.answer_with_slices(taskset)))


def _counted(taskset: Taskset, now: RunningGroups, headroom: int) -> tuple[Taskset, int, list[Partition]]:
    """The input of `plan.with_others`: best-effort tasks count with the TSGs that they have, as other programs do."""
    known = [_home(one) for one in now.others]
    kept: list[Task] = []
    for task in taskset:
        mine = now.of.get(task.name, ())
        shared = task.partition is not None and task.partition.shared is not None
        if not (task.best_effort and task.uses_gpu and mine) or shared:
            kept.append(task)
            continue
        known += [_home(one) for one in mine]
    return replace(taskset, tasks=tuple(kept)), headroom, known


def _home(hints: Hints) -> Partition:
    return Partition(slice=hints.slice_us * US, interleave=hints.level.name.lower())


def settle(
    node: SchedNode, file: TasksetFile, headroom: int,
    accept: Callable[[Planned], None] = lambda found: None,
) -> Planned:  # fmt: skip
    """Plans for what runs and sets it, unless something is not proved.  Then nothing has changed.

    ``accept`` is called once, with what has been set.  If it raises an exception, everything is put back.

    Raises:
        RefusedError: the driver refuses something, or programs open TSGs faster than they can be planned for.
            Everything is as it was before, or the text says what is not.
    """
    for _ in range(MAX_PLANS):
        there = node.everything()
        found = planned(file, _running(file, there), headroom)
        if found.why:
            return found
        try:
            tegra.apply(node, list(found.settings()), partial(_confirm, node, found, accept))
            return found
        except Changed:
            pass
    raise RefusedError("programs open time-slice groups faster than they can be planned for")


def _confirm(node: SchedNode, found: Planned, accept: Callable[[Planned], None]) -> None:
    """Raises Changed if not all is as planned, and calls ``accept`` otherwise."""
    if other := unplanned(node, found):
        raise Changed(f"TSG {other[0].tsg} of process {other[0].pid} was opened meanwhile")
    accept(found)


def unplanned(node: SchedNode, found: Planned) -> list[Hints]:
    """The TSGs that are there now and not in the plan, and those that have other slices, levels or modes than in it.

    A TSG that has been closed only shortens the waits of the others.
    """
    known = {(one.tsg, one.pid): one for one in found.running.others}
    known |= {(one.tsg, one.pid): one for mine in found.running.of.values() for one in mine}
    for entry in found.table.entries if found.table else ():
        for one in found.running.of.get(entry.tasks[0].name, ()):
            level = HintLevel[entry.level.word.upper()]
            known[one.tsg, one.pid] = replace(one, slice_us=entry.slice // US, level=level)
    return [one for one in node.everything() if not _same(known.get((one.tsg, one.pid)), one)]


def _same(was: Hints | None, now: Hints) -> bool:
    """Whether a TSG is as it was.  A mode that lets slices end whatever executes makes no difference."""
    if was is None or (was.slice_us, was.level) != (now.slice_us, now.level):
        return False
    return now.mode == was.mode or now.mode not in (WAITS_FOR_KERNELS, WAITS_FOR_BLOCKS)
