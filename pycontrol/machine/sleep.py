# SPDX-License-Identifier: GPL-2.0
"""Puts the machine to sleep, and has its real-time clock wake it up: `gpurt measure board --driver --suspend`.

Nothing here has run on a board.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpurt.errors import DeviceError
from gpurt.files import matching

#: state and mem_sleep of the kernel; pm_test, which has it rehearse a suspend up to a stage.
POWER = Path("/sys/power")
#: Real-time clocks; only those that can wake the machine have a file wakealarm.
CLOCKS = Path("/sys/class/rtc")
#: How a machine sleeps that nobody has to switch on again; the deeper one first.
SLEEP_STATES = ("mem", "freeze")


@dataclass(frozen=True, slots=True)
class SleepPlan:
    """How this machine sleeps and is woken.

    ``way``: a word of /sys/power/state.  ``depth``: the kernel's choice for `mem`, else empty.  ``alarm``: a clock's
    file.  ``stage``: how far the kernel only rehearses a suspend; empty: it suspends.
    """

    way: str
    depth: str
    alarm: Path
    stage: str

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.way} ({self.depth})" if self.depth else self.way


def planned_sleep() -> SleepPlan:
    """How this machine can be put to sleep and woken.  Changes nothing.

    Raises:
        DeviceError: it cannot, or this process may not; with the reason.
    """
    state = POWER / "state"
    ways = [way for way in SLEEP_STATES if way in _read(state).split()]
    if not ways:
        raise DeviceError(f"this kernel cannot sleep: {state} offers none of {', '.join(SLEEP_STATES)}")
    alarms = sorted(matching(CLOCKS, "rtc*/wakealarm"))
    if not alarms:
        raise DeviceError(f"no clock can wake this machine: there is no {CLOCKS}/rtc*/wakealarm")
    for file in (state, alarms[0]):
        if not os.access(file, os.W_OK):
            raise DeviceError(f"may not write {file}: run this as root, and not in a container")
    if _read(alarms[0]).strip():
        raise DeviceError(f"{alarms[0]} is set already: wait for that alarm, or remove it by writing 0")
    stage = _chosen(POWER / "pm_test")
    return SleepPlan(ways[0], _chosen(POWER / "mem_sleep") if ways[0] == "mem" else "", alarms[0],
                "" if stage == "none" else stage)  # fmt: skip


def sleep(plan: SleepPlan, seconds: int) -> float:
    """Has the machine sleep until its clock wakes it after that time, or something else does.

    Returns:
        For how long it slept, s: what CLOCK_BOOTTIME counted and CLOCK_MONOTONIC did not.

    Raises:
        DeviceError: it did not go to sleep; with the reason.
    """
    before = _slept()
    try:
        _write(plan.alarm, f"+{seconds}")
        _write(POWER / "state", plan.way)
    finally:
        with suppress(DeviceError):
            _write(plan.alarm, "0")
    return max(_slept() - before, 0.0)


def _slept() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _chosen(file: Path) -> str:
    """The word in brackets, as /sys/power has it; empty if there is no such file."""
    found = re.search(r"\[(\S+)\]", _read(file))
    return found[1] if found else ""


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise DeviceError(f"the machine did not sleep: {file}: {error.strerror}") from None
