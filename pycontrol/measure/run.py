# SPDX-License-Identifier: GPL-2.0
"""One run of a program under a condition: its jobs, or why it does not count."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpurt.enums import Cause, EventKind
from gpurt.errors import RuntimeFailure
from gpurt.text import visible
from gpurt.units import UNITS
from pycontrol.link.control import EventRecord
from pycontrol.link.events import Listener
from pycontrol.link.sleep import Sleep
from pycontrol.measure import processes
from pycontrol.measure.conditions import Condition, Here, check_host, chill
from pycontrol.measure.plan import Planned
from pycontrol.measure.segments import Costs, Jobs, Segment, jobs, segments

#: How long the host may take to report the program's end, and at the latest its beginning, seconds.
SETTLE, UNSEEN = 10.0, 2.0
NOT_ALL = "not all of the run was seen; measure again"


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The options of a run.

    ``device``: the host's device; None: the usual search.  ``theta``: the switch cost of its virtual GPU, ns; None for
    a real GPU, on which the host does not see work.  ``duration``: after this time the run is ended, ns; None: no
    limit.  ``preload``: a library for the program, or nothing.  ``priority``: its SCHED_FIFO priority; 0: its
    own.  ``task``, ``per_job``: see segments.jobs.  ``stdout``: the descriptor that the program gets.
    """

    command: Sequence[str]
    device: str | None = None
    theta: int | None = None
    duration: int | None = None
    preload: str = ""
    priority: int = 0
    task: str | None = None
    per_job: int | None = None
    stdout: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """A run's observations.  ``segments``: inside and outside of jobs.  ``cpu``, ``wall``: of the whole process, ns."""

    planned: Planned
    jobs: Jobs
    segments: tuple[Segment, ...]
    cpu: int
    wall: int


def execute_once(planned: Planned, options: ProfileOptions, here: Here) -> ProfileResult:
    """Executes the program once.

    Raises:
        DeviceError: there is no host.
        RefusedError: the condition cannot be made.
        RuntimeFailure: the run does not count: the program or a co-runner failed, took too long, used no GPU segment,
            or was not seen from begin to end.
        KeyboardInterrupt: the program has been ended.
    """
    command = planned.command(options.command)
    users = Users()
    with Listener(options.device, users.look) as listener:
        device = listener.control.device
        check_host(listener.control.gpus(), here)
        chill(planned.condition, command)
        sleep = Sleep()
        with processes.running_beside(planned.condition, here, device) as groups:
            known = {client.pid for client in listener.control.clients()} | {one.pid for one in listener.so_far()}
            pid, cpu, wall = _carried_out(command, device, options)
            seen = _settle(listener, pid)
            check_host(listener.control.gpus(), here)
        records = listener.records()
    if not seen:
        raise RuntimeFailure(f"the host has not told of the end of {visible(command[0])}: {NOT_ALL}")
    if slept := sleep.since():
        raise RuntimeFailure(f"{slept}: {NOT_ALL}")
    return read_run(planned, options, records, pid, (cpu, wall), known | users.of(groups))


class Users:
    """The processes that begin GPU segments, and their process groups, which must be read before the processes end."""

    def __init__(self) -> None:
        self._groups: dict[int, int] = {}

    def look(self, record: EventRecord) -> None:
        """Takes an event that has just arrived."""
        if record.kind is EventKind.BEGIN and record.pid not in self._groups:
            try:
                self._groups[record.pid] = os.getpgid(record.pid)
            except OSError:  # the process is gone
                self._groups[record.pid] = 0

    def of(self, groups: Collection[int]) -> set[int]:
        """The processes of these groups."""
        return {pid for pid, group in self._groups.items() if group in groups}


def _carried_out(command: Sequence[str], device: str, options: ProfileOptions) -> tuple[int, int, int]:
    """Executes the program to its end; returns its id, CPU time and wall-clock time, ns."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic_ns()
    process, start = processes.start(
        command, {**os.environ, "GPURT_DEVICE": device}, stdout=options.stdout, priority=options.priority,
        preload=options.preload,
    )
    try:
        _await(process, options)
    except KeyboardInterrupt:
        processes.interrupt_program(process)
        raise
    finally:
        processes.over(process)  # leftover processes would disturb the next run
    wall = time.monotonic_ns() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return process.pid, max(int(used * UNITS["s"]) - start, 0), wall


def _await(process: subprocess.Popen[bytes], options: ProfileOptions) -> None:
    """Waits for the end of the program, or ends it after its duration.  Raises RuntimeFailure if it fails."""
    name = visible(options.command[0])
    try:
        code = process.wait(None if options.duration is None else options.duration / UNITS["s"])
    except subprocess.TimeoutExpired:
        if not processes.interrupt_program(process):
            raise RuntimeFailure(f"{name} does not end on SIGINT, as --duration needs") from None
        return
    if code:
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with status {code}"
        raise RuntimeFailure(f"{name} {how}")


def _signal(number: int) -> str:
    """The name of a signal; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _settle(listener: Listener, pid: int) -> bool:
    """Waits until the host reports that the program's clients are gone, which is its last event; whether it did."""
    begun = time.monotonic()
    mine: list[EventRecord] = []
    while time.monotonic() < begun + (SETTLE if mine else UNSEEN):
        mine = [one for one in listener.so_far() if one.pid == pid]
        gone = {one.client for one in mine if one.kind is EventKind.GONE}
        if mine and {one.client for one in mine} == gone:
            return True
        time.sleep(0.02)
    return not mine


def read_run(
    planned: Planned, options: ProfileOptions, records: Sequence[EventRecord], pid: int, spent: tuple[int, int],
    known: Collection[int] = (),
) -> ProfileResult:  # fmt: skip
    """The observations of a run, from the events.

    Args:
        planned: the run.
        options: the options of the run.
        records: all events from the host during the run.
        pid: the program's process.
        spent: CPU and wall-clock time, ns.
        known: other processes that the program has not started.

    Raises:
        RuntimeFailure: as in execute_once.
    """
    if any(one.kind is EventKind.LOST or (one.lost and one.pid == pid) for one in records):
        raise RuntimeFailure("events were lost: not all of the run was seen; measure on a machine that is less busy")
    if change := _change(records, pid):
        raise RuntimeFailure(f"{change}: its times are not those of the others; measure again")
    mine = [one for one in records if one.pid == pid]
    found = segments(mine, Costs.of(records, options.theta), options.duration is not None)
    name = visible(options.command[0])
    if not found:
        others = sorted({f"{one.comm}-{one.pid}" for one in records if one.kind is EventKind.BEGIN})
        seen = f"; {visible(', '.join(others)[:80])} had some: a shell must `exec` the program" if others else ""
        raise RuntimeFailure(f"{name}: no GPU segment was seen{seen}")
    if not any(one.work for one in found):
        raise RuntimeFailure(
            f"{name}: no GPU segment with work was seen, {len(found)} without; a program with work on a real GPU is "
            "measured with gpurt.ko or `gpurt serve`, not with an emulator"
        )
    if planned.condition is Condition.GPU and (shared := [one for one in found if not one.priority]):
        raise RuntimeFailure(
            f"{name}: {len(shared)} segments are best effort and share the GPU with the co-runner; give --priority"
        )
    strangers = {f"{one.comm}-{one.pid}" for one in records
                 if one.kind is EventKind.BEGIN and one.pid not in (0, pid, *known)}  # fmt: skip
    if strangers:
        raise RuntimeFailure(
            f"{visible(', '.join(sorted(strangers))[:80])} began to use the GPU during the run of {name}: if {name} "
            "started it, its segments are missing in the times, so measure it as a task of its own; if not, start it "
            "before"
        )
    made = jobs(mine, found, options.task, options.per_job, options.duration is not None)
    if not any(job.segments for job in made.jobs):
        raise RuntimeFailure(f"{name}: none of its {len(found)} GPU segments is in a whole job")
    return ProfileResult(planned, made, tuple(found), *spent)


def _change(records: Sequence[EventRecord], pid: int) -> str:
    """A change during a run that affects its times, in words; empty if there was none."""
    for one in records:
        if one.kind is EventKind.COMMIT and one.cause is Cause.POLICY:
            return f"the policy of GPU {one.gpu} was changed during the run"
        if one.kind is EventKind.COMMIT and one.cause is Cause.RESET:
            return f"GPU {one.gpu} was reset or resumed during the run"
        if one.kind is EventKind.OVERRUN and one.pid == pid:
            return "the program used its budget up, or kept the bus too long"
    return ""
