# SPDX-License-Identifier: GPL-2.0
"""How late threads wake on CPUs of this machine, measured as cyclictest does: a real-time thread sleeps and looks."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from analysis.answers.pool import context
from gpurt.errors import RefusedError, RuntimeFailure
from pycontrol.machine.rights import fifo_cure

NS = 1_000_000_000
TIMER_ABSTIME = 1
#: mlockall: present and future pages.
EVERY_PAGE = 3
#: Wake-ups before the first that counts.
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class WakeUps:
    """The wake-ups of a thread on one CPU: how many, and how late they were, ns."""

    cpu: int
    wakeups: int
    least: int
    mean: int
    most: int


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


def measure_wakeups(cpus: Sequence[int], priority: int, interval: int, duration: int) -> list[WakeUps]:
    """The wake-ups of a SCHED_FIFO thread on each CPU, all at the same time, one each ``interval`` ns.

    Raises RefusedError if the priority or a CPU is not permitted, and RuntimeFailure if a measuring process ends early.
    """
    started, running = context(), []
    for cpu in cpus:
        ours, theirs = started.Pipe(False)
        child = started.Process(target=_child, args=(theirs, cpu, priority, interval, duration), daemon=True)
        child.start()
        theirs.close()
        running.append((child, ours))
    try:
        return [_answer(ours) for _, ours in running]
    finally:
        for child, _ in running:
            child.kill()
            child.join()


def _answer(ours: Connection) -> WakeUps:
    try:
        found = ours.recv()
    except EOFError:
        raise RuntimeFailure("a process that measured ended before it had an answer") from None
    if isinstance(found, str):
        raise RefusedError(found)
    assert isinstance(found, WakeUps)
    return found


def _child(theirs: Connection, cpu: int, priority: int, interval: int, duration: int) -> None:
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        theirs.send(f"CPU {cpu} is not one of this machine's that may be used here: {error.strerror}")
        return
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError:
        theirs.send(f"SCHED_FIFO {priority} is not permitted: {fifo_cure(priority)}")
        return
    theirs.send(observe(cpu, interval, duration))


def observe(cpu: int, interval: int, duration: int) -> WakeUps:
    """The wake-ups of this thread, which stays as it is scheduled now."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mlockall(EVERY_PAGE)
    gc.disable()
    least, most, total, count = duration + NS, 0, 0, -WARM_UP
    at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    end = at + duration
    until = _Timespec()
    while count < 1 or at < end:
        at += interval
        until.tv_sec, until.tv_nsec = divmod(at, NS)
        libc.clock_nanosleep(time.CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(until), None)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        count += 1
        if count > 0:
            late = now - at
            least, most, total = min(least, late), max(most, late), total + late
        at = max(at, now - interval)
    gc.enable()
    libc.munlockall()
    return WakeUps(cpu, count, least, total // count, most)
