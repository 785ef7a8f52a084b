# SPDX-License-Identifier: GPL-2.0
"""Owners of the GPU that end while something keeps their memory: the GPU is handed on, not kept for the dead."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from actors import Actor
from links import PENDING, Client, client_of, eventually
from loading import DEVICE, load, times_slept, unload

from gpurt._gpurt import lib
from gpurt.enums import Policy
from pycontrol.link.control import Control

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
#: Ways in which the owner ends while a process that shares its memory and its descriptors lives.
WITH_SIBLING = ["exit", "exec", "kill", "files-exit", "files-exec", "vfork", "opened"]
#: How many descriptors a process has open when it ends: more than gpurt-end sees to before it rests.
MANY = 300


def granted(program: Path, how: str) -> subprocess.Popen[str]:
    """Starts ``ends`` and returns it when its waiting client has been granted the GPU; it ends with its input."""
    command = [program, how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "granted\n", process.communicate()
    return process


def finish(process: subprocess.Popen[str]) -> None:
    assert process.communicate()[0] == ""
    assert process.returncode == 0


@pytest.mark.parametrize("how", WITH_SIBLING)
def test_an_owner_ends_whose_memory_another_process_has(module: Control, compiled: Path, how: str) -> None:
    process = granted(compiled / "ends", how)
    eventually(lambda: [one.pid for one in module.clients()] == [process.pid])  # nothing of the owner is left
    assert module.status()[0].runner_pid == process.pid
    finish(process)
    eventually(lambda: module.clients() == [])


@pytest.fixture
def endless_cores() -> Iterator[None]:
    """A program gets cores through a pipe, as in most distributions, and never reads them."""
    before = CORE_PATTERN.read_text()
    CORE_PATTERN.write_text("|/bin/sleep 1000")
    yield
    CORE_PATTERN.write_text(before)


@pytest.mark.usefixtures("endless_cores")
def test_a_crashed_owner_does_not_keep_the_gpu_while_its_core_is_written(module: Control, compiled: Path) -> None:
    process = granted(compiled / "ends", "core")
    assert module.status()[0].runner_pid == process.pid
    eventually(lambda: subprocess.run(["pkill", "-f", "^/bin/sleep 1000"], check=False).returncode == 0)
    finish(process)
    eventually(lambda: module.clients() == [])


def begin_many(client: Client, priority: int) -> None:
    """Begins a segment on each of MANY descriptors."""
    client.others = [client_of(DEVICE) for _ in range(MANY)]  # type: ignore[attr-defined]
    for one in (client, *client.others):  # type: ignore[attr-defined]
        one.begin(priority=priority)


def end_with_many(module: Control, priority: int) -> int:
    """A process ends in MANY segments; how often gpurt-end had slept before."""
    with Actor(DEVICE) as actor:
        actor.run(begin_many, priority)
        before = times_slept("gpurt-end")
    eventually(lambda: all(one.pid == os.getpid() for one in module.clients()))
    return before


def test_the_thread_above_all_does_nothing_for_best_effort_that_ends(module: Control) -> None:
    before = end_with_many(module, 0)
    assert times_slept("gpurt-end") == before


def test_the_thread_above_all_rests_while_it_takes_off_many_clients(module: Control) -> None:
    with client_of(DEVICE) as waiter:
        waiter.begin(priority=1)
        before = end_with_many(module, 10)
        # after the first of them it rests, whatever the worker that ends clients leaves to it; then it has no work
        eventually(lambda: times_slept("gpurt-end") >= before + 2)
        assert module.status()[0].runner_pid == os.getpid()


@pytest.fixture
def lasting_locks() -> Iterator[None]:
    """Best effort may own the GPU as a lock for ever; else a slow machine takes it off before it ends."""
    load(f"policy={int(Policy.LOCK_PRIORITY)}", "lock_bound_ms=0")
    yield
    unload()
    load()


@pytest.mark.usefixtures("lasting_locks")
def test_the_thread_above_all_takes_off_best_effort_that_owns_the_gpu_as_a_lock() -> None:
    with client_of(DEVICE) as waiter:
        with Actor(DEVICE) as actor:
            actor.do("begin")
            assert waiter.begin(priority=10) == PENDING
            before = times_slept("gpurt-end")
        assert waiter.code(lib.GPURT_IOC_WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=lib.GPURT_FOREVER) == 0
        eventually(lambda: times_slept("gpurt-end") > before)  # it sleeps again a moment after the grant
