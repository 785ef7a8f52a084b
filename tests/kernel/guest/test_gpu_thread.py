# SPDX-License-Identifier: GPL-2.0
"""The GPU's thread outranks every task: it works for updates only, and not without limit for best effort."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import pytest
from actors import Actor
from links import MS, PENDING, RUNNING, Client, client_of, eventually
from loading import DEVICE, load, times_slept, unload
from modules import parameter

from gpurt._gpurt import lib
from gpurt.enums import Image, Notice, Policy
from pycontrol.link.control import Control, connect

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
    stall = parameter("vgpu_stall_ns")
    with client_of(DEVICE) as one, client_of(DEVICE) as urgent:
        for _ in range(10):
            stall.write_text(str(800 * MS))
            one.begin()
            one.end()
            stall.write_text("0")
            rested = one.start(lib.GPURT_IOC_BEGIN)
            state = urgent.begin(priority=50)  # comes later, and finds the lock free
            urgent.end()
            assert rested.result()[0] == 0
            if state == RUNNING:  # else the machine stood still until it had rested for long enough
                break
            one.end()
        assert state == RUNNING


def sleep_and_spin(_client: Client) -> NoReturn:
    """Sleeps, is woken by a timer of its CPU, and keeps that CPU from all tasks that are less urgent."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(80))
    time.sleep(0.2)
    while True:
        pass


@pytest.mark.skipif(os.cpu_count() == 1, reason="with one CPU nothing executes beside a task that keeps it")
def test_a_wake_up_is_noticed_although_no_other_task_of_that_cpu_executes(module: Control) -> None:
    """Policy job with notify: the wake-up raises an interrupt, whose work no thread may have to do (5.10-rt)."""
    cpus = sorted(os.sched_getaffinity(0))
    module.set_policy(Policy.JOB, notice=Notice.NOTIFY)
    assert module.status()[0].notice is Notice.NOTIFY
    with Actor(DEVICE, partial(os.sched_setaffinity, 0, {cpus[-1]})) as task:
        os.sched_setaffinity(0, {cpus[0]})
        try:
            task.do("tsg")
            assert module.status()[0].image is Image.ALL
            task.start(sleep_and_spin)
            eventually(lambda: module.status()[0].runner_pid == task.pid)
        finally:
            os.sched_setaffinity(0, cpus)
