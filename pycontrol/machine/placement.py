# SPDX-License-Identifier: GPL-2.0
"""Maps a taskset's CPUs to CPUs of this machine, and finds out what the scheduler permits."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from analysis.model import Taskset
from pycontrol.machine.rights import fifo_cure

RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
RT_PERIOD = Path("/proc/sys/kernel/sched_rt_period_us")
#: A trace's words about the placement of its run.
FOLDED, UNFOLDED = "folded", "as in the file"
#: A trace's words about the tasks' scheduling class.
FIFO, DEFAULT_CLASS = "SCHED_FIFO", "default class"


@dataclass(frozen=True)
class Placement:
    """The CPU of this machine that stands for each CPU of the file.

    ``shared``: real-time tasks of different CPUs in the file compete for one CPU here.
    """

    cpus: dict[int, int]
    available: int
    shared: bool

    @property
    def folded(self) -> bool:
        """Whether one CPU here stands for two CPUs of the file."""
        return len(set(self.cpus.values())) < len(self.cpus)

    @property
    def moved(self) -> bool:
        """Whether some CPU of the file has another number here."""
        return any(there != here for there, here in self.cpus.items())

    def notes(self) -> list[str]:
        """Remarks for the user; none if every CPU keeps its number."""
        mapping = ", ".join(f"{there} on {here}" for there, here in sorted(self.cpus.items()))
        if not self.folded:
            return [f"CPUs of the file run as: {mapping}"] if self.moved else []
        text = (
            f"CPUs folded, for {len(self.cpus)} are used and {self.available} are here: {mapping}; "
            "the bounds are for the unfolded system and need not hold in this run"
        )
        if not self.shared:
            text += " (real-time tasks keep their partition, best-effort tasks share it)"
        return [text]


def place_cpus(taskset: Taskset, available: Collection[int] | None = None) -> Placement:
    """Maps the file's CPUs to the machine's: one to one if there are enough, else several to one (folded).

    Folding takes the file's CPUs in descending order of real-time work, then of all work, and maps each to the CPU of
    this machine with the least work so far.

    Args:
        taskset: the tasks.
        available: CPUs of this machine; None: the CPUs that this process may use.
    """
    here = sorted(os.sched_getaffinity(0) if available is None else available)
    wanted = {task.cpu for task in taskset}
    if wanted <= set(here):
        return Placement({cpu: cpu for cpu in sorted(wanted)}, len(here), False)
    work = dict.fromkeys(wanted, (0.0, 0.0))
    for task in taskset:
        urgent, total = work[task.cpu]
        share = (task.cpu_time + task.gpu_time) / task.period
        work[task.cpu] = (urgent + (0.0 if task.best_effort else share), total + share)
    load = dict.fromkeys(here, 0.0)
    mapping: dict[int, int] = {}
    for cpu in sorted(wanted, key=lambda c: (-work[c][0], -work[c][1], c)):
        target = min(here, key=lambda c: (load[c], c))
        mapping[cpu] = target
        load[target] += work[cpu][1] + 1e-9  # an idle CPU counts too
    urgent_here = [mapping[cpu] for cpu in wanted if work[cpu][0]]
    return Placement(mapping, len(here), len(set(urgent_here)) < len(urgent_here))


def fifo_permitted(priority: int = 1) -> bool:
    """Whether this thread may use SCHED_FIFO at that priority.  Tries it, and restores the policy."""
    policy, param = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError:
        return False
    os.sched_setscheduler(0, policy, param)
    return True


def throttling() -> float | None:
    """The share of a CPU that real-time tasks may use (RT throttling); None if they may use all of it."""
    try:
        runtime, period = int(RT_RUNTIME.read_text()), int(RT_PERIOD.read_text())
    except (OSError, ValueError):
        return None
    return None if runtime < 0 or runtime >= period else runtime / period


def rights_notes(fifo: bool) -> list[str]:
    """Remarks on scheduling classes, for the user."""
    if not fifo:
        return [
            f"SCHED_FIFO is not permitted: tasks run at the default class, response times say little; {fifo_cure()}"
        ]
    share = throttling()
    if share is None:
        return []
    return [f"RT throttling is on: real-time tasks get at most {share:.0%} of a CPU (sched_rt_runtime_us)"]
