# SPDX-License-Identifier: GPL-2.0
"""The compiled run time: jobs that clients announce, and the units that they hold (userlib/units/units.c).

Nothing here reads a clock or communicates with clients; the user-space host does (pycontrol/host/units.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.energy.compiled import WINDOW, Tables
from analysis.energy.setup import Setup
from gpurt._gpurt import ffi, lib

#: `Units.next`: no event is due.
NEVER_NS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class UnitsGrant:
    """The grant of a job: ``units`` units from ``first`` on of a GPU, at ``granted`` ns.

    ``kernel``: the worst-case time of its kernel on them, ns.  ``copying``: its kernel has ended.
    """

    gpu: int
    first: int
    units: int
    granted: int
    kernel: int
    release: int
    deadline: int
    copying: bool


class UnitsRuntime:
    """The jobs of a setup's tasks, by the task's index; job numbers count from 1.  Times in ns must not decrease.

    Each method with ``now`` also releases, skips and dispatches the jobs that are due by then.
    """

    def __init__(self, setup: Setup, window: int = WINDOW) -> None:
        self.setup = setup
        self._tables = Tables(setup, window)
        tasks = len(setup.system.tasks)
        self._gpus = self._tables.spatial_gpus()
        self.tasks = ffi.new("struct gpurt_units_task[]", tasks)
        self._arrays = (
            ffi.new("u64[]", tasks), ffi.new("u64[]", tasks), ffi.new("struct gpurt_sbeet_future[]", tasks),
            ffi.new("u32[]", tasks),
        )  # fmt: skip
        self._raw = ffi.new("struct gpurt_units *")
        self._raw.tables, self._raw.gpu, self._raw.task = self._tables.struct, self._gpus, self.tasks
        self._raw.earliest, self._raw.finish, self._raw.ready, self._raw.room = self._arrays
        self._raw.order, self._raw.run_late = setup.policy.order.value, setup.options.run_late
        lib.gpurt_units_init(self._raw)

    def ready(self, task: int, now: int, release: int = 0) -> int:
        """Announces a job released at ``release``, or ``now`` if that is 0.

        Returns its number, or -EBUSY if the task has a pending job, or -EINVAL if ``release`` is over an hour ahead.
        """
        return int(lib.gpurt_units_ready(self._raw, task, release, now)) or int(self._raw.numbers)

    def begin(self, task: int, job: int, start: int) -> int:
        """The job's kernel begins at ``start``, not when planned.  0, or -ENOENT if the job has no kernel to begin."""
        return int(lib.gpurt_units_begin(self._raw, task, job, start))

    def kernel_done(self, task: int, job: int, now: int) -> int:
        """The job's kernel has ended.  0, or -ENOENT if the job holds no units or the end was reported before."""
        return int(lib.gpurt_units_kernel_done(self._raw, task, job, now))

    def done(self, task: int, job: int, now: int) -> int:
        """The job is done.  0, -ENOENT if it does not run, or -EBUSY if its kernel has not ended."""
        return int(lib.gpurt_units_done(self._raw, task, job, now))

    def gone(self, task: int, now: int) -> None:
        """The task's client is gone, and its jobs with it."""
        lib.gpurt_units_gone(self._raw, task, now)

    def tick(self, now: int) -> None:
        """Carries out all events due by ``now``."""
        lib.gpurt_units_tick(self._raw, now)

    def next(self) -> int:
        """When to call `tick`; NEVER_NS: only after a client's call."""
        return int(lib.gpurt_units_next(self._raw))

    def grant(self, task: int, job: int) -> UnitsGrant | None:
        """The grant that the job holds or held; None unless the job is the task's running one."""
        one = self.tasks[task]
        if one.running == lib.GPURT_UNITS_IDLE or one.run.number != job:
            return None
        run = one.run
        copying = one.running == lib.GPURT_UNITS_COPY
        return UnitsGrant(run.gpu, run.first, run.units, run.granted, run.kernel, run.release, run.deadline, copying)

    def deadline(self, task: int, job: int) -> int:
        """The absolute deadline of the job if it is the task's last announced or running one; else 0."""
        one = self.tasks[task]
        return next((int(found.deadline) for found in (one.next, one.run) if found.number == job), 0)

    def pending(self, task: int, job: int) -> bool:
        """Whether that job has been announced, and has neither got units nor been skipped."""
        one = self.tasks[task]
        return bool(one.pending != lib.GPURT_UNITS_NONE and one.next.number == job)

    def skipped(self, task: int, job: int) -> bool:
        """Whether that job is the last of the task that was skipped because it was pending at its deadline."""
        return bool(self.tasks[task].skipped == job)

    def held(self, gpu: int) -> int:
        """Units of a GPU that jobs hold."""
        return int(self._gpus[gpu].held)

    def jobs_on(self, gpu: int) -> list[tuple[int, int, int]]:
        """Task, first unit and number of units of each job that holds units of a GPU."""
        device = self._gpus[gpu]
        return [(one.task, one.first, one.units) for one in device.jobs[0 : device.count]]

    def overdue(self, gpu: int, now: int) -> int:
        """The number of jobs that have held units of a GPU for longer than their worst case."""
        return sum(now > self.tasks[task].run.due for task, _, _ in self.jobs_on(gpu))

    @property
    def overflows(self) -> int:
        """The number of decisions that had no room for all future jobs."""
        return int(self._raw.state.overflows)
