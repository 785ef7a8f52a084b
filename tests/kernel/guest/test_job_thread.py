# SPDX-License-Identifier: GPL-2.0
"""The GPU's thread under policy `job` outranks everything on its CPU, and must not take all of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from actors import Actor
from links import Client, client_of
from loading import DEVICE

from gpurt.enums import Notice, Policy
from pycontrol.link.control import Control

CLIENTS = 400
SECONDS = 3.0


def be_restless(client: Client) -> NoReturn:
    """Sleeps and wakes as fast as it can."""
    while True:
        time.sleep(0)


def thread_time() -> float:
    """CPU time of the GPUs' threads, seconds."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if name == "gpurt":
            ticks += sum(int(field) for field in fields.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def share() -> float:
    """The part of a CPU that the GPUs' threads take for some seconds."""
    before, began = thread_time(), time.monotonic()
    time.sleep(SECONDS)
    return (thread_time() - before) / (time.monotonic() - began)


@pytest.fixture
def crowd(module: Control) -> Iterator[Control]:
    """Very many clients with TSGs, so that looking at them takes long, and one that changes state all the time."""
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(client_of(DEVICE)).tsg()
        restless = stack.enter_context(Actor(DEVICE))
        restless.do("tsg")
        restless.start(be_restless)
        yield module
        module.set_policy(Policy.SEGMENT)


@pytest.mark.parametrize("notice", [Notice.POLL, Notice.NOTIFY])
def test_it_leaves_half_of_the_cpu_to_others(crowd: Control, notice: Notice) -> None:
    crowd.set_policy(Policy.JOB, notice=notice, poll_ns=100_000)
    # Half, and what wake-ups and ticks take where the emulator gets no CPU; one that never rests has nearly all of it.
    assert any(share() < 0.9 for _ in range(3))
