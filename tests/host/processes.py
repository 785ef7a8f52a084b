# SPDX-License-Identifier: GPL-2.0
"""Hosts and other processes that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from links import PATIENCE, await_host, eventually

from analysis.traces.trace import Kind, load_trace
from pycontrol.machine import procs
from pycontrol.machine.placement import fifo_permitted

#: Starts a host with options and returns its socket.
StartHost = Callable[..., Path]
#: The arguments of Python for a host with virtual GPUs.
EMULATE = ("-m", "pycontrol", "emulate")


def started(
    path: Path, *options: str, program: Sequence[str] = EMULATE, policy: str | None = "segment"
) -> subprocess.Popen[bytes]:
    """A host with its socket at that path, which is ready; what it says is in the same place with .log.

    ``policy``: unless options name one, for tests' clients seldom use SCHED_FIFO; None: what hosts start with.
    """
    first = [f"--policy={policy}"] if policy else []
    command = [sys.executable, *program, f"--socket={path}", *first, *options]
    log = path.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    await_host(process, log)
    return process


@contextmanager
def host_at(path: Path) -> Iterator[None]:
    """An emulator has its socket at that path until the context is left."""
    process = started(path)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def at_priority(priority: int) -> Iterator[None]:
    """This thread has that SCHED_FIFO priority until the context is left; without the right to it the test is skipped.
    """
    if not fifo_permitted(priority):
        pytest.skip("SCHED_FIFO is not permitted")
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def on_cpu(cpu: int) -> Iterator[None]:
    """This thread is kept to that CPU until the context is left."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def alive(pid: int) -> bool:
    """Whether the process runs.  A zombie does not: its parent may be slow to reap it."""
    found = procs.stat(pid)
    return found is not None and found.state != "Z"


def until_written(file: Path) -> Callable[[float], None]:
    """For launch(): the run goes on until a program has written to the file, however late it begins."""
    return lambda _seconds: eventually(lambda: file.exists() and file.stat().st_size > 0)


def has(path: Path, kind: Kind, times: int = 1) -> bool:
    """Whether the trace has so many such events by now."""
    there = path.exists() and path.stat().st_size > 0
    return there and sum(event.kind is kind for event in load_trace(path).events) >= times
