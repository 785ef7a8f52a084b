# SPDX-License-Identifier: GPL-2.0
"""The GPU's thread outranks every task: it works for updates only, and not without limit for best effort."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from links import MS, PENDING, RUNNING, client_of
from loading import DEVICE, PARAMETERS, load, times_slept, unload

from gpurt._gpurt import lib
from gpurt.enums import Policy
from pycontrol.live.control import Control, connect

LOOPS = 500


@pytest.fixture
def sleeping() -> Iterator[Control]:
    """The module with a virtual GPU whose updates sleep."""
    load("vgpu_sleeps=1")
    with connect("/dev/gpurt") as control:
        yield control
    unload()
    load()


def test_it_does_nothing_for_decisions_that_change_no_runlist(sleeping: Control) -> None:
    with client_of(DEVICE) as one, client_of(DEVICE) as owner:
        before = times_slept("gpurt")
        for _ in range(LOOPS):
            assert one.begin() == RUNNING
            one.end()
        owner.begin(priority=50)
        for _ in range(LOOPS):
            assert one.begin(priority=10) == PENDING
            one.end()
        owner.end()
        assert times_slept("gpurt") - before < LOOPS


def test_best_effort_that_causes_updates_rests(sleeping: Control) -> None:
    """Under policy lock-fifo each of its begins and ends is an update, which takes 0.8 s here: it rests for 1.6 s."""
    sleeping.set_policy(Policy.LOCK_FIFO)
    stall = PARAMETERS / "vgpu_stall_ns"
    with client_of(DEVICE) as one, client_of(DEVICE) as urgent:
        stall.write_text(str(800 * MS))
        one.begin()
        one.end()
        stall.write_text("0")
        rested = one.start(lib.GPURT_IOC_BEGIN)
        assert urgent.begin(priority=50) == RUNNING  # comes later, and finds the lock free
        urgent.end()
        assert rested.result()[0] == 0
