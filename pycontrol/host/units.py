# SPDX-License-Identifier: GPL-2.0
"""GPUs shared in space by the user-space host: clients announce jobs and get units (uapi/gpurt.h, "Units").

The compiled core decides (userlib/units/units.c over sbeet.c).  This file carries the core's decisions to clients, and
executes kernels on virtual GPUs.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.energy.file import load_system
from analysis.energy.policies import POLICIES
from analysis.energy.runtime import UnitsGrant, UnitsRuntime
from analysis.energy.setup import Setup, prepare_tables
from gpurt._gpurt import ffi, lib
from gpurt.errors import UsageError
from gpurt.types import CData
from pycontrol.host.waiter import Answers, Deadlines, Waiters
from pycontrol.host.wire import Refusal
from pycontrol.link.netlink import Value

if TYPE_CHECKING:
    from pycontrol.host.calls import Call

#: Policies that share GPUs in space at run time.  `stgm` is none: it needs more slots than a GPU has ends.
UNIT_POLICIES = ("sbeet", "sbeet-mg", "rm", "fcfs")


class Mechanism(Enum):
    """How programs confine their kernels to units."""

    VIRTUAL = "virtual"
    NONE = "none"  # they cannot: a job gets the whole GPU
    GREEN_CONTEXTS = "green-contexts"
    CU_MASKS = "cu-masks"
    SM_CENTRIC = "sm-centric"


def setup_of(path: Path, policy: str, mechanism: Mechanism) -> Setup:
    """A file's tables for a host.  Raises TasksetError, FileError, or UsageError if the policy is for one GPU."""
    system = load_system(path, ignore_cpu=True).system  # the host schedules no CPUs
    if mechanism is Mechanism.NONE:
        system = replace(system, gpus=tuple(replace(gpu, granularity=gpu.limit) for gpu in system.gpus))
    if len(system.gpus) > lib.GPURT_MAX_GPUS:
        raise UsageError(f"--taskset: a host has at most {lib.GPURT_MAX_GPUS} GPUs, the file {len(system.gpus)}")
    try:
        return prepare_tables(system, POLICIES[policy])
    except ValueError as error:
        raise UsageError(f"--policy: {error}") from None


@dataclass(eq=False)
class _JobRequests:
    """The waiting requests of a job, and the end of its kernel on the virtual GPU, ns; None: it has run no kernel."""

    task: int
    granted: Waiters = field(default_factory=Waiters)
    ended: Waiters = field(default_factory=Waiters)
    kernel_end: int | None = None


class Space:
    """The units of all GPUs of the host, the tasks of the host's file, and the clients of these tasks."""

    def __init__(self, setup: Setup, mechanism: Mechanism, clock: Callable[[], int]) -> None:
        self.setup, self.mechanism, self._clock = setup, mechanism, clock
        self._latest = 0
        self._deadlines = Deadlines()
        self.answers = Answers()
        self.units = UnitsRuntime(setup)
        self._tasks = {task.name: index for index, task in enumerate(setup.system.tasks)}
        self._owners: dict[int, object] = {}
        self._jobs: dict[int, _JobRequests] = {}

    def clock(self) -> int:
        """The time, ns; it never runs backwards, as the core requires."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    # The calls

    def ready(self, caller: object, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_JOB_READY."""
        name = ffi.string(made.task).decode("ascii")
        task = self._tasks.get(name)
        if task is None:
            raise Refusal(errno.ENOENT, f"the host's file has no task {name!r}")
        if self._owners.get(task, caller) is not caller:
            raise Refusal(errno.EBUSY, f"task {name!r} is another client's")
        number = self.units.ready(task, self.clock(), made.release_ns)
        if number < 0:
            raise Refusal(-number, "the task has a pending job, or its release is too far ahead")
        self._owners[task] = caller
        for old, job in list(self._jobs.items()):
            if job.task == task and not self.units.grant(task, old):
                self._forget(old)  # it was skipped: the core keeps the answer to its JOB_WAIT until the task's next job
        self._jobs[number] = _JobRequests(task)
        made.job, made.deadline_ns = number, self.units.deadline(task, number)
        self.settle()
        answer(0)

    def wait(self, caller: object, made: CData, answer: Call) -> None:
        """GPURT_IOC_JOB_WAIT."""
        job = self._job(caller, made.job)
        number = int(made.job)

        def happened(result: int, when: int) -> None:
            answer(result or self._describe(made, job.task, number, when))

        waiter = answer.waits(happened)
        if made.what == lib.GPURT_JOB_GRANT:
            job.granted.add(waiter)
        elif job.kernel_end is None:
            raise Refusal(errno.ENOENT, f"job {number} runs no kernel on a virtual GPU")
        else:
            job.ended.add(waiter)
        self.settle()
        self._deadlines.limit(made.timeout_ns, self.clock(), waiter)

    def run(self, caller: object, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_JOB_RUN."""
        if self.mechanism is not Mechanism.VIRTUAL:
            raise Refusal(errno.EOPNOTSUPP, "the program itself launches kernels on a real GPU")
        job, grant = self._granted(caller, made.job)
        if job.kernel_end is not None or grant.copying:
            raise Refusal(errno.EBUSY, f"job {made.job} has run its kernel")
        if made.units > grant.units:
            raise Refusal(errno.EINVAL, f"job {made.job} holds {grant.units} units, not {made.units}")
        kernel = self.setup.kernel(job.task, grant.gpu)
        alone = kernel.time(made.units or grant.units)
        start = self.clock() + kernel.copy_in
        job.kernel_end = start + (made.duration_ns or alone)
        self.units.begin(job.task, made.job, start)
        answer(0)

    def kernel_done(self, caller: object, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_JOB_KERNEL_DONE."""
        job, now = self._job(caller, made.job), self.clock()
        if job.kernel_end is not None and job.kernel_end > now:
            raise Refusal(errno.EBUSY, f"the kernel of job {made.job} still executes")
        self._said(self.units.kernel_done(job.task, made.job, now), made.job)
        answer(0)

    def done(self, caller: object, made: CData, answer: Callable[[int], None]) -> None:
        """GPURT_IOC_JOB_DONE."""
        job = self._job(caller, made.job)
        self._said(self.units.done(job.task, made.job, self.clock()), made.job)
        self._forget(made.job)
        answer(0)

    def _said(self, result: int, number: int) -> None:
        if result:
            raise Refusal(-result, f"job {number} holds no units, or its kernel has not been said to have ended")
        self.settle()

    def _job(self, caller: object, number: int) -> _JobRequests:
        """The caller's job of that number.  Raises Refusal ENOENT."""
        job = self._jobs.get(number)
        if job is None or self._owners.get(job.task) is not caller:
            raise Refusal(errno.ENOENT, f"the client has no job {number}")
        return job

    def _granted(self, caller: object, number: int) -> tuple[_JobRequests, UnitsGrant]:
        """The caller's job of that number, and the units that it holds.  Raises Refusal ENOENT."""
        job = self._job(caller, number)
        grant = self.units.grant(job.task, number)
        if grant is None:
            raise Refusal(errno.ENOENT, f"job {number} holds no units")
        return job, grant

    def _describe(self, made: CData, task: int, number: int, when: int) -> int:
        """Fills in the answer to a wait and returns 0; -ENOENT: the job is over by now."""
        grant = self.units.grant(task, number)
        if not grant:
            return -errno.ENOENT
        made.when_ns, made.deadline_ns, made.kernel_ns = when, grant.deadline, grant.kernel
        made.gpu, made.first, made.units = grant.gpu, grant.first, grant.units
        made.partition = self.partition(grant)
        return 0

    def partition(self, grant: UnitsGrant) -> int:
        """The number of the job's set of units, among all sets that jobs on that GPU can have."""
        gpu = self.setup.system.gpus[grant.gpu]
        return grant.units // gpu.granularity - 1 + (gpu.whole // gpu.granularity if grant.first else 0)

    # Clients and time

    def leave(self, caller: object) -> None:
        """A connection has ended: drops its jobs; other jobs get their units."""
        tasks = {task for task, owner in self._owners.items() if owner is caller}
        for number in [number for number, job in self._jobs.items() if job.task in tasks]:
            self._forget(number)
        for task in tasks:
            del self._owners[task]
            self.units.gone(task, self.clock())
        self.settle()

    def _forget(self, number: int) -> None:
        job = self._jobs.pop(number)
        for waiters in (job.granted, job.ended):
            self.answers.finish(waiters, False, -errno.ENOENT)

    def times(self) -> int:
        """When something happens that a client must be told, ns; FOREVER: never."""
        ends = [job.kernel_end for job in self._jobs.values() if job.kernel_end is not None and len(job.ended)]
        return min([self.units.next(), self._deadlines.next(), *ends])

    def advance(self, now: int) -> None:
        """Processes all that happens up to `now`."""
        if self.units.next() <= now:
            self.units.tick(self.clock())
        self.settle()
        self._deadlines.expire(now)

    def settle(self) -> None:
        """Answers requests whose wait is over."""
        for number, job in list(self._jobs.items()):
            if len(job.granted):
                grant = self.units.grant(job.task, number)
                if grant:
                    self.answers.finish(job.granted, False, 0, grant.granted)
                elif self.units.skipped(job.task, number):
                    self.answers.finish(job.granted, False, -errno.ETIME)
            if len(job.ended) and job.kernel_end is not None and job.kernel_end <= self.clock():
                self.answers.finish(job.ended, False, 0, job.kernel_end)

    def status(self, gpu: int) -> list[tuple[str, Value]]:
        """The attributes about a GPU's units in the answer to GPURT_CMD_GET_STATUS."""
        tasks = self.units.tasks
        return [
            ("UNIT_POLICY", self.setup.policy.name), ("MECHANISM", self.mechanism.value),
            ("UNITS", self.setup.system.gpus[gpu].whole), ("UNITS_HELD", self.units.held(gpu)),
            ("JOBS", len(self.units.jobs_on(gpu))), ("UNIT_CLIENTS", len(set(map(id, self._owners.values())))),
            ("JOBS_DONE", sum(one.jobs for one in tasks)), ("JOBS_LATE", sum(one.late for one in tasks)),
            ("JOBS_SKIPPED", sum(one.skips for one in tasks)), ("JOBS_LOST", sum(one.lost for one in tasks)),
            ("JOBS_OVERDUE", self.units.overdue(gpu, self.clock())),
        ]  # fmt: skip
