# SPDX-License-Identifier: GPL-2.0
"""The default driver with slices and interleave levels for each TSG (docs/readings/own.md, "Time partitions").

A TSG belongs to one task, or to tasks that share it in the order of priorities (`supply-fp`) or of
deadlines (`supply-edf`).  With equal slices at one level, and a TSG for each task, the bounds equal those of
`tsg-rr-suspend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from analysis.model import Sharing, Task, Waiting
from analysis.partition.inside import SporadicTask
from analysis.rta import tsg_rr
from analysis.rta.recurrence import Demand
from analysis.rta.result import TermKind
from analysis.rta.system import Demands, System
from analysis.slices.runlist import Runlist, runlist
from analysis.slices.supply import Supply, edf_supplied, response

TURNS = "readings: time partitions, turns"
SHARED_LEMMA = "readings: time partitions, one TSG"
SPINNING = "readings: time partitions, busy waiting"


def demands(sharing: Sharing, waiting: Waiting | None = Waiting.SUSPEND) -> Demands:
    """The formula for tasks that share a TSG in that order.  ``waiting``: all tasks' mode; None: each its own."""
    return partial(_formula, sharing=sharing, waiting=waiting)


def _formula(task: Task, system: System, *, sharing: Sharing, waiting: Waiting | None) -> list[Demand]:
    known = system.once("runlist", lambda: runlist(system.taskset))
    listed = [Demand(TermKind.OWN, task.cpu_time + task.gpu_time, TURNS)]
    if task.uses_gpu:
        listed += on_gpu(task, known, sharing, system)
    if waiting is not None and not waiting.spins:
        return [*listed, *tsg_rr.preemptions(task, system)]
    return [*listed, *_preemptions(task, system, known, sharing, jitter=waiting is None)]


def _preemptions(task: Task, system: System, table: Runlist, sharing: Sharing, jitter: bool) -> Iterator[Demand]:
    """The demands of higher tasks of its CPU, also while they spin.  ``jitter``: some task of the CPU may suspend."""
    for h in system.hpp(task):
        spins = h.uses_gpu and (h.waiting.spins or not jitter)
        spun = sum(demand.amount for demand in on_gpu(h, table, sharing, system)) + h.pure_time if spins else 0
        amount = h.cpu_time + h.misc_time + spun
        late = system.jitter(h, amount) if h.uses_gpu and jitter else 0
        yield Demand(TermKind.CPU_PREEMPTION, amount, SPINNING if spins else TURNS, h.name, h.period, late)


def on_gpu(task: Task, table: Runlist, sharing: Sharing, system: System) -> list[Demand]:
    """The demands that lengthen a job's pure GPU segments, from other TSGs and from tasks of its own TSG."""
    entry = table.of(task)
    supply = table.supply(entry)
    mates = [t for t in entry.tasks if t.name != task.name and not t.best_effort]
    if sharing is Sharing.PRIORITY:
        mates = [t for t in mates if t.segment_priority >= task.segment_priority]
    ahead = _by_priority(mates, system) if sharing is Sharing.PRIORITY else _by_deadline(task, mates, system)
    total = sum(response(supply, s.pure.worst, ahead, task.deadline) for s in task.gpu_segments)
    if sharing is Sharing.DEADLINE and mates and _meets(task, mates, supply, system):
        total = min(total, task.deadline)
    lemma = SHARED_LEMMA if mates else TURNS
    relied = [Demand(TermKind.GPU_PREEMPTION, 0, SHARED_LEMMA, t.name, relied=True) for t in mates]
    return [Demand(TermKind.INTERLEAVING, total - task.pure_time, lemma), *relied]


def _by_priority(mates: Sequence[Task], system: System) -> Callable[[int], int]:
    """The work of these tasks in a window: of the jobs that are pending in it."""
    rows = [(t.period, system.jitter(t, t.pure_time), t.pure_time) for t in mates]
    return lambda window: sum(-(-(window + jitter) // period) * work for period, jitter, work in rows)


def _by_deadline(task: Task, mates: Sequence[Task], system: System) -> Callable[[int], int]:
    """The work of the jobs whose deadlines are between the release of the task's job and its deadline."""
    rows = [(t.period, system.jitter(t, t.pure_time), t.pure_time, task.deadline // t.period + 1) for t in mates]
    return lambda window: sum(
        min(-(-(window + jitter) // period), most) * work for period, jitter, work, most in rows
    )  # fmt: skip


def _meets(task: Task, mates: Sequence[Task], supply: Supply, system: System) -> bool:
    """Whether tasks meet their deadlines by EDF, if they only use the GPU and nothing delays them before it."""
    users = (task, *mates)
    only = all(t.eta == 1 and not t.cpu_time + t.misc_time and t.deadline <= t.period for t in users)
    undelayed = all(not h.cpu_time + h.misc_time for t in users for h in system.hpp(t))
    return only and undelayed and edf_supplied([SporadicTask(t.pure_time, t.deadline, t.period) for t in users], supply)
